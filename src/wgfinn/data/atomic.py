"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wgfinn._errors import InputError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; when the block ends well, it becomes `path`.

    An exception in the block removes the temporary file and leaves an older `path` untouched. The missing
    parent folder is created. The temporary path keeps the suffix, which many writers look at.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: cannot be written, because a folder of that name exists.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: its folder cannot be created ({error.strerror}).") from error
    # Not tempfile: its files are private to the owner, and the mode would outlive the renaming.
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(8)}{target.suffix}")
    try:
        yield temporary
        # On disk before the name is: otherwise a power cut may leave an empty file under the final name.
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
