"""Gaps in the times of a run."""

from itertools import pairwise

import numpy as np
from jaxtyping import Int

from wgfinn.data import Run

GAP = 5.0
"""A step longer than this many times the run's median step is a gap."""


def gap_indices(run: Run) -> Int[np.ndarray, " gap"]:
    """Indices of the samples after which a gap follows."""
    steps = np.diff(run.t)
    return np.flatnonzero(steps > GAP * np.median(steps))


def pieces(run: Run) -> list[Run]:
    """The run cut at its gaps; a piece has at least two samples."""
    edges = [0, *(gap_indices(run) + 1).tolist(), run.t.size]
    if len(edges) == 2:
        return [run]
    spans = [(a, b) for a, b in pairwise(edges) if b - a >= 2]
    return [Run(t=run.t[a:b], x=run.x[a:b], name=f"{run.name} from {a}") for a, b in spans]
