"""npz archives of numpy: named arrays in the layouts of `arrays`; a `/` in a name makes a group. Never unpickled."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.formats.arrays import Arrays, interpret
from wgfinn.data.formats.columns import DataSpec
from wgfinn.data.formats.recording import Progress, Recording
from wgfinn.data.trajectories import Trajectories


def read(path: Path, spec: DataSpec, progress: Progress) -> Recording:
    """The runs of an npz archive."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: is not an npz archive, or was cut short. Write it again with numpy.savez.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return interpret(_arrays(str(path), archive, ""), spec)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({error}). Write it again with numpy.savez.") from error


def _arrays(source: str, archive: Any, prefix: str) -> Arrays:
    inner = [name.removeprefix(prefix) for name in archive.files if name.startswith(prefix)]

    def read_one(name: str) -> np.ndarray:
        try:
            return np.asarray(archive[prefix + name])
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            # numpy answers a member that needs pickle with a ValueError that says so. Unpickling a file runs
            # whatever code its author put there, so it is never allowed.
            raise InputError(
                f"{source}: array {prefix + name!r} cannot be read ({error}). "
                "Save plain arrays of numbers and text with numpy.savez."
            ) from error

    def text(key: str) -> list[str] | None:
        if key not in inner:
            return None
        array = read_one(key)
        if array.dtype.kind != "U" or array.ndim != 1:
            raise InputError(
                f"{source}: {key!r} must be a one-dimensional text array, "
                f"but has dtype {array.dtype} and shape {array.shape}."
            )
        return array.tolist()

    return Arrays(
        source=f"{source}:{prefix.removesuffix('/')}" if prefix else source,
        names=tuple(name for name in inner if "/" not in name),
        read=read_one,
        text=text,
        groups=tuple(dict.fromkeys(name.partition("/")[0] for name in inner if "/" in name)),
        group=lambda name: _arrays(source, archive, f"{prefix}{name}/"),
    )


def write(trajectories: Trajectories, path: Path) -> None:
    """A block."""
    # A file and not a path: numpy appends '.npz' to a path that ends in '.NPZ'.
    with path.open("wb") as file:
        np.savez(file, **block(trajectories))


def block(trajectories: Trajectories) -> dict[str, Any]:
    """`t`, `x`, for runs without a common grid `lengths`, `sigma` if it is known, and text arrays, with the
    unit of time if that is known."""
    arrays: dict[str, Any]
    if trajectories.has_shared_grid:
        t, x = trajectories.stacked()
        arrays = {"t": t, "x": x}
        join = np.stack
    else:
        join = np.concatenate
        arrays = {
            "t": np.concatenate([run.t for run in trajectories.runs]),
            "x": np.concatenate([run.x for run in trajectories.runs]),
            "lengths": np.array([run.t.size for run in trajectories.runs], dtype=np.int64),
        }
    if trajectories.has_noise_levels:
        arrays["sigma"] = join([run.sigma for run in trajectories.runs if run.sigma is not None])
    for key in ("names", "units", "run_names"):
        arrays[key] = np.array(getattr(trajectories, key), dtype=np.str_)
    if trajectories.time_unit:
        arrays["time_unit"] = np.array([trajectories.time_unit], dtype=np.str_)
    return arrays
