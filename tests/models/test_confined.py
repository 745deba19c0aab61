"""Confined brackets: the same where data were seen, and no way out to infinity elsewhere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.integrate import rollout
from wgfinn.models import Box, GenericField, ModelSpec, build, confined_like, freed, parameter_count, trainable
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
    width = high - np.asarray(BOX.low)
    x = jnp.asarray(inside + axes.T @ np.where([True, True, False], 0.1 + 0.2 * width, 0.0))
    np.testing.assert_allclose(BOX.nearest(x), corner, atol=1e-12)
    confined, free = field(), field(box=None)
    left = BOX.fading(x)
    assert 0.01 < left < 0.99
    gradient = confined.entropy_gradient(x)
    expected = left * free.reversible.matrix(jnp.asarray(corner), gradient)
    np.testing.assert_allclose(confined.poisson(x), expected, atol=1e-12)
    gradient = confined.energy_gradient(x)
    expected = left * free.irreversible.matrix(jnp.asarray(corner), gradient)
    np.testing.assert_allclose(confined.friction(x), expected, atol=1e-12)


def test_brackets_fade_with_the_distance():
    """exp(-r^4 / 2), r counted in quarters of the box's width along each axis."""
    low, high = np.asarray(BOX.low), np.asarray(BOX.high)
    quarter = (high - low) / 4
    for steps in ([0.5, 0, 0], [0, 1, 0], [0, -2, 0], [0.6, 0, 0.8], [1, 1, -1]):
        away = np.array(steps)
        x = jnp.asarray(np.asarray(BOX.axes).T @ (np.where(away < 0, low, high) + quarter * away))
        assert float(BOX.fading(x)) == pytest.approx(np.exp(-0.5 * (away**2).sum() ** 2), rel=1e-9)


def test_where_nothing_varied_a_box_has_some_width():
    box = Box.around(np.where([True, True, False], SAMPLES, 3.0), "float64")
    assert (box.high > box.low).all()
    assert np.isfinite(box.fading(jnp.array([0.0, 0.0, 3.0])))


def test_far_away_nothing_moves():
    """Free brackets drive states the faster the farther they are."""
    x = jnp.asarray(np.random.default_rng(2).standard_normal((N_STATES, 50)))
    assert float(jnp.abs(field()(1e3 * x)).max()) == 0
    fast, faster = (float(jnp.abs(field(box=None)(scale * x)).max()) for scale in (1e3, 1e6))
    assert faster > 1e3 * fast > 0


def test_a_field_is_freed_and_confined_again():
    x = jnp.asarray(3 * np.random.default_rng(3).standard_normal((N_STATES, 20)))
    free = freed(field())
    np.testing.assert_array_equal(free(x), field(box=None)(x))
    np.testing.assert_array_equal(confined_like(field(seed=1), free)(x), field()(x))
    assert confined_like(free, free) == free


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
