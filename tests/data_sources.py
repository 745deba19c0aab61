"""One data set in every form in which it may come, for tests of the readers."""

import h5py
import numpy as np
import pandas as pd

from wgfinn.data import Trajectories, save
from wgfinn.data.formats.labelled import to_dataset

T = np.array([0.0, 0.1, 0.3])
X = np.array([[[1.0, -0.0], [1e-300, 1e300], [0.1, 1 / 3]], [[5e-324, 2.0], [3.0, 4.0], [5.0, 6.0]]])


def grid() -> Trajectories:
    """Two runs on one time grid; the names are out of order, one state and the time have no unit."""
    return Trajectories.from_arrays(X, T, names=["q", "p"], units=["m", ""], run_names=["b", "a"])


def ragged() -> Trajectories:
    """Runs of different lengths and times, in seconds."""
    units = ["m", "kg m/s"]
    return Trajectories.from_arrays([X[0], X[1, :2]], [T, T[:2] + 7], names=["q", "p"], units=units, time_unit="s")


def to_frame(trajectories: Trajectories) -> pd.DataFrame:
    """Long form, units in the headings."""
    time = f"time [{trajectories.time_unit}]" if trajectories.time_unit else "time"
    parts = [
        pd.DataFrame({"run": run.name, time: run.t, **dict(zip(headings(trajectories), run.x.T, strict=True))})
        for run in trajectories.runs
    ]
    return pd.concat(parts, ignore_index=True)


def headings(trajectories: Trajectories) -> list[str]:
    return [f"{n} [{u}]" if u else n for n, u in zip(trajectories.names, trajectories.units, strict=True)]


def write_folder(trajectories: Trajectories, folder) -> None:
    """One file a run, without a column of runs."""
    folder.mkdir()
    for name, part in to_frame(trajectories).groupby("run", sort=False):
        part.drop(columns="run").to_csv(folder / f"{name}.csv", index=False)


def write_zarr(trajectories: Trajectories, folder) -> None:
    # Consolidated metadata are a matter of speed, and warn in the third format.
    to_dataset(trajectories).to_zarr(folder, consolidated=False)


def write_mat_7_3(variables: dict, path) -> None:
    """A file as MATLAB's `save -v7.3` writes it: HDF5 after 512 bytes of its own, every array with its axes reversed
    and at least two of them, text as 16-bit codes, cells and struct arrays as references into `#refs#`."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            _put(file, file, name, value)
    with path.open("rb+") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def _put(file, place, name, value):
    if isinstance(value, dict):
        group = place.create_group(name)
        group.attrs["MATLAB_class"] = np.bytes_("struct")
        for field, inner in value.items():
            _put(file, group, field, inner)
    elif isinstance(value, list) and isinstance(value[0], dict):
        group = place.create_group(name)
        group.attrs["MATLAB_class"] = np.bytes_("struct")
        for field in value[0]:
            group.create_dataset(field, data=_references(file, [record[field] for record in value]))
    elif isinstance(value, list):
        cells = place.create_dataset(name, data=_references(file, value))
        cells.attrs["MATLAB_class"] = np.bytes_("cell")
    elif isinstance(value, str) and not value:
        _mark(place.create_dataset(name, data=np.zeros(2, np.uint64)), "char").attrs["MATLAB_empty"] = 1
    elif isinstance(value, str):
        _mark(place.create_dataset(name, data=np.array([[ord(c)] for c in value], np.uint16)), "char")
    elif np.iscomplexobj(value):
        pairs = np.empty(np.shape(value), [("real", "f8"), ("imag", "f8")])
        pairs["real"], pairs["imag"] = np.real(value), np.imag(value)
        _mark(place.create_dataset(name, data=np.atleast_2d(pairs).T), "double")
    else:
        _mark(place.create_dataset(name, data=np.atleast_2d(value).T), "double")


def _mark(dataset, kind):
    dataset.attrs["MATLAB_class"] = np.bytes_(kind)
    return dataset


def _references(file, values):
    store = file.require_group("#refs#")
    references = np.empty((len(values), 1), h5py.ref_dtype)
    for k, value in enumerate(values):
        name = f"r{len(store)}"
        _put(file, store, name, value)
        references[k, 0] = store[name].ref
    return references


def matlab_variables(trajectories: Trajectories) -> dict:
    """The block layout as MATLAB variables."""
    same = trajectories.has_shared_grid
    t = trajectories.runs[0].t if same else np.concatenate([run.t for run in trajectories.runs])
    x = np.stack([run.x for run in trajectories.runs]) if same else np.concatenate([r.x for r in trajectories.runs])
    texts = {key: list(getattr(trajectories, key)) for key in ("names", "units", "run_names")}
    lengths = {} if same else {"lengths": np.array([float(run.t.size) for run in trajectories.runs])}
    return {"t": t, "x": x, "time_unit": trajectories.time_unit, **texts, **lengths}


def in_every_form(trajectories: Trajectories, folder) -> dict:
    """What `load` takes, by the name of the form."""
    sources = {}
    for suffix in (".csv", ".tsv", ".parquet", ".npz", ".h5", ".hdf5", ".mat", ".nc"):
        sources[suffix] = folder / f"runs{suffix}"
        save(trajectories, sources[suffix])
    write_folder(trajectories, folder / "runs")
    write_zarr(trajectories, folder / "runs.zarr")
    write_mat_7_3(matlab_variables(trajectories), folder / "new.mat")
    return sources | {
        "folder": folder / "runs",
        ".zarr": folder / "runs.zarr",
        "mat 7.3": folder / "new.mat",
        "DataFrame": to_frame(trajectories),
        "Dataset": to_dataset(trajectories),
    }


FORMS = (
    ".csv", ".tsv", ".parquet", ".npz", ".h5", ".hdf5", ".mat", ".nc",
    "folder", ".zarr", "mat 7.3", "DataFrame", "Dataset",
)  # fmt: skip
