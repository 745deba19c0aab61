"""Windows over samples at any times: equal to the strided operator where steps are equal, and of order 4 elsewhere."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wgfinn.data.local_cubic import quadrature_weights
from wgfinn.weak import (
    ScatteredOperator,
    TestFunctionSpec,
    WeakOperator,
    place,
    window_count,
    window_duration,
)

GOLDEN = [  # the paper's counts, as in test_test_functions
    (401, 30, 6, 0.9, 93),
    (401, 60, 4, 0.9, None),
    (401, 80, 4, 0.9, 25),
    (401, 10, 4, 0.7, 131),
]
SHAPES = [
    (401, 80, 4, 0.9),
    (401, 10, 4, 0.7),
    (64, 13, 5, 0.3),
    (47, 10, 4, 0.0),
    (50, 12, 2, 0.9999),
    (25, 25, 3, 0.5),
]


@pytest.mark.parametrize(("n", "width", "degree", "overlap", "count"), GOLDEN)
def test_counts_on_equal_steps(n, width, degree, overlap, count):
    spec = TestFunctionSpec(width=width, degree=degree, overlap=overlap)
    t = 3 + 0.01 * np.arange(n)
    found = window_count(t, window_duration(t, spec), spec)
    assert found == spec.count(n)
    assert count is None or found == count


@pytest.mark.parametrize("n", range(40, 120, 7))
def test_count_of_every_length(n):
    spec = TestFunctionSpec(width=20, degree=4, overlap=0.8)
    for step in (0.01, 1 / 3, 7.0):
        t = 1e3 + step * np.arange(n)
        assert window_count(t, window_duration(t, spec), spec) == spec.count(n)


def test_too_short_a_stretch_has_no_window():
    spec = TestFunctionSpec(width=20)
    assert window_count(np.arange(19.0), 19.0, spec) == 0
    assert window_count(np.arange(20.0), 19.0, spec) == 1


@pytest.mark.parametrize(("n", "width", "degree", "overlap"), SHAPES)
def test_equals_the_strided_operator_on_equal_steps(n, width, degree, overlap):
    spec = TestFunctionSpec(width=width, degree=degree, overlap=overlap)
    step = 0.03
    t = 5 + step * np.arange(n)
    record = np.random.default_rng(0).normal(size=(n, 2))
    placed = place(t, window_duration(t, spec), spec)
    operator = WeakOperator(spec, n)
    assert placed.count == operator.count
    assert placed.samples.shape[0] == spec.stride
    slopes = operator.integrate_slope(jnp.asarray(record.T))
    np.testing.assert_allclose(placed.slope_integrals(record).T, slopes, rtol=1e-9, atol=1e-10)
    in_blocks = np.moveaxis(record[placed.samples], -1, 0)[:, None]
    found = ScatteredOperator([placed.values], "float64").integrate(jnp.asarray(in_blocks))[:, 0]
    np.testing.assert_allclose(found, step * operator.integrate(jnp.asarray(record.T)), rtol=1e-9, atol=1e-10)


def scattered_times(seed, n=200, jitter=0.2, missing=0.1):
    rng = np.random.default_rng(seed)
    t = 0.05 * (np.arange(n) + jitter * rng.uniform(-1, 1, n))
    return np.delete(t, 1 + rng.choice(n - 2, int(missing * n), replace=False))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_against_plain_sums(seed):
    """Window by window over the whole record, from the formulas."""
    spec = TestFunctionSpec(width=30, degree=4, overlap=0.9)
    t = scattered_times(seed)
    duration = window_duration(t, spec)
    placed = place(t, duration, spec)
    x = np.random.default_rng(seed).normal(size=(len(t), 2))
    weights = quadrature_weights(t)
    in_blocks = np.moveaxis(x[placed.samples], -1, 0)[:, None]
    integrals = np.asarray(ScatteredOperator([placed.values], "float64").integrate(jnp.asarray(in_blocks)))[:, 0]
    slopes = placed.slope_integrals(x)
    for j in range(placed.count):
        start = t[0] + j * spec.stride * duration / (spec.width - 1)
        assert start + duration <= t[-1] + 1e-6 * duration
        tau = np.clip(2 * (t - start) / duration - 1, -1, 1)
        phi = (1 - tau**2) ** 4
        slope = -8 * tau * (1 - tau**2) ** 3 * 2 / duration
        np.testing.assert_allclose(integrals[:, j], (weights * phi) @ x, rtol=1e-10, atol=1e-12)
        mean = (weights * phi) @ x / (weights @ phi)
        np.testing.assert_allclose(slopes[j], (weights * slope) @ (x - mean), rtol=1e-9, atol=1e-10)


def residual(t, degree):
    """The weak residual of x' = -x on exp(-t), one window over all samples."""
    spec = TestFunctionSpec(width=len(t), degree=degree)
    placed = place(t, t[-1] - t[0], spec)
    x = np.exp(-t)[:, None]
    rates = jnp.asarray(-x[placed.samples][None, None, :, :, 0])
    integral = ScatteredOperator([placed.values], "float64").integrate(rates)
    return abs(float(placed.slope_integrals(x)[0, 0] + integral[0, 0, 0]))


@pytest.mark.parametrize(("degree", "order"), [(2, 2), (3, 4), (4, 4), (6, 4)])
def test_order_on_a_smooth_grid(degree, order):
    """Claimed: order 4 on grids whose step varies smoothly, from degree 3 on (the trapezoidal rule: 2). With degree 2
    the integrand has a kink at the window's ends, which no rule without a knot there sees: order 2."""
    points = (41, 81, 161)
    phases = np.arange(8)
    errors = []
    for n in points:
        u = np.linspace(-1, 1, n)
        errors.append(np.sqrt(np.mean([residual(u + 0.1 * np.sin(2 * u + phase), degree) ** 2 for phase in phases])))
    slope = np.polyfit(np.log([1 / (n - 1) for n in points]), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.15


def test_jitter_costs_no_more_than_half_an_order():
    """Random steps: errors of the cells do not cancel, so that the sum of n of them of h^5 falls as h^4.5 inside a
    window; at its ends, where the integrand is t^3, as h^4. The trapezoidal rule is at h^2.5."""
    points = (41, 81, 161, 321)
    errors = []
    for n in points:
        rng = np.random.default_rng(0)
        of_seeds = []
        for _ in range(40):
            t = np.linspace(-1, 1, n)
            t[1:-1] += 0.2 * rng.uniform(-1, 1, n - 2) * 2 / (n - 1)
            of_seeds.append(residual(t, 4))
        errors.append(np.sqrt(np.mean(np.square(of_seeds))))
    slope = np.polyfit(np.log([1 / (n - 1) for n in points]), np.log(errors), 1)[0]
    assert 3.4 < slope < 4.6


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_offsets_of_the_states_do_not_matter(seed):
    """Without the mean under the window taken off, an offset of 1e6 would show with the rule's error, 1e-4 of it."""
    t = scattered_times(seed)
    spec = TestFunctionSpec(width=30)
    placed = place(t, window_duration(t, spec), spec)
    x = np.sin(t)[:, None]
    np.testing.assert_allclose(placed.slope_integrals(x + 1e6), placed.slope_integrals(x), atol=1e-7)


def test_noise_of_the_slope_term():
    """Against the spread over draws of the noise: 4,000 draws give 1/sqrt(8000) = 1.1 %, five of which are allowed."""
    t = scattered_times(0)
    spec = TestFunctionSpec(width=30)
    placed = place(t, window_duration(t, spec), spec)
    sigma = np.exp(np.sin(t))[:, None]
    draws = sigma * np.random.default_rng(0).normal(size=(len(t), 4000))
    np.testing.assert_allclose(placed.slope_noise(sigma)[:, 0], placed.slope_integrals(draws).std(axis=1), rtol=0.055)


def test_bursts_of_samples():
    """Blocks of very different fill: sums are still those over all samples of a window."""
    t = np.sort(np.concatenate([np.arange(0.0, 20.0, 0.5), 7 + 0.01 * np.arange(1, 30)]))
    spec = TestFunctionSpec(width=12, degree=4, overlap=0.5)
    placed = place(t, 5.5, spec)
    ones = np.ones((1, 1, *placed.samples.shape))
    found = np.asarray(ScatteredOperator([placed.values], "float64").integrate(jnp.asarray(ones)))[0, 0]
    # The integral of (1 - tau^2)^4 over [-1, 1] is 256 / 315.
    np.testing.assert_allclose(found, 5.5 / 2 * 256 / 315, rtol=2e-3)
