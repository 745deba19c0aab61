"""Labelled arrays through xarray: netCDF and zarr files, and xarray Datasets.

One variable a state with dimensions (run, time) in any order, or (time,) for a single run. The time is the coordinate
of its dimension, or a variable (run, sample) where each run has its own times; shorter runs are then filled up with
NaN times. Units are the attribute `units`; what the file marks as fill value was not measured. States come in the
order of the global attribute `states`, if there is one, or else in that of the file; zarr has none, so by name.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.formats.arrays import numbers_2d
from wgfinn.data.formats.columns import (
    DataSpec,
    Heading,
    Roles,
    RunCodes,
    assign,
    columns_of,
    find_run,
    find_time,
    refuse_reserved,
)
from wgfinn.data.formats.libraries import library
from wgfinn.data.formats.recording import Progress, RawRun, Recording, natural_order
from wgfinn.data.trajectories import Trajectories

DATASET = "Dataset"
_SAMPLE = "sample"


def read_netcdf(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """The runs of a netCDF-4 file."""
    library("h5netcdf", "netCDF files")
    return _read(path, spec, "h5netcdf", "netCDF")


def read_zarr(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """The runs of a zarr folder."""
    library("zarr", "zarr folders")
    return _read(path, spec, "zarr", "zarr")


def _read(path: Path, spec: DataSpec, engine: str, kind: str) -> Recording:
    xarray = library("xarray", f"{kind} files")
    try:
        with warnings.catch_warnings():
            # About metadata that are only slower to find.
            warnings.simplefilter("ignore")
            # Times stay numbers: xarray would make dates of "seconds since ...".
            dataset = xarray.open_dataset(path, engine=engine, decode_times=False, chunks=None)
            with dataset:
                return read_dataset(dataset, spec, str(path), by_name=engine == "zarr")
    except (InputError, MemoryError):
        raise
    except Exception as error:
        # The engines answer damaged files with whatever breaks first.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: is not a readable {kind} file, or was cut short ({reason}).") from error


@dataclass(frozen=True)
class _Axes:
    """The dimension of the runs, if there is one, and that along which a run goes on."""

    run: str | None
    along: str

    def order(self, dimensions: tuple[Any, ...]) -> tuple[str, ...] | None:
        """How to transpose a variable of `dimensions`, or None if it is none of ours."""
        wanted = tuple(d for d in (self.run, self.along) if d is not None and d in dimensions)
        return wanted if set(wanted) == set(dimensions) and self.along in wanted else None


def read_dataset(dataset: Any, spec: DataSpec, source: str = DATASET, *, by_name: bool = False) -> Recording:
    """The runs of an xarray Dataset; `by_name` if the order of its variables means nothing."""
    headings = _ordered(dataset, [_heading(name, variable) for name, variable in dataset.variables.items()], by_name)
    dimensions = [Heading(str(d), str(d)) for d in dataset.sizes if d not in dataset.variables]
    time = find_time(headings, spec)
    run = find_run([*headings, *dimensions], spec)
    if time is None or time.key not in dataset.variables:
        assign(source, headings, spec, "variable")
    axes = _axes(source, dataset, time, run)
    plain = [h for h in headings if h in (time, run) or axes.along in dataset.variables[h.key].dims]
    plain = [h for h in plain if h in (time, run) or h.key not in dataset.sizes]
    extra = [h for h in dimensions if h == run]
    roles = assign(source, [*plain, *extra], spec, "variable")
    left_out = [h.key for h in headings if h not in plain and h.key not in dataset.sizes]
    said = (f"left out {', '.join(left_out)}, which do not go along {axes.along!r}",) if left_out else ()
    return _recording(source, dataset, roles, axes, said)


def _ordered(dataset: Any, headings: list[Heading], by_name: bool) -> list[Heading]:
    attribute = np.atleast_1d(np.asarray(dataset.attrs.get("states", []), dtype=object)).tolist()
    names = natural_order(h.key for h in headings) if by_name else [h.key for h in headings]
    order = {name: k for k, name in enumerate([*attribute, *(name for name in names if name not in attribute)])}
    return sorted(headings, key=lambda heading: order[heading.key])


def _heading(name: Any, variable: Any) -> Heading:
    unit = variable.attrs.get("units", "")
    return Heading(str(name), str(name), unit.strip() if isinstance(unit, str) else "")


def _axes(source: str, dataset: Any, time: Heading | None, run: Heading | None) -> _Axes:
    assert time is not None
    found = dataset.variables[time.key].dims
    run_dims = () if run is None else (run.key,) if run.key in dataset.sizes else dataset.variables[run.key].dims
    if len(run_dims) > 1 or len(found) not in (1, 2):
        raise InputError(
            f"{source}: the time {time.key!r} has dimensions {found}; it must have one, or two of which one is the run."
        )
    run_dim = run_dims[0] if run_dims else None
    along = [d for d in found if d != run_dim]
    if len(along) != 1:
        raise InputError(
            f"{source}: the time {time.key!r} has dimensions {found}, of which none is obviously the run. "
            "Name it: run='...' in Python, --run on the command line."
        )
    # A variable along the time itself, such as a column of run numbers, makes no second dimension.
    return _Axes(None if run_dim == along[0] else run_dim, str(along[0]))


def _recording(source: str, dataset: Any, roles: Roles, axes: _Axes, said: tuple[str, ...]) -> Recording:
    n_runs = 1 if axes.run is None else int(dataset.sizes[axes.run])
    if n_runs == 0 or dataset.sizes[axes.along] == 0:
        raise InputError(f"{source}: has no values: its dimensions are {dict(dataset.sizes)}.")
    found = {h.key: _values(source, dataset, h, axes, n_runs) for h in roles.numbers}
    t = numbers_2d(source, roles.time, found)
    x = np.stack([numbers_2d(source, h, found) for h in roles.states], axis=-1)
    sigma = np.stack([numbers_2d(source, h, found) for h in roles.sigma], axis=-1) if roles.sigma else None
    names = _run_names(source, dataset, roles, axes, n_runs)
    there = ~np.isnan(t)
    runs = []
    for k, name in enumerate(names):
        length = int(there[k].sum())
        if not there[k, :length].all():
            missing = int(np.argmin(there[k]))
            raise InputError(
                f"{source}: run {name!r}: variable {roles.time.key!r}, index {missing}: the time is missing, but later "
                "ones are there."
            )
        runs.append(RawRun(name, t[k, :length], x[k, :length], None if sigma is None else sigma[k, :length]))
    return Recording(
        source=source,
        runs=tuple(runs),
        names=tuple(h.name for h in roles.states),
        units=tuple(h.unit for h in roles.states),
        time_unit=roles.time.unit,
        said=(*roles.said, *said),
    )


def _values(source: str, dataset: Any, heading: Heading, axes: _Axes, n_runs: int) -> np.ndarray:
    """A variable as (run, time); one without a run dimension is the same for all runs."""
    variable = dataset.variables[heading.key]
    order = axes.order(variable.dims)
    if order is None:
        allowed = f"({axes.run!r}, {axes.along!r})" if axes.run else f"({axes.along!r},)"
        raise InputError(
            f"{source}: variable {heading.key!r} has dimensions {variable.dims}, but a state has {allowed}. "
            f"Make one variable of each state, or leave it out: ignore=[{heading.key!r}], --ignore {heading.key}."
        )
    values = np.atleast_2d(np.asarray(variable.transpose(*order).values))
    return np.broadcast_to(values, (n_runs, values.shape[1]))


def _run_names(source: str, dataset: Any, roles: Roles, axes: _Axes, n_runs: int) -> list[str]:
    if roles.run is None or axes.run is None or roles.run.key not in dataset.variables:
        return [str(k) for k in range(n_runs)]
    codes = RunCodes(source, roles.run.key)
    codes.add(np.asarray(dataset.variables[roles.run.key].values).tolist(), lambda k: f"index {k}")
    if len(codes.names) != n_runs:
        raise InputError(
            f"{source}: {roles.run.key!r} must give each run its own name, but has {len(codes.names)} "
            f"names for {n_runs} runs."
        )
    return codes.names


# ------------------------------------------------------------------------------------------------- writer


def to_dataset(trajectories: Trajectories) -> Any:
    """An xarray Dataset with a variable (run, time) a state; without a common grid (run, sample) and times of each."""
    xarray = library("xarray", "netCDF files")
    refuse_reserved(trajectories.names, "netCDF", ("run", "time", _SAMPLE))
    for name in trajectories.names:
        if "/" in name:
            raise InputError(f"a netCDF file cannot hold a state named {name!r}: '/' is its separator; rename it.")
    shared = trajectories.has_shared_grid
    along = "time" if shared else _SAMPLE
    fill: Callable[[list[np.ndarray]], np.ndarray] = np.stack if shared else _filled_up
    times = trajectories.runs[0].t if shared else _filled_up([run.t for run in trajectories.runs])
    names, units, columns = columns_of(trajectories)
    return xarray.Dataset(
        {
            name: (("run", along), fill([x[:, j] for x in columns]), {"units": unit})
            for j, (name, unit) in enumerate(zip(names, units, strict=True))
        },
        coords={
            "run": ("run", np.array(trajectories.run_names, dtype=object)),
            "time": (("time",) if shared else ("run", _SAMPLE), times, {"units": trajectories.time_unit}),
        },
        attrs={"states": list(trajectories.names)},
    )


def _filled_up(arrays: list[np.ndarray]) -> np.ndarray:
    filled = np.full((len(arrays), max(a.size for a in arrays)), np.nan)
    for row, array in zip(filled, arrays, strict=True):
        row[: array.size] = array
    return filled


def write_netcdf(trajectories: Trajectories, path: Path) -> None:
    """netCDF-4 through h5netcdf."""
    library("h5netcdf", "netCDF files")
    to_dataset(trajectories).to_netcdf(path, engine="h5netcdf")
