"""Long runs in segments: nothing is lost, nothing is made up."""

import itertools

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, cut


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
