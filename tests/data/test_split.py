"""Random split of whole runs."""

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, split


def runs(n: int) -> Trajectories:
    return Trajectories.from_arrays(np.arange(2.0 * n).reshape(n, 2, 1), [0.0, 1.0])


@pytest.mark.parametrize(
    ("n", "fraction", "n_train"), [(100, 0.8, 80), (5, 0.8, 4), (7, 0.5, 3), (2, 0.9, 1), (9, 0.8, 7)]
)
def test_parts_are_a_partition(n, fraction, n_train):
    train, test = split(runs(n), fraction=fraction, seed=0)
    assert len(train) == n_train
    assert sorted(train.run_names + test.run_names, key=int) == [str(k) for k in range(n)]
    for run in (*train.runs, *test.runs):
        assert run.x[0, 0] == 2 * int(run.name)


def test_seed_decides():
    first, again, other = (split(runs(30), seed=seed)[0].run_names for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_run_is_tested_as_often():
    """Over 500 splits of 10 runs each run is tested 100 +- 3 sqrt(500 * 0.2 * 0.8) = 27 times."""
    counts = np.zeros(10)
    for seed in range(500):
        counts[[int(name) for name in split(runs(10), seed=seed)[1].run_names]] += 1
    assert np.all(np.abs(counts - 100) < 27)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, 1.5, float("nan")])
def test_refused_fraction(fraction):
    with pytest.raises(InputError, match="fraction must lie between 0 and 1, both excluded, but received"):
        split(runs(5), fraction=fraction, seed=0)


def test_refused_empty_part():
    with pytest.raises(InputError, match=r"of 0.8 leaves 0 of 1 runs for training and 1 for testing"):
        split(runs(1), seed=0)


def test_refused_seed():
    with pytest.raises(InputError, match="seed must be a non-negative integer, but received -1"):
        split(runs(5), seed=-1)
