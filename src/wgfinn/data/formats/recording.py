"""What a reader found in a source, before it is checked as `Trajectories`.

Every reader returns a `Recording`, whatever the format: runs with times and states, names, units, and in words what
had to be guessed. Missing values are NaN.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.trajectories import Run, Trajectories
from wgfinn.data.units import with_unit

# Said of a source in which nothing tells runs apart.
ONE_RUN = "took everything for one run"

# Called as reading goes on, with the parts done and the parts in all (bytes, row groups or files).
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class RawRun:
    """Times (time,), states (time, state) and, where the source has them, noise levels (time, state) of one run."""

    name: str
    t: Any
    x: Any
    sigma: Any = None


@dataclass(frozen=True, eq=False)
class Recording:
    """What was read: `trajectories()` checks it; `said` holds a sentence for everything that was guessed."""

    source: str
    runs: tuple[RawRun, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    time_unit: str = ""
    said: tuple[str, ...] = ()

    def trajectories(self) -> Trajectories:
        """The runs as checked trajectories; complaints name the source."""
        self._refuse_empty_states()
        try:
            # Run by run: `Trajectories.from_arrays` would copy all states once more.
            runs = tuple(Run(t=run.t, x=run.x, name=run.name, sigma=run.sigma) for run in self.runs)
            return Trajectories(runs=runs, names=self.names, units=self.units, time_unit=self.time_unit)
        except InputError as error:
            raise InputError(f"{self.source}: {error}") from error

    def summary(self) -> str:
        """Runs, samples, states and units in a line."""
        lengths = sorted({len(run.t) for run in self.runs})
        samples = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
        runs = f"{len(self.runs)} run{'s' if len(self.runs) > 1 else ''} of {samples} samples"
        time = f", time in {self.time_unit}" if self.time_unit else ""
        return f"{runs}{time}, states {described(self.names, self.units)}"

    def _refuse_empty_states(self) -> None:
        arrays = [np.asarray(run.x) for run in self.runs]
        if any(a.ndim != 2 or a.dtype.kind != "f" or a.shape[1] != len(self.names) for a in arrays):
            return  # integers cannot be missing, and other shapes are refused by `Run`
        for j, name in enumerate(self.names):
            if all(np.isnan(a[:, j]).all() for a in arrays):
                raise InputError(
                    f"{self.source}: state {name!r} holds no number at all: every value is missing. "
                    f"Leave it out: ignore=[{name!r}] in Python, --ignore {name} on the command line."
                )


def described(names: Iterable[str], units: Iterable[str]) -> str:
    """Names with their units, as in `q [m], p`."""
    return ", ".join(with_unit(name, unit) for name, unit in zip(names, units, strict=True))


def natural_order(names: Iterable[str]) -> list[str]:
    """Sorted with numbers by value: run2 before run10."""
    return sorted(names, key=lambda name: [(part.isdigit(), _key(part)) for part in re.split(r"(\d+)", name)] + [name])


def _key(part: str) -> Any:
    return int(part) if part.isdigit() else part


def join(source: str, parts: Sequence[tuple[str, Recording]], said: str) -> Recording:
    """One recording of several, each of which is a single run and gets the name given with it."""
    first = parts[0][1]
    runs = []
    for name, part in parts:
        if len(part.runs) != 1:
            raise InputError(
                f"{part.source}: holds {len(part.runs)} runs, but as a part of {source} it must be one run."
            )
        runs.append(_as_in(first, part, name))
    return replace(first, source=source, runs=tuple(runs), said=(said, *(s for s in first.said if s != ONE_RUN)))


def _as_in(first: Recording, part: Recording, name: str) -> RawRun:
    """The run of `part`, renamed, with its states in the order of `first`."""
    run = replace(part.runs[0], name=name)
    found = dict(zip(part.names, part.units, strict=True))
    wanted = dict(zip(first.names, first.units, strict=True))
    if found != wanted:
        raise InputError(
            f"{part.source}: its states are {described(part.names, part.units)}, but those of {first.source} are "
            f"{described(first.names, first.units)}; all runs must have the same states and units."
        )
    if part.time_unit != first.time_unit:
        raise InputError(
            f"{part.source}: its unit of time is {part.time_unit!r}, but that of {first.source} is "
            f"{first.time_unit!r}; all runs must have the same."
        )
    if part.names == first.names:
        return run
    order = [part.names.index(state) for state in first.names]
    return replace(run, x=run.x[:, order], sigma=None if run.sigma is None else run.sigma[:, order])
