"""Noise relative to the spread of each state: size, independence, determinism."""

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, add_noise, state_std

RUNS, TIMES = 50, 200


def waves() -> Trajectories:
    t = np.linspace(0.0, 10.0, TIMES)
    phase = np.linspace(0.0, 3.0, RUNS)[:, None]
    return Trajectories.from_arrays(np.stack([np.sin(t + phase), 100 * np.cos(t + phase) + 7], axis=-1), t)


def unit_noise(level: float, seed: int) -> np.ndarray:
    clean = waves()
    return (add_noise(clean, level, seed=seed).stacked()[1] - clean.stacked()[1]) / (level * state_std(clean))


def test_state_std_is_the_population_std_over_runs_and_times():
    ragged = Trajectories.from_arrays([[[0.0], [2.0], [4.0]], [[6.0], [8.0]]], [[0, 1, 2], [0, 1]])
    # 0, 2, 4, 6, 8: mean 4, squared deviations 16 + 4 + 0 + 4 + 16 = 40, over 5 points.
    np.testing.assert_allclose(state_std(ragged), [np.sqrt(8.0)], rtol=1e-15)


def test_size_of_the_noise():
    """A sample mean has standard error 1/sqrt(n), a sample std 1/sqrt(2 n): within three of them."""
    noise = unit_noise(0.05, seed=1)
    n = RUNS * TIMES
    assert np.all(np.abs(noise.mean(axis=(0, 1))) < 3 / np.sqrt(n))
    assert np.all(np.abs(noise.std(axis=(0, 1)) - 1) < 3 / np.sqrt(2 * n))


def test_noise_is_independent():
    """Correlations between states, neighbouring times and runs are zero within three standard errors."""
    noise = unit_noise(0.1, seed=2)
    pairs = [
        (noise[..., 0], noise[..., 1]),
        (noise[:, 1:, 0], noise[:, :-1, 0]),
        (noise[1:, :, 1], noise[:-1, :, 1]),
    ]
    for a, b in pairs:
        assert abs(np.mean(a * b)) < 3 / np.sqrt(a.size)


def test_initial_states_are_corrupted_too():
    assert np.all(unit_noise(0.05, seed=3)[:, 0] != 0)


def test_seed_decides():
    clean = waves()
    assert add_noise(clean, 0.05, seed=4).digest() == add_noise(clean, 0.05, seed=4).digest()
    assert add_noise(clean, 0.05, seed=4).digest() != add_noise(clean, 0.05, seed=5).digest()
    assert add_noise(clean, 0.05, seed=np.int64(4)).digest() == add_noise(clean, 0.05, seed=4).digest()


def test_level_zero_changes_nothing():
    assert add_noise(waves(), 0, seed=0).digest() == waves().digest()


def test_given_sigma():
    clean = waves()
    noisy = add_noise(clean, 1.0, seed=0, sigma=[0.0, 3.0]).stacked()[1] - clean.stacked()[1]
    assert np.all(noisy[..., 0] == 0)
    assert abs(noisy[..., 1].std() / 3 - 1) < 3 / np.sqrt(2 * RUNS * TIMES)


@pytest.mark.parametrize("level", [-0.1, np.nan, np.inf])
def test_refused_level(level):
    with pytest.raises(InputError, match=r"the noise level must be a finite number of at least 0, but received"):
        add_noise(waves(), level, seed=0)


@pytest.mark.parametrize("sigma", [[1.0], [1.0, -1.0], [1.0, np.nan], 1.0])
def test_refused_sigma(sigma):
    with pytest.raises(InputError, match=r"sigma must be 2 finite numbers of at least 0, one for each state"):
        add_noise(waves(), 0.1, seed=0, sigma=sigma)


@pytest.mark.parametrize("seed", [-1, True])
def test_refused_seed(seed):
    with pytest.raises(InputError, match="seed must be a non-negative integer, but received"):
        add_noise(waves(), 0.1, seed=seed)


def test_what_was_not_measured_stays_so():
    x = np.arange(20.0).reshape(10, 2)
    x[3, 1] = np.nan
    noisy = add_noise(Trajectories.from_arrays(x, np.arange(10.0)), 0.1, seed=0).runs[0].x
    np.testing.assert_array_equal(np.isnan(noisy), np.isnan(x))
    assert np.all((noisy != x)[~np.isnan(x)])
