"""Libraries that only some formats need: imported when used, so that `import wgfinn` stays quick."""

import importlib
from typing import Any

from wgfinn._errors import InputError

_EXTRA = ("xarray", "h5netcdf", "zarr")


def library(name: str, purpose: str) -> Any:
    """The module `name`, or an `InputError` that says how to install it; `purpose` as in "HDF5 files"."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        wanted = '"wgfinn[formats]"' if package in _EXTRA else package
        raise InputError(
            f"{purpose} need the library {package}, which is not installed: pip install {wanted}"
        ) from error
