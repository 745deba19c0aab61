"""Named arrays, as npz, HDF5 and MATLAB files hold them, in one of three layouts.

block
    `t` (time,) and `x` (traj, time, state) or (time, state); `t` may be (traj, time). Runs of different lengths one
    after another: `t` (total,), `x` (total, state), `lengths` (traj,). Optional: `names`, `units`, `run_names`,
    `time_unit` as text, and `sigma`, noise levels of the shape of `x`.
groups
    One group (HDF5), struct (MATLAB) or prefix (`a/t`, `a/x` in npz) a run, each a block or columns of one run.
columns
    `t` (time,) and one array a state, all (time,), with a `run` array for several runs; or (traj, time).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.formats.columns import (
    DataSpec,
    Heading,
    Roles,
    RunCodes,
    assign,
    find_time,
    long_form,
    numbers,
    split_heading,
)
from wgfinn.data.formats.recording import RawRun, Recording, join, natural_order

_TEXTS = ("names", "units", "run_names")
_TIME_UNIT = "time_unit"
_BLOCK_KEYS = ("lengths", _TIME_UNIT, *_TEXTS)


@dataclass(frozen=True)
class Arrays:
    """Arrays by name, each read when asked for, and groups of them.

    `text` gives a list of text that belongs to the block (`names`, `units`, `run_names`), or None.
    """

    source: str
    names: tuple[str, ...]
    read: Callable[[str], np.ndarray]
    text: Callable[[str], list[str] | None]
    unit: Callable[[str], str] = lambda _: ""
    groups: tuple[str, ...] = ()
    group: Callable[[str], "Arrays"] | None = None


def interpret(arrays: Arrays, spec: DataSpec) -> Recording:
    """The runs in `arrays`, whichever the layout."""
    time = find_time([split_heading(name) for name in arrays.names], spec)
    if "x" in arrays.names and (spec.states is None or "x" not in spec.states):
        x = arrays.read("x")
        if x.ndim >= 2 or "lengths" in arrays.names:
            return _block(arrays, x[:, None] if x.ndim == 1 else x, time, spec)
    if arrays.groups and time is None:
        return _groups(arrays, spec)
    return _columns(arrays, spec)


def _groups(arrays: Arrays, spec: DataSpec) -> Recording:
    assert arrays.group is not None
    found = natural_order(arrays.groups)
    if len(found) == 1 and arrays.group(found[0]).groups:
        return interpret(arrays.group(found[0]), spec)
    parts = [(name, interpret(arrays.group(name), spec)) for name in found]
    return join(arrays.source, parts, f"took each of {len(found)} groups ({_some(found)}) for a run")


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, ..., {names[-1]}"


# ------------------------------------------------------------------------------------------------- block


def _block(arrays: Arrays, x: np.ndarray, time: Heading | None, spec: DataSpec) -> Recording:
    source = arrays.source
    if time is None:
        asked = "t" if spec.time is None else spec.time
        raise InputError(
            f"{source}: lacks the array {asked!r}; beside 'x' (traj, time, state) a file needs 't' (time,). "
            f"It has {', '.join(map(repr, arrays.names))}."
        )
    if spec.run is not None:
        raise InputError(
            f"{source}: has no column {spec.run!r} (given as run): each slice x[k] is a run here; leave run out."
        )
    t = arrays.read(time.key)
    sigma_name = "sigma" if spec.sigma is None else spec.sigma[0]
    if spec.sigma is not None and (len(spec.sigma) != 1 or sigma_name not in arrays.names):
        raise InputError(f"{source}: has no array {', '.join(spec.sigma)!r} (given as sigma) of the shape of 'x'.")
    sigma = arrays.read(sigma_name) if sigma_name in arrays.names else None
    if sigma is not None and sigma.shape != x.shape:
        raise InputError(
            f"{source}: the noise levels {sigma_name!r} have shape {sigma.shape}, but 'x' has {x.shape}; "
            "they must agree."
        )
    lengths = arrays.read("lengths") if "lengths" in arrays.names else None
    slices = _slices(source, x, t, lengths)
    names, units, run_names = (arrays.text(key) for key in _TEXTS)
    n_states = x.shape[-1]
    run_names = [str(k) for k in range(len(slices))] if run_names is None else run_names
    for what, given, wanted in (
        ("state names", names, n_states),
        ("units", units, n_states),
        ("run names", run_names, len(slices)),
    ):
        if given is not None and len(given) != wanted:
            raise InputError(f"{source}: received {len(given)} {what} {given} for {wanted}; give one for each.")
    said = [f"took array {time.key!r} for the time"] if spec.time is None and time.key != "t" else []
    if names is None:
        names = [f"x{k + 1}" for k in range(n_states)]
        said.append(f"called the states {', '.join(names)}: the file does not name them")
    if sigma is not None and spec.sigma is None:
        said.append("took array 'sigma' for the noise levels")
    recording = Recording(
        source=source,
        runs=tuple(
            RawRun(name, times, x[part], None if sigma is None else sigma[part])
            for name, (part, times) in zip(run_names, slices, strict=True)
        ),
        names=tuple(names),
        units=tuple([""] * n_states if units is None else units),
        time_unit=_time_unit(arrays, time),
        said=tuple(said),
    )
    return select(recording, spec)


def _time_unit(arrays: Arrays, time: Heading) -> str:
    """The text `time_unit`, for files whose arrays have no attributes; otherwise what the time itself says."""
    # A list of one, as `save` writes it, or the text itself, as numpy.savez(..., time_unit="s") does.
    given = np.atleast_1d(arrays.read(_TIME_UNIT)).tolist() if _TIME_UNIT in arrays.names else []
    if len(given) > 1 or not all(isinstance(text, str) for text in given):
        raise InputError(
            f"{arrays.source}: {_TIME_UNIT!r} must be a single text, such as 's', but holds {given}. Remove it, or "
            "give it another name if it is a state."
        )
    return "".join(given) or arrays.unit(time.key) or time.unit


def _slices(source: str, x: np.ndarray, t: np.ndarray, lengths: np.ndarray | None) -> list[tuple[Any, np.ndarray]]:
    """Which part of `x` is each run, and the times of it."""
    if lengths is not None:
        ends = _ends(source, lengths, t, x)
        parts = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        return [(part, t[part]) for part in parts]
    if x.ndim not in (2, 3):
        raise InputError(f"{source}: 'x' must be (traj, time, state) or (time, state), but has shape {x.shape}.")
    if t.ndim == 1 and x.shape[-1] == t.size != x.shape[-2]:
        raise InputError(
            f"{source}: 'x' has shape {x.shape} for {t.size} times and looks transposed: the last axis is the state, "
            "the one before it is time. Swap the last two axes."
        )
    if x.ndim == 2:
        return [(slice(None), t)]
    if x.shape[0] == 0:
        raise InputError(f"{source}: 'x' has shape {x.shape}, which is no run at all; axis 0 is the run.")
    if t.ndim == 1 and t.size == x.shape[0] and t.size not in x.shape[1:]:
        raise InputError(
            f"{source}: 'x' has shape {x.shape} for {t.size} times, but axis 0 is the run and axis 1 is time. "
            "Swap the first two axes."
        )
    if t.ndim == 2 and t.shape[0] != x.shape[0]:
        raise InputError(f"{source}: the times have shape {t.shape}, but 'x' holds {x.shape[0]} runs.")
    return [(k, t[k] if t.ndim == 2 else t) for k in range(x.shape[0])]


def _ends(source: str, lengths: np.ndarray, t: np.ndarray, x: np.ndarray) -> list[int]:
    lengths = np.atleast_1d(lengths)
    whole = lengths.dtype.kind in "iuf" and np.all(lengths >= 0) and np.all(lengths == np.floor(lengths))
    if lengths.ndim != 1 or lengths.size == 0 or not whole:
        raise InputError(f"{source}: 'lengths' must be a list of counts of points, one for each run.")
    total = int(lengths.sum())
    if t.shape != (total,) or x.ndim != 2 or x.shape[0] != total:
        raise InputError(
            f"{source}: 'lengths' adds up to {total} points, so 't' must be ({total},) and 'x' "
            f"({total}, state), but they have shapes {t.shape} and {x.shape}."
        )
    return np.cumsum(lengths.astype(np.int64)).tolist()


def select(recording: Recording, spec: DataSpec) -> Recording:
    """The states that `spec` names, in its order, less those it ignores."""
    headings = [Heading(name, name, unit) for name, unit in zip(recording.names, recording.units, strict=True)]
    for role, names in (("states", spec.states), ("ignore", spec.ignore)):
        for name in names or ():
            if name not in recording.names:
                raise InputError(
                    f"{recording.source}: has no state {name!r} (given as {role}); "
                    f"there are {', '.join(map(repr, recording.names))}."
                )
    wanted = list(recording.names if spec.states is None else spec.states)
    kept = [name for name in wanted if name not in (spec.ignore or ())]
    if not kept:
        raise InputError(f"{recording.source}: no state is left when {', '.join(map(repr, wanted))} are ignored.")
    if tuple(kept) == recording.names:
        return recording
    order = [recording.names.index(name) for name in kept]
    runs = tuple(
        replace(run, x=run.x[..., order], sigma=None if run.sigma is None else run.sigma[..., order])
        for run in recording.runs
    )
    return replace(recording, runs=runs, names=tuple(kept), units=tuple(headings[j].unit for j in order))


# ----------------------------------------------------------------------------------------------- columns


def _columns(arrays: Arrays, spec: DataSpec) -> Recording:
    source = arrays.source
    keys = [name for name in arrays.names if name not in _BLOCK_KEYS]
    if not keys:
        raise InputError(f"{source}: holds no arrays; needed are 't' and 'x', or 't' and one array a state.")
    headings = [replace(h, unit=arrays.unit(h.key) or h.unit) for h in map(split_heading, keys)]
    time = find_time(headings, spec)
    ignored = set(spec.ignore or ())
    candidates = [h for h in headings if not ignored & {h.key, h.name}]
    # Without a time `assign` says what is missing, and nothing need be read.
    found = {} if time is None else {h.key: arrays.read(h.key) for h in candidates}
    n_times = found[time.key].size if time is not None and time.key in found else 0
    given = {*(spec.states or ()), *(spec.sigma or ()), *([] if spec.run is None else [spec.run])}
    single = [h for h in candidates if n_times > 1 and found[h.key].size == 1 and not given & {h.key, h.name}]
    roles = assign(source, [h for h in headings if h not in single], spec, "array")
    said = (f"left out the single values {', '.join(h.key for h in single)}",) if single else ()
    dimensions = {found[h.key].ndim for h in (*roles.states, *roles.sigma)}
    recording = (_stacked if dimensions == {2} else _long)(source, found, roles)
    return replace(recording, said=(*recording.said, *said), time_unit=_time_unit(arrays, roles.time))


def _long(source: str, found: dict[str, np.ndarray], roles: Roles) -> Recording:
    t = found[roles.time.key]
    for heading in (*roles.numbers, *([] if roles.run is None else [roles.run])):
        array = found[heading.key]
        if array.ndim != 1 or array.size != t.size:
            raise InputError(
                f"{source}: array {heading.key!r} has shape {array.shape}, but the time {roles.time.key!r} has "
                f"{t.shape}; as columns of one table they must be ({t.size},). Leave out what is no state (ignore)."
            )
    columns = {h.key: numbers(source, h.key, found[h.key], place, "array") for h in roles.numbers}
    runs = None
    if roles.run is not None:
        runs = RunCodes(source, roles.run.key)
        runs.add(found[roles.run.key].tolist(), place)
    return long_form(source, roles, columns, runs, place)


def _stacked(source: str, found: dict[str, np.ndarray], roles: Roles) -> Recording:
    """States (traj, time) on one time grid, or each run on its own."""
    t = found[roles.time.key]
    shape = found[roles.states[0].key].shape
    for heading in (*roles.states, *roles.sigma):
        if found[heading.key].shape != shape or t.shape not in (shape, shape[1:]):
            raise InputError(
                f"{source}: array {heading.key!r} has shape {found[heading.key].shape} and the time "
                f"{roles.time.key!r} {t.shape}; states must be (traj, time) and the time (time,)."
            )
    x = np.stack([numbers_2d(source, h, found) for h in roles.states], axis=-1)
    sigma = np.stack([numbers_2d(source, h, found) for h in roles.sigma], axis=-1) if roles.sigma else None
    labels = [str(k) for k in range(shape[0])]
    if roles.run is not None:
        codes = RunCodes(source, roles.run.key)
        codes.add(np.atleast_1d(found[roles.run.key]).tolist(), place)
        labels = codes.names
        if len(labels) != shape[0]:
            raise InputError(f"{source}: array {roles.run.key!r} names {len(labels)} runs, but there are {shape[0]}.")
    return Recording(
        source=source,
        runs=tuple(
            RawRun(label, t if t.ndim == 1 else t[k], x[k], None if sigma is None else sigma[k])
            for k, label in enumerate(labels)
        ),
        names=tuple(h.name for h in roles.states),
        units=tuple(h.unit for h in roles.states),
        time_unit=roles.time.unit,
        said=roles.said,
    )


def numbers_2d(source: str, heading: Heading, found: dict[str, np.ndarray]) -> np.ndarray:
    """An array (traj, time) of numbers; a complaint names the run and the index in it."""
    array = found[heading.key]
    width = array.shape[1]
    flat = numbers(source, heading.key, array.ravel(), lambda k: f"run {k // width}, index {k % width}", "array")
    return flat.reshape(array.shape)


def place(k: int) -> str:
    """Entries of arrays count from 0."""
    return f"index {k}"
