"""Trajectories in files: one reader, one writer, a table of formats keyed by suffix.

`.npz`
    Runs on one time grid: `t` (time,), `x` (traj, time, state). Ragged runs, one after another:
    `t` (total,), `x` (total, state), `lengths` (traj,). Both: `names`, `units`, `run_names` as text arrays.
    On reading, only `t` and `x` are required, `x` may be (time, state), and other arrays are ignored.
    NaN in `x` means "not measured"; `sigma`, shaped like `x`, holds noise levels.
`.csv`
    Long form: a header, then one row per run and time; columns `run`, `time`, then one per state. A unit
    follows the state's name in brackets after a space, `q [m]`. On reading, `trajectory`, `traj` or `id` may
    stand for `run`, which may be absent for a single run, and `t` for `time`; a unit of time is
    ignored; rows of different runs may be mixed; blank rows are skipped. An empty cell (or `nan`) in the column of a
    state means "not measured". Noise levels have no place here.

Both formats keep every float64 bit. A new format is a reader and a writer here and a row in each table.
"""

import csv
import os
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wgfinn._errors import InputError
from wgfinn.data._arrays import unique
from wgfinn.data.atomic import atomic_write
from wgfinn.data.trajectories import Trajectories

RUN_COLUMNS = ("run", "trajectory", "traj", "id")
TIME_COLUMNS = ("time", "t")

# "q [m]" is the state q in metres; "E[0]", without the space, is a name.
_HEADING = re.compile(r"(?P<name>.*\S)\s+\[(?P<unit>[^\[\]]*)\]")


def load(path: str | os.PathLike[str]) -> Trajectories:
    """Read trajectories from a file; the suffix tells the format."""
    source = Path(path)
    reader = _by_suffix(READERS, source)
    if not source.exists():
        raise InputError(f"{source}: there is no such file.")
    if not source.is_file():
        raise InputError(f"{source}: is not a file.")
    try:
        return reader(source)
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror or error}).") from error


def save(trajectories: Trajectories, path: str | os.PathLike[str]) -> None:
    """Write trajectories to a file, whole or not at all; the suffix tells the format."""
    target = Path(path)
    writer = _by_suffix(WRITERS, target)
    try:
        with atomic_write(target) as temporary:
            writer(trajectories, temporary)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error}).") from error


def _by_suffix(table: dict[str, Callable[..., Any]], path: Path) -> Callable[..., Any]:
    try:
        return table[path.suffix.lower()]
    except KeyError:
        raise InputError(
            f"{path}: unknown suffix {path.suffix!r}; known formats are {', '.join(sorted(table))}."
        ) from None


def _checked(path: Path, **arrays: Any) -> Trajectories:
    """`Trajectories.from_arrays` whose complaints name the file."""
    try:
        return Trajectories.from_arrays(**arrays)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


# ---------------------------------------------------------------------------------------------------- npz


def _read_npz(path: Path) -> Trajectories:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: is not an npz archive, or was cut short. Write it again with numpy.savez.")
    arrays = _npz_arrays(path, ("t", "x", "sigma", "lengths", "names", "units", "run_names"))
    missing = [key for key in ("t", "x") if key not in arrays]
    if missing:
        raise InputError(
            f"{path}: lacks the array {' and '.join(map(repr, missing))}; "
            "an npz file of trajectories needs 't' (time,) and 'x' (traj, time, state)."
        )
    texts = {key: _npz_text(path, arrays, key) for key in ("names", "units", "run_names")}
    t, x, sigma = arrays["t"], arrays["x"], arrays.get("sigma")
    if sigma is not None and sigma.shape != x.shape:
        raise InputError(f"{path}: 'sigma' must have the shape of 'x', {x.shape}, but has shape {sigma.shape}.")
    if "lengths" in arrays:
        ends = _npz_ends(path, arrays["lengths"], t, x)
        levels = None if sigma is None else np.split(sigma, ends)
        return _checked(path, t=np.split(t, ends), x=np.split(x, ends), sigma=levels, **texts)
    return _checked(path, t=t, x=x, sigma=sigma, **texts)


def _npz_arrays(path: Path, keys: tuple[str, ...]) -> dict[str, np.ndarray]:
    arrays = {}
    key = None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for key in keys:
                if key in archive.files:
                    arrays[key] = np.asarray(archive[key])
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        # numpy answers a member that needs pickle with a ValueError that says so. Unpickling a file runs
        # whatever code its author put there, so it is never allowed.
        raise InputError(
            f"{path}: array {key!r} cannot be read ({error}). Save plain arrays of numbers and text with numpy.savez."
        ) from error
    return arrays


def _npz_text(path: Path, arrays: dict[str, np.ndarray], key: str) -> list[str] | None:
    if key not in arrays:
        return None
    array = arrays[key]
    if array.dtype.kind != "U" or array.ndim != 1:
        raise InputError(
            f"{path}: {key!r} must be a one-dimensional text array, "
            f"but has dtype {array.dtype} and shape {array.shape}."
        )
    return array.tolist()


def _npz_ends(path: Path, lengths: np.ndarray, t: np.ndarray, x: np.ndarray) -> np.ndarray:
    if lengths.ndim != 1 or lengths.size == 0 or lengths.dtype.kind not in "iu" or np.any(lengths < 0):
        raise InputError(f"{path}: 'lengths' must be a list of counts of points, one for each run.")
    total = int(lengths.sum())
    if t.shape != (total,) or x.ndim not in (1, 2) or x.shape[0] != total:
        raise InputError(
            f"{path}: 'lengths' adds up to {total} points, so 't' must be ({total},) and 'x' "
            f"({total}, state), but they have shapes {t.shape} and {x.shape}."
        )
    return np.cumsum(lengths.astype(np.int64))[:-1]


def _write_npz(trajectories: Trajectories, path: Path) -> None:
    arrays: dict[str, Any]
    if trajectories.has_shared_grid:
        t, x = trajectories.stacked()
        arrays = {"t": t, "x": x}
    else:
        arrays = {
            "t": np.concatenate([run.t for run in trajectories.runs]),
            "x": np.concatenate([run.x for run in trajectories.runs]),
            "lengths": np.array([run.t.size for run in trajectories.runs], dtype=np.int64),
        }
    levels = [run.sigma for run in trajectories.runs if run.sigma is not None]
    if levels:
        arrays["sigma"] = np.concatenate(levels).reshape(arrays["x"].shape)
    for key in ("names", "units", "run_names"):
        arrays[key] = np.array(getattr(trajectories, key), dtype=np.str_)
    # A file and not a path: numpy appends '.npz' to a path that ends in '.NPZ'.
    with path.open("wb") as file:
        np.savez(file, **arrays)


# ---------------------------------------------------------------------------------------------------- csv


def _read_csv(path: Path) -> Trajectories:
    header, frame = _csv_frame(path)
    time_column = _column(header, TIME_COLUMNS)
    run_column = _column(header, RUN_COLUMNS)
    if time_column is None:
        raise InputError(
            f"{path}: has no column 'time' (or 't'); the columns are {', '.join(map(repr, header))}. "
            "The first row must name the columns, with commas between them."
        )
    state_columns = [name for name in header if name not in (time_column, run_column)]
    if not state_columns:
        raise InputError(f"{path}: has no column for a state beside {', '.join(map(repr, header))}.")
    if len(frame) == 0:
        raise InputError(f"{path}: has a header but no rows of numbers.")

    t = _csv_numbers(path, frame, time_column)
    x = np.stack([_csv_numbers(path, frame, name, gaps=True) for name in state_columns], axis=1)
    run_names, rows_of_runs = _csv_runs(path, frame, run_column)
    file_rows = _file_rows(frame)
    for name, rows in zip(run_names, rows_of_runs, strict=True):
        _check_csv_times(path, name, t[rows], file_rows[rows])
    names, units = zip(*map(_split_heading, state_columns), strict=True)
    return _checked(
        path,
        t=[t[rows] for rows in rows_of_runs],
        x=[x[rows] for rows in rows_of_runs],
        names=names,
        units=units,
        run_names=run_names,
    )


def _csv_frame(path: Path) -> tuple[list[str], pd.DataFrame]:
    """The column names and the rows that are not blank; the index keeps the place in the file."""
    header: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = [name.strip() for name in next(csv.reader(file), [])]
            if not any(header):
                raise InputError(f"{path}: is empty, or its first row is; the first row must name the columns.")
            if not all(header):
                raise InputError(f"{path}: column {header.index('') + 1} has no name in the first row.")
            # Here and not by pandas, which would rename the second 'q' to 'q.1' without a word.
            unique(tuple(header), f"{path}: column names")
            # From the start again, so that pandas counts lines in its complaints as an editor does.
            file.seek(0)
            frame = pd.read_csv(
                file,
                skiprows=1,
                header=None,
                names=header,
                dtype=str,
                # A run may be called 'NA'; only an empty cell is missing.
                keep_default_na=False,
                na_values=[""],
                skipinitialspace=True,
                # Blank rows are dropped below, where they no longer shift the numbers of the rows.
                skip_blank_lines=False,
            )
    except pd.errors.EmptyDataError:
        return header, pd.DataFrame({name: [] for name in header})
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start}).") from error
    except (csv.Error, pd.errors.ParserError) as error:
        raise InputError(f"{path}: is not a readable CSV table ({str(error).strip()}).") from error
    if not isinstance(frame.index, pd.RangeIndex):
        # pandas takes surplus leading columns for an index and shifts the names to the right.
        raise InputError(f"{path}: the rows have more cells than the {len(header)} columns named in the first row.")
    return header, frame.dropna(how="all")


def _column(header: list[str], wanted: tuple[str, ...]) -> str | None:
    """The column named by the first of `wanted` that is there; `time [s]` is `time`."""
    found = {_split_heading(heading)[0]: heading for heading in reversed(header)}
    return next((found[name] for name in wanted if name in found), None)


def _file_rows(frame: pd.DataFrame) -> np.ndarray:
    """Rows as a spreadsheet counts them: from 1, and the header is row 1."""
    return np.asarray(frame.index) + 2


def _csv_numbers(path: Path, frame: pd.DataFrame, name: str, *, gaps: bool = False) -> np.ndarray:
    """The numbers of a column; with `gaps`, NaN where a cell is empty or says `nan`."""
    cells = frame[name].to_numpy(dtype=object)
    try:
        # Cell by cell through float(), which rounds correctly; pandas's own parser has not always done so.
        values = cells.astype(np.float64)
    except ValueError:
        values = np.array([_number_or_inf(cell) for cell in cells])
    sound = ~np.isinf(values) if gaps else np.isfinite(values)
    if not np.all(sound):
        k = int(np.argmin(sound))
        found = "the cell is empty" if pd.isna(cells[k]) else f"received {cells[k]!r}"
        raise InputError(
            f"{path}: column {name!r}, row {_file_rows(frame)[k]}: expected a finite number, but {found}. "
            "Write numbers with a decimal point and no separators, or remove the row."
        )
    return values


def _number_or_inf(cell: Any) -> float:
    """Infinity, which no column may hold, for what is not a number."""
    try:
        return float(cell)
    except ValueError:
        return np.inf


def _csv_runs(path: Path, frame: pd.DataFrame, run_column: str | None) -> tuple[list[str], list[np.ndarray]]:
    """Names of the runs in order of first appearance, and the rows of each in file order."""
    if run_column is None:
        return ["0"], [np.arange(len(frame))]
    labels = pd.Series(frame[run_column]).str.strip()
    nameless = (labels.isna() | (labels == "")).to_numpy(dtype=bool)
    if nameless.any():
        row = _file_rows(frame)[int(np.argmax(nameless))]
        raise InputError(f"{path}: column {run_column!r}, row {row}: the run has no name.")
    codes, run_names = pd.factorize(labels)
    rows = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))[:-1]
    return [str(name) for name in run_names], np.split(rows, ends)


def _check_csv_times(path: Path, run: str, t: np.ndarray, rows: np.ndarray) -> None:
    increasing = t[1:] > t[:-1]
    if not np.all(increasing):
        k = int(np.argmin(increasing))
        raise InputError(
            f"{path}: run {run!r}: times must increase, but row {rows[k + 1]} has {t[k + 1]:.6g} after "
            f"row {rows[k]} with {t[k]:.6g}. Sort the rows by time, or give each repetition its own run id."
        )


def _split_heading(heading: str) -> tuple[str, str]:
    found = _HEADING.fullmatch(heading)
    return (found["name"], found["unit"].strip()) if found else (heading, "")


def _join_heading(name: str, unit: str) -> str:
    # A bare name that reads as name and unit gets an empty unit, so that it comes back as it was.
    return f"{name} [{unit}]" if unit or _HEADING.fullmatch(name) else name


def _write_csv(trajectories: Trajectories, path: Path) -> None:
    headings = [_join_heading(name, unit) for name, unit in zip(trajectories.names, trajectories.units, strict=True)]
    for name, unit in zip(trajectories.names, trajectories.units, strict=True):
        if name in (RUN_COLUMNS[0], TIME_COLUMNS[0]):
            raise InputError(
                f"a CSV file cannot hold a state named {name!r}, the name of its own column; rename the state."
            )
        if "[" in unit or "]" in unit:
            raise InputError(f"a CSV file cannot hold the unit {unit!r} of {name!r}; write it without brackets.")
    if trajectories.has_noise_levels:
        raise InputError("a CSV file cannot hold noise levels (sigma); save the trajectories as .npz.")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([RUN_COLUMNS[0], TIME_COLUMNS[0], *headings])
        for run in trajectories.runs:
            # tolist() gives Python floats, which csv writes by repr: the shortest text that reads back equal.
            rows = np.column_stack([run.t, run.x]).tolist()
            writer.writerows([run.name, *("" if value != value else value for value in row)] for row in rows)


READERS: dict[str, Callable[[Path], Trajectories]] = {".csv": _read_csv, ".npz": _read_npz}
WRITERS: dict[str, Callable[[Trajectories, Path], None]] = {".csv": _write_csv, ".npz": _write_npz}


def load_start_states(path: str | os.PathLike[str], names: tuple[str, ...]) -> tuple[np.ndarray, list[str]]:
    """Start states `(traj, state)` in the order of `names`, and a name for each.

    A CSV without a time column holds one start state a row, its columns named after the states (`run` optional);
    from any other file of trajectories the first state of each run is taken.
    """
    source = Path(path)
    if source.suffix.lower() == ".csv" and source.is_file():
        header, frame = _csv_frame(source)
        if _column(header, TIME_COLUMNS) is None:
            return _csv_start_states(source, header, frame, names)
    trajectories = load(source)
    columns = [_state_index(source, name, trajectories.names) for name in names]
    for run in trajectories.runs:
        missing = [name for name, column in zip(names, columns, strict=True) if not run.observed[0, column]]
        if missing:
            raise InputError(
                f"{source}: run {run.name!r} cannot be a start: {missing[0]!r} was not measured at its first time, "
                f"t = {run.t[0]:.6g}."
            )
    return np.stack([run.x[0, columns] for run in trajectories.runs]), list(trajectories.run_names)


def _csv_start_states(
    path: Path, header: list[str], frame: pd.DataFrame, names: tuple[str, ...]
) -> tuple[np.ndarray, list[str]]:
    known = [_split_heading(heading)[0] for heading in header]
    columns = [header[_state_index(path, name, tuple(known))] for name in names]
    if frame.empty:
        raise InputError(f"{path}: holds no start state; give one row for each.")
    run_column = _column(header, RUN_COLUMNS)
    run_names = [str(k) for k in range(len(frame))] if run_column is None else frame[run_column].astype(str).tolist()
    return np.stack([_csv_numbers(path, frame, column) for column in columns], axis=1), run_names


def _state_index(path: Path, name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise InputError(f"{path}: the state {name!r} of the model is missing; the file has {', '.join(known)}.")
    return known.index(name)
