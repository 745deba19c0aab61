"""CSV and TSV: a header, then one row per run and time (long form).

The body is read in chunks, so that the memory needed is that of the numbers. An empty cell (or NA, nan, ...) is a
value that was not measured. A second row without any number holds units. Numbers keep every float64 bit. Other
separators and decimal marks are read where the caller names them: guessed, 1,5 could be one number or two.
"""

import csv
import io
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data._arrays import unique
from wgfinn.data.formats.columns import (
    MISSING,
    DataSpec,
    Growing,
    Heading,
    RunCodes,
    assign,
    columns_of,
    join_heading,
    long_form,
    numbers,
    refuse_reserved,
    split_heading,
)
from wgfinn.data.formats.libraries import library
from wgfinn.data.formats.recording import Progress, Recording
from wgfinn.data.trajectories import Trajectories

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SEPARATORS = {",": ",", ";": ";", "tab": "\t", "space": " ", "\t": "\t", " ": " "}
_WORDS = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "spaces"}
_CHUNK_CELLS = 2_000_000
_ROWS_WRITTEN_AT_ONCE = 20_000


@dataclass(frozen=True)
class Dialect:
    """What stands between cells, and the decimal mark of numbers."""

    delimiter: str
    decimal: str = "."

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The cells of each line."""
        return csv.reader(lines, delimiter=self.delimiter, skipinitialspace=self.delimiter == " ")

    def with_point(self, cell: Any) -> Any:
        """Text as Python reads numbers; anything else as it is."""
        return cell.replace(self.decimal, ".") if isinstance(cell, str) else cell

    def is_number(self, cell: str) -> bool:
        try:
            float(self.with_point(cell))
        except ValueError:
            return False
        return True


@dataclass(frozen=True)
class Header:
    """The columns, how they are written, and the number of lines before the first row of numbers."""

    headings: tuple[Heading, ...]
    dialect: Dialect
    lines: int
    said: tuple[str, ...] = ()


def read(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """Long form with the columns of `spec`."""
    header = read_header(path, spec)
    roles = assign(str(path), header.headings, spec)
    columns, runs, rows = read_columns(path, header, roles.numbers, roles.run, progress)
    recording = long_form(str(path), roles, columns, runs, lambda k: f"row {rows[k]}")
    return replace(recording, said=(*header.said, *recording.said))


def read_header(path: Path, spec: DataSpec) -> Header:
    """The names and units of the columns, from the first row and a row of units, if there is one."""
    dialect = _dialect(path, spec)
    with _text(path) as file:
        lines = dialect.rows(file)
        keys = [name.strip() for name in next(lines, [])]
        if not any(keys):
            raise InputError(f"{path}: is empty, or its first row is; the first row must name the columns.")
        _refuse_other_separator(path, keys, dialect)
        if not all(keys):
            raise InputError(
                f"{path}: column {keys.index('') + 1} has no name in the first row. Name every column; "
                "pandas writes a table without its nameless index by to_csv(index=False)."
            )
        # Here and not by pandas, which would rename the second 'q' to 'q.1' without a word.
        unique(tuple(keys), f"{path}: column names")
        if all(map(dialect.is_number, keys)):
            raise InputError(f"{path}: row 1 holds numbers ({', '.join(keys[:3])}), but it must name the columns.")
        headings = tuple(map(split_heading, keys))
        filled = ((k, row) for k, row in enumerate(lines, 2) if any(cell.strip() for cell in row))
        line, cells = next(filled, (2, []))
        below, first = next(filled, (line, [])) if _are_units(cells, len(keys), dialect) else (line, cells)
    if len(first) > len(keys):
        # pandas would take the surplus for an index and shift the names to the right.
        raise InputError(f"{path}: row {below} has {len(first)} cells for the {len(keys)} columns named in row 1.")
    if not _are_units(cells, len(keys), dialect):
        return Header(headings, dialect, 1)
    units = [cell.strip().removeprefix("[").removesuffix("]").strip() for cell in cells]
    units = ["" if unit in ("-", *MISSING) else unit for unit in units]
    with_units = tuple(replace(h, unit=h.unit or unit) for h, unit in zip(headings, units, strict=True))
    return Header(with_units, dialect, line, (f"took row {line} for the units of the columns",))


def _refuse_other_separator(path: Path, keys: list[str], dialect: Dialect) -> None:
    """A header in one piece that another separator would cut."""
    likely = (d for d in _WORDS if d not in (dialect.delimiter, " ") and len(keys) == 1 and d in keys[0])
    other = next(likely, None)
    if other is None:
        return
    name = next(name for name, mark in _SEPARATORS.items() if mark == other)
    raise InputError(
        f"{path}: row 1: the columns seem to be separated by {_WORDS[other]} ({keys[0][:60]!r}), but this file is read "
        f"with {_WORDS[dialect.delimiter]} between them. Say so: separator={name!r} in Python, --separator "
        f"{shlex.quote(name)} on the command line; and if numbers have a decimal comma, decimal=',' or --decimal ','."
    )


def _are_units(cells: list[str], n_columns: int, dialect: Dialect) -> bool:
    """Whether the first row below the names holds units: as many cells, text in half of them, a number in none."""
    texts = [cell.strip() for cell in cells]
    given = [text for text in texts if text and text not in MISSING]
    return len(texts) == n_columns and 2 * len(given) >= n_columns and not any(map(dialect.is_number, given))


def read_columns(
    path: Path, header: Header, wanted: tuple[Heading, ...], run: Heading | None, progress: Progress
) -> tuple[dict[str, np.ndarray], RunCodes | None, Any]:
    """The `wanted` columns as numbers, the runs, and the row of the file of each, as a spreadsheet counts them."""
    runs = None if run is None else RunCodes(str(path), run.key)
    columns = {h.key: Growing() for h in wanted}
    rows = Growing(np.int64)
    for frame, expected in _frames(path, header, run, progress):
        index = np.asarray(frame.index) + header.lines + 1
        rows.append(index, expected)

        def place(k: int, index: np.ndarray = index) -> str:
            return f"row {index[k]}"

        for heading in wanted:
            values = numbers(str(path), heading.key, _cells(frame[heading.key], header.dialect), place)
            columns[heading.key].append(values, expected)
        if runs is not None and run is not None:
            runs.add(frame[run.key].tolist(), place)
    return {key: column.array() for key, column in columns.items()}, runs, rows.array()


def _cells(column: Any, dialect: Dialect) -> np.ndarray:
    """Numbers as numbers and everything else as objects, so that text is seen cell by cell."""
    if column.dtype.kind in "iufbc":
        return column.to_numpy()
    return (column if dialect.decimal == "." else column.map(dialect.with_point)).to_numpy(dtype=object)


def _frames(path: Path, header: Header, run: Heading | None, progress: Progress) -> Iterator[tuple[Any, int]]:
    """Chunks of the body without blank rows, with a guess of all rows; the index keeps the place in the file."""
    pandas = library("pandas", "CSV and TSV files")
    keys = [h.key for h in header.headings]
    size = path.stat().st_size
    # pandas 3.1 rounds correctly by itself and warns of the old switch.
    exact = {} if tuple(map(int, pandas.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
    try:
        with _text(path) as file:
            reader = pandas.read_csv(
                file,
                sep=header.dialect.delimiter,
                decimal=header.dialect.decimal,
                skiprows=header.lines,
                header=None,
                names=keys,
                dtype={} if run is None else {run.key: str},
                # A run may be called 'NA'.
                keep_default_na=False,
                na_values={key: [""] if run is not None and key == run.key else ["", *MISSING] for key in keys},
                skipinitialspace=True,
                # Blank rows are dropped below, where they no longer shift the numbers of the rows.
                skip_blank_lines=False,
                low_memory=False,
                chunksize=max(1000, _CHUNK_CELLS // len(keys)),
                **exact,
            )
            for frame in reader:
                done = min(file.buffer.tell(), size)
                progress(done, size)
                yield frame.dropna(how="all"), int(1.02 * frame.index.stop * size / max(done, 1))
    except pandas.errors.EmptyDataError:
        return
    except pandas.errors.ParserError as error:
        raise InputError(f"{path}: is not a readable table ({str(error).strip()}).") from error
    _refuse_cut_row(path, header)


def _refuse_cut_row(path: Path, header: Header) -> None:
    """A file cut short ends within a row; elsewhere a short row only lacks measurements."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2**20))
        tail = file.read().decode("utf-8", "replace")
    if tail.endswith(("\n", "\r")):
        return
    last, n_columns = next(header.dialect.rows([tail.splitlines()[-1]]), []), len(header.headings)
    if len(last) < n_columns:
        raise InputError(
            f"{path}: the last row has {len(last)} cells for {n_columns} columns and no line end: the file seems to be "
            "cut short. Copy it again, or remove that row."
        )


@contextmanager
def _text(path: Path) -> Iterator[Any]:
    """The text of a file, without a byte order mark; `buffer` tells how far it was read."""
    try:
        with path.open("rb") as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise InputError(f"{path}: is not a readable table ({error}).") from error


def _dialect(path: Path, spec: DataSpec) -> Dialect:
    usual = DELIMITERS[path.suffix.lower()]
    dialect = Dialect(_SEPARATORS[spec.separator] if spec.separator else usual, spec.decimal or ".")
    if dialect.delimiter == dialect.decimal:
        raise InputError(
            f"{path}: commas cannot be both the decimal mark and what separates the columns; give the separator too: "
            "separator=';' in Python, --separator ';' on the command line."
        )
    return dialect


def write(trajectories: Trajectories, path: Path) -> None:
    """Long form; numbers as the shortest text that reads back equal."""
    kind = path.suffix.lower().removeprefix(".").upper()
    refuse_reserved(trajectories.names, kind)
    units_of = {"time": trajectories.time_unit} | dict(zip(trajectories.names, trajectories.units, strict=True))
    for name, unit in units_of.items():
        if "[" in unit or "]" in unit:
            raise InputError(f"a {kind} file cannot hold the unit {unit!r} of {name!r}; write it without brackets.")
    names, units, columns = columns_of(trajectories)
    headings = [join_heading(name, unit) for name, unit in zip(names, units, strict=True)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", delimiter=DELIMITERS[path.suffix.lower()])
        writer.writerow(["run", join_heading("time", trajectories.time_unit), *headings])
        for run, x in zip(trajectories.runs, columns, strict=True):
            for start in range(0, run.t.size, _ROWS_WRITTEN_AT_ONCE):
                part = slice(start, start + _ROWS_WRITTEN_AT_ONCE)
                # tolist() gives Python floats, which csv writes by repr.
                rows = np.column_stack([run.t[part], x[part]]).tolist()
                writer.writerows([run.name, *row] for row in rows)
