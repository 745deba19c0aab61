"""Every bad source gets one sentence that names it, in Python and on the command line, where nothing is written.

A row of the table makes a source in a folder and says what the sentence must contain.
"""

import re

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
import xarray as xr

from data_sources import T, X, grid, ragged, to_frame, write_mat_7_3, write_zarr
from wgfinn._errors import InputError
from wgfinn.cli import main
from wgfinn.data import load, save
from wgfinn.data.formats.labelled import to_dataset


def text(content: str, name: str = "runs.csv"):
    def make(folder):
        (folder / name).write_bytes(content.encode())
        return folder / name

    return make


def npz(**arrays):
    def make(folder):
        np.savez(folder / "runs.npz", **arrays)
        return folder / "runs.npz"

    return make


def hdf5(**arrays):
    def make(folder):
        with h5py.File(folder / "runs.h5", "w") as file:
            file.update(arrays)
        return folder / "runs.h5"

    return make


def mat(**arrays):
    def make(folder):
        scipy.io.savemat(folder / "runs.mat", arrays)
        return folder / "runs.mat"

    return make


def new_mat(**arrays):
    def make(folder):
        write_mat_7_3(arrays, folder / "runs.mat")
        return folder / "runs.mat"

    return make


def parquet(**columns):
    def make(folder):
        pq.write_table(pa.table(columns), folder / "runs.parquet")
        return folder / "runs.parquet"

    return make


def netcdf(dataset):
    def make(folder):
        dataset.to_netcdf(folder / "runs.nc", engine="h5netcdf")
        return folder / "runs.nc"

    return make


def damaged(suffix: str, keep: float | None = None):
    """A sound file cut to a fraction of its length, or, without `keep`, text under its suffix."""

    def make(folder):
        path = folder / f"runs{suffix}"
        save(grid(), path)
        content = path.read_bytes()
        path.write_bytes(b"this is no such file\n" * 50 if keep is None else content[: int(keep * len(content))])
        return path

    return make


def cut_mat_7_3(folder):
    path = new_mat(t=T, x=X)(folder)
    path.write_bytes(path.read_bytes()[:1500])
    return path


def folder_of(**files):
    def make(folder):
        (folder / "runs").mkdir()
        for name, content in files.items():
            (folder / "runs" / name.replace("_", ".")).write_text(content)
        return folder / "runs"

    return make


def zarr_without_metadata(folder):
    write_zarr(ragged(), folder / "runs.zarr")
    (folder / "runs.zarr" / "zarr.json").write_text("{")
    return folder / "runs.zarr"


def zarr_with_damaged_chunk(folder):
    write_zarr(grid(), folder / "runs.zarr")
    chunk = next(path for path in (folder / "runs.zarr" / "q" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(b"no chunk")
    return folder / "runs.zarr"


def frame(**changes):
    return lambda _: to_frame(grid()).assign(**changes)


INF = X.copy()
INF[1, 2, 0] = np.inf
LOST = X.copy()
LOST[:, :, 1] = np.nan
OBJECTS = np.array([None, 1, "a"], dtype=object)
TIMES = {"time": [0.0, 1.0, 2.0]}
BINARY = {
    ".npz": "npz archive",
    ".parquet": "Parquet file",
    ".h5": "HDF5 file",
    ".mat": "MATLAB file",
    ".nc": "netCDF file",
}
BAD_FILES = [
    # any format
    (lambda folder: folder / "none.csv", r"none\.csv: there is no such file"),
    (lambda folder: folder / "none.zarr", r"none\.zarr: there is no such file"),
    (text("x", "runs.xlsx"), r"runs\.xlsx: unknown suffix '\.xlsx'; known formats are \.csv, \.h5"),
    *((text("", f"runs{suffix}"), rf"runs\{suffix}: is empty") for suffix in (".csv", ".tsv", *BINARY)),
    # cut short, or of another format
    *(
        (damaged(suffix, keep), rf"runs\{suffix}: is not (an?|a readable) {kind}.*, or was cut short")
        for suffix, kind in BINARY.items()
        for keep in (None, 0.5, 0.9)
        # scipy takes a MATLAB file whose last variables are missing for a shorter one
        if (suffix, keep) != (".mat", 0.9)
    ),
    (cut_mat_7_3, r"runs\.mat: is not a readable MATLAB file, or was cut short"),
    (damaged(".csv", 0.9), r"runs\.csv: the last row has \d cells for 4 columns .*cut short"),
    (damaged(".csv"), r"runs\.csv: has no column 'time'"),
    (zarr_without_metadata, r"runs\.zarr: is not a readable zarr file, or was cut short"),
    (zarr_with_damaged_chunk, r"runs\.zarr: is not a readable zarr file, or was cut short"),
    (lambda folder: (folder / "runs.zarr").mkdir() or folder / "runs.zarr", r"runs\.zarr: is not a readable zarr file"),
    # tables
    (text("run;time;q\na;0;1\na;1;2\n"), r"row 1: the columns seem to be separated by semicolons"),
    (text("run\ttime\tq\na\t0\t1\n"), r"row 1: the columns seem to be separated by tabs"),
    (text("run,time,q\na,0,1\n", "runs.tsv"), r"tsv: row 1: the columns seem to be separated by commas .* with tabs"),
    (text("time,q\n0,1\n1,high\n2,3\n"), r"column 'q', row 3: expected a finite number, but received 'high'"),
    (text("time\tq\n0\t1\n1\thigh\n", "runs.tsv"), r"runs\.tsv: column 'q', row 3: expected .* received 'high'"),
    (text('time,q\n0,1\n1,"2,5"\n'), r"column 'q', row 3: .* received '2,5'. Write numbers with a decimal point"),
    (
        text("time,q\n12:00:00,1\n12:00:01,2\n"),
        r"column 'time', row 2: expected a finite number, but received '12:00:00'",
    ),
    (text("run,time,q\na,0,1\na,2,2\na,1,3\n"), r"run 'a': times must increase, but row 4 has 1 after row 3 with 2"),
    (text("run,time,q\na,0,1\na,1,2\na,1,3\n"), r"run 'a': times must increase, but row 4 has 1 after row 3 with 1"),
    (text("run,time,q\na,0,1\na,1,2\nb,0,1\n"), r"run 'b': a run needs at least 2 points in time, but has 1"),
    (text("time,q,p\n0,1,\n1,2,NA\n"), r"state 'p' holds no number at all: every value is missing.*--ignore p"),
    (text("time,q\n0,1\n1,inf\n"), r"column 'q', row 3: expected a finite number, but received inf"),
    (text("time,q\n0,1\n1,1+2j\n"), r"column 'q', row 3: expected a finite number, but received '1\+2j'"),
    (text("time,q\ns,m\n"), r"has names of columns but no rows of numbers"),
    (text("time,q\ns,3\n0,1\n1,2\n"), r"column 'time', row 2: expected a finite number, but received 's'"),
    (text("run,time,q\n"), r"has names of columns but no rows of numbers"),
    (text("a,b\n0,1\n"), r"has no column 'time' \(or 't'\); the columns are 'a', 'b'"),
    (text(",time,q\n0,0,1\n1,1,2\n"), r"column 1 has no name in the first row.*to_csv\(index=False\)"),
    (parquet(time=[0.0, 1.0], q=["1", "high"]), r"runs\.parquet: column 'q', row 1 \(from 0\): .* received 'high'"),
    (parquet(time=[0.0, 1.0], q=[1.0, np.inf]), r"runs\.parquet: column 'q', row 1 \(from 0\): .* received inf"),
    (parquet(time=[1.0, 0.0], q=[1.0, 2.0]), r"run '0': times must increase, but row 1 \(from 0\) has 0 after"),
    (parquet(time=[0.0, None], q=[1.0, 2.0]), r"column 'time', row 1 \(from 0\): the time is missing"),
    (parquet(run=["a", None], **{k: v[:2] for k, v in TIMES.items()}, q=[1.0, 2.0]), r"column 'run', row 1 .*no name"),
    (parquet(time=pa.array([0, 1], pa.timestamp("s")), q=[1.0, 2.0]), r"column 'time': holds dates; convert them"),
    (parquet(time=pa.array([], pa.float64()), q=pa.array([], pa.float64())), r"names of columns but no rows"),
    (parquet(time=[0.0, 1.0], q=[[1.0], [2.0]]), r"column 'q', row 0 \(from 0\): expected a finite number"),
    # arrays
    (npz(t=T, x=INF), r"runs\.npz: run '1': states must be finite, .*state 'x1' is inf at"),
    (npz(t=T, x=X + 1j), r"runs\.npz: run '0': x must hold real numbers, but its dtype is complex128"),
    (npz(t=T, q=T + 1j), r"runs\.npz: array 'q', index 0: holds complex numbers"),
    (npz(t=T, x=X.astype(object)), r"array 'x' cannot be read \(Object arrays cannot be loaded"),
    (npz(t=T, q=OBJECTS), r"array 'q' cannot be read \(Object arrays cannot be loaded"),
    (npz(t=T, x=X[0].T, names=["q", "p"]), r"'x' has shape \(2, 3\) for 3 times and looks transposed"),
    (npz(t=T, x=np.swapaxes(X, 1, 2)), r"'x' has shape \(2, 2, 3\) for 3 times and looks transposed"),
    (npz(t=np.arange(5.0), x=np.ones((5, 2, 3))), r"'x' has shape \(5, 2, 3\) for 5 times, but axis 0 is the run"),
    (npz(t=T, x=X[:0]), r"'x' has shape \(0, 3, 2\), which is no run at all"),
    (npz(t=T, x=X[None]), r"'x' must be \(traj, time, state\) or \(time, state\), but has shape \(1, 2, 3, 2\)"),
    (npz(t=T[:1], x=X[:, :1]), r"run '0': a run needs at least 2 points in time, but has 1"),
    (npz(t=T[::-1], x=X), r"run '0': times must increase, but t\[1\] = 0.1 follows t\[0\] = 0.3"),
    (npz(t=np.stack([T]), x=X), r"the times have shape \(1, 3\), but 'x' holds 2 runs"),
    (npz(t=T, x=LOST), r"state 'x2' holds no number at all: every value is missing"),
    (npz(t=T, x=X, sigma=T), r"the noise levels 'sigma' have shape \(3,\), but 'x' has \(2, 3, 2\)"),
    (npz(t=T, q=np.arange(4.0)), r"array 'q' has shape \(4,\), but the time 't' has \(3,\)"),
    (npz(t=T, q=X[:, :, 0], p=X[:, :2, 0]), r"array 'p' has shape \(2, 2\) and the time 't' \(3,\)"),
    (npz(**{"a/t": T, "a/x": X[0], "b/t": T, "b/x": X[0, :, :1]}), r"npz:b: its states are x1, but those of .*npz:a"),
    (npz(**{"a/t": T, "a/x": X}), r"npz:a: holds 2 runs, but as a part of .* it must be one run"),
    (hdf5(t=T, x=X[0].T), r"runs\.h5: 'x' has shape \(2, 3\) for 3 times and looks transposed"),
    (hdf5(t=T, x=INF), r"runs\.h5: run '1': states must be finite"),
    (hdf5(t=T, x=X + 1j), r"runs\.h5: run '0': x must hold real numbers, but its dtype is complex128"),
    (
        hdf5(t=T, q=np.array([b"a", b"b", b"c"])),
        r"runs\.h5: array 'q', index 0: expected a finite number, but received 'a'",
    ),
    (hdf5(t=T, q=np.zeros(3, [("a", "f8")])), r"runs\.h5: array 'q' holds .*, not plain numbers or text"),
    (hdf5(x=X), r"runs\.h5: lacks the array 't'"),
    (hdf5(), r"runs\.h5: holds no arrays"),
    (mat(t=T, x=X[0].T), r"runs\.mat: 'x' has shape \(2, 3\) for 3 times and looks transposed"),
    (mat(t=T, x=X + 1j), r"runs\.mat: run '0': x must hold real numbers"),
    (mat(t=T, q=np.array([1.0, "a"], dtype=object)), r"runs\.mat: variable 'q' holds a cell array"),
    (mat(t=T, q=scipy.sparse.eye_array(3)), r"runs\.mat: variable 'q' holds csc_array, not plain real numbers"),
    (mat(t=T, x=X, names=np.array([1.0, 2.0])), r"'names' must be a cell array of text, but holds float64"),
    (mat(a=T), r"runs\.mat: has no array 'time' \(or 't'\); the arrays are 'a'"),
    (new_mat(t=T, x=X + 1j), r"runs\.mat: variable 'x' holds complex numbers"),
    (new_mat(t=T, x=X[0].T), r"runs\.mat: 'x' has shape \(2, 3\) for 3 times and looks transposed"),
    (new_mat(t=T, q=[T, T]), r"runs\.mat: variable 'q' holds a cell array"),
    # labelled arrays
    (netcdf(xr.Dataset({"q": ("time", T)}, {"time": T[::-1]})), r"runs\.nc: run '0': times must increase"),
    (netcdf(xr.Dataset({"q": ("z", T)})), r"runs\.nc: has no variable 'time' \(or 't'\); the variables are 'q'"),
    (netcdf(to_dataset(grid()).assign(w=(("run", "time", "z"), X))), r"variable 'w' has dimensions .*--ignore w"),
    (netcdf(xr.Dataset({"q": ("time", T[:1])}, {"time": T[:1]})), r"a run needs at least 2 points"),
    (
        netcdf(to_dataset(ragged()).rename(run="z")),
        r"time 'time' has dimensions \('z', 'sample'\), of which none .*run",
    ),
    (netcdf(to_dataset(grid()).assign_coords(run=["a", "a"])), r"'run' must give each run its own name, but has 1"),
    # folders
    (folder_of(), r"runs: is a folder without data files; it must hold one file a run"),
    (folder_of(readme_txt="hello"), r"runs: is a folder without data files"),
    (
        folder_of(a_csv="time,q\n0,1\n1,2\n", b_tsv="time\tq\n0\t1\n"),
        r"runs: holds files of several formats \(.csv, .tsv\)",
    ),
    (
        folder_of(a_csv="time,q\n0,1\n1,2\n", b_csv="time,p\n0,1\n1,2\n"),
        r"b\.csv: its states are p, but those of .*a\.csv are q",
    ),
    (
        folder_of(a_csv="time,q [m]\n0,1\n1,2\n", b_csv="time,q [cm]\n0,1\n1,2\n"),
        r"b\.csv: its states are q \[cm\], but",
    ),
    (folder_of(a_csv="run,time,q\na,0,1\na,1,1\nb,0,1\nb,1,1\n"), r"a\.csv: holds 2 runs, but as a part of .* one run"),
    (folder_of(a_csv="time,q\n0,1\n1,2\n", b_csv="time,q\n0,1\n1,high\n"), r"b\.csv: column 'q', row 3: .*'high'"),
    (folder_of(a_csv="time,q\n0,1\n1,2\n", b_csv="time,q\n0,1\n"), r"runs: run 'b': a run needs at least 2 points"),
]
BAD_VALUES = [
    (lambda _: to_dataset(grid()).isel(run=[]), r"Dataset: has no values: its dimensions are .*'run': 0"),
    (lambda _: to_dataset(ragged()).assign(q=lambda d: d.q * np.inf), r"Dataset: array 'q', run 0, index 0: .* inf"),
    (lambda _: xr.Dataset({"q": ("time", T)}, {"time": [np.nan, 0, 1]}), r"'time', index 0: the time is missing"),
    (lambda _: xr.Dataset({"q": ("time", ["a", "b", "c"])}, {"time": T}), r"array 'q', run 0, index 0: .* 'a'"),
    (
        lambda _: xr.Dataset({"q": ("time", T)}, {"time": np.arange("2020-01-01", "2020-01-04", dtype="M8[D]")}),
        r"Dataset: array 'time': holds dates; convert them to seconds",
    ),
    (frame(p=list("abcdef")), r"DataFrame: column 'p', row 0 \(from 0\): expected a finite number, but received 'a'"),
    (frame(p=1j), r"DataFrame: column 'p', row 0 \(from 0\): holds complex numbers"),
    (frame(p=True), r"DataFrame: column 'p', row 0 \(from 0\): holds truth values"),
    (frame(time=pd.Timestamp("2020-01-01")), r"DataFrame: column 'time': holds dates"),
    (frame(run=None), r"DataFrame: column 'run', row 0 \(from 0\): the run has no name"),
    (lambda _: to_frame(grid()).iloc[:0], r"DataFrame: has names of columns but no rows of numbers"),
    (lambda _: pd.concat([to_frame(grid())] * 2, axis=1), r"DataFrame: column names must be unique, but 'run'"),
]


@pytest.mark.parametrize(("make", "message"), [*BAD_FILES, *BAD_VALUES])
def test_refused(tmp_path, make, message):
    with pytest.raises(InputError, match=message) as caught:
        load(make(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("make", "message"), BAD_FILES)
def test_refused_by_the_command_line(tmp_path, monkeypatch, capsys, make, message):
    monkeypatch.setattr("sys.argv", ["wgfinn", "fit", str(make(tmp_path)), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as exit_code:
        main()
    printed = capsys.readouterr()
    assert exit_code.value.code == 2
    assert re.search(message, printed.err)
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": "tau"}, r"runs\.npz: lacks the array 'tau'"),
        ({"run": "id"}, r"runs\.npz: has no column 'id' \(given as run\): each slice x\[k\] is a run here"),
        ({"states": ["z"]}, r"runs\.npz: has no state 'z' \(given as states\); there are 'q', 'p'"),
        ({"ignore": ["z"]}, r"runs\.npz: has no state 'z' \(given as ignore\)"),
        ({"ignore": ["q", "p"]}, r"runs\.npz: no state is left when 'q', 'p' are ignored"),
        ({"sigma": ["dq", "dp"]}, r"runs\.npz: has no array 'dq, dp' \(given as sigma\) of the shape of 'x'"),
    ],
)
def test_refused_roles_of_a_block(tmp_path, given, message):
    save(grid(), tmp_path / "runs.npz")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "runs.npz", **given)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    save(grid(), tmp_path / "runs.npz")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zipfile.is_zipfile", refuse)
    with pytest.raises(InputError, match=r"runs\.npz: cannot be read \(Permission denied\)"):
        load(tmp_path / "runs.npz")


def test_a_cut_matlab_file_is_never_read_in_part(tmp_path):
    """Wherever a file is cut: refused, or all there was to read."""
    save(grid(), tmp_path / "whole.mat")
    whole = (tmp_path / "whole.mat").read_bytes()
    for length in range(130, len(whole), 16):
        path = tmp_path / "cut.mat"
        path.write_bytes(whole[:length])
        try:
            found = load(path)
        except InputError:
            continue
        np.testing.assert_array_equal(found.stacked()[1], grid().stacked()[1])
