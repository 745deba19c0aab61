"""Samples that stand alone: slips of a sensor or of a pen, by what is beside them."""

import numpy as np
from jaxtyping import Bool, Float64

from wgfinn.data.local_cubic import fill
from wgfinn.data.noise import state_std
from wgfinn.data.trajectories import Run, Trajectories

# How far a sample must be off both its neighbours, in units of what is usual, to be no peak; how much of that they may
# differ; and the part of a state's spread that is always usual.
_OFF, _AGREE, _PART = 8.0, 0.5, 0.01


def lone_samples(
    run: Run, noise: Float64[np.ndarray, " state"], spread: Float64[np.ndarray, " state"]
) -> Bool[np.ndarray, "time state"]:
    """Which samples leave both neighbours, which agree, to the same side, by eight times what is usual: the noise, the
    run's ordinary change from sample to sample (a peak of fast motion is no outlier), a hundredth of the spread."""
    x = run.x
    found = np.zeros(x.shape, bool)
    if len(x) < 3:
        return found
    left, right = x[1:-1] - x[:-2], x[1:-1] - x[2:]
    changes = [np.median(np.abs(c[~np.isnan(c)])) if np.isfinite(c).any() else 0.0 for c in left.T]
    usual = np.maximum.reduce([np.nan_to_num(noise), np.array(changes), _PART * spread])
    off = np.minimum(np.abs(left), np.abs(right))
    found[1:-1] = (left * right > 0) & (off > _OFF * usual) & (np.abs(x[2:] - x[:-2]) < _AGREE * off)
    return found


def mended(trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> Trajectories:
    """The runs with lone samples put where the cubic through four neighbours is: about as noisy as a measured value.

    `noise` of each state, in the coordinates of the runs, which come back as they are where no sample stands alone.
    """
    spread = state_std(trajectories)
    lone = [lone_samples(run, noise, spread) for run in trajectories.runs]
    if not any(found.any() for found in lone):
        return trajectories
    return trajectories.with_states([_without(run, found) for run, found in zip(trajectories.runs, lone, strict=True)])


def part_changed(before: Trajectories, after: Trajectories) -> float:
    """Which part of the measurements `mended` has replaced."""
    changed, existing = 0, 0
    for there, here in zip(before.runs, after.runs, strict=True):
        exists = ~np.isnan(there.x)
        changed, existing = changed + int((there.x != here.x)[exists].sum()), existing + int(exists.sum())
    return changed / existing


def _without(run: Run, lone: Bool[np.ndarray, "time state"]) -> Float64[np.ndarray, "time state"]:
    x = run.x.copy()
    for state in np.flatnonzero(lone.any(axis=0)):
        known = np.where(lone[:, state], np.nan, x[:, state])
        fill(run.t, known, None, np.inf)
        x[lone[:, state], state] = known[lone[:, state]]
    return x
