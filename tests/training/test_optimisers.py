"""SOAP and Gauss-Newton against their rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.losses import AttentionSpec
from wgfinn.training import AdamW, GaussNewton, MemberSettings, OptimiserSpec, Soap, make_optimiser


def numbers(**optimiser):
    return MemberSettings.create(0, OptimiserSpec(**optimiser), AttentionSpec(), "float64")


def test_the_spec_names_the_optimiser():
    assert make_optimiser(OptimiserSpec(name="soap"), ((2, 3),)) == Soap(((2, 3),))
    assert make_optimiser(OptimiserSpec(name="adamw"), ((2, 3),)) == AdamW()


def test_vectors_and_long_sides_have_no_axes():
    state = Soap(((3,), (2, 4), (5, 200), ())).init(jnp.zeros(3 + 8 + 1000 + 1), numbers())
    sizes = [tuple(None if side is None else side.shape[-1] for side in pair) for pair in state.axes]
    assert sizes == [(None, None), (2, 4), (5, None), (None, None)]


def test_matrices_of_one_shape_in_a_stack_step_as_they_would_alone():
    shapes = ((2, 3), (4,), (2, 3), (3, 2))
    sizes = [6, 4, 6, 6]
    rng = np.random.default_rng(2)
    settings = numbers(rate=0.1)
    together, alone = Soap(shapes), [Soap((shape,)) for shape in shapes]
    weights = jnp.zeros(sum(sizes))
    parts = [jnp.zeros(n) for n in sizes]
    state = together.init(weights, settings)
    assert [None if left is None else len(left) for left, _ in state.axes] == [2, None, 1]
    states = [soap.init(p, settings) for soap, p in zip(alone, parts, strict=True)]
    for k in range(5):
        gradient = rng.normal(size=sum(sizes))
        weights, state = together.update(jnp.asarray(gradient), state, weights, settings, jnp.asarray(k), True)
        for i, piece in enumerate(np.split(gradient, np.cumsum(sizes)[:-1])):
            parts[i], states[i] = alone[i].update(
                jnp.asarray(piece), states[i], parts[i], settings, jnp.asarray(k), True
            )
    np.testing.assert_allclose(weights, np.concatenate(parts), rtol=1e-10)


def test_a_vector_takes_steps_of_adam():
    """With both memories 0.95, a stair after two steps and decoupled decay: p <- p - rate (adam + decay p)."""
    settings = numbers(rate=0.1, decay=0.3, decay_every=2, weight_decay=0.05)
    rng = np.random.default_rng(0)
    p = rng.normal(size=4)
    weights, soap = jnp.asarray(p), Soap(((4,),))
    state = soap.init(weights, settings)
    m = v = np.zeros(4)
    for k, g in enumerate(rng.normal(size=(3, 4)) * [1.0, 1e-3, 10.0, 0.0], start=1):
        weights, state = soap.update(jnp.asarray(g), state, weights, settings, jnp.asarray(k - 1), True)
        m, v = 0.95 * m + 0.05 * g, 0.95 * v + 0.05 * g**2
        adam = m / (1 - 0.95**k) / (np.sqrt(v / (1 - 0.95**k)) + 1e-8)
        p = p - 0.1 * 0.3 ** ((k - 1) // 2) * (adam + 0.05 * p)
        np.testing.assert_allclose(weights, p, rtol=1e-12)


def test_axes_stay_orthonormal_and_find_those_of_the_gradients():
    """Gradients with fixed singular vectors and distinct singular values: the axes become those vectors, up to sign."""
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (3, 4))
    soap, settings = Soap(((3, 4),)), numbers(rate=1e-3)
    weights = jnp.zeros(12)
    state = soap.init(weights, settings)
    for k in range(60):
        scales = np.diag([4.0, 2.0, 1.0]) @ np.eye(3, 4) * rng.choice([-1.0, 1.0])
        gradient = jnp.asarray((left @ scales @ right.T).ravel())
        weights, state = soap.update(gradient, state, weights, settings, jnp.asarray(k), True)
    found_left, found_right = (np.asarray(a[0]) for a in state.axes[0])
    np.testing.assert_allclose(found_left.T @ found_left, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(found_right.T @ found_right, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(np.abs(found_left.T @ left), np.eye(3), atol=1e-6)
    np.testing.assert_allclose(np.abs(found_right[:, :3].T @ right[:, :3]), np.eye(3), atol=1e-6)


def test_axes_rest_unless_it_is_time():
    soap, settings = Soap(((2, 2),)), numbers()
    weights = jnp.ones(4)
    _, state = soap.update(jnp.arange(4.0), soap.init(weights, settings), weights, settings, jnp.asarray(0), False)
    for side in state.axes[0]:
        np.testing.assert_array_equal(side[0], np.eye(2))


@pytest.mark.parametrize("turned", [False, True])
def test_a_turned_valley_is_no_harder(turned):
    """Least squares with curvatures 1 to 1e4. Adam is at home where the valley lies along the coordinates; SOAP finds
    the turned one as well, where Adam is left behind."""
    rng = np.random.default_rng(2)
    curvature = np.diag(np.logspace(0, 4, 6))
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0] if turned else np.eye(6)
    matrix, target = jnp.asarray(axes @ curvature @ axes.T), jnp.asarray(rng.normal(size=(6, 5)))

    def loss(weights):
        missed = weights.reshape(6, 5) - target
        return 0.5 * jnp.sum(missed * (matrix @ missed))

    def descend(optimiser):
        settings = numbers(rate=0.1, decay=0.9, decay_every=20)

        def step(carry, k):
            weights, state = optimiser.update(jax.grad(loss)(carry[0]), carry[1], carry[0], settings, k, k % 5 == 0)
            return (weights, state), None

        start = jnp.zeros(30)
        (weights, _), _ = jax.lax.scan(step, (start, optimiser.init(start, settings)), jnp.arange(400))
        return float(loss(weights) / loss(start))

    assert descend(Soap(((6, 5),))) < 1e-6
    if turned:
        assert descend(AdamW()) > 1e-5


def test_a_gauss_newton_step_is_the_nearest_to_the_last_that_cancels_the_residuals():
    """Linear residuals, fewer than weights: against the normal equations of the damped problem."""
    rng = np.random.default_rng(3)
    slopes, b = rng.normal(size=(4, 9)), rng.normal(size=4)
    weights, last = rng.normal(size=9), 0.01 * rng.normal(size=9)
    here = slopes @ weights - b
    damping = 1e-3 * np.trace(slopes @ slopes.T) / 4
    inverse = np.linalg.inv(slopes.T @ slopes + damping * np.eye(9))
    # argmin |here + J d|^2 + damping |d - 0.9 last|^2
    expected = inverse @ (damping * 0.9 * last - slopes.T @ here)
    after, direction = GaussNewton().update(
        lambda w: jnp.asarray(slopes) @ w - b,
        jnp.asarray(slopes),
        jnp.asarray(last),
        jnp.asarray(weights),
        numbers(rate=1.0),
        jnp.asarray(0),
    )
    np.testing.assert_allclose(direction, expected, rtol=1e-8)
    np.testing.assert_allclose(after, weights + expected, rtol=1e-8)
    assert np.linalg.norm(slopes @ after - b) < 0.01 * np.linalg.norm(here)


@pytest.mark.parametrize(("curvature", "taken"), [(0.0, 1.0), (1.0, 0.5), (np.nan, 0.0)])
def test_gauss_newton_steps_are_as_long_as_pays(curvature, taken):
    """The residual w + c w^2 from 1: a whole step, half of one, or none and the last one forgotten."""
    step = -1 / 1.001

    def residual(w):
        return 1 + (w - 1) + curvature * (w - 1) ** 2

    after, direction = GaussNewton().update(
        residual, jnp.ones((1, 1)), jnp.zeros(1), jnp.ones(1), numbers(rate=1.0), jnp.asarray(0)
    )
    np.testing.assert_allclose(after, 1 + taken * step, rtol=1e-12)
    np.testing.assert_allclose(direction, step if taken else 0.0, rtol=1e-12)
