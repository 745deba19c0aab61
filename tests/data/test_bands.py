"""Bands from the spread of an ensemble: which members they are, and how much of the data they hold."""

import numpy as np
import pytest

from wgfinn import InputError, Trajectories
from wgfinn.data import Band, band, coverage


def members(values):
    """Constant members of one sample of one state."""
    return np.asarray(values, float)[:, None, None]


@pytest.mark.parametrize(
    ("n", "share", "low", "high"),
    [(2, 0.9, 0, 1), (20, 0.9, 0, 19), (21, 0.9, 1, 19), (41, 0.9, 2, 38), (5, 0.5, 1, 3), (5, 1.0, 0, 4)],
)
def test_bounds_are_members(n, share, low, high):
    """floor((n - 1) (1 - share) / 2) members lie below, as many above; 20 * 0.05 must not be 0.99..."""
    values = np.random.default_rng(0).permutation(np.arange(n))
    found = band(members(values), share)
    assert (found.low.item(), found.high.item()) == (low, high)


def test_entry_by_entry():
    crossing = np.array([[[0.0, 5.0], [1.0, 2.0]], [[3.0, 4.0], [-1.0, 9.0]]])
    found = band(crossing)
    np.testing.assert_array_equal(found.low, [[0, 4], [-1, 2]])
    np.testing.assert_array_equal(found.high, [[3, 5], [1, 9]])


def test_lost_members_do_not_count():
    found = band(members([1, np.nan, 3, np.inf]))
    assert (found.low.item(), found.high.item()) == (1, 3)
    alone = band(members([1, np.nan]))
    assert np.isnan([alone.low.item(), alone.high.item()]).all()


def test_refused():
    with pytest.raises(InputError, match="spread of two or more members, but there is 1; fit with members = 5"):
        band(members([1]))
    for share in (0.0, 1.1, np.nan):
        with pytest.raises(InputError, match="share of members within a band must lie above 0 and up to 1, but is"):
            band(members([1, 2]), share)


def test_coverage_leaves_the_start_out():
    """Of the samples behind the first, 1 of 2 and 2 of 2 lie within; the other run has no band: 0 of 2."""
    runs = Trajectories.from_arrays(np.array([[[9.0, 9], [0, 1], [5, 1]], [[0, 0], [0, 0], [0, 0]]]), np.arange(3.0))
    bands = [Band(np.full((3, 2), -1.0), np.full((3, 2), 1.0)), Band(np.full((3, 2), np.nan), np.full((3, 2), np.nan))]
    assert coverage(runs, bands) == {"x1": 0.25, "x2": 0.5}
