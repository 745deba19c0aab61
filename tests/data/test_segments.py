"""Long runs in segments: nothing is lost, nothing is made up."""

import itertools

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, cut, fair_length


def a_run(n):
    return Trajectories.from_arrays(np.arange(2.0 * n).reshape(n, 2), 0.5 * np.arange(n), names=["a", "b"])


@pytest.mark.parametrize(("n", "length", "shared"), [(100, 30, 9), (101, 30, 0), (31, 30, 29), (30, 30, 5), (7, 30, 5)])
def test_every_window_lies_in_a_segment(n, length, shared):
    whole = a_run(n).runs[0]
    segments = cut(a_run(n), length, shared=shared).runs
    starts = [int(np.flatnonzero(whole.t == s.t[0])[0]) for s in segments]
    for start, segment in zip(starts, segments, strict=True):
        np.testing.assert_array_equal(segment.x, whole.x[start : start + len(segment.t)])
        assert len(segment.t) == min(n, length)
    assert (starts[0], starts[-1] + len(segments[-1].t)) == (0, n)
    assert all(b - a <= length - shared for a, b in itertools.pairwise(starts))


def test_short_runs_keep_their_name_and_segments_tell_where_they_start():
    assert [r.name for r in cut(a_run(30), 30, shared=3).runs] == ["0"]
    assert [r.name for r in cut(a_run(50), 30, shared=3).runs] == ["0 from 0", "0 from 20"]


def test_segments_cannot_share_all_they_have():
    with pytest.raises(InputError, match="segments of 10 samples cannot share 10"):
        cut(a_run(30), 10, shared=10)


def test_segments_keep_gaps_and_noise_levels():
    x = np.arange(80.0).reshape(40, 2)
    x[7, 0] = np.nan
    whole = Trajectories.from_arrays(x, np.arange(40.0), sigma=1 + np.arange(80.0).reshape(40, 2)).runs[0]
    for k, segment in enumerate(cut(Trajectories.from_arrays(x, whole.t, sigma=whole.sigma), 10, shared=0).runs):
        np.testing.assert_array_equal(segment.x, whole.x[10 * k : 10 * k + 10])
        np.testing.assert_array_equal(segment.sigma, whole.sigma[10 * k : 10 * k + 10])


@pytest.mark.parametrize(
    ("lengths", "length"),
    [
        ([400] * 5, 400),  # nothing to gain
        ([5000] * 2, 3200),  # as long as allowed
        ([100] * 99 + [3000], 100),  # one long run does not blow up the others
        ([100] + [3000] * 3, 3000),  # in segments of 100 that share 29, each long run would be 42 of them
        ([50] * 99 + [3000], 3000),  # no segments below 80 samples
        ([29, 20], 29),  # shorter than what segments share: for others to complain about
    ],
)
def test_fair_length(lengths, length):
    assert fair_length(lengths, shared=29, at_least=80, at_most=3200) == length
