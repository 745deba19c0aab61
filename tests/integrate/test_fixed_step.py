"""The fixed-step scheme: its tableau, its order, and that a batch is nothing but many states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.integrate import RK23, Tableau, looped_step, rollout, rollout_fixed, step

EULER = Tableau(stages=((),), weights=(1.0,))


def logistic(x):
    return x * (1 - x)


def logistic_solution(x0, t):
    return x0 * np.exp(t) / (1 - x0 + x0 * np.exp(t))


def rotation(x):
    return jnp.stack([x[1], -x[0]])


def pendulum(x):
    return jnp.stack([x[1], -jnp.sin(x[0]) - 0.1 * x[1]])


def test_tableau_of_shu_and_osher():
    """Spec, section 0: c = (0, 1, 1/2), a21 = 1, a31 = a32 = 1/4, b = (1/6, 1/6, 2/3)."""
    assert RK23.stages == ((), (1.0,), (0.25, 0.25))
    assert RK23.weights == (1 / 6, 1 / 6, 2 / 3)
    assert [sum(row) for row in RK23.stages] == [0, 1, 0.5]


def test_the_loop_is_the_same_step(key):
    """A few roundings of numbers of order one, per state with its own step."""
    x, dt = jax.random.normal(key, (2, 5)), jnp.linspace(0.01, 0.3, 5)[None]
    np.testing.assert_allclose(looped_step(pendulum, x, dt), step(pendulum, x, dt), rtol=1e-14, atol=1e-15)


def test_order_conditions():
    """Sums over b, c and a up to order three (Hairer, Norsett, Wanner, section II.2), exact to rounding."""
    b = np.array(RK23.weights)
    a = np.zeros((3, 3))
    for i, row in enumerate(RK23.stages):
        a[i, : len(row)] = row
    c = a.sum(axis=1)
    np.testing.assert_allclose([b.sum(), b @ c, b @ c**2, b @ a @ c], [1, 1 / 2, 1 / 3, 1 / 6], rtol=1e-15)


@pytest.mark.parametrize(("tableau", "order"), [(RK23, 3), (EULER, 1)])
def test_observed_order(tableau, order):
    """Closed form of the logistic equation; steps halved twice, slope within 0.15 of theory."""
    x0, errors, sizes = 0.1, [], (40, 80, 160)
    for n in sizes:
        t = jnp.linspace(0.0, 4.0, n + 1)
        x = rollout_fixed(logistic, jnp.array([x0]), t, tableau=tableau)
        errors.append(np.max(np.abs(np.asarray(x)[:, 0] - logistic_solution(x0, np.asarray(t)))))
    slopes = np.diff(np.log(errors)) / np.diff(np.log(1 / np.array(sizes)))
    np.testing.assert_allclose(slopes, order, atol=0.15)


def test_one_step_of_a_linear_field_is_the_taylor_polynomial():
    """Third order with three stages: on x' = i x the step is 1 + z + z^2/2 + z^3/6, z = i dt."""
    dt = 0.3
    z = 1j * dt
    growth = 1 + z + z**2 / 2 + z**3 / 6
    x = step(rotation, jnp.array([1.0, 0.0]), dt)
    # x = (Re, -Im) of exp(i t) solves x1' = x2, x2' = -x1.
    np.testing.assert_allclose(np.asarray(x), [growth.real, -growth.imag], rtol=1e-15)


@pytest.mark.parametrize("substeps", [1, 3])
def test_rollout_equals_a_loop_by_hand(substeps):
    t = np.array([0.0, 0.1, 0.25, 0.3, 0.7])
    x = jnp.array([1.0, 0.2])
    expected = [x]
    for dt in np.diff(t):
        for _ in range(substeps):
            k1 = pendulum(x)
            k2 = pendulum(x + dt / substeps * k1)
            k3 = pendulum(x + dt / substeps * (k1 + k2) / 4)
            x = x + dt / substeps * (k1 + k2 + 4 * k3) / 6
        expected.append(x)
    actual = rollout_fixed(pendulum, expected[0], jnp.asarray(t), substeps=substeps)
    np.testing.assert_allclose(actual, np.stack(expected), rtol=1e-14, atol=1e-15)


def test_substeps_gain_accuracy():
    """Third order: four substeps are 4^3 = 64 times closer."""
    t = jnp.linspace(0.0, 3.0, 16)
    exact = np.stack([np.cos(np.asarray(t)), -np.sin(np.asarray(t))], axis=1)
    start = jnp.array([1.0, 0.0])
    coarse, fine = (np.abs(rollout_fixed(rotation, start, t, substeps=n) - exact).max() for n in (1, 4))
    assert 50 < coarse / fine < 80


def test_batch_equals_each_state_alone(key):
    x = jax.random.normal(key, (2, 5, 3))
    dt = jnp.full((1, 5, 3), 0.1)
    batched = step(pendulum, x, dt)
    for i in range(5):
        for j in range(3):
            np.testing.assert_allclose(batched[:, i, j], step(pendulum, x[:, i, j], 0.1), rtol=1e-15)


def test_each_state_of_a_batch_may_have_its_own_step(key):
    x = jax.random.normal(key, (2, 4))
    dt = np.array([0.1, 0.2, 0.01, 0.0])
    batched = step(pendulum, x, jnp.asarray(dt)[None])
    for j in range(4):
        np.testing.assert_allclose(batched[:, j], step(pendulum, x[:, j], float(dt[j])), rtol=1e-15)
    np.testing.assert_array_equal(batched[:, 3], x[:, 3])


def test_single_precision_stays_single():
    t = jnp.linspace(0.0, 1.0, 5, dtype="float32")
    assert rollout_fixed(rotation, jnp.ones(2, "float32"), t).dtype == jnp.float32


def test_blow_up_is_not_an_exception():
    """x' = x^2 from 1 reaches infinity at t = 1; the fixed steps overflow a little later."""
    x = rollout(lambda x: x**2, jnp.array([1.0]), jnp.linspace(0.0, 4.0, 41), "rk23")
    assert np.isfinite(x[:9]).all()
    assert not np.isfinite(x[-1]).any()
