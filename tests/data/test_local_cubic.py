"""Local cubics: exact for cubics, of their order otherwise, and the trapezoidal rule on equally spaced samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wgfinn.data.local_cubic import lagrange, quadrature_weights, stencils


def jittered(n, seed, jitter=0.4):
    rng = np.random.default_rng(seed)
    return np.arange(float(n)) + jitter * rng.uniform(-1, 1, n)


@pytest.mark.parametrize("n", [4, 5, 50])
def test_equal_steps_give_the_trapezoidal_rule(n):
    np.testing.assert_allclose(quadrature_weights(7 + 0.3 * np.arange(n)), 0.3, rtol=1e-12)


def test_stencil_of_equal_steps():
    np.testing.assert_array_equal(
        stencils(np.arange(6.0)), [[3, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 2]]
    )


def test_stencil_keeps_its_distance():
    """Beside a cell of length 2 the next sample counts only from a distance of 1 on."""
    t = np.array([0.0, 1.0, 1.9, 2.0, 4.0, 4.2, 4.9, 5.3])
    np.testing.assert_array_equal(stencils(t)[3], [1, 3, 4, 7])


def test_too_few_samples_for_a_cubic():
    assert stencils(np.arange(3.0)) is None


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_lagrange_reproduces_cubics(seed):
    t = jittered(30, seed)
    four = stencils(t)
    at = t[:-1] + np.random.default_rng(seed).uniform(0, 1, 29) * np.diff(t)
    cubic = np.polynomial.Polynomial([1.0, -0.2, 0.03, 0.001])
    found = np.sum(lagrange(t[four], at) * cubic(t[four]), axis=1)
    np.testing.assert_allclose(found, cubic(at), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("degree", [4, 6])
def test_order_on_a_smooth_grid(degree):
    """(1 - t^2)^p exp(-t) on times that are a smooth function of the index: cubics integrate to order 4."""
    points, errors = (41, 81, 161), []
    quadrature = np.polynomial.legendre.leggauss(60)
    exact = np.sum(quadrature[1] * (1 - quadrature[0] ** 2) ** degree * np.exp(-quadrature[0]))
    for n in points:
        t = np.sin(np.linspace(-1, 1, n) * 1.2) / np.sin(1.2)
        errors.append(abs(quadrature_weights(t) @ ((1 - t**2) ** degree * np.exp(-t)) - exact))
    slope = np.polyfit(np.log([1 / (n - 1) for n in points]), np.log(errors), 1)[0]
    assert abs(slope - 4) < 0.15


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_weights_are_positive_and_local(seed):
    """Jitter of 40 %, and a sample far away changes nothing here."""
    t = jittered(60, seed)
    weights = quadrature_weights(t)
    assert weights.min() > 0
    np.testing.assert_array_equal(weights[:-5], quadrature_weights(np.append(t, t[-1] + 1))[:-6])
