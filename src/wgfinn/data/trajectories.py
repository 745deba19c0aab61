"""Trajectories: the times and states of one or more runs, with names and units.

Everything is checked here, at the door, so that later stages may trust what they receive: real values, finite or
NaN for "not measured", strictly increasing times, one set of states for all runs. What does not live here: file
paths, splits and scales.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64

from wgfinn._errors import InputError
from wgfinn.data._arrays import labels, real_array, unique
from wgfinn.data.units import with_unit

# Steps that agree to this fraction of the mean step count as equal.
STEP_TOLERANCE = 1e-6
# Times written with few digits: how coarse, as a part of the mean step, they may be and count as rounded.
_COARSEST_ROUNDING = 0.02


@final
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Run:
    r"""One record $(t_k, x(t_k))$, $k = 0, \dots, K$: times, states and the name used in messages.

    Times are finite and strictly increase; there are at least two of them. NaN in `x` means "not measured". A time
    at which nothing was measured says nothing and is left out: `t` and `x` hold the rest. `sigma` holds the noise
    levels (standard deviations) of the single values, if they are known; NaN where nothing was measured. States are
    checked by `Trajectories`, which knows their names. Arrays are read-only float64 copies.
    """

    t: Float64[np.ndarray, " time"]
    x: Float64[np.ndarray, "time state"]
    name: str
    sigma: Float64[np.ndarray, "time state"] | None

    def __init__(self, t: Any, x: Any, name: str, sigma: Any = None) -> None:
        (name,) = labels([name], "a run name")
        times = real_array(t, f"run {name!r}: t")
        states = _column(real_array(x, f"run {name!r}: x"))
        levels = None if sigma is None else _column(real_array(sigma, f"run {name!r}: sigma"))
        _check_times(name, times)
        _check_shape(name, times, states)
        if levels is not None and levels.shape != states.shape:
            raise InputError(
                f"run {name!r}: sigma must have the shape of x, {states.shape}, but has shape {levels.shape}."
            )
        measured = ~np.isnan(states)
        rows = np.asarray(measured.any(axis=1))
        _check_rows(name, rows)
        object.__setattr__(self, "t", _frozen(times[rows]))
        # One NaN for all: its spare bits must not tell two equal records apart.
        object.__setattr__(self, "x", _frozen(np.where(measured, states, np.nan)[rows]))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sigma", None if levels is None else _frozen(np.where(measured, levels, np.nan)[rows]))

    def __repr__(self) -> str:
        return (
            f"Run({self.name!r}: {self.t.size} times in [{self.t[0]:.6g}, {self.t[-1]:.6g}], {self.x.shape[1]} states)"
        )

    @property
    def observed(self) -> Bool[np.ndarray, "time state"]:
        """Which values were measured."""
        return ~np.isnan(self.x)

    @property
    def complete(self) -> Bool[np.ndarray, " time"]:
        """At which times all states were measured."""
        return np.asarray(self.observed.all(axis=1))

    @property
    def is_complete(self) -> bool:
        """Whether every state was measured at every time of the run."""
        return bool(self.observed.all())

    @property
    def duration(self) -> float:
        """$t_K - t_0$."""
        return float(self.t[-1] - self.t[0])

    @property
    def is_uniform(self) -> bool:
        """Whether every step equals the mean step to a relative 1e-6, or the times are equally spaced ones that were
        rounded: to single precision, or to decimals of at most a fiftieth of a step."""
        mean = self.duration / (self.t.size - 1)
        # Times far from zero carry rounding of their own (0.01 s steps on a Unix clock: 2e-5 of a step).
        rounding = 2 * np.spacing(np.max(np.abs(self.t)))
        if np.all(np.abs(np.diff(self.t) - mean) <= STEP_TOLERANCE * mean + rounding):
            return True
        away = np.abs(self.t - np.linspace(self.t[0], self.t[-1], self.t.size)).max()
        # Half a digit by the rounding of a time, half by that of the first and the last.
        return bool(away <= _written_to(self.t, _COARSEST_ROUNDING * mean) * (1 + 1e-6))

    @property
    def step(self) -> float:
        """The uniform time step $(t_K - t_0) / K$; an `InputError` where the steps differ."""
        mean = self.duration / (self.t.size - 1)
        if not self.is_uniform:
            steps = np.diff(self.t)
            usual = float(np.median(steps))
            k = int(np.argmax(np.abs(steps - usual)))
            raise InputError(
                f"run {self.name!r}: the times of a run must be equally spaced for this operation, but "
                f"t[{k + 1}] - t[{k}] = {steps[k]:.9g} where the median step is {usual:.9g}. "
                "Interpolate the run onto a uniform grid, or cut it at the gap into two runs."
            )
        return mean


def _written_to(t: Float64[np.ndarray, " time"], coarsest: float) -> float:
    """To what the times were rounded: the largest power of ten, not above `coarsest`, of which all are multiples, or
    else the spacing of the floating-point type, single or double, that holds them."""
    largest = np.max(np.abs(t))
    kind = np.float32 if np.array_equal(t.astype(np.float32), t) else np.float64
    spacing = float(np.spacing(kind(largest)))
    finest = max(spacing, STEP_TOLERANCE * coarsest)
    for digits in range(math.ceil(-math.log10(coarsest)), math.ceil(-math.log10(finest))):
        if np.all(np.abs(np.round(t, digits) - t) <= 2 * spacing):
            return 10.0**-digits
    return min(spacing, coarsest)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Runs of one system: all have the same states, each has its own times, in one unit ("" where it is not known).

    Compare two of them by `digest()`.
    """

    runs: tuple[Run, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    time_unit: str = ""

    def __post_init__(self) -> None:
        runs = tuple(self.runs)
        names = labels(self.names, "state names")
        units = labels(self.units, "units", empty=True)
        (time_unit,) = labels([self.time_unit], "the unit of time", empty=True)
        if not runs:
            raise InputError("trajectories need at least one run, but received none.")
        unique(tuple(run.name for run in runs), "run names")
        unique(names, "state names")
        n_states = runs[0].x.shape[1]
        for run in runs:
            if run.x.shape[1] != n_states:
                raise InputError(
                    f"run {run.name!r} has {run.x.shape[1]} states, but run {runs[0].name!r} has {n_states}; "
                    "all runs must have the same states."
                )
        for what, given in (("state names", names), ("units", units)):
            if len(given) != n_states:
                raise InputError(
                    f"received {len(given)} {what} {list(given)} for {n_states} states; give one for each."
                )
        for run in runs:
            _check_values(run, names)
        _check_observed(runs, names)
        _check_levels(runs)
        object.__setattr__(self, "runs", runs)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "time_unit", time_unit)

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        t: Any,
        names: Iterable[Any] | None = None,
        units: Iterable[Any] | None = None,
        run_names: Iterable[Any] | None = None,
        sigma: Any = None,
        time_unit: str = "",
    ) -> "Trajectories":
        """Build trajectories from plain arrays.

        `x` is (time, state), (traj, time, state), (time,) for a single state, or a list of (time, state)
        arrays of any lengths. `t` is (time,), shared by all runs, or (traj, time), or a list with the times
        of each run. A list of 1-D arrays in `x` is a list of states, one a time, unless `t` is given per run.
        NaN in `x` means "not measured"; `sigma`, shaped like `x`, holds the noise levels if they are known.
        States are named x1, x2, ... and runs 0, 1, ... unless named.
        """
        if t is None:
            raise InputError("t is missing: give the times of the states in x.")
        states = _states_of_runs(x, t, "x")
        times = _times_of_runs(t, len(states))
        if run_names is None:
            run_names = (str(k) for k in range(len(states)))
        run_labels = labels(run_names, "run names")
        if len(run_labels) != len(states):
            raise InputError(f"received {len(run_labels)} run names for {len(states)} runs; give one for each.")
        levels = [None] * len(states) if sigma is None else _states_of_runs(sigma, t, "sigma")
        if len(levels) != len(states):
            raise InputError(f"sigma holds the noise levels of {len(levels)} runs, but x holds {len(states)}.")
        runs = tuple(
            Run(t=t_run, x=x_run, name=name, sigma=levels_run)
            for t_run, x_run, name, levels_run in zip(times, states, run_labels, levels, strict=True)
        )
        n_states = runs[0].x.shape[1]
        return cls(
            runs=runs,
            names=labels((f"x{k + 1}" for k in range(n_states)) if names is None else names, "state names"),
            units=labels(("",) * n_states if units is None else units, "units", empty=True),
            time_unit=time_unit,
        )

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        points = [run.t.size for run in self.runs]
        span = str(points[0]) if min(points) == max(points) else f"{min(points)} to {max(points)}"
        states = ", ".join(with_unit(name, unit) for name, unit in zip(self.names, self.units, strict=True))
        return f"Trajectories({len(self)} runs of {span} {with_unit('times', self.time_unit)}; states: {states})"

    @property
    def n_states(self) -> int:
        """The number of states, d."""
        return len(self.names)

    @property
    def is_complete(self) -> bool:
        """Whether every state was measured at every time of every run."""
        return all(run.is_complete for run in self.runs)

    @property
    def has_noise_levels(self) -> bool:
        """Whether the noise levels of the values are known."""
        return self.runs[0].sigma is not None

    @property
    def run_names(self) -> tuple[str, ...]:
        """The name of each run."""
        return tuple(run.name for run in self.runs)

    def times(self) -> tuple[Float64[np.ndarray, " _"], ...]:
        """The times of each run."""
        return tuple(run.t for run in self.runs)

    @property
    def has_shared_grid(self) -> bool:
        """Whether all runs have exactly the same times."""
        return all(np.array_equal(run.t, self.runs[0].t) for run in self.runs)

    def shared_grid(self) -> Float64[np.ndarray, " time"]:
        """The one time grid of all runs; an `InputError` that says what differs if there is none."""
        first = self.runs[0]
        for run in self.runs[1:]:
            if run.t.size != first.t.size:
                raise InputError(
                    f"the runs do not share one time grid: run {run.name!r} has {run.t.size} times, "
                    f"run {first.name!r} has {first.t.size}. Use runs of one length on the same times."
                )
            if not np.array_equal(run.t, first.t):
                k = int(np.argmax(run.t != first.t))
                raise InputError(
                    f"the runs do not share one time grid: t[{k}] is {float(run.t[k])!r} in run {run.name!r} "
                    f"and {float(first.t[k])!r} in run {first.name!r}. Give all runs exactly the same times."
                )
        return first.t

    def stacked(self) -> tuple[Float64[np.ndarray, " time"], Float64[np.ndarray, "traj time state"]]:
        """`(t, x)` of runs that share one time grid."""
        t = self.shared_grid()
        x = np.stack([run.x for run in self.runs])
        x.setflags(write=False)
        return t, x

    def subset(self, indices: Any) -> "Trajectories":
        """The runs at `indices`, in that order."""
        picked = np.asarray(indices)
        if picked.ndim != 1 or picked.size == 0 or picked.dtype.kind not in "iu":
            # A boolean mask read as integers would pick runs 0 and 1 over and over.
            raise InputError(
                f"indices must be a non-empty list of integers, but received {indices!r}. "
                "Turn a boolean mask into indices with numpy.flatnonzero."
            )
        outside = picked[(picked < -len(self)) | (picked >= len(self))]
        if outside.size:
            raise InputError(f"there is no run {int(outside[0])}: the {len(self)} runs count from 0.")
        return replace(self, runs=tuple(self.runs[int(k)] for k in picked))

    def with_states(self, states: Sequence[Any]) -> "Trajectories":
        """The same runs, times and noise levels with other states, one array per run."""
        if len(states) != len(self):
            raise InputError(f"received states for {len(states)} runs, but there are {len(self)}.")
        runs = []
        for run, x in zip(self.runs, states, strict=True):
            if np.shape(x) != run.x.shape:
                raise InputError(f"run {run.name!r}: the new states have shape {np.shape(x)}, expected {run.x.shape}.")
            runs.append(Run(t=run.t, x=x, name=run.name, sigma=run.sigma))
        return replace(self, runs=tuple(runs))

    def from_complete_start(self) -> "Trajectories":
        """The runs from the first time on at which all states were measured: where a simulation can start."""
        return replace(self, runs=tuple(_from_complete_start(run, self.names) for run in self.runs))

    def digest(self) -> str:
        """SHA-256 (hex) of names, units, shapes, times, states and noise levels; run names do not count.

        A unit of time that is not known adds nothing: data without one keep the digest they had before there was any.
        """
        hasher = hashlib.sha256()
        shapes = [run.x.shape for run in self.runs]
        described = [self.names, self.units, shapes, *([self.time_unit] if self.time_unit else [])]
        hasher.update(json.dumps(described).encode())
        for run in self.runs:
            hasher.update(run.t.astype("<f8").tobytes())
            hasher.update(run.x.astype("<f8").tobytes())
            if run.sigma is not None:
                hasher.update(b"sigma")
                hasher.update(run.sigma.astype("<f8").tobytes())
        return hasher.hexdigest()


def as_trajectories(x: Any, t: Any = None, names: Iterable[Any] | None = None) -> Trajectories:
    """Return `x` itself if it is `Trajectories`, otherwise `Trajectories.from_arrays(x, t, names)`."""
    if not isinstance(x, Trajectories):
        if t is None:
            raise InputError("x is an array, so its times are needed: give t as well, or pass Trajectories.")
        return Trajectories.from_arrays(x, t, names)
    if t is not None:
        raise InputError("x is Trajectories and has its own times: leave t out.")
    if names is not None:
        raise InputError("x is Trajectories and has its own state names: leave names out.")
    return x


def _check_times(name: str, t: np.ndarray) -> None:
    if t.ndim != 1:
        raise InputError(f"run {name!r}: t must be one-dimensional, (time,), but has shape {t.shape}.")
    if t.size < 2:
        raise InputError(f"run {name!r}: a run needs at least 2 points in time, but has {t.size}.")
    if not np.all(np.isfinite(t)):
        k = int(np.argmin(np.isfinite(t)))
        raise InputError(f"run {name!r}: times must be finite, but t[{k}] is {t[k]}. Drop or mend that point.")
    with np.errstate(over="ignore"):
        increasing = t[1:] > t[:-1]
        duration = t[-1] - t[0]
    if not np.all(increasing):
        k = int(np.argmin(increasing))
        raise InputError(
            f"run {name!r}: times must increase, but t[{k + 1}] = {t[k + 1]:.6g} follows "
            f"t[{k}] = {t[k]:.6g}. Sort the rows by time, or give each repetition its own run id."
        )
    if not np.isfinite(duration):
        raise InputError(
            f"run {name!r}: the times span [{t[0]:.6g}, {t[-1]:.6g}], too wide for float64. Rescale the time."
        )


def _check_shape(name: str, t: np.ndarray, x: np.ndarray) -> None:
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(f"run {name!r}: x must be (time, state) with at least one state, but has shape {x.shape}.")
    if x.shape[0] == t.size:
        return
    if x.shape[1] == t.size:
        raise InputError(
            f"run {name!r}: x has shape {x.shape} for {t.size} times and looks transposed: "
            "axis 0 is time, axis 1 is the state. Transpose it, or give single-state runs as (time, 1)."
        )
    raise InputError(
        f"run {name!r}: x has {x.shape[0]} rows (axis 0 is time) but t has {t.size} times; they must agree."
    )


def _check_rows(name: str, rows: np.ndarray) -> None:
    """A run needs two times at which something was measured."""
    if not rows.any():
        raise InputError(f"run {name!r}: nothing was measured: all of x is NaN. Leave this run out.")
    if rows.sum() < 2:
        k = int(np.argmax(rows))
        raise InputError(
            f"run {name!r}: a run needs values at 2 points in time at least, but all of x is NaN except at time "
            f"index {k}. Leave this run out."
        )


def _check_values(run: Run, names: tuple[str, ...]) -> None:
    bad = np.isinf(run.x)
    if np.any(bad):
        k, j = (int(index) for index in np.argwhere(bad)[0])
        raise InputError(
            f"run {run.name!r}: states must be finite, or NaN where nothing was measured, but state {names[j]!r} is "
            f"{run.x[k, j]} at t = {run.t[k]:.6g}. Mend that point, or write NaN."
        )
    if run.sigma is None:
        return
    bad = run.observed & ~(np.isfinite(run.sigma) & (run.sigma > 0))
    if np.any(bad):
        k, j = (int(index) for index in np.argwhere(bad)[0])
        raise InputError(
            f"run {run.name!r}: sigma must be finite and above 0 wherever x was measured, but for state {names[j]!r} "
            f"at t = {run.t[k]:.6g} it is {run.sigma[k, j]}. Give its noise level, or write NaN into x."
        )


def _check_observed(runs: tuple[Run, ...], names: tuple[str, ...]) -> None:
    observed = np.any([run.observed.any(axis=0) for run in runs], axis=0)
    if not observed.all():
        raise InputError(
            f"state {names[int(np.argmin(observed))]!r} was never measured: it is NaN in every run. Leave it out, or "
            "add runs that measure it."
        )


def _check_levels(runs: tuple[Run, ...]) -> None:
    without = [run.name for run in runs if run.sigma is None]
    if without and len(without) < len(runs):
        raise InputError(f"sigma is missing for run {without[0]!r}: give noise levels for every run, or for none.")


def _from_complete_start(run: Run, names: tuple[str, ...]) -> Run:
    complete = run.complete
    # The last time cannot be a start: nothing follows it.
    if not complete[:-1].any():
        never = np.flatnonzero(~run.observed.any(axis=0))
        why = f"; state {names[int(never[0])]!r} was never measured in it" if never.size else ""
        raise InputError(
            f"run {run.name!r}: there is no time before its last at which all states were measured, from which a "
            f"simulation could start{why}. Leave this run out."
        )
    first = int(np.argmax(complete))
    return Run(run.t[first:], run.x[first:], run.name, None if run.sigma is None else run.sigma[first:])


def _column(array: np.ndarray) -> np.ndarray:
    """A single state as a table of one column."""
    return array[:, None] if array.ndim == 1 else array


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _given_per_run(t: Any) -> bool:
    if isinstance(t, list | tuple):
        return len(t) > 0 and _ndim(t[0]) > 0
    return _ndim(t) == 2


def _ndim(value: Any) -> int:
    try:
        return np.ndim(value)
    except ValueError:
        # A ragged nested list: numpy has no dimension for it, and no reading of it is a single array.
        return -1


def _states_of_runs(x: Any, t: Any, what: str) -> list[np.ndarray]:
    if isinstance(x, list | tuple):
        if len(x) == 0:
            raise InputError(f"{what} is empty: give at least one run.")
        dimensions = _ndim(x[0])
        if dimensions in (-1, 2) or (dimensions == 1 and _given_per_run(t)):
            return [real_array(entry, f"{what}[{k}]") for k, entry in enumerate(x)]
    array = real_array(x, what)
    if array.ndim in (1, 2):
        return [array]
    if array.ndim != 3:
        raise InputError(
            f"{what} must be (time, state), (traj, time, state) or a list of (time, state) arrays, but has shape "
            f"{array.shape}."
        )
    if array.shape[0] == 0:
        raise InputError(f"{what} is empty: give at least one run.")
    if not _given_per_run(t) and np.size(t) == array.shape[0] and np.size(t) not in array.shape[1:]:
        raise InputError(
            f"{what} has shape {array.shape} for {np.size(t)} times, but axis 0 is the run and axis 1 is time. "
            f"Pass numpy.swapaxes({what}, 0, 1)."
        )
    return list(array)


def _times_of_runs(t: Any, n_runs: int) -> list[np.ndarray]:
    if not _given_per_run(t):
        return [real_array(t, "t")] * n_runs
    times = [real_array(entry, f"t[{k}]") for k, entry in enumerate(t)]
    if len(times) != n_runs:
        raise InputError(
            f"t holds the times of {len(times)} runs, but x holds {n_runs}; "
            "give one list of times a run, or one (time,) array for all."
        )
    return times
