"""Long runs as several shorter ones."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.trajectories import Run, Trajectories


def cut(trajectories: Trajectories, length: int, *, shared: int) -> Trajectories:
    """Every run longer than `length` samples as segments of that length, of which neighbours share `shared` samples.

    The last segment ends with the run and may share more. A window of up to `shared` + 1 samples that lies in the run
    lies in a segment.
    """
    if not 0 <= shared < length:
        raise InputError(f"segments of {length} samples cannot share {shared}; share fewer samples than they have.")
    segments = []
    for run in trajectories.runs:
        for start in _starts(len(run.t), length, length - shared):
            here = slice(start, start + length)
            name = run.name if len(run.t) <= length else f"{run.name} from {start}"
            segments.append(Run(run.t[here], run.x[here], name, None if run.sigma is None else run.sigma[here]))
    return replace(trajectories, runs=tuple(segments))


def fair_length(lengths: Sequence[int], *, shared: int, at_least: int, at_most: int) -> int:
    """The length of segments for which runs of these lengths, cut and padded to it, hold the fewest samples in all.

    Runs of one length up to `at_most` stay whole; one long run among many short ones is cut, instead of all others
    being padded to its length.
    """
    longest = min(max(lengths), at_most)
    runs = np.asarray(lengths)
    candidates = [*sorted({n for n in lengths if at_least <= n <= longest} - {longest}), longest]

    def total(length: int) -> int:
        further = -(-np.maximum(0, runs - length) // max(1, length - shared))
        return length * int(np.sum(1 + further))

    # Of equals the longest, which needs the fewest segments.
    return min(reversed(candidates), key=total)


def _starts(n_times: int, length: int, stride: int) -> list[int]:
    if n_times <= length:
        return [0]
    last = n_times - length
    return [*np.arange(0, last, stride).tolist(), last]
