"""An open field learns which way its energy falls."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.data import Scales
from wgfinn.models import Box, ModelSpec, Undirected, build, directed, know, undirected

NAMES = ("q", "p", "r")
CANONICAL = {"canonical": [["q", "p"]]}
KINDS = {"neural": {}, "affine": {"energy": "affine"}, "confined": {}}
STATES = np.random.default_rng(0).standard_normal((3, 20))


def begun(kind="neural", **known):
    """A field as its training begins."""
    spec = ModelSpec.model_validate({"layers": 2, "width": 6, "entropy": "bath", **KINDS[kind], **known})
    physics = know(spec, NAMES, Scales.identity(3))
    # The states below lie inside and outside of the box.
    box = Box.around(0.5 * STATES.T, "float64") if kind == "confined" else None
    return undirected(build(spec, 3, key=jax.random.key(1), physics=physics, box=box), physics)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arrow", [0.7, -0.7])
def test_what_was_learnt_is_an_open_field(kind, arrow):
    """The same velocities, a positive semidefinite friction, an energy that falls, whatever the number's sign."""
    learnt = eqx.tree_at(lambda f: f.arrow, begun(kind), jnp.asarray(arrow))
    field, x = directed(learnt), jnp.asarray(STATES)
    assert field.is_open
    np.testing.assert_allclose(field(x), learnt(x), rtol=0, atol=1e-13 * np.abs(learnt(x)).max())
    np.testing.assert_allclose(field.energy(x), np.sign(arrow) * learnt.field.energy(x), rtol=1e-13)
    assert (np.sum(field.energy_gradient(x) * field(x), axis=0) < 0).all()
    for state in x.T:
        assert np.linalg.eigvalsh(field.friction(state))[0] > -1e-13
        np.testing.assert_array_equal(field.poisson(state), -field.poisson(state).T)


def test_it_begins_undecided():
    """Nothing rubs, and the slope of what is to come is not zero."""
    field, x = begun(), jnp.asarray(STATES)
    reversible, irreversible = field.field.parts(x)
    np.testing.assert_array_equal(field(x), reversible)
    assert np.abs(irreversible).min() > 0


def test_members_side_by_side():
    """Each has a sign of its own."""
    ones = [eqx.tree_at(lambda f: f.arrow, begun(), jnp.asarray(arrow)) for arrow in (0.5, -2.0)]
    together = jax.vmap(directed)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *ones))
    for i, one in enumerate(ones):
        here = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        np.testing.assert_array_equal(here(jnp.asarray(STATES)), directed(one)(jnp.asarray(STATES)))


@pytest.mark.parametrize(
    "known",
    [
        {"entropy": "neural"},
        {"entropy": "none"},
        {"energy": {"sum": ["q"]}},
        {"poisson": CANONICAL},
        {"friction": {"matrix": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}},
    ],
)
def test_what_is_known_fixes_it(known):
    field = begun(**known)
    assert not isinstance(field, Undirected)
    assert directed(field) is field
