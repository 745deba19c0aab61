"""Parquet: long form, one column a state; units in the metadata of the columns, key `units`.

Row groups are read one after another, so that the memory needed is that of the numbers.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data._arrays import unique
from wgfinn.data.formats.columns import (
    DataSpec,
    Growing,
    Heading,
    RunCodes,
    assign,
    columns_of,
    long_form,
    numbers,
    refuse_reserved,
    split_heading,
)
from wgfinn.data.formats.libraries import library
from wgfinn.data.formats.recording import Progress, Recording
from wgfinn.data.trajectories import Trajectories

_UNITS = b"units"
_BATCH_ROWS = 100_000
_BUFFER_BYTES = 2**20


def read(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """Long form with the columns of `spec`."""
    arrow = library("pyarrow", "Parquet files")
    parquet = library("pyarrow.parquet", "Parquet files")
    try:
        # Not a path: a file of its own is closed whatever happens.
        with path.open("rb") as raw:
            # A buffer, because otherwise whole columns of a row group are held as they lie in the file.
            file = parquet.ParquetFile(raw, pre_buffer=False, buffer_size=_BUFFER_BYTES)
            return _read(path, file, spec, progress)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: is not a readable Parquet file, or was cut short ({reason}).") from error


def _read(path: Path, file: Any, spec: DataSpec, progress: Progress) -> Recording:
    source = str(path)
    schema = file.schema_arrow
    unique(tuple(schema.names), f"{source}: column names")
    roles = assign(source, [_heading(field) for field in schema], spec)
    runs = None if roles.run is None else RunCodes(source, roles.run.key)
    columns = {h.key: Growing() for h in roles.numbers}
    wanted = [*columns, *([] if roles.run is None else [roles.run.key])]
    done, total = 0, file.metadata.num_rows
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):

        def at(k: int, done: int = done) -> str:
            return place(done + k)

        for key, column in columns.items():
            cells = batch.column(key).to_numpy(zero_copy_only=False)
            column.append(numbers(source, key, cells, at), total)
        if runs is not None and roles.run is not None:
            cells = batch.column(roles.run.key)
            encoded = cells if hasattr(cells, "dictionary") else cells.dictionary_encode(null_encoding="encode")
            indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
            runs.add_encoded([*encoded.dictionary.to_pylist(), None], indices, at)
        done += batch.num_rows
        progress(done, total)
    library("pyarrow", "Parquet files").default_memory_pool().release_unused()
    return long_form(source, roles, {key: column.array() for key, column in columns.items()}, runs, place)


def place(k: int) -> str:
    """Rows of a Parquet file count from 0."""
    return f"row {k} (from 0)"


def _heading(field: Any) -> Heading:
    heading = split_heading(field.name)
    unit = (field.metadata or {}).get(_UNITS)
    # The metadata decide, also against brackets: a state may be called 'E [1]'.
    return heading if unit is None else replace(heading, name=field.name, unit=unit.decode("utf-8"))


def write(trajectories: Trajectories, path: Path) -> None:
    """Long form with columns `run`, `time` and one a state."""
    arrow = library("pyarrow", "Parquet files")
    parquet = library("pyarrow.parquet", "Parquet files")
    refuse_reserved(trajectories.names, "Parquet")
    lengths = [run.t.size for run in trajectories.runs]
    codes = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    arrays = [
        arrow.DictionaryArray.from_arrays(codes, arrow.array(trajectories.run_names)),
        arrow.array(np.concatenate([run.t for run in trajectories.runs])),
    ]
    time = arrow.field("time", arrow.float64(), metadata={_UNITS: trajectories.time_unit.encode()})
    fields = [arrow.field("run", arrays[0].type), time]
    names, units, columns = columns_of(trajectories)
    for j, (name, unit) in enumerate(zip(names, units, strict=True)):
        arrays.append(arrow.array(np.concatenate([x[:, j] for x in columns])))
        fields.append(arrow.field(name, arrow.float64(), metadata={_UNITS: unit.encode()}))
    with path.open("wb") as file:
        parquet.write_table(arrow.Table.from_arrays(arrays, schema=arrow.schema(fields)), file)
