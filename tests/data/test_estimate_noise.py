"""The noise of each state from the data alone, against the noise that was put in."""

import time
from functools import cache

import numpy as np
import pytest

from wgfinn import systems
from wgfinn.data import Trajectories, add_noise, estimate_noise, state_std
from wgfinn.data.noise import noise_of_record

# Vlasov-Poisson on a coarse grid, six runs of 101 samples: the smallest set here, and the one nearest to the bound.
SYSTEMS = {
    "gas_containers": (20, {}),
    "double_pendulum": (20, {}),
    "damped_oscillator": (20, {}),
    "vlasov_poisson": (6, {"cells": 32}),
}


@pytest.fixture(autouse=True, scope="module")
def private_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WGFINN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@cache
def clean(system: str) -> Trajectories:
    count, parameters = SYSTEMS[system]
    return systems.generate(systems.make(system, **parameters), trajectories=count, seed=1).clean


@pytest.mark.parametrize("level", [0.01, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("system", SYSTEMS)
def test_within_twenty_percent_of_the_truth(system, level):
    """Wall collisions and curvature leak into a filter most at 1 %; the sampling error is the same at all levels."""
    runs = clean(system)
    for seed in range(5):
        ratio = estimate_noise(add_noise(runs, level, seed=seed)) / (level * state_std(runs))
        np.testing.assert_allclose(ratio, 1.0, atol=0.2)


@pytest.mark.parametrize("system", SYSTEMS)
def test_clean_data_have_no_noise(system):
    runs = clean(system)
    assert np.all(estimate_noise(runs) < 1e-4 * state_std(runs))


def waves(t: np.ndarray, sigma: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(t)[:, None] * [1.0, 100.0] + sigma * np.array([1.0, 100.0]) * rng.standard_normal((t.size, 2))


def jittered(count: int, step: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    return step * (np.arange(count) + rng.uniform(-0.45, 0.45, count))


@pytest.mark.parametrize("sigma", [0.005, 0.1])
def test_unequal_steps(sigma):
    t = jittered(4000, 0.2)
    np.testing.assert_allclose(estimate_noise(Trajectories.from_arrays(waves(t, sigma), t)) / [1, 100], sigma, rtol=0.1)


def test_unequal_steps_of_a_clean_record():
    t = jittered(4000, 0.2)
    assert np.all(estimate_noise(Trajectories.from_arrays(waves(t, 0.0), t)) / [1, 100] < 1e-4)


def test_missing_samples_are_skipped():
    """A third of the samples gone: the rest is a record with unequal steps."""
    t = np.arange(3000) * 0.1
    x = waves(t, 0.02)[:, 0]
    x[np.random.default_rng(5).random(t.size) < 1 / 3] = np.nan
    np.testing.assert_allclose(noise_of_record(np.zeros(t.size, int), t, x), 0.02, rtol=0.1)


def test_a_state_that_was_hardly_measured_has_no_estimate():
    t = np.arange(10) * 0.1
    x = np.full(10, np.nan)
    x[[1, 5]] = 1.0
    assert np.isnan(noise_of_record(np.zeros(10, int), t, x))


def test_single_outliers_hardly_count():
    """One sample in two hundred off by fifty standard deviations of the noise raises the mean square by a factor 13."""
    t = np.arange(4000) * 0.1
    x = waves(t, 0.02)
    x[::200] += 1.0
    np.testing.assert_allclose(estimate_noise(Trajectories.from_arrays(x, t))[0], 0.02, rtol=0.1)


def test_windows_do_not_cross_runs():
    """Runs far from one another in time and value: a difference across the seam would see the jump."""
    t = np.arange(12) * 0.1
    rng = np.random.default_rng(0)
    x = [1e3 * k + np.sin(t + k)[:, None] + 0.01 * rng.standard_normal((12, 1)) for k in range(200)]
    estimate = estimate_noise(Trajectories.from_arrays(x, [t + 5 * k for k in range(200)]))
    np.testing.assert_allclose(estimate, 0.01, rtol=0.1)


@pytest.mark.parametrize("length", [3, 4, 5, 7])
def test_short_runs(length):
    """With three samples a run only second differences exist: a straight line and noise."""
    t = np.arange(length) * 0.1
    rng = np.random.default_rng(0)
    x = [k + t[:, None] + 0.01 * rng.standard_normal((length, 1)) for k in range(500)]
    np.testing.assert_allclose(estimate_noise(Trajectories.from_arrays(x, [t] * 500)), 0.01, rtol=0.1)


def test_two_samples_a_run_tell_nothing():
    assert np.isnan(estimate_noise(Trajectories.from_arrays([[[0.0], [1.0]]] * 3, [0.0, 1.0]))).all()


def test_a_coarsely_sampled_wave_is_not_noise():
    """Eight samples a period: the fourth difference leaves 4 % of the wave, the tenth 0.02 %."""
    t = np.arange(400.0)
    wave = np.sin(2 * np.pi * t / 8 + 0.3)[:, None]
    assert estimate_noise(Trajectories.from_arrays(wave, t))[0] < 3e-3 * np.std(wave)


def test_a_constant_state_and_a_far_clock():
    """Unix times in steps of 0.01 s, and a state that never moves."""
    t = 1.7e9 + np.arange(2000) * 0.01
    rng = np.random.default_rng(0)
    x = np.stack([np.full(t.size, 3.7e5), 1e6 + np.sin(t) + 0.01 * rng.standard_normal(t.size)], axis=-1)
    constant, moving = estimate_noise(Trajectories.from_arrays(x, t))
    assert constant == 0.0
    np.testing.assert_allclose(moving, 0.01, rtol=0.1)


def test_the_scale_follows_the_units_exactly():
    t = np.arange(300) * 0.1
    x = waves(t, 0.05)
    base = estimate_noise(Trajectories.from_arrays(x, t))
    np.testing.assert_array_equal(estimate_noise(Trajectories.from_arrays(4.0 * x, 0.25 * t)), 4.0 * base)


def test_a_million_samples_take_about_a_second():
    """Measured 0.3 to 0.5 s; the bound leaves room for a busy machine."""
    t = np.arange(1_000_000) * 0.01
    runs = Trajectories.from_arrays(waves(t, 0.05)[:, :1], t)
    start = time.perf_counter()
    estimate = estimate_noise(runs)
    assert time.perf_counter() - start < 5.0
    np.testing.assert_allclose(estimate, 0.05, rtol=0.01)
