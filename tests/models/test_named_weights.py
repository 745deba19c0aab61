"""Arrays of a tree under readable names, there and back."""

import equinox as eqx
import jax
import numpy as np
import pytest

from wgfinn._errors import ArtefactError
from wgfinn.models import ModelSpec, build, named_arrays, with_named_arrays

SHAPES = eqx.filter_eval_shape(build, ModelSpec(layers=2, width=4, entropy="affine"), 3, key=jax.random.key(0))


def some_field(seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape).astype(leaf.dtype), SHAPES)


def test_names_are_paths_and_all_different():
    names = named_arrays(some_field())
    assert len(names) == len(jax.tree.leaves(SHAPES))
    assert "energy_potential.network.weights.0" in names
    assert {name.split(".")[0] for name in names} == {
        "energy_potential",
        "entropy_potential",
        "reversible",
        "irreversible",
    }


def test_there_and_back_bit_for_bit():
    """The template gives shapes and types alone; its own numbers, if it has any, do not matter."""
    field = some_field()
    for template in (SHAPES, some_field(seed=1)):
        again = with_named_arrays(template, named_arrays(field))
        assert jax.tree.structure(again) == jax.tree.structure(field)
        for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(field), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype


def test_missing_array():
    arrays = named_arrays(some_field())
    del arrays["reversible.generators"]
    with pytest.raises(ArtefactError, match=r"the array 'reversible.generators' is missing"):
        with_named_arrays(SHAPES, arrays)


@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a.astype(np.float32), lambda a: a[None]])
def test_array_of_another_shape_or_type(change):
    arrays = named_arrays(some_field())
    arrays["reversible.generators"] = change(arrays["reversible.generators"])
    with pytest.raises(ArtefactError, match=r"the array 'reversible.generators' is float.*ask for float64\["):
        with_named_arrays(SHAPES, arrays)
