"""One `.npz` of plain arrays: `numpy.load` and forty lines of numpy evaluate it (docs/export.md)."""

import io
from typing import Any

import numpy as np

from wgfinn.artefact import Model
from wgfinn.export.arrays import DType, plain_arrays


def npz_bytes(model: Model, member: int | None, dtype: DType) -> bytes:
    """The numbers of one member, with names and units of its states, the unit of time and the networks' activation."""
    content: dict[str, Any] = {
        "names": np.array(model.names, dtype=np.str_),
        "units": np.array(model.manifest.units, dtype=np.str_),
        "time_unit": np.array(model.manifest.time_unit, dtype=np.str_),
        "activation": np.array(model.manifest.model.activation, dtype=np.str_),
        **plain_arrays(model, member, dtype),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    return buffer.getvalue()
