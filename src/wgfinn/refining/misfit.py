"""How far a field's predictions of whole runs lie from the measurements, in noise levels."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from wgfinn._device import on_cpu
from wgfinn.data import Trajectories
from wgfinn.losses import make_shots, run_misfits
from wgfinn.models import AbstractField

LONGEST_PART = 801
"""Samples of a run that are predicted from one initial state; longer runs go in parts."""

FEW_RUNS = 3
"""Runs held out that are little to judge by."""

_LOST = 1e3
# A run that is missed by this part of what its mean misses it by is missed as a whole.
_MISSED = 0.5
# 95 % of a Gaussian.
_TWO_SIDED = 1.96
# How often a run's initial state is refitted.
_REFITS = 8
# A held-out run in double precision, so that the integrator's rounding is no part of the misfit.
_MISFIT_DTYPE = "float64"


@dataclass(frozen=True)
class Misfit:
    """How far predictions lie from measurements, in noise levels (root mean square): 1 means as well as the truth.
    Outliers, single samples off by themselves, do not count."""

    per_run: Float64[np.ndarray, " traj"]
    per_state: Float64[np.ndarray, " state"]
    predicted: Float64[np.ndarray, "time state traj"] | None = None
    """The predictions themselves, runs padded to one length."""
    outliers: float = 0.0
    """Which part of the measurements are outliers."""

    @property
    def typical(self) -> float:
        """The median over the runs."""
        return float(np.median(self.per_run))

    @property
    def mean(self) -> float:
        """The mean over the runs, lost ones at a large but finite distance: what members are chosen by."""
        return float(np.mean(np.minimum(self.per_run, _LOST)))


def misfits(
    fields: Sequence[AbstractField], trajectories: Trajectories, noise: Float64[np.ndarray, " state"]
) -> list[Misfit]:
    """Whole runs predicted by each field with the initial state refitted; one that diverges is infinitely far."""
    with jax.enable_x64(True), on_cpu():
        shots = make_shots(trajectories, noise, window=None, longest=LONGEST_PART, dtype=_MISFIT_DTYPE)
    measured = np.asarray((shots.weight > 0).any(axis=(0, 3)))
    n_measured = int((shots.weight > 0).sum())

    def misfit(field: AbstractField, iterations: int = _REFITS) -> Misfit:
        # A thread has settings of its own.
        with jax.enable_x64(True), on_cpu():
            double = jax.tree.map(lambda leaf: np.asarray(leaf, _MISFIT_DTYPE), field)
            found = _run_misfits(double, shots, jnp.asarray(iterations))
            squares, predicted, outliers = (np.asarray(a, np.float64) for a in found)
        squares = np.where(np.isnan(squares) & measured, np.inf, squares)
        per_run, per_state = np.sqrt(np.nanmean(squares, axis=0)), np.sqrt(np.nanmedian(squares, axis=1))
        return Misfit(per_run, per_state, predicted, float(outliers.sum() / n_measured))

    # No iterations at all compile the program, once for all threads.
    misfit(fields[0], 0)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(misfit, fields))


_run_misfits = eqx.filter_jit(run_misfits)


def coverage(found: Sequence[Misfit], trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> float | None:
    r"""Share of the measurements within $1.96\sqrt{s^2 + \sigma^2}$ of the members' mean, with s their standard
    deviation at that time and σ the noise: 0.95 if members differ as far as they are wrong. None for one member."""
    predicted = np.array([m.predicted for m in found if m.predicted is not None and np.isfinite(m.predicted).all()])
    if len(predicted) < 2:
        return None
    shots = make_shots(trajectories, noise, window=None, longest=LONGEST_PART, dtype="float32")
    measured, weight = (np.asarray(a, np.float64)[..., 0] for a in (shots.measured, shots.weight))
    exists = weight > 0
    spread = np.sqrt(predicted.var(axis=0, ddof=1)[exists] + 1 / weight[exists] ** 2)
    return float(np.mean(np.abs(measured - predicted.mean(axis=0))[exists] <= _TWO_SIDED * spread))


def resolution(judged: Trajectories) -> float:
    r"""How far apart misfits must be, as a part of one, to tell fields apart: N samples with Gaussian noise have a root
    mean square of relative standard deviation $1 / \sqrt{2N}$."""
    return 1 / np.sqrt(2 * sum(np.isfinite(run.x).sum() for run in judged.runs))


def signal_level(judged: Trajectories, noise: Float64[np.ndarray, " state"]) -> float:
    """By how many noise levels a run's mean alone would miss it, the median over the runs."""
    centred = [((run.x - np.nanmean(run.x, axis=0)) / noise) ** 2 for run in judged.runs]
    return float(np.median([np.sqrt(np.nanmean(squares)) for squares in centred]))


def telling(
    found: Sequence[Misfit], judged: Trajectories, noise: Float64[np.ndarray, " state"]
) -> Float64[np.ndarray, " member"]:
    """What members are ranked by: their mean misfits. A few runs held out that are missed as a whole (they ended on the
    wrong side of a hill) say no more than that, by however much; of many runs it tells how many they are."""
    most = _MISSED * signal_level(judged, noise) if len(judged) <= FEW_RUNS else np.inf
    return np.minimum([m.mean for m in found], max(most, 1.0))


def best_member(
    found: Sequence[Misfit], losses: Sequence[float], judged: Trajectories, noise: Float64[np.ndarray, " state"]
) -> int:
    """The member of least misfit; of those that the runs held out do not tell from it, the one of least loss."""
    means = telling(found, judged, noise)
    equal = (1 + resolution(judged)) * min(means)
    return min(range(len(means)), key=lambda i: (means[i] > equal, losses[i], means[i]))
