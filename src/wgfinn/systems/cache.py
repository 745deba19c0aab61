"""Computed arrays kept between runs of the program, under a hash of everything that settles them.

Files live in the user's cache folder, or in the folder named by the environment variable WGFINN_CACHE. A
file that is missing, damaged or of the wrong shape counts as absent and is made again.
"""

import contextlib
import hashlib
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_dir

from wgfinn._errors import InputError
from wgfinn.data import atomic_write


def cache_folder() -> Path:
    """Where computed data sets are kept."""
    return Path(os.environ.get("WGFINN_CACHE") or user_cache_dir("wgfinn"))


def cache_path(kind: str, settings: Mapping[str, Any]) -> Path:
    """The file of these settings: its name is the SHA-256 of all of them."""
    text = json.dumps(settings, sort_keys=True, allow_nan=False)
    return cache_folder() / kind / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"


def load_cached(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The array kept at `path`, or None where there is no sound one of that shape."""
    try:
        # Opened here, for np.load leaves the file open when it finds the archive cut short.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            values = file["values"]
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        return None
    sound = values.dtype == np.float64 and values.shape == shape and np.isfinite(values).all()
    return values if sound else None


def save_cached(path: Path, values: np.ndarray) -> None:
    """Keep the array at `path`; a folder that cannot be written costs a warning, not the result."""
    try:
        with atomic_write(path) as temporary:
            np.savez(temporary, values=values)
    except (OSError, InputError) as error:
        warnings.warn(
            f"the computed data could not be kept in {path.parent} ({error}); set WGFINN_CACHE to a folder "
            "that can be written.",
            stacklevel=2,
        )


def forget_cached(path: Path) -> None:
    """Remove the file, if it can be removed."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
