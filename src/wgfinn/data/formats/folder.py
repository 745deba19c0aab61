"""A folder with one file a run, all of one format; the names of the files are the names of the runs."""

from collections.abc import Callable, Mapping
from pathlib import Path

from wgfinn._errors import InputError
from wgfinn.data.formats.columns import DataSpec
from wgfinn.data.formats.recording import Progress, Recording, join, natural_order


def read(
    folder: Path,
    spec: DataSpec,
    progress: Progress,
    readers: Mapping[str, Callable[[Path, DataSpec, Progress], Recording]],
) -> Recording:
    """The runs in the files of `folder`, in the natural order of their names; other files are left out."""
    files = {f.name: f for f in folder.iterdir() if f.suffix.lower() in readers and not f.name.startswith(".")}
    suffixes = sorted({f.suffix.lower() for f in files.values()})
    if not files:
        raise InputError(
            f"{folder}: is a folder without data files; it must hold one file a run ({', '.join(sorted(readers))})."
        )
    if len(suffixes) > 1:
        raise InputError(
            f"{folder}: holds files of several formats ({', '.join(suffixes)}), so it is not clear which are the runs. "
            "Keep one format in the folder, or name the file to read."
        )
    parts = []
    for done, name in enumerate(natural_order(files), 1):
        parts.append((files[name].stem, readers[suffixes[0]](files[name], spec, lambda *_: None)))
        progress(done, len(files))
    count = f"{len(files)} {suffixes[0]} file{'s' if len(files) > 1 else ''}"
    return join(str(folder), parts, f"took each of {count} for a run")
