"""A field taken apart into one vector and put together again."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.models import ModelSpec, build, parameter_count
from wgfinn.training import take_apart

MODELS = [
    ModelSpec(layers=2, width=4),
    ModelSpec(layers=2, width=4, energy="affine", entropy="affine", rows=1),
    ModelSpec(field="plain", layers=3, width=5),
]


def some_field(model, seed=0):
    """Weights drawn by numpy: `build` compiles a draw for every shape."""
    rng = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(build, model, 3, key=jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape), leaf.dtype), shapes)


@pytest.mark.parametrize("model", MODELS)
def test_together_again_bit_for_bit(model):
    field = some_field(model)
    vector, structure = take_apart(field, "float64")
    assert vector.shape == (parameter_count(field),)
    again = structure.field(vector)
    assert jax.tree.structure(again) == jax.tree.structure(field)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(field), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def test_vector_has_the_type_asked_for():
    field = some_field(MODELS[0])
    vector, structure = take_apart(field, "float32")
    assert vector.dtype == jnp.float32
    leaves = jax.tree.leaves(eqx.filter(structure.field(vector), eqx.is_inexact_array))
    assert {leaf.dtype.name for leaf in leaves} == {"float32"}


def test_structure_holds_no_trainable_number_and_is_the_same_for_every_seed():
    """Members share one structure, so it must not know whose weights it was taken from."""
    structures = [take_apart(some_field(MODELS[0], seed=k), "float32")[1] for k in (0, 1)]
    assert not jax.tree.leaves(eqx.filter(structures[0], eqx.is_inexact_array))
    assert eqx.tree_equal(*structures)


def test_gradient_through_the_vector_is_that_of_the_field():
    field = some_field(MODELS[2])
    vector, structure = take_apart(field, "float64")
    x = jnp.asarray([[0.3, -1.0], [0.5, 0.2], [1.0, 2.0]])

    def size(f):
        return jnp.sum(f(x) ** 2)

    of_vector = jax.grad(lambda v: size(structure.field(v)))(vector)
    of_field, _ = take_apart(eqx.filter_grad(size)(field), "float64")
    np.testing.assert_allclose(of_vector, of_field, rtol=1e-14)


def test_a_vector_of_another_length_is_refused():
    vector, structure = take_apart(some_field(MODELS[2]), "float64")
    with pytest.raises(ValueError, match="Sum of sizes 68 must be equal"):
        structure.field(vector[:-1])
