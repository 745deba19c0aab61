"""Formats: one file each, all with the same two functions.

    read(path, spec, progress) -> Recording
    write(trajectories, path)

`recording` is what every reader returns, `columns` has the rules for the roles of columns, `arrays` the layouts of
named arrays. A new format is a file with these functions and a row in each table below. Libraries that only some
formats need are imported when used.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from wgfinn.data.formats import delimited, hdf5, labelled, mat, npz, parquet
from wgfinn.data.formats.columns import DataSpec
from wgfinn.data.formats.recording import Progress, Recording
from wgfinn.data.trajectories import Trajectories

Reader = Callable[[Path, DataSpec, Progress], Recording]
Writer = Callable[[Trajectories, Path], None]

READERS: Mapping[str, Reader] = {
    ".csv": delimited.read,
    ".h5": hdf5.read,
    ".hdf5": hdf5.read,
    ".mat": mat.read,
    ".nc": labelled.read_netcdf,
    ".npz": npz.read,
    ".parquet": parquet.read,
    ".tsv": delimited.read,
    ".zarr": labelled.read_zarr,
}
WRITERS: Mapping[str, Writer] = {
    ".csv": delimited.write,
    ".h5": hdf5.write,
    ".hdf5": hdf5.write,
    ".mat": mat.write,
    ".nc": labelled.write_netcdf,
    ".npz": npz.write,
    ".parquet": parquet.write,
    ".tsv": delimited.write,
}

__all__ = ["READERS", "WRITERS", "DataSpec", "Progress", "Reader", "Recording", "Writer"]
