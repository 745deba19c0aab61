"""A model for use without this package: plain arrays, StableHLO, ONNX. One file a format.

Every export takes and gives physical states. What does not live here: model files, from which a training's every number
comes back (`artefact`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from wgfinn._errors import InputError
from wgfinn.artefact import Model
from wgfinn.data import atomic_write
from wgfinn.export.arrays import DType
from wgfinn.export.npz import npz_bytes
from wgfinn.export.onnx import onnx_bytes
from wgfinn.export.stablehlo import stablehlo_bytes

Format = Literal["numpy", "stablehlo", "onnx"]

_WRITERS: dict[str, Callable[[Model, int | None, DType], bytes]] = {
    "numpy": npz_bytes,
    "stablehlo": stablehlo_bytes,
    "onnx": onnx_bytes,
}
# ONNX runtimes are at home in single precision.
_DTYPES: dict[str, DType] = {"numpy": "float64", "stablehlo": "float64", "onnx": "float32"}


def export_model(
    model: Model, path: str | Path, format: str, *, member: int | None = None, dtype: DType | None = None
) -> None:
    """Write one member of a model, the served one if none is named, to a file of another format (docs/export.md).

    `dtype` is the arithmetic of the exported model: double for numpy and StableHLO, single for ONNX if not given.
    """
    if format not in _WRITERS:
        raise InputError(f"format {format!r} is unknown; choose one of {', '.join(get_args(Format))}.")
    target = Path(path)
    content = _WRITERS[format](model, member, dtype or _DTYPES[format])
    try:
        with atomic_write(target) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error}).") from error


__all__ = ["DType", "Format", "export_model"]
