"""Whether two states go round: oscillators do, relaxations do not, whatever the noise and the units."""

import numpy as np
import pytest

from wgfinn.data import Trajectories, winding

T = np.linspace(0, 20, 200)
SCALES = np.array([1e4, 1e-3])


def runs_of(path, noise, n=8):
    rng = np.random.default_rng(3)
    sizes = rng.uniform(0.3, 1.5, n)
    x = np.stack([size * np.stack(path(T), axis=1) for size in sizes])
    return Trajectories.from_arrays((x + noise * rng.standard_normal(x.shape)) * SCALES, T), noise * SCALES


def circle(t):
    return np.cos(t), np.sin(t)


def spiral(t):
    return np.exp(-0.1 * t) * np.cos(t), -np.exp(-0.1 * t) * np.sin(t)


def outwards(t):
    return np.exp(0.1 * t) * np.cos(t), -np.exp(0.1 * t) * np.sin(t)


def relaxation(t):
    return np.exp(-t / 3), 1 - np.exp(-t / 3)


def overshoot(t):
    return np.exp(-t / 2) - 2 * np.exp(-t), np.exp(-t)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (circle, "circling"),
        (spiral, "dying down"),
        (outwards, "circling"),
        (relaxation, "other"),
        (overshoot, "other"),
    ],
)
def test_winding(path, expected, noise):
    assert winding(*runs_of(path, noise)) == expected


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_turns_that_grow_in_some_runs(noise):
    """Towards a limit cycle from both sides: not what friction does."""
    inwards, _ = runs_of(spiral, noise)
    growing, sizes = runs_of(outwards, noise)
    mixed = Trajectories.from_arrays([run.x for run in inwards.runs + growing.runs[:3]], T)
    assert winding(mixed, sizes) == "circling"


def test_incomplete_runs_and_unknown_noise():
    runs, noise = runs_of(circle, 0.02)
    rng = np.random.default_rng(0)
    holes = runs.with_states([np.where(rng.random(run.x.shape) < 0.1, np.nan, run.x) for run in runs.runs])
    assert winding(holes, np.array([noise[0], np.nan])) == "circling"
    assert winding(runs.subset([0]).with_states([np.full((200, 2), [1.0, 0.0])]), noise) == "other"


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_many_turns_and_long_runs(noise):
    """A hundred turns of a hundred samples each, and few turns of a million."""
    rng = np.random.default_rng(0)
    for turns, samples in ((100, 10_000), (3, 1_000_000)):
        t = np.linspace(0, 2 * np.pi * turns, samples)
        x = np.stack(circle(t), axis=1) + noise * rng.standard_normal((samples, 2))
        assert winding(Trajectories.from_arrays([x], t), np.array([noise, noise])) == "circling"


def test_other_numbers_of_states():
    runs, noise = runs_of(circle, 0.02)
    three = Trajectories.from_arrays([np.c_[run.x, run.x[:, :1]] for run in runs.runs], T)
    assert winding(three, np.append(noise, noise[0])) == "other"
