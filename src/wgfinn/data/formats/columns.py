"""Columns and their roles: which is the run, which the time, which are states.

The one place for the rules, which hold for tables (CSV, TSV, Parquet, DataFrame) and for named arrays and variables
(npz, HDF5, MATLAB, netCDF, zarr, Dataset) alike:

- A unit follows a name in brackets after a space: `q [m]` and `q (m)` are the state q in metres, `E[0]` is a name (but
  `t[s]` a time in seconds), and so are `U (left)` and `U (right)`, which would be the same without their brackets.
- What the caller names is taken, by name or by the whole heading.
- The run is otherwise the first of `RUN_NAMES` that is there, the time the first of `TIME_NAMES`; the first letter
  of a longer name may be a capital (`Time`), but `T` is left to be a temperature.
- Columns `q_sigma` are noise levels if every state `q` has one.
- Everything else is a state. What was guessed is said.
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field as Key

from wgfinn._errors import InputError
from wgfinn._spec import Spec
from wgfinn.data._arrays import unique
from wgfinn.data.formats.recording import ONE_RUN, RawRun, Recording, described
from wgfinn.data.trajectories import Trajectories

RUN_NAMES = (
    *("run", "trajectory", "traj", "id", "run_id", "trajectory_id", "traj_id"),
    *("experiment", "episode", "trial", "shot", "replicate"),
)
TIME_NAMES = ("time", "t", "times")
SIGMA_SUFFIX = "_sigma"
# Text that stands for a value that was not measured, besides an empty cell.
MISSING = ("nan", "NaN", "NAN", "NA", "N/A", "n/a", "null", "NULL", "None")

_UNIT = r"(?:\[(?P<unit>[^\[\]]*)\]|\((?P<round>[^()]*)\))"
_HEADING = re.compile(rf"(?P<name>.*\S)\s+{_UNIT}")
# As in `t[s]`, but not `t[0]`.
_TIME_HEADING = re.compile(rf"(?P<name>{'|'.join(TIME_NAMES)})(?=.[^\W\d_]){_UNIT}", re.IGNORECASE)


class DataSpec(Spec):
    """The roles of columns (of arrays, of variables) in a data file; what is not given is guessed from names. And how
    text is written, where it is not as the suffix says."""

    run: str | None = Key(default=None, description="column that tells the runs apart")
    time: str | None = Key(default=None, description="column of the time")
    states: tuple[str, ...] | None = Key(default=None, description="columns of the states, in this order")
    ignore: tuple[str, ...] | None = Key(default=None, description="columns to leave out")
    sigma: tuple[str, ...] | None = Key(default=None, description="columns of noise levels, in the order of the states")
    separator: Literal[",", ";", "tab", "space", "\t", " "] | None = Key(
        default=None, description="what stands between the cells of a CSV, if not a comma, of a TSV, if not a tab"
    )
    decimal: Literal[".", ","] | None = Key(default=None, description="decimal mark in CSV and TSV, if not a point")

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns given for each role, where any are."""
        single = {"run": self.run, "time": self.time}
        several = {"states": self.states, "ignore": self.ignore, "sigma": self.sigma}
        return {k: (v,) for k, v in single.items() if v is not None} | {
            k: v for k, v in several.items() if v is not None
        }


@dataclass(frozen=True)
class Heading:
    """A column: its key in the source, and the name and unit in it."""

    key: str
    name: str
    unit: str = ""


def split_heading(text: str) -> Heading:
    """`q [m]` or `q (m)` as name and unit."""
    found = _HEADING.fullmatch(text) or _TIME_HEADING.fullmatch(text)
    return (
        Heading(text, found["name"], (found["unit"] or found["round"] or "").strip()) if found else Heading(text, text)
    )


def join_heading(name: str, unit: str) -> str:
    """The inverse of `split_heading`."""
    # A bare name that reads as name and unit gets an empty unit, so that it comes back as it was.
    return f"{name} [{unit}]" if unit or split_heading(name).name != name else name


@dataclass(frozen=True)
class Roles:
    """The column of each role, and in words those that were guessed."""

    run: Heading | None
    time: Heading
    states: tuple[Heading, ...]
    sigma: tuple[Heading, ...]
    said: tuple[str, ...]

    @property
    def numbers(self) -> tuple[Heading, ...]:
        """Every column that must hold numbers."""
        return (self.time, *self.states, *self.sigma)


def find_time(headings: Sequence[Heading], spec: DataSpec) -> Heading | None:
    """The column of the time, named or guessed."""
    return _guess(headings, TIME_NAMES) if spec.time is None else _named(headings, spec.time)


def find_run(headings: Sequence[Heading], spec: DataSpec) -> Heading | None:
    """The column that tells the runs apart, named or guessed."""
    return _guess(headings, RUN_NAMES) if spec.run is None else _named(headings, spec.run)


def assign(source: str, headings: Sequence[Heading], spec: DataSpec, what: str = "column") -> Roles:
    """The role of each of `headings`; `what` they are called in messages."""
    headings = _told_apart(headings)
    _refuse_unknown(source, headings, spec, what)
    _refuse_two_roles(source, headings, spec, what)
    ignored = [_named(headings, name) for name in spec.ignore or ()]
    left = [h for h in headings if h not in ignored]
    time = find_time(left, spec)
    if time is None:
        raise InputError(
            f"{source}: has no {what} 'time' (or 't'); the {what}s are {', '.join(repr(h.key) for h in headings)}. "
            "Name the one that holds the times: time='...' in Python, --time on the command line."
        )
    given = [_named(headings, name) for name in (*(spec.states or ()), *(spec.sigma or ()))]
    run = find_run([h for h in left if h != time and (h not in given or spec.run is not None)], spec)
    states, sigma = _states_and_sigma([h for h in left if h not in (run, time)], headings, spec)
    if not states:
        raise InputError(
            f"{source}: has no {what} for a state beside {', '.join(repr(h.key) for h in headings)}; "
            "a state is what changes in time."
        )
    if sigma and len(sigma) != len(states):
        raise InputError(
            f"{source}: received {len(sigma)} {what}s of noise levels for {len(states)} states "
            f"({', '.join(h.name for h in states)}); give one for each, in the same order."
        )
    unique(tuple(h.name for h in states), f"{source}: state names")
    return Roles(run, time, states, sigma, _said(run, time, states, sigma, spec, what))


def _told_apart(headings: Sequence[Heading]) -> list[Heading]:
    """Names that only their round brackets tell apart keep them: these do not hold a unit."""
    count = Counter(h.name for h in headings)
    return [
        Heading(h.key, h.key) if count[h.name] > 1 and h.key.endswith(")") and h == split_heading(h.key) else h
        for h in headings
    ]


def _states_and_sigma(
    left: Sequence[Heading], headings: Sequence[Heading], spec: DataSpec
) -> tuple[tuple[Heading, ...], tuple[Heading, ...]]:
    sigma = None if spec.sigma is None else tuple(_known(headings, name) for name in spec.sigma)
    if spec.states is not None:
        return tuple(_known(headings, name) for name in spec.states), sigma or ()
    if sigma is not None:
        return tuple(h for h in left if h not in sigma), sigma
    by_name = {h.name: h for h in left}
    states = tuple(h for h in left if not _is_sigma(h, by_name))
    levels = [by_name.get(h.name + SIGMA_SUFFIX) for h in states]
    if states and all(level is not None for level in levels):
        return states, tuple(level for level in levels if level is not None)
    return tuple(left), ()


def _is_sigma(heading: Heading, by_name: Mapping[str, Heading]) -> bool:
    base = heading.name.removesuffix(SIGMA_SUFFIX)
    return base != heading.name and base in by_name


def _guess(headings: Sequence[Heading], wanted: Sequence[str]) -> Heading | None:
    spellings = [*wanted, *(name.capitalize() for name in wanted if len(name) > 1)]
    spellings += [name.upper() for name in wanted if len(name) > 1]
    found = {h.name: h for h in reversed(headings)}
    return next((found[name] for name in spellings if name in found), None)


def _named(headings: Sequence[Heading], name: str) -> Heading | None:
    return next((h for h in headings if name in (h.key, h.name)), None)


def _known(headings: Sequence[Heading], name: str) -> Heading:
    found = _named(headings, name)
    assert found is not None  # unknown names were refused before
    return found


def _refuse_unknown(source: str, headings: Sequence[Heading], spec: DataSpec, what: str) -> None:
    for role, names in spec.roles.items():
        for name in names:
            if _named(headings, name) is None:
                raise InputError(f"{source}: has no {what} {name!r} (given as {role}){_known_names(name, headings)}.")


def _known_names(name: str, headings: Sequence[Heading]) -> str:
    close = difflib.get_close_matches(name, [h.name for h in headings], n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"; there are {', '.join(repr(h.key) for h in headings)}{hint}"


def _refuse_two_roles(source: str, headings: Sequence[Heading], spec: DataSpec, what: str) -> None:
    roles: dict[Heading, str] = {}
    for role, names in spec.roles.items():
        for name in names:
            heading = _known(headings, name)
            if heading in roles:
                raise InputError(f"{source}: {what} {heading.key!r} is given twice, as {roles[heading]} and as {role}.")
            roles[heading] = role


def _said(
    run: Heading | None,
    time: Heading,
    states: Sequence[Heading],
    sigma: Sequence[Heading],
    spec: DataSpec,
    what: str,
) -> tuple[str, ...]:
    guesses = []
    if spec.run is None and run is not None:
        guesses.append(f"{what} {run.key!r} for the run")
    if spec.time is None:
        guesses.append(f"{what} {time.key!r} for the time")
    if spec.sigma is None and sigma:
        guesses.append(f"{', '.join(h.name for h in sigma)} for noise levels")
    if spec.states is None:
        shown = described([h.name for h in states], [h.unit for h in states])
        guesses.append(f"the rest for states: {shown}")
    one_run = (ONE_RUN,) if spec.run is None and run is None else ()
    if not guesses:
        return one_run
    return (*one_run, f"took {' and '.join([', '.join(guesses[:-1])] * (len(guesses) > 1) + guesses[-1:])}")


# ------------------------------------------------------------------------------------------------ values


def numbers(source: str, key: str, values: Any, place: Callable[[int], str], what: str = "column") -> np.ndarray:
    """`values` as float64 with NaN where nothing was measured; text, complex, dates and infinities are refused."""
    array = np.asarray(values)
    where = f"{source}: {what} {key!r}"
    if array.dtype.kind in "OUS":
        array = np.array([_number(where, cell, place, k) for k, cell in enumerate(array.tolist())], dtype=np.float64)
    if array.dtype.kind in "Mm":
        raise InputError(f"{where}: holds dates; convert them to seconds since the start of the run.")
    if array.dtype.kind not in "iuf":
        kind = {"c": "complex numbers", "b": "truth values (true, false)"}.get(array.dtype.kind, f"{array.dtype}")
        raise InputError(f"{where}, {place(0)}: holds {kind}, but real numbers are needed.")
    with np.errstate(over="ignore"):
        array = array.astype(np.float64, copy=False)
    infinite = np.isinf(array)
    if infinite.any():
        k = int(np.argmax(infinite))
        raise InputError(
            f"{where}, {place(k)}: expected a finite number, but received {array[k]}. "
            "Leave the cell empty (or NaN) where nothing was measured, or remove the row."
        )
    return array


def _number(where: str, cell: Any, place: Callable[[int], str], k: int) -> float:
    """One cell, by `float()`, which rounds correctly."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return np.nan
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    if isinstance(text, str):
        text = text.strip()
        if text == "" or text in MISSING:
            return np.nan
    try:
        if isinstance(text, bool) or (isinstance(text, str) and "_" in text):
            raise ValueError
        return float(text)
    except (ValueError, TypeError):
        raise InputError(
            f"{where}, {place(k)}: expected a finite number, but received {cell!r}. "
            "Write numbers with a decimal point and no separators, or remove the row; a column that holds no state can "
            "be left out (ignore, --ignore), and one that tells the runs apart be named (run, --run)."
        ) from None


class Growing:
    """An array filled chunk by chunk, without a second copy of it at the end.

    Memory for the `expected` length is set aside at first; the operating system provides it as it is filled.
    """

    def __init__(self, dtype: Any = np.float64) -> None:
        self._values = np.empty(0, dtype)
        self._size = 0

    def append(self, values: np.ndarray, expected: int) -> None:
        end = self._size + values.size
        if self._size == 0:
            self._values = np.empty(max(end, expected), self._values.dtype)
        elif end > self._values.size:
            # In place where the operating system can; by an eighth, because what is new is filled with zeros.
            self._values.resize(max(end, self._size + self._size // 8), refcheck=False)
        self._values[self._size : end] = values
        self._size = end

    def array(self) -> np.ndarray:
        self._values.resize(self._size, refcheck=False)
        return self._values


class RunCodes:
    """Run names as whole numbers in order of first appearance, gathered chunk by chunk."""

    def __init__(self, source: str, key: str) -> None:
        self._where = f"{source}: column {key!r}"
        self._codes: dict[str, int] = {}
        self._chunks: list[np.ndarray] = []

    def add(self, values: Iterable[Any], place: Callable[[int], str]) -> None:
        """Append the cells of a chunk; `place(k)` says where its k-th cell stands."""
        codes = self._codes
        seen: dict[Any, int] = {}
        found = []
        for k, value in enumerate(values):
            code = seen.get(value)
            if code is None:
                name = self._name(value, place, k)
                code = seen[value] = codes.setdefault(name, len(codes))
            found.append(code)
        self._chunks.append(np.array(found, dtype=np.int32))

    def add_encoded(self, values: list[Any], indices: np.ndarray, place: Callable[[int], str]) -> None:
        """Append cells given as `values[indices]`; much faster where few values stand in many cells."""
        found, first = np.unique(indices, return_index=True)
        codes = np.empty(len(values), np.int32)
        for index, k in sorted(zip(found.tolist(), first.tolist(), strict=True), key=lambda pair: pair[1]):
            codes[index] = self._codes.setdefault(self._name(values[index], place, k), len(self._codes))
        self._chunks.append(codes[indices])

    def _name(self, value: Any, place: Callable[[int], str], k: int) -> str:
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
        if value is None or value != value or not name:
            raise InputError(f"{self._where}, {place(k)}: the run has no name.")
        return name

    @property
    def names(self) -> list[str]:
        return list(self._codes)

    def codes(self) -> np.ndarray:
        return np.concatenate(self._chunks) if self._chunks else np.empty(0, np.int32)


def long_form(
    source: str,
    roles: Roles,
    columns: dict[str, np.ndarray],
    runs: RunCodes | None,
    place: Callable[[int], str],
) -> Recording:
    """Runs from columns of equal length, one row per run and time.

    Runs come in order of first appearance and keep the order of their rows. `columns` is emptied, so that each column
    is given back as soon as it is copied.
    """
    t = columns[roles.time.key]
    if t.size == 0:
        raise InputError(f"{source}: has names of columns but no rows of numbers.")
    missing = np.isnan(t)
    if missing.any():
        raise InputError(
            f"{source}: column {roles.time.key!r}, {place(int(np.argmax(missing)))}: the time is missing. "
            "Every row needs its time: fill it in, or remove the row."
        )
    order, parts = _order_of_runs(None if runs is None else runs.codes(), t.size)
    t = t[order]
    names = ["0"] if runs is None else runs.names
    for name, part in zip(names, parts, strict=True):
        _check_times(source, name, t, part, lambda k: place(k if isinstance(order, slice) else int(order[k])))
    x = _gather(columns, roles.states, order, t.size)
    sigma = _gather(columns, roles.sigma, order, t.size) if roles.sigma else None
    return Recording(
        source=source,
        runs=tuple(
            RawRun(name, t[part], x[part], None if sigma is None else sigma[part])
            for name, part in zip(names, parts, strict=True)
        ),
        names=tuple(h.name for h in roles.states),
        units=tuple(h.unit for h in roles.states),
        time_unit=roles.time.unit,
        said=roles.said,
    )


def _order_of_runs(codes: np.ndarray | None, n_rows: int) -> tuple[Any, list[slice]]:
    """Rows such that runs follow one another, and the part of each; a slice where they do already."""
    if codes is None:
        return slice(None), [slice(0, n_rows)]
    ends = np.cumsum(np.bincount(codes)).tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return (slice(None) if np.all(codes[1:] >= codes[:-1]) else np.argsort(codes, kind="stable")), parts


def _gather(columns: dict[str, np.ndarray], headings: Sequence[Heading], order: Any, n_rows: int) -> np.ndarray:
    x = np.empty((n_rows, len(headings)))
    for j, heading in enumerate(headings):
        x[:, j] = columns.pop(heading.key)[order]
    return x


def _check_times(source: str, run: str, t: np.ndarray, part: slice, place: Callable[[int], str]) -> None:
    increasing = t[part][1:] > t[part][:-1]
    if not np.all(increasing):
        before = part.start + int(np.argmin(increasing))
        raise InputError(
            f"{source}: run {run!r}: times must increase, but {place(before + 1)} has {t[before + 1]:.6g} after "
            f"{place(before)} with {t[before]:.6g}. Sort the rows by time, or give each repetition its own run id."
        )


def columns_of(trajectories: Trajectories) -> tuple[list[str], list[str], list[np.ndarray]]:
    """Names and units of one column a state, then one a noise level, if known; and the columns of each run."""
    names, units = list(trajectories.names), list(trajectories.units)
    if not trajectories.has_noise_levels:
        return names, units, [run.x for run in trajectories.runs]
    both = [np.hstack([run.x, run.sigma]) for run in trajectories.runs if run.sigma is not None]
    return [*names, *(name + SIGMA_SUFFIX for name in names)], [*units, *units], both


def refuse_reserved(names: Sequence[str], kind: str, reserved: Sequence[str] = ("run", "time")) -> None:
    """State names that a file with one column a state would not give back."""
    for name in names:
        if name in reserved:
            raise InputError(
                f"a {kind} file cannot hold a state named {name!r}, the name of its own column; rename the state."
            )
        base = name.removesuffix(SIGMA_SUFFIX)
        if base != name and base in names:
            raise InputError(
                f"a {kind} file cannot hold states named {base!r} and {name!r}: the second would be read as the noise "
                "level of the first; rename it."
            )
