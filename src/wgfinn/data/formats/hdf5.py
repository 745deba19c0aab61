"""HDF5 files: named datasets in the layouts of `arrays`, groups as runs.

Units are attributes: `units` of a dataset, the time among them, for the block a list on `x` beside the list `names`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.formats.arrays import Arrays, interpret
from wgfinn.data.formats.columns import DataSpec
from wgfinn.data.formats.libraries import library
from wgfinn.data.formats.npz import block
from wgfinn.data.formats.recording import Progress, Recording
from wgfinn.data.trajectories import Trajectories


def read(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """The runs of an HDF5 file."""
    h5py = library("h5py", "HDF5 files")
    try:
        with h5py.File(path, "r") as file:
            return interpret(_arrays(str(path), file, h5py), spec)
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{path}: is not a readable HDF5 file, or was cut short ({error}).") from error


def _arrays(source: str, group: Any, h5py: Any) -> Arrays:
    datasets = {name: item for name, item in group.items() if isinstance(item, h5py.Dataset)}

    def read_one(name: str) -> np.ndarray:
        return _values(source, name, datasets[name], h5py)

    def text(key: str) -> list[str] | None:
        if key in datasets:
            found = read_one(key)
        else:
            found = datasets["x"].attrs.get(key)
            if found is None:
                return None
        values = np.atleast_1d(np.asarray(found))
        if values.ndim != 1 or not all(isinstance(value, str | bytes) for value in values.tolist()):
            raise InputError(f"{source}: {key!r} must be a list of text, but holds {values.dtype} of {values.shape}.")
        return [_text(value) for value in values.tolist()]

    def unit(name: str) -> str:
        value = datasets[name].attrs.get("units", datasets[name].attrs.get("unit", ""))
        # Fixed-length text comes padded.
        return _text(value).strip() if isinstance(value, str | bytes) else ""

    return Arrays(
        source=source,
        names=tuple(datasets),
        read=read_one,
        text=text,
        unit=unit,
        groups=tuple(name for name, item in group.items() if isinstance(item, h5py.Group)),
        group=lambda name: _arrays(f"{source}:{name}", group[name], h5py),
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _values(source: str, name: str, dataset: Any, h5py: Any) -> np.ndarray:
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return np.asarray(dataset.asstr()[()])
    if dataset.dtype.kind not in "iufcb":
        raise InputError(f"{source}: array {name!r} holds {dataset.dtype}, not plain numbers or text.")
    return np.asarray(dataset[()])


def write(trajectories: Trajectories, path: Path) -> None:
    """A block, with names and units as attributes of `x`, the unit of time as one of `t`."""
    h5py = library("h5py", "HDF5 files")
    arrays = block(trajectories)
    text = h5py.string_dtype("utf-8")
    with h5py.File(path, "w") as file:
        for key in ("t", "x", "sigma", "lengths"):
            if key in arrays:
                file.create_dataset(key, data=arrays[key])
        # A dataset, because attributes end at 64 KiB and there may be many runs.
        file.create_dataset("run_names", data=arrays["run_names"].astype(object), dtype=text)
        for key in ("names", "units"):
            file["x"].attrs.create(key, data=arrays[key].astype(object), dtype=text)
        file["t"].attrs.create("units", data=trajectories.time_unit, dtype=text)
