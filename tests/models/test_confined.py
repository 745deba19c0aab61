"""Confined brackets: the same where data were seen, and no way out to infinity elsewhere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.integrate import rollout
from wgfinn.models import Box, GenericField, ModelSpec, build, parameter_count, trainable
from wgfinn.training import take_apart

N_STATES = 3
SPEC = ModelSpec(layers=2, width=8)
SAMPLES = np.random.default_rng(0).standard_normal((200, N_STATES)) @ np.array([[2.0, 1, 0], [0, 1, 0.5], [0, 0, 0.1]])
BOX = Box.around(SAMPLES + 5.0, "float64")


def field(seed=0, box: Box | None = BOX) -> GenericField:
    made = build(SPEC, N_STATES, key=jax.random.key(seed), box=box)
    assert isinstance(made, GenericField)
    return made


def test_a_box_holds_the_data_and_a_quarter_more():
    assert np.allclose(BOX.axes @ BOX.axes.T, np.eye(N_STATES), atol=1e-14)
    x = jnp.asarray(SAMPLES.T + 5.0)
    np.testing.assert_array_equal(BOX.nearest(x), x)
    along = (SAMPLES + 5.0) @ np.asarray(BOX.axes).T
    np.testing.assert_allclose(BOX.high - BOX.low, 1.25 * np.ptp(along, axis=0))
    np.testing.assert_allclose(BOX.high - along.max(axis=0), along.min(axis=0) - BOX.low)


def test_a_box_is_as_thin_as_the_data():
    """Sides of a box along the states would be eight times the thinnest of these."""
    assert np.min(BOX.high - BOX.low) < 1.3 * np.ptp(SAMPLES @ np.linalg.svd(SAMPLES - SAMPLES.mean(0))[2][-1])


def test_values_that_were_not_measured_make_no_box_of_nan():
    holed = np.where(np.random.default_rng(1).random(SAMPLES.shape) < 0.3, np.nan, SAMPLES)
    box = Box.around(holed, "float32")
    assert all(np.isfinite(part).all() and part.dtype == np.float32 for part in (box.axes, box.low, box.high))


def test_inside_nothing_changes():
    x = jnp.asarray(SAMPLES.T + 5.0)
    for one, other in ((field().energy, field(box=None).energy), (field(), field(box=None))):
        np.testing.assert_array_equal(one(x), other(x))


def test_outside_brackets_are_those_at_the_nearest_point():
    axes, high = np.asarray(BOX.axes), np.asarray(BOX.high)
    inside = axes.T @ (high - 0.1)
    corner = axes.T @ np.where([True, True, False], high, high - 0.1)
    x = jnp.asarray(inside + axes.T @ np.array([3.0, 4.0, 0.0]))
    np.testing.assert_allclose(BOX.nearest(x), corner, atol=1e-12)
    confined, free = field(), field(box=None)
    gradient = confined.entropy_gradient(x)
    np.testing.assert_allclose(confined.poisson(x), free.reversible.matrix(jnp.asarray(corner), gradient), atol=1e-12)
    gradient = confined.energy_gradient(x)
    np.testing.assert_allclose(
        confined.friction(x), free.irreversible.matrix(jnp.asarray(corner), gradient), atol=1e-12
    )


def test_velocities_are_bounded():
    """Gradients of networks and brackets stop to grow; free brackets go on."""
    x = jnp.asarray(np.random.default_rng(2).standard_normal((N_STATES, 50)))
    near, far = (float(jnp.abs(field()(scale * x)).max()) for scale in (1e3, 1e6))
    assert far == pytest.approx(near, rel=0.05)
    assert float(jnp.abs(field(box=None)(1e6 * x)).max()) > 1e3 * far


def wild(seed, box=BOX):
    """A random field with weights much larger than at a start."""
    weights, rest = trainable(field(seed, box))
    return eqx.combine(jax.tree.map(lambda w: 3 * w, weights), rest)


def test_no_trajectory_leaves_for_infinity():
    """Random fields, with steps as long as a tenth of a unit; without a box some of their trajectories do."""
    t = jnp.linspace(0, 40, 401)
    starts = jnp.asarray(SAMPLES[:5] + 5.0)
    run = eqx.filter_jit(lambda f: jax.vmap(lambda start: rollout(f, start, t))(starts))
    assert not all(np.isfinite(run(wild(seed, None))).all() for seed in range(8))
    assert all(np.isfinite(run(wild(seed))).all() for seed in range(8))


def test_a_box_is_not_trained():
    weights, structure = take_apart(field(), "float32")
    assert weights.size == parameter_count(field()) == parameter_count(field(box=None))
    assert not jax.tree.leaves(trainable(BOX)[0])
    again = structure.field(weights + 1.0)
    np.testing.assert_array_equal(again.reversible.box.axes, BOX.axes)
