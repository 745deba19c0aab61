"""What may go wrong with data, in words: each check looks at the data and says what it saw and what to do."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wgfinn.data import Run, Trajectories, amount, duration_unit, winding
from wgfinn.inspection.gaps import gap_indices

Level = Literal["warning", "note"]

# Samples of the fastest period: with fewer the quadrature inside a window is poor, whatever the test functions.
_ENOUGH_SAMPLES = 10
# A run shorter than this makes all test functions narrower than sensible ones.
_SHORT_RUN = 12
_DIFFERENT_DURATIONS = 5.0
_SAME_STEP = 0.1
_ALMOST_ONE = 0.9999
_FAR_APART = 1e4
_LOUD, _SILENT = 0.5, 1e-4
_PERIODS = ((2 * math.pi, "2π", "numpy.unwrap(x)"), (360.0, "360", "numpy.unwrap(x, period=360)"))
_NAMED = 4


@dataclass(frozen=True)
class Finding:
    """One sentence about the data. A warning wants action, a note is good to know."""

    kind: str
    level: Level
    message: str


@dataclass(frozen=True)
class Facts:
    """What is known of the states when the checks begin; arrays have one entry a state."""

    measured: Trajectories
    trajectories: Trajectories
    """With outliers mended."""
    step: float
    noise: np.ndarray
    spread: np.ndarray
    constant: np.ndarray
    samples_per_period: tuple[float | None, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.trajectories.names

    def column(self, state: int) -> np.ndarray:
        """The measured values of one state, all runs."""
        x = np.concatenate([run.x[:, state] for run in self.trajectories.runs])
        return x[~np.isnan(x)]

    def time(self, value: float, digits: int = 4) -> str:
        """A time or a duration with its unit."""
        return amount(f"{value:.{digits}g}", duration_unit(self.trajectories.time_unit))

    def moving(self) -> list[int]:
        return [k for k in range(len(self.names)) if not self.constant[k]]


def find(facts: Facts) -> tuple[Finding, ...]:
    """All findings, warnings first."""
    checks = (
        _single_state,
        _two_states,
        _short_runs,
        _gaps,
        _steps,
        _durations,
        _repeated_runs,
        _missing,
        _constant_states,
        _wrapped_angles,
        _outliers,
        _quantised,
        _coarse_sampling,
        _loud_or_unknown_noise,
        _silence,
        _copies,
        _scales,
    )
    found = [finding for check in checks for finding in check(facts)]
    return tuple(sorted(found, key=lambda finding: finding.level == "note"))


def _single_state(facts: Facts) -> Iterator[Finding]:
    if len(facts.names) == 1:
        yield Finding(
            "single_state",
            "warning",
            f"{facts.names[0]!r} is the only state: with conserved energy it could not move, so that a fit needs the "
            "state it exchanges energy with, or surroundings (model.entropy = 'bath').",
        )


def _two_states(facts: Facts) -> Iterator[Finding]:
    learnt = {
        "circling": "none (model.entropy = 'none') and conserves the energy. If something rubs, measure the state that "
        "takes up the heat as well, or let it go into surroundings (model.entropy = 'bath').",
        "dying down": "that of surroundings which take up the heat (model.entropy = 'bath'), since the motion dies "
        "down: the energy of the states falls. If a state holds the heat, measure it as well.",
    }.get(winding(facts.trajectories, facts.noise))
    if learnt is not None:
        yield Finding(
            "two_states",
            "note",
            "two states that go round: beside an entropy of their own, L∇S = 0 would leave nothing reversible, so that "
            f"a fit learns {learnt}",
        )


def _short_runs(facts: Facts) -> Iterator[Finding]:
    short = [run for run in facts.trajectories.runs if run.t.size < _SHORT_RUN]
    if short:
        least = min(run.t.size for run in short)
        yield Finding(
            "short_run",
            "warning",
            f"{_list_of_runs(short)} of fewer than {_SHORT_RUN} samples: every run must hold a test function, so the "
            f"shortest ({least} samples) limits the width of all. Leave short runs out, or sample them more often.",
        )


def _gaps(facts: Facts) -> Iterator[Finding]:
    holes = [
        (float(run.t[k + 1] - run.t[k]), float(run.t[k]), run.name)
        for run in facts.trajectories.runs
        for k in gap_indices(run)
    ]
    if holes:
        length, start, name = max(holes)
        yield Finding(
            "gaps",
            "warning",
            f"{_count(len(holes), 'gap')} in the times; the longest, {facts.time(length)}, follows t = "
            f"{facts.time(start, 6)} in run {name!r}, where the usual step is {facts.time(facts.step)}. Cut runs at "
            "their gaps into several runs.",
        )


def _steps(facts: Facts) -> Iterator[Finding]:
    runs = facts.trajectories.runs
    uneven = [run for run in runs if not run.is_uniform and gap_indices(run).size == 0]
    if uneven:
        steps = np.concatenate([np.diff(run.t) for run in uneven])
        yield Finding(
            "uneven_steps",
            "note",
            f"{_list_of_runs(uneven)} with unequal steps ({steps.min():.4g} to {facts.time(steps.max())}).",
        )
    usual = np.array([np.median(np.diff(run.t)) for run in runs])
    if usual.max() > (1 + _SAME_STEP) * usual.min():
        yield Finding(
            "different_steps",
            "note",
            f"the runs have different steps ({usual.min():.4g} to {facts.time(usual.max())}): a test function of one "
            "width in samples covers different times in them.",
        )


def _durations(facts: Facts) -> Iterator[Finding]:
    durations = [run.duration for run in facts.trajectories.runs]
    if max(durations) > _DIFFERENT_DURATIONS * min(durations):
        yield Finding(
            "different_durations",
            "note",
            f"the runs last from {min(durations):.4g} to {facts.time(max(durations))}: long runs weigh more in the "
            "loss, and the shortest limits the width of the test functions.",
        )


def _repeated_runs(facts: Facts) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for run in facts.trajectories.runs:
        key = hashlib.sha256(run.t.tobytes() + run.x.tobytes()).hexdigest()
        if key in seen:
            yield Finding(
                "repeated_run",
                "warning",
                f"run {run.name!r} is a copy of run {seen[key]!r}: it counts twice, and a split may put the same data "
                "into training and test. Remove one.",
            )
            return
        seen[key] = run.name


def _missing(facts: Facts) -> Iterator[Finding]:
    total = sum(run.t.size for run in facts.trajectories.runs)
    for k, name in enumerate(facts.names):
        gone = total - facts.column(k).size
        if gone:
            yield Finding(
                "missing_values",
                "note",
                f"state {name!r} was not measured at {gone} of {total} samples ({100 * gone / total:.2g} %).",
            )


def _constant_states(facts: Facts) -> Iterator[Finding]:
    for k in np.flatnonzero(facts.constant):
        yield Finding(
            "constant_state",
            "warning",
            f"state {facts.names[k]!r} never moves: nothing can be learnt about it. Leave it out, or check the column.",
        )


def _wrapped_angles(facts: Facts) -> Iterator[Finding]:
    for k in facts.moving():
        jumps = np.abs(_differences(facts, k))
        extent = float(np.ptp(facts.column(k)))
        for period, shown, cure in _PERIODS:
            near = (jumps > 0.75 * period) & (jumps < 1.02 * period)
            if near.any() and extent < 1.1 * period and 0.75 * period > 10 * np.median(jumps):
                yield Finding(
                    "wrapped_angle",
                    "warning",
                    f"state {facts.names[k]!r} jumps by nearly {shown} ({_count(int(near.sum()), 'time')}): an angle "
                    f"that was wrapped? Unwrap it with {cure} in each run.",
                )


def _outliers(facts: Facts) -> Iterator[Finding]:
    pairs = list(zip(facts.measured.runs, facts.trajectories.runs, strict=True))
    for k in facts.moving():
        changed = [(raw, (raw.x[:, k] != run.x[:, k]) & ~np.isnan(raw.x[:, k])) for raw, run in pairs]
        found = [(run, int(index)) for run, there in changed for index in np.flatnonzero(there)]
        if found:
            run, index = found[0]
            yield Finding(
                "outliers",
                "warning",
                f"state {facts.names[k]!r} has {_count(len(found), 'single sample')} far off both neighbours "
                f"(more than eight standard deviations of the noise), the first at t = {facts.time(run.t[index], 6)} "
                f"in run {run.name!r}: x = {run.x[index, k]:.4g}. The default fit puts them between their neighbours.",
            )


def _quantised(facts: Facts) -> Iterator[Finding]:
    for k in facts.moving():
        values = facts.column(k)
        levels = np.unique(values)
        if values.size >= 100 and levels.size <= values.size / 10:
            grain = float(np.median(np.diff(levels)))
            yield Finding(
                "quantised",
                "warning" if grain > 0.1 * facts.spread[k] else "note",
                f"state {facts.names[k]!r} takes only {levels.size} different values in {values.size} samples, "
                f"{grain:.3g} apart ({100 * grain / facts.spread[k]:.2g} % of its standard deviation): rounded data, "
                "whose noise is not white and may be underestimated.",
            )


def _coarse_sampling(facts: Facts) -> Iterator[Finding]:
    for k, samples in enumerate(facts.samples_per_period):
        if samples is not None and samples < _ENOUGH_SAMPLES:
            yield Finding(
                "coarse_sampling",
                "warning",
                f"state {facts.names[k]!r} has only {samples:.2g} samples in its fastest period (at least "
                f"{_ENOUGH_SAMPLES} are wanted): integrals over test functions will be poor, and part of the motion "
                "may pass for noise. Sample more often.",
            )


def _loud_or_unknown_noise(facts: Facts) -> Iterator[Finding]:
    for k in facts.moving():
        if np.isnan(facts.noise[k]):
            yield Finding(
                "noise_unknown",
                "warning",
                f"the noise of state {facts.names[k]!r} cannot be told: no run has three measured samples of it.",
            )
        elif facts.noise[k] > _LOUD * facts.spread[k]:
            yield Finding(
                "loud_noise",
                "warning",
                f"state {facts.names[k]!r} is mostly noise ({100 * facts.noise[k] / facts.spread[k]:.2g} % of its "
                "standard deviation): expect little from it alone. More runs help, smoothing beforehand does not.",
            )


def _silence(facts: Facts) -> Iterator[Finding]:
    moving = facts.moving()
    if moving and all(facts.noise[k] < _SILENT * facts.spread[k] for k in moving):
        yield Finding(
            "no_noise",
            "note",
            "no state shows noise: simulated or smoothed data. Noise that was smoothed away leaves errors that look "
            "like motion; give the raw data where there are any.",
        )


def _copies(facts: Facts) -> Iterator[Finding]:
    moving = facts.moving()
    x = np.concatenate([run.x for run in facts.trajectories.runs])[:, moving]
    x = x[~np.isnan(x).any(axis=1)]
    if x.shape[0] < 3 or len(moving) < 2 or np.any(np.std(x, axis=0) == 0):
        return
    correlation = np.corrcoef(x.T)
    for i, first in enumerate(moving):
        for j in range(i + 1, len(moving)):
            if abs(correlation[i, j]) > _ALMOST_ONE:
                second = facts.names[moving[j]]
                yield Finding(
                    "duplicate_states",
                    "warning",
                    f"states {facts.names[first]!r} and {second!r} are the same up to scale and shift (correlation "
                    f"{correlation[i, j]:.5f}): a redundant state makes the model ambiguous. Leave one out.",
                )


def _scales(facts: Facts) -> Iterator[Finding]:
    moving = facts.moving()
    if not moving:
        return
    large, small = (pick(moving, key=lambda k: facts.spread[k]) for pick in (max, min))
    ratio = facts.spread[large] / facts.spread[small]
    if ratio > _FAR_APART:
        yield Finding(
            "different_scales",
            "note",
            f"the spreads of {facts.names[large]!r} and {facts.names[small]!r} differ by a factor {ratio:.2g}: "
            "harmless, the fit works in standardised coordinates unless told otherwise.",
        )


def _differences(facts: Facts, state: int) -> np.ndarray:
    steps = np.concatenate([np.diff(run.x[:, state]) for run in facts.trajectories.runs])
    steps = steps[~np.isnan(steps)]
    return steps if steps.size else np.zeros(1)


def _list_of_runs(runs: list[Run]) -> str:
    shown = ", ".join(repr(run.name) for run in runs[:_NAMED])
    return f"{_count(len(runs), 'run')} ({shown}{', ...' if len(runs) > _NAMED else ''})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
