"""The state of a training on disk: enough to go on as if nothing had happened."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from wgfinn._errors import ArtefactError
from wgfinn.data import atomic_write
from wgfinn.models import named_arrays, with_named_arrays
from wgfinn.training.state import TrainState

_SECONDS = "seconds"
_STEP = "step"
_BESIDE = "beside."


def save_checkpoint(
    path: Path, states: TrainState, seconds: float, beside: Mapping[str, np.ndarray] | None = None
) -> None:
    """Write all members' states at once: the file is the old one or the new one, never a part.

    `beside` are arrays of the caller that belong to these states.
    """
    others = {_BESIDE + name: array for name, array in (beside or {}).items()}
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **named_arrays(states), **{_SECONDS: np.float64(seconds)}, **others)


def load_checkpoint(path: Path, template: TrainState) -> tuple[TrainState, float]:
    """The states saved at `path`, in the shape of `template`, and the seconds spent until then."""
    with _opened(path) as file:
        arrays = {name: file[name] for name in file.files}
        seconds = float(arrays[_SECONDS])
    try:
        return with_named_arrays(template, arrays), seconds
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from None


def beside_checkpoint(path: Path) -> dict[str, np.ndarray]:
    """What was saved beside the states."""
    with _opened(path) as file:
        return {name.removeprefix(_BESIDE): file[name] for name in file.files if name.startswith(_BESIDE)}


def checkpoint_step(path: Path) -> int:
    """The step that the checkpoint at `path` has reached."""
    with _opened(path) as file:
        return int(file[_STEP][0])


@contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    """The archive at `path`; what goes wrong with it inside the block becomes an `ArtefactError`."""
    try:
        # Opened here, because numpy leaves the file open when it finds it damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            yield archive
    except FileNotFoundError:
        raise ArtefactError(f"{path}: no checkpoint here; start the run with `wgfinn fit`.") from None
    except (OSError, ValueError, EOFError, LookupError, zipfile.BadZipFile) as error:
        raise ArtefactError(f"{path}: the checkpoint cannot be read ({error}); start the run afresh.") from None
