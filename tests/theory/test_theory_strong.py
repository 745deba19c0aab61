"""Theorem 4.1: the strong estimator, its error in two parts, the limit and the change of sign."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from wgfinn._errors import InputError
from wgfinn.theory import (
    decay_samples,
    euler_error,
    extended_error,
    noise_gain,
    recovery_step,
    sign_changes,
    strong_error,
    strong_estimate,
    strong_expected_error,
    strong_limit,
    strong_limit_as_printed,
)
from wgfinn.theory.experiments import LIMIT_SETTINGS, simulated_limit, simulated_strong


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_estimate_minimises_the_one_step_loss(rng):
    dt = 0.1
    y = decay_samples(rng.standard_normal(11), -2.0, sigma=0.1, dt=dt)
    loss = minimize_scalar(lambda theta: float(np.mean(((1 + theta * dt) * y[:-1] - y[1:]) ** 2)))
    assert strong_estimate(y, dt) == pytest.approx(loss.x, rel=1e-7)


def test_clean_data_leave_the_integration_error():
    y = decay_samples(np.zeros(51), -2.0, sigma=0.0, dt=0.02, start=3.0)
    assert strong_estimate(y, 0.02) + 2.0 == pytest.approx(euler_error(-2.0, 0.02), rel=1e-12)


@pytest.mark.parametrize("rate", [-2.0, 0.7])
@pytest.mark.parametrize("sigma", [0.0, 1e-3, 0.5])
@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_decomposition_equals_the_estimator(rate, sigma, steps, rng):
    """The two sides share no formula: one sees the samples, the other the noise."""
    noise, dt = rng.standard_normal((20, steps + 1)), 2.0 / steps
    estimate = strong_estimate(decay_samples(noise, rate, sigma=sigma, dt=dt, start=1.5), dt)
    error = strong_error(noise, rate, sigma=sigma, dt=dt, start=1.5)
    np.testing.assert_allclose(rate + error.total, estimate, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rate", [-2.0, 3.0])
def test_integration_error_is_positive_and_of_first_order(rate):
    dt = np.geomspace(1e-9, 1e-5, 5)
    error = euler_error(rate, dt)
    assert np.all(error > 0.0)
    np.testing.assert_allclose(error, rate**2 * dt / 2, rtol=2e-5)


@pytest.mark.parametrize("setting", LIMIT_SETTINGS, ids=lambda s: f"rate={s['rate']:g}")
def test_limit_of_theorem_4_1(setting, rng):
    """The corrected limit within three standard errors, the printed one more than fifteen away. At
    100,000 steps the bias of a finite step, a share |rate| dt / 2 of the limit or so, is below a tenth
    of the standard error."""
    found = simulated_limit(setting, steps=100_000, runs=40, rng=rng)
    assert abs(found["simulated"] - found["formula"]) < 3 * found["standard_error"]
    assert abs(found["simulated"] - found["as_printed"]) > 15 * found["standard_error"]


@pytest.mark.parametrize(
    ("setting", "printed", "corrected"),
    list(zip(LIMIT_SETTINGS, (-0.53629, -0.13534, -0.61219), (-0.50462, -0.01832, -0.60060), strict=True)),
    ids=["-2", "1", "-1"],
)
def test_limit_values_and_their_source(setting, printed, corrected):
    """Five digits worked out beforehand; the denominator is the time mean of x^2, here by quadrature."""
    rate, sigma, start, horizon = (setting[name] for name in ("rate", "sigma", "start", "horizon"))
    square = quad(lambda t: (start * math.exp(rate * t)) ** 2, 0.0, horizon)[0] / horizon
    limit = strong_limit(rate, sigma, start=start, horizon=horizon)
    assert limit == pytest.approx(-(sigma**2) / (square + sigma**2), rel=1e-12)
    assert limit == pytest.approx(corrected, abs=5e-6)
    assert strong_limit_as_printed(rate, sigma, start=start, horizon=horizon) == pytest.approx(printed, abs=5e-6)


def test_expected_error_tends_to_the_limit_and_matches_simulation(rng):
    dt = 1e-7
    assert dt * strong_expected_error(-2.0, 0.1, dt) == pytest.approx(strong_limit(-2.0, 0.1), rel=1e-6)
    errors = simulated_strong(-2.0, sigma=0.02, steps=200, runs=4000, rng=rng)
    standard_error = np.std(errors, ddof=1) / math.sqrt(errors.size)
    # Four standard errors; the O(1/K) that the ratio of means leaves out is smaller than one of them.
    assert abs(np.mean(errors) - strong_expected_error(-2.0, 0.02, 1 / 200)) < 4 * standard_error


def test_recovery_step_is_a_zero_and_close_to_its_leading_term():
    for sigma in (1e-4, 1e-3, 1e-2):
        step = recovery_step(-2.0, sigma)
        square = -math.expm1(-4.0) / 4.0
        assert step == pytest.approx(math.sqrt(2) * sigma / (2 * math.sqrt(square + sigma**2)), rel=4 * sigma)
        assert step * strong_expected_error(-2.0, sigma, step) == pytest.approx(0.0, abs=1e-12 * sigma)


def test_no_recovery_step_where_the_noise_wins():
    assert math.isnan(recovery_step(0.5, 10.0))


def test_the_sign_changes_where_the_decomposition_says(rng):
    """Far left of the step all errors are negative, far right all are positive (sigma = 0.01)."""
    step = recovery_step(-2.0, 0.01)
    assert np.all(simulated_strong(-2.0, sigma=0.01, steps=round(10 / step), runs=100, rng=rng) < 0.0)
    assert np.all(simulated_strong(-2.0, sigma=0.01, steps=round(0.1 / step), runs=100, rng=rng) > 0.0)


def test_sign_changes_are_interpolated():
    dt = np.array([1.0, 2.0, 4.0, 5.0])
    np.testing.assert_allclose(sign_changes(dt, np.array([-1.0, 1.0, 2.0, -2.0])), [1.5, 4.5])
    assert sign_changes(dt, np.ones(4)).size == 0


def test_extension_meets_the_estimator_at_its_nodes_and_has_a_zero(rng):
    """Appendix A: fresh noise for every K, linear in t between the nodes 1/K; the zero exists because
    the error is negative at small steps and positive at large ones."""
    rate, sigma = -2.0, 0.01
    counts = np.arange(800, 2, -1)
    noises = [rng.standard_normal(k + 1) for k in counts]
    pairs = [noise_gain(e, rate, sigma=sigma, dt=1 / k) for e, k in zip(noises, counts, strict=True)]
    gain, energy = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
    nodes = 1.0 / counts

    def extension(dt):
        return extended_error(dt, node_dt=nodes, gain=gain, energy=energy, rate=rate, sigma=sigma)

    estimates = [
        float(strong_estimate(decay_samples(e, rate, sigma=sigma, dt=h), h)) for e, h in zip(noises, nodes, strict=True)
    ]
    np.testing.assert_allclose(extension(nodes), np.array(estimates) - rate, rtol=0.0, atol=1e-11)
    assert extension(nodes)[0] < 0.0 < extension(nodes)[-1]
    roots = sign_changes(nodes, extension(nodes))
    assert roots.size % 2 == 1  # from minus to plus
    assert np.min(np.abs(roots / recovery_step(rate, sigma) - 1.0)) < 0.5
    fine = np.linspace(nodes[0], nodes[-1], 200_001)
    assert np.max(np.abs(np.diff(np.sign(extension(fine))))) == 2.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: strong_limit(0.0, 0.1), "rate must be a finite number other than zero"),
        (lambda: strong_limit(math.nan, 0.1), "rate must be a finite"),
        (lambda: strong_limit(-2.0, -0.1), "sigma must be finite and not negative"),
        (lambda: strong_limit(-2.0, 0.1, start=0.0), "start must be a finite number other than zero"),
        (lambda: strong_limit(-2.0, 0.1, horizon=0.0), "horizon must be finite and positive"),
        (lambda: recovery_step(-2.0, 0.0), "sigma must be finite and positive"),
        (lambda: euler_error(-2.0, 0.0), "dt must be finite and positive"),
        (lambda: strong_estimate(np.ones(3), -0.1), "dt must be finite and positive"),
        (lambda: strong_estimate(np.ones(1), 0.1), "steps must be at least 1, got 0"),
        (lambda: strong_estimate(np.zeros((2, 3)), 0.1), "every state before the last is zero"),
        (lambda: decay_samples(np.zeros(3), 0.0, sigma=0.1, dt=0.1), "rate must be"),
        (lambda: decay_samples(np.zeros(3), -2.0, sigma=-1.0, dt=0.1), "sigma must be"),
        (lambda: sign_changes(np.array([2.0, 1.0]), np.ones(2)), "dt must increase"),
        (
            lambda: simulated_strong(-2.0, sigma=0.1, steps=0, runs=1, rng=np.random.default_rng(0)),
            "steps must be at least 1, got 0",
        ),
        (
            lambda: simulated_strong(-2.0, sigma=0.1, steps=4, runs=-3, rng=np.random.default_rng(0)),
            "runs must be at least 1, got -3",
        ),
        (
            lambda: simulated_limit(LIMIT_SETTINGS[0], steps=4, runs=1, rng=np.random.default_rng(0)),
            "runs must be at least 2",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(
    ("nodes", "query", "words"),
    [
        ([0.2, 0.1], [0.15], "node_dt must increase"),
        ([0.1, 0.2], [0.3], "between the first and the last node"),
    ],
)
def test_extension_stays_between_its_nodes(nodes, query, words):
    with pytest.raises(InputError, match=words):
        extended_error(
            np.array(query), node_dt=np.array(nodes), gain=np.ones(2), energy=np.ones(2), rate=-2.0, sigma=0.1
        )
