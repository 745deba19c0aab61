"""pandas DataFrames: long form, named index levels are columns.

Units stand in the headings (`q [m]`) or in `frame.attrs["units"]`, a mapping from columns to units.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data._arrays import unique
from wgfinn.data.formats.columns import DataSpec, RunCodes, assign, long_form, numbers, split_heading
from wgfinn.data.formats.recording import Recording

SOURCE = "DataFrame"


def read(frame: Any, spec: DataSpec) -> Recording:
    """The runs of a DataFrame."""
    levels = [name for name in frame.index.names if name is not None]
    values = {str(name): frame.index.get_level_values(name) for name in levels}
    unique((*map(str, levels), *map(str, frame.columns)), f"{SOURCE}: column names")
    values |= {str(name): frame[name] for name in frame.columns}
    units = frame.attrs.get("units", {})
    if not isinstance(units, Mapping):
        raise InputError(f"{SOURCE}: attrs['units'] must map columns to units, but received {units!r}.")
    headings = [split_heading(key) for key in values]
    headings = [replace(h, unit=str(units[h.name])) if h.name in units else h for h in headings]
    roles = assign(SOURCE, headings, spec)
    columns = {h.key: numbers(SOURCE, h.key, _cells(values[h.key]), place) for h in roles.numbers}
    runs = None
    if roles.run is not None:
        runs = RunCodes(SOURCE, roles.run.key)
        runs.add(values[roles.run.key].tolist(), place)
    return long_form(SOURCE, roles, columns, runs, place)


def place(k: int) -> str:
    """Rows of a frame count from 0, as `iloc` does."""
    return f"row {k} (from 0)"


def _cells(column: Any) -> np.ndarray:
    kind = column.dtype.kind
    if kind in "iuf" and not isinstance(column.dtype, np.dtype):
        # pandas's own nullable numbers.
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return column.to_numpy(dtype=None if kind in "iufbcMm" else object)
