"""Theorems 4.2 and 4.3: the weak estimator, its exact error and the three-point test function."""

import math

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.theory import (
    WeakWeights,
    admissible_weights,
    three_point_spread,
    three_point_variance,
    three_point_weights,
    weak_conditions,
    weak_estimate,
    weak_relative_error,
    weak_weights,
    window_samples,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def relative_error(noise, weights, rate, sigma, centre=1.0):
    samples = window_samples(noise, rate, sigma=sigma, spacing=weights.spacing, centre=centre)
    return weak_estimate(samples, weights) / rate - 1.0


@pytest.mark.parametrize("half", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("rate", [-2.0, 1.3])
@pytest.mark.parametrize("sigma", [1e-3, 0.1, 1.0])
def test_theorem_4_2_equals_the_estimator(half, rate, sigma, rng):
    """Twenty random test functions each, scaled by the largest product in numerator or denominator over
    the denominator: where noise all but cancels the denominator both sides magnify the same rounding."""
    for _ in range(20):
        weights = admissible_weights(rate, spacing=0.2, half=half, rng=rng)
        assert max(weak_conditions(weights, rate)) < 1e-12
        noise = rng.standard_normal((10, 2 * half + 1))
        formula = weak_relative_error(noise, weights, rate, sigma=sigma, centre=1.7)
        measured = relative_error(noise, weights, rate, sigma, centre=1.7)
        samples = np.abs(window_samples(noise, rate, sigma=sigma, spacing=0.2, centre=1.7))
        signed = window_samples(noise, rate, sigma=sigma, spacing=0.2, centre=1.7) @ weights.value
        largest = samples @ (np.abs(weights.value) + np.abs(weights.slope / rate)) / np.abs(signed)
        np.testing.assert_array_less(np.abs(measured - formula), 1e-12 * largest * (1.0 + np.abs(formula)))


def test_theorem_4_2_on_well_scaled_weights_to_plain_relative_accuracy(rng):
    """Without allowance for cancellation, where there is little of it."""
    weights = three_point_weights(-2.0, 1.0)
    noise = rng.standard_normal((1000, 3))
    formula = weak_relative_error(noise, weights, -2.0, sigma=0.3)
    measured = relative_error(noise, weights, -2.0, 0.3)
    np.testing.assert_allclose(measured, formula, rtol=1e-12, atol=1e-13)


def test_without_sigma_in_the_denominator_the_formula_fails(rng):
    """The theorem as printed: off by more than a tenth of the error already at moderate noise."""
    weights, noise = three_point_weights(-2.0, 1.0), rng.standard_normal((1000, 3))
    signal = math.sinh(1.0)
    printed = -0.1 * (noise @ (weights.value - weights.slope / 2.0)) / (signal + noise @ weights.value)
    measured = relative_error(noise, weights, -2.0, 0.1)
    assert np.median(np.abs(printed / measured - 1.0)) > 0.1


@pytest.mark.parametrize("half", [1, 4])
def test_clean_data_are_recovered_exactly(half, rng):
    weights = admissible_weights(-2.0, spacing=0.3, half=half, rng=rng)
    assert relative_error(np.zeros(2 * half + 1), weights, -2.0, 0.0) == pytest.approx(0.0, abs=1e-13)


def test_error_is_linear_in_the_noise_to_first_order(rng):
    weights, noise = three_point_weights(-2.0, 1.0), rng.standard_normal(3)
    small, large = (float(relative_error(noise, weights, -2.0, s)) for s in (1e-6, 1e-5))
    assert large / small == pytest.approx(10.0, rel=1e-4)


def test_one_point_a_side_leaves_no_choice(rng):
    drawn = admissible_weights(-2.0, spacing=0.4, half=1, rng=rng)
    fixed = three_point_weights(-2.0, 0.8)
    np.testing.assert_allclose(drawn.value, fixed.value, rtol=1e-13)
    np.testing.assert_allclose(drawn.slope, fixed.slope, rtol=1e-13)
    assert fixed.support == pytest.approx(0.8)
    assert fixed.half == 1


def test_theorem_4_3_as_printed():
    """The four values of the theorem with the Simpson weights of [-h, h]."""
    rate, h = -2.0, 0.4
    support = 2 * h
    excess, slope = math.sinh(rate * h) - rate * h, rate * (math.cosh(rate * h) - 1)
    w = np.array([h / 3, 4 * h / 3, h / 3])
    outer = excess / (w[2] * support * slope)
    phi = np.array([outer, (1 - 2 * excess / (support * slope)) / w[1], outer])
    phi_slope = np.array([1.0, 0.0, -1.0]) / (w * support)
    printed = weak_weights(w, phi, phi_slope, spacing=h)
    fixed = three_point_weights(rate, support)
    np.testing.assert_allclose(printed.value, fixed.value, rtol=1e-13)
    np.testing.assert_allclose(printed.slope, fixed.slope, rtol=1e-13)


def test_variance_limits_and_range():
    assert three_point_variance(0.0) == pytest.approx(0.5, rel=1e-15)
    assert three_point_variance(1e-6) == pytest.approx(0.5, abs=1e-12)
    # r ~ 1 / z far out, so 1 - V ~ 2 / z.
    assert three_point_variance(1e6) == pytest.approx(1.0, abs=2.1e-6)
    z = np.linspace(-60.0, 60.0, 2001)
    v = np.asarray(three_point_variance(z))
    assert np.all((v >= 0.5 - 1e-15) & (v <= 1.0))
    np.testing.assert_allclose(v, v[::-1], rtol=1e-15)
    assert np.all(np.diff(v[1000:]) > 0.0)


@pytest.mark.parametrize("z", [-0.1, 0.5, -2.0, 8.0])
def test_variance_against_simulation(z, rng):
    """Var Y = V, Var X = V + 1 / (2 z^2) and Cov(X, Y) = Var Y: the proof's beta is exactly one. Sample
    variances of 200,000 normal draws have relative standard error sqrt(2 / n); four of those are allowed."""
    runs, support = 200_000, 0.6
    rate = 2.0 * z / support
    weights, noise = three_point_weights(rate, support), rng.standard_normal((runs, 3))
    y, x = noise @ weights.value, noise @ (weights.value + weights.slope / rate)
    v = float(three_point_variance(z))
    tolerance = 4.0 * math.sqrt(2.0 / runs)
    assert np.var(y) == pytest.approx(v, rel=tolerance)
    assert np.var(x) == pytest.approx(v + 0.5 / z**2, rel=tolerance)
    spread = 4.0 * math.sqrt(2.0 * v * (v + 0.5 / z**2) / runs)
    assert np.mean(x * y) == pytest.approx(v, abs=spread)
    assert weights.value @ (weights.value + weights.slope / rate) / (weights.value @ weights.value) == (
        pytest.approx(1.0, rel=1e-14)
    )


@pytest.mark.parametrize("rate", [-2.0, 2.0])
def test_theorem_4_3_converges_with_the_centre_fixed(rate, rng):
    """Median relative errors fall below 1e-13 at S = 32 and grow like 1 / S for small supports."""
    noise = rng.standard_normal((2000, 3))

    def median(support):
        return float(np.median(np.abs(relative_error(noise, three_point_weights(rate, support), rate, 0.01))))

    falling = [median(s) for s in (1.0, 4.0, 16.0, 32.0)]
    assert falling[0] == pytest.approx(5.7e-3, rel=0.1)  # measured beforehand with another generator
    assert falling[1] == pytest.approx(8e-4, rel=0.1)
    assert falling[2] < 1e-7
    assert falling[3] < 1e-13
    assert median(1e-3) / median(1e-2) == pytest.approx(10.0, rel=0.1)


def test_theorem_4_3_fails_for_decay_with_the_start_fixed(rng):
    """Window [0, S] with x(0) = 1, so x(t*) = exp(-S): the error grows with the support."""
    noise = rng.standard_normal((4000, 3))
    medians = [
        float(np.median(np.abs(relative_error(noise, three_point_weights(-2.0, s), -2.0, 0.01, math.exp(-s)))))
        for s in (1.0, 4.0, 16.0, 32.0)
    ]
    np.testing.assert_allclose(medians, [0.015, 0.042, 0.19, 0.37], rtol=0.15)


@pytest.mark.parametrize("support", [0.1, 1.0, 6.0])
def test_first_order_spread_against_simulation(support, rng):
    errors = relative_error(rng.standard_normal((100_000, 3)), three_point_weights(-2.0, support), -2.0, 1e-3)
    assert np.std(errors) == pytest.approx(three_point_spread(-2.0, support, 1e-3), rel=0.01)


def _weights(**changes):
    start = three_point_weights(-2.0, 1.0)
    return WeakWeights(**{"value": start.value, "slope": start.slope, "spacing": start.spacing} | changes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: three_point_weights(0.0, 1.0), "rate must be a finite number other than zero"),
        (lambda: three_point_weights(-2.0, 0.0), "support must be finite and positive"),
        (lambda: three_point_spread(-2.0, 1.0, -0.1), "sigma must be finite and not negative"),
        (lambda: window_samples(np.zeros(3), -2.0, sigma=-1.0, spacing=0.1), "sigma must be"),
        (lambda: window_samples(np.zeros(3), -2.0, sigma=1.0, spacing=0.0), "spacing must be finite"),
        (lambda: window_samples(np.zeros(3), -2.0, sigma=1.0, spacing=0.1, centre=0.0), "centre must be"),
        (
            lambda: admissible_weights(-2.0, spacing=0.1, half=0, rng=np.random.default_rng(0)),
            "half must be at least 1, got 0",
        ),
        (
            lambda: _weights(value=np.ones(4), slope=np.ones(4)),
            "4 nodes; a symmetric rule needs an odd number",
        ),
        (
            lambda: weak_relative_error(np.zeros(3), _weights(value=np.ones(3)), -2.0, sigma=0.1),
            "condition 'unit_mass' of theorem 4.2",
        ),
        (
            lambda: weak_relative_error(np.zeros(3), _weights(), -1.0, sigma=0.1),
            "condition 'exactness' of theorem 4.2",
        ),
        (
            lambda: weak_relative_error(np.zeros(3), _weights(slope=np.ones(3)), -2.0, sigma=0.1),
            "condition 'asymmetric_slope'",
        ),
        (
            lambda: weak_relative_error(np.zeros(3), _weights(value=np.array([0.0, 0.5, 0.5])), -2.0, sigma=0.1),
            "condition 'symmetric_value'",
        ),
        (
            lambda: weak_relative_error(np.zeros(3), _weights(slope=np.array([2.0, 0.0, -2.0])), -2.0, sigma=0.1),
            "condition 'unit_slope'",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
