"""Data sets: one seed, one clean part; noise of the size that was asked for."""

import numpy as np
import pytest

from wgfinn import systems
from wgfinn._errors import InputError
from wgfinn.data import split, state_std


@pytest.fixture(scope="module")
def system():
    return systems.make("gas_containers")


def test_labels_and_default_number(system):
    data = systems.generate(system)
    assert len(data.clean) == 100
    assert data.clean.names == ("q", "p", "S1", "S2")
    t, x = data.clean.stacked()
    assert t.shape == (401,)
    assert x.shape == (100, 401, 4)
    assert data.noisy.digest() == data.clean.digest()


def test_ranges_of_the_gas_containers(system):
    """Spec, section 1, over 100 trajectories: std about (0.26, 1.05, 0.44, 0.42)."""
    spread = state_std(systems.generate(system).clean)
    np.testing.assert_allclose(spread, (0.26, 1.05, 0.44, 0.42), rtol=0.12)


def test_same_seed_same_data(system):
    first = systems.generate(system, trajectories=4, noise=0.05, seed=7)
    again = systems.generate(system, trajectories=4, noise=0.05, seed=7)
    other = systems.generate(system, trajectories=4, noise=0.05, seed=8)
    assert first.clean.digest() == again.clean.digest()
    assert first.noisy.digest() == again.noisy.digest()
    assert first.clean.digest() != other.clean.digest()


def test_noise_does_not_change_the_clean_part(system):
    without = systems.generate(system, trajectories=4, seed=7)
    little = systems.generate(system, trajectories=4, noise=0.05, seed=7)
    much = systems.generate(system, trajectories=4, noise=0.10, seed=7)
    assert without.clean.digest() == little.clean.digest() == much.clean.digest()
    assert (little.noise, little.seed) == (0.05, 7)


def test_size_of_the_noise(system):
    """y - x = rho sigma xi: over 20 x 401 samples a standard deviation is good to 1/sqrt(2n) = 0.8 %."""
    data = systems.generate(system, trajectories=20, noise=0.1, seed=1)
    difference = data.noisy.stacked()[1] - data.clean.stacked()[1]
    relative = difference.std(axis=(0, 1)) / state_std(data.clean)
    np.testing.assert_allclose(relative, 0.1, rtol=0.04)
    assert np.all(difference[:, 0] != 0)


def test_noise_and_start_states_are_independent(system):
    """The noise of the first sample and the start state come from one seed; their correlation over 400 runs
    has standard deviation 1/sqrt(400) = 0.05."""
    data = systems.generate(system, trajectories=400, noise=0.1, seed=3)
    start = data.clean.stacked()[1][:, 0]
    noise = data.noisy.stacked()[1][:, 0] - start
    correlation = [np.corrcoef(start[:, i], noise[:, i])[0, 1] for i in range(4)]
    assert np.max(np.abs(correlation)) < 0.2


def test_integrators_differ(system):
    paper = systems.generate(system, trajectories=20, seed=0).clean.stacked()[1]
    accurate = systems.generate(system, trajectories=20, seed=0, integrator="accurate").clean.stacked()[1]
    gap = np.max(np.abs(paper - accurate))
    assert 1e-6 < gap < 0.5  # spec, section 0: from 1e-5 (median) to 1e-1 (worst)


def test_progress_is_reported(system):
    calls = []
    systems.generate(system, trajectories=3, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(3, 3)]


def test_split_of_the_paper(system):
    train, test = split(systems.generate(system).clean, fraction=system.train_fraction, seed=0)
    assert (len(train), len(test)) == (80, 20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trajectories": 0}, "trajectories=0 must be a whole number of at least 1"),
        ({"trajectories": -3}, "trajectories=-3 must be"),
        ({"noise": -0.05}, "noise=-0.05 must be a finite number of at least 0"),
        ({"noise": float("nan")}, "noise=nan must be"),
        ({"seed": -1}, "seed=-1 must be a non-negative whole number"),
        ({"integrator": "euler"}, "integrator='euler' is unknown"),
    ],
)
def test_wrong_settings(system, settings, message):
    with pytest.raises(InputError, match=message):
        systems.generate(system, **settings)
