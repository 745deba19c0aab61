"""Adaptive solves against closed forms, and what happens where there is no solution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.integrate import rollout, rollout_adaptive


def decay_and_rotation(x):
    return jnp.stack([-2 * x[0], x[2], -x[1]])


def closed_form(t):
    return np.stack([np.exp(-2 * t), np.cos(t), -np.sin(t)], axis=1)


START = jnp.array([1.0, 1.0, 0.0])
T = np.sort(np.concatenate([np.linspace(0.0, 10.0, 21), [0.013, 3.21]]))


def test_closed_form():
    """The error over ten units of time stays within two orders of the tolerance per step."""
    x = rollout_adaptive(decay_and_rotation, START, jnp.asarray(T), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(x, closed_form(T), atol=1e-4)
    np.testing.assert_array_equal(x[0], START)


def test_the_accurate_integrator():
    """As above, with the relative tolerance of 1e-10 that `rollout` promises; the clock may start anywhere."""
    x = rollout(decay_and_rotation, START, jnp.asarray(T + 5), "accurate")
    np.testing.assert_allclose(x, closed_form(T), atol=1e-8)


def test_default_is_the_scheme_of_the_paper():
    t = jnp.asarray(T)
    np.testing.assert_array_equal(rollout(decay_and_rotation, START, t), rollout(decay_and_rotation, START, t, "rk23"))


def test_unknown_integrator():
    with pytest.raises(InputError, match=r"integrator='euler' is unknown; choose one of rk23, accurate\."):
        rollout(decay_and_rotation, START, jnp.asarray(T), "euler")


def test_blow_up_leaves_nan_and_spares_the_others():
    """x' = x^2 from x0 is x0 / (1 - x0 t): gone at t = 1 for x0 = 1, alive until t = 2 for x0 = 1/2."""
    t = jnp.array([0.0, 0.5, 0.9, 1.5])
    solve = jax.vmap(lambda x0: rollout_adaptive(lambda x: x**2, x0, t, max_steps=500))
    x = np.asarray(solve(jnp.array([[1.0], [0.5]])))[..., 0]
    np.testing.assert_allclose(x[0, :3], 1 / (1 - np.asarray(t)[:3]), rtol=1e-6)
    assert np.isnan(x[0, 3])
    np.testing.assert_allclose(x[1], 0.5 / (1 - 0.5 * np.asarray(t)), rtol=1e-6)
