"""MATLAB files: variables in the layouts of `arrays`, structs as runs.

Version 5 (`save` without a flag, up to 2 GiB a variable) through scipy; version 7.3 (`save -v7.3`), which is HDF5 with
the axes in reverse and conventions of its own for text, cells and structs, through h5py. Version 5 is written.
MATLAB has no vectors: (n, 1) and (1, n) are read as (n,).
"""

import warnings
from collections.abc import Mapping
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

_LARGEST = 2**31 - 1
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class _NoArray:
    """A variable that is neither numbers, text nor a struct; an error only if somebody asks for it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def read(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """The runs of a MATLAB file of version 5 or 7.3."""
    tree = _read_7_3(path) if _is_hdf5(path) else _read_5(path)
    return interpret(_arrays(str(path), tree), spec)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(520)
    # MATLAB puts 512 bytes of its own before the signature.
    return start.startswith(_HDF5_SIGNATURE) or start[512:] == _HDF5_SIGNATURE


def _arrays(source: str, tree: Mapping[str, Any]) -> Arrays:
    def read_one(name: str) -> np.ndarray:
        value = tree[name]
        if isinstance(value, _NoArray):
            raise InputError(f"{source}: variable {name!r} holds {value.kind}, not plain real numbers or text.")
        return value

    def text(key: str) -> list[str] | None:
        if key not in tree:
            return None
        value = read_one(key)
        if value.dtype.kind != "U":
            raise InputError(f"{source}: {key!r} must be a cell array of text, but holds {value.dtype}.")
        return value.tolist()

    return Arrays(
        source=source,
        names=tuple(name for name, value in tree.items() if not isinstance(value, Mapping)),
        read=read_one,
        text=text,
        groups=tuple(name for name, value in tree.items() if isinstance(value, Mapping)),
        group=lambda name: _arrays(f"{source}:{name}", tree[name]),
    )


def _as_vector(array: np.ndarray) -> np.ndarray:
    return array.ravel() if array.ndim == 2 and 1 in array.shape else array


# --------------------------------------------------------------------------------------------- version 5


def _read_5(path: Path) -> dict[str, Any]:
    scipy_io = library("scipy.io", "MATLAB files")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            # Of variables it cannot read, which matter only if they are asked for.
            warnings.simplefilter("ignore")
            found = scipy_io.loadmat(file, spmatrix=False)
    except MemoryError:
        raise
    except Exception as error:
        # scipy answers damaged files with whatever breaks first: ValueError, TypeError, zlib.error, struct.error, ...
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: is not a readable MATLAB file, or was cut short ({reason}).") from error
    return {name: _plain(value) for name, value in found.items() if not name.startswith("__")}


def _plain(value: Any) -> Any:
    """Numbers, text arrays, structs as mappings; a struct array as a mapping from 1, 2, ..."""
    if not isinstance(value, np.ndarray):
        return _NoArray(type(value).__name__)
    if value.dtype.names is not None:
        records = [{name: _plain(record[name]) for name in value.dtype.names} for record in value.ravel()]
        return records[0] if len(records) == 1 else {str(k + 1): record for k, record in enumerate(records)}
    if value.dtype.kind == "U":
        return np.array([text.rstrip() for text in value.ravel().tolist()], dtype=np.str_)
    if value.dtype.kind == "O":
        cells = [np.asarray(cell) for cell in value.ravel()]
        if not all(cell.dtype.kind == "U" and cell.size <= 1 for cell in cells):
            return _NoArray("a cell array")
        return np.array(["".join(cell.ravel().tolist()) for cell in cells], dtype=np.str_)
    return _as_vector(value) if value.dtype.kind in "iufbc" else _NoArray(f"{value.dtype}")


# ------------------------------------------------------------------------------------------- version 7.3


def _read_7_3(path: Path) -> dict[str, Any]:
    h5py = library("h5py", "MATLAB files of version 7.3")
    try:
        with h5py.File(path, "r") as file:
            return {name: _item(item, file, h5py) for name, item in file.items() if not name.startswith("#")}
    except (OSError, RuntimeError, KeyError) as error:
        raise InputError(f"{path}: is not a readable MATLAB file, or was cut short ({error}).") from error


def _item(item: Any, file: Any, h5py: Any) -> Any:
    kind = item.attrs.get("MATLAB_class", b"")
    if isinstance(item, h5py.Group):
        return _struct(item, file, h5py) if kind in (b"struct", b"") else _NoArray(_decoded(kind))
    if item.attrs.get("MATLAB_empty", 0):
        return np.array([""] if kind == b"char" else [], dtype=np.str_ if kind == b"char" else np.float64)
    if kind == b"char":
        rows = np.atleast_2d(item[()].T)
        return np.array(["".join(map(chr, row)).rstrip() for row in rows.tolist()], dtype=np.str_)
    if kind == b"cell":
        cells = [_item(file[reference], file, h5py) for reference in item[()].T.ravel()]
        if not all(isinstance(cell, np.ndarray) and cell.dtype.kind == "U" and cell.size == 1 for cell in cells):
            return _NoArray("a cell array")
        return np.array([cell[0] for cell in cells], dtype=np.str_)
    if item.dtype.names is not None:
        return _NoArray("complex numbers" if item.dtype.names == ("real", "imag") else "compound values")
    if item.dtype.kind not in "iufbc":
        return _NoArray(_decoded(kind) or f"{item.dtype}")
    return _as_vector(item[()].T)


def _struct(group: Any, file: Any, h5py: Any) -> dict[str, Any]:
    """A struct as a mapping; a struct array, whose fields hold references, as a mapping from 1, 2, ..."""
    fields = dict(group.items())
    referring = {
        name: item[()].T.ravel()
        for name, item in fields.items()
        if isinstance(item, h5py.Dataset)
        and h5py.check_ref_dtype(item.dtype) is not None
        and "MATLAB_class" not in item.attrs
    }
    if not referring:
        return {name: _item(item, file, h5py) for name, item in fields.items()}
    length = min(len(references) for references in referring.values())
    return {
        str(k + 1): {name: _item(file[references[k]], file, h5py) for name, references in referring.items()}
        for k in range(length)
    }


def _decoded(kind: Any) -> str:
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)


# ------------------------------------------------------------------------------------------------- writer


def write(trajectories: Trajectories, path: Path) -> None:
    """A block as version 5; names, units and names of runs are cell arrays, the unit of time is text."""
    scipy_io = library("scipy.io", "MATLAB files")
    arrays = block(trajectories)
    if arrays["x"].nbytes > _LARGEST:
        raise InputError(
            "a MATLAB file of version 5 holds at most 2 GiB a variable, and the states need more: use .h5."
        )
    for key in ("names", "units", "run_names"):
        arrays[key] = arrays[key].astype(object)
    with path.open("wb") as file:
        scipy_io.savemat(file, arrays)
