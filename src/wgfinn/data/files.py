"""Trajectories from and to files: one reader, one writer; the suffix tells the format.

`docs/data.md` says what each format may look like; `formats` holds a file for each. Every format keeps every
float64 bit, the names and the units.
"""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.data.atomic import atomic_write
from wgfinn.data.formats import READERS, WRITERS, DataSpec, Progress, Recording, delimited, folder, frame, labelled
from wgfinn.data.formats.columns import find_run, find_time
from wgfinn.data.trajectories import Trajectories


def load(
    source: Any,
    *,
    run: str | None = None,
    time: str | None = None,
    states: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    sigma: Iterable[str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Trajectories from a file, a folder with one file a run, a pandas DataFrame or an xarray Dataset.

    The suffix tells the format: .csv, .tsv, .parquet, .npz, .h5, .hdf5, .mat, .nc, .zarr. Columns (arrays, variables)
    get their roles by name: `run` tells the runs apart, `time` holds the times, `states` are the states in order,
    `ignore` is left out, `sigma` holds noise levels; what is not given is guessed, and `read` says how. Text may have
    another `separator` ("," ";" "tab" "space") or `decimal` mark ("," ".") than its suffix says.
    `progress(done, total)` is called while a large source is read.
    """
    given = {"run": run, "time": time, "states": states, "ignore": ignore, "sigma": sigma}
    given |= {"separator": separator, "decimal": decimal}
    lists = {key: list(value) if _is_list(value) else value for key, value in given.items() if value is not None}
    return read(source, parse(DataSpec, lists, "load"), progress=progress).trajectories()


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def read(source: Any, columns: DataSpec | None = None, *, progress: Progress | None = None) -> Recording:
    """What `load` reads, before it is checked, with `said`: a sentence for everything that was guessed."""
    spec = DataSpec() if columns is None else columns
    pandas, xarray = sys.modules.get("pandas"), sys.modules.get("xarray")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        return frame.read(source, spec)
    if xarray is not None and isinstance(source, xarray.Dataset):
        return labelled.read_dataset(source, spec)
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"data of type {type(source).__name__} cannot be read: give a path, a pandas DataFrame or an xarray "
            "Dataset; arrays go to Trajectories.from_arrays."
        )
    return _read_path(Path(source), spec, progress or _silent)


def _silent(done: int, total: int) -> None:
    """Nobody watches."""


def _read_path(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    suffix = path.suffix.lower()
    is_folder = path.is_dir()
    if suffix not in READERS and not is_folder:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; known formats are {', '.join(sorted(READERS))}.")
    if not path.exists():
        raise InputError(f"{path}: there is no such file.")
    try:
        if is_folder and suffix != ".zarr":
            return folder.read(path, spec, progress, READERS)
        if not is_folder and path.stat().st_size == 0:
            raise InputError(f"{path}: is empty.")
        return READERS[suffix](path, spec, progress)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from error


def save(trajectories: Trajectories, path: str | os.PathLike[str]) -> None:
    """Write trajectories to a file, whole or not at all; the suffix tells the format."""
    target = Path(path)
    check_writable(target)
    try:
        with atomic_write(target) as temporary:
            WRITERS[target.suffix.lower()](trajectories, temporary)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error}).") from error


def check_writable(path: Path) -> None:
    """Refuse a suffix that `save` does not know: before the work whose result is to be saved."""
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; known formats are {', '.join(sorted(WRITERS))}.")


def load_start_states(
    path: str | os.PathLike[str],
    names: tuple[str, ...],
    *,
    columns: DataSpec | None = None,
    say: Callable[[Recording], None] | None = None,
) -> tuple[np.ndarray, list[str]]:
    """Start states `(traj, state)` in the order of `names`, and a name for each.

    A CSV or TSV without a time column holds one start state a row, its columns named after the states (`run`
    optional); from any other source of trajectories the first state of each run is taken, and `say` hears of it.
    """
    source = Path(path)
    spec = DataSpec() if columns is None else columns
    if source.suffix.lower() in delimited.DELIMITERS and source.is_file():
        header = delimited.read_header(source, spec)
        if find_time(header.headings, spec) is None and spec.time is None:
            return _start_table(source, header, names, spec)
    recording = read(source, spec)
    if say is not None:
        say(recording)
    trajectories = recording.trajectories()
    order = [_state_index(source, name, trajectories.names) for name in names]
    for run in trajectories.runs:
        missing = [name for name, column in zip(names, order, strict=True) if not run.observed[0, column]]
        if missing:
            raise InputError(
                f"{source}: run {run.name!r} cannot be a start: {missing[0]!r} was not measured at its first time, "
                f"t = {run.t[0]:.6g}."
            )
    return np.stack([run.x[0, order] for run in trajectories.runs]), list(trajectories.run_names)


def _start_table(
    path: Path, header: delimited.Header, names: tuple[str, ...], spec: DataSpec
) -> tuple[np.ndarray, list[str]]:
    known = tuple(h.name for h in header.headings)
    wanted = tuple(header.headings[_state_index(path, name, known)] for name in names)
    run = find_run([h for h in header.headings if h not in wanted], spec)
    table, codes, rows = delimited.read_columns(path, header, wanted, run, _silent)
    start = np.stack([table[h.key] for h in wanted], axis=1)
    if len(start) == 0:
        raise InputError(f"{path}: holds no start state; give one row for each.")
    missing = np.argwhere(np.isnan(start))
    if missing.size:
        k, j = missing[0]
        raise InputError(
            f"{path}: column {wanted[j].key!r}, row {rows[k]}: expected a finite number, but the cell is empty."
        )
    if codes is None:
        return start, [str(k) for k in range(len(start))]
    labels = codes.names
    return start, [labels[code] for code in codes.codes()]


def _state_index(path: Path, name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise InputError(f"{path}: the state {name!r} of the model is missing; the file has {', '.join(known)}.")
    return known.index(name)
