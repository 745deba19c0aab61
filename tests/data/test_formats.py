"""Every format gives the same trajectories; the layouts in which arrays may come; what is guessed is said."""

import subprocess
import sys
from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import xarray as xr

from data_sources import FORMS, T, X, grid, in_every_form, ragged, to_frame, write_mat_7_3
from wgfinn._errors import InputError
from wgfinn.data import DataSpec, Trajectories, load, read, save
from wgfinn.data.formats import WRITERS
from wgfinn.data.formats.labelled import to_dataset


def sorted_grid() -> Trajectories:
    """A folder has its runs in the order of their names."""
    return grid().subset([1, 0])


def assert_same(found: Trajectories, expected: Trajectories) -> None:
    assert found.digest() == expected.digest()
    assert found.run_names == expected.run_names
    assert found.units == expected.units
    assert found.time_unit == expected.time_unit


@pytest.fixture(scope="module", params=[sorted_grid, ragged], ids=["grid", "ragged"])
def forms(request, tmp_path_factory):
    trajectories = request.param()
    return trajectories, in_every_form(trajectories, tmp_path_factory.mktemp("forms"))


@pytest.mark.parametrize("form", FORMS)
def test_same_data_in_every_form(forms, form):
    """The digest covers values bit by bit, shapes, names and units: so it is the same model."""
    expected, sources = forms
    assert_same(load(sources[form]), expected)


@pytest.fixture(scope="module", params=["s", "seconds since 2000-01-01", "µs"])
def timed_forms(request, tmp_path_factory):
    """On one grid and on several."""
    both = [replace(runs, time_unit=request.param) for runs in (sorted_grid(), ragged())]
    return [(runs, in_every_form(runs, tmp_path_factory.mktemp("timed"))) for runs in both]


@pytest.mark.parametrize("form", FORMS)
def test_the_unit_of_time_in_every_form(timed_forms, form):
    """Written and read again; xarray makes no dates of them."""
    for expected, sources in timed_forms:
        assert_same(load(sources[form]), expected)


@pytest.mark.parametrize("form", FORMS)
def test_states_can_be_picked_in_every_form(forms, form):
    expected, sources = forms
    swapped = load(sources[form], states=["p", "q"])
    assert swapped.names == ("p", "q")
    assert swapped.units == expected.units[::-1]
    np.testing.assert_array_equal(swapped.runs[1].x, expected.runs[1].x[:, ::-1])
    assert load(sources[form], ignore=["q"]).names == ("p",)


@pytest.mark.parametrize("form", FORMS)
def test_unknown_state_in_every_form(forms, form):
    with pytest.raises(InputError, match=r"has no (column|state|variable) 'z' \(given as states\); there are .*'p"):
        load(forms[1][form], states=["z"])


def with_gap() -> tuple[np.ndarray, np.ndarray]:
    x = X[0].copy()
    x[1, 0] = np.nan
    return T, x


def gap_sources(folder) -> dict:
    """One run with a value that was not measured, in the forms that can be written without our writers."""
    t, x = with_gap()
    frame = pd.DataFrame({"time": t, "q": x[:, 0], "p": x[:, 1]})
    frame.to_csv(folder / "gap.csv", index=False)
    frame.to_parquet(folder / "gap.parquet")
    np.savez(folder / "gap.npz", t=t, x=x, names=["q", "p"])
    scipy.io.savemat(folder / "gap.mat", {"t": t, "q": x[:, 0], "p": x[:, 1]})
    with h5py.File(folder / "gap.h5", "w") as file:
        file.update({"t": t, "x": x})
        file["x"].attrs["names"] = ["q", "p"]
    dataset = xr.Dataset({"q": ("time", x[:, 0]), "p": ("time", x[:, 1])}, {"time": t})
    dataset.to_netcdf(folder / "gap.nc", engine="h5netcdf")
    nullable = frame.astype({"q": "Float64"})
    objects = frame.astype({"q": object})
    files = {suffix: folder / f"gap{suffix}" for suffix in (".csv", ".parquet", ".npz", ".mat", ".h5", ".nc")}
    return files | {"DataFrame": frame, "nullable": nullable, "objects": objects, "Dataset": dataset}


def test_missing_values_reach_the_recording(tmp_path):
    for form, source in gap_sources(tmp_path).items():
        recording = read(source, DataSpec(states=("q", "p")))
        np.testing.assert_array_equal(recording.runs[0].x, with_gap()[1], err_msg=form)


def test_missing_values_survive_every_format(tmp_path):
    expected = Trajectories.from_arrays(with_gap()[1], T, names=["q", "p"], run_names=["a"])
    for form, source in in_every_form(expected, tmp_path).items():
        assert load(source).digest() == expected.digest(), form


@pytest.mark.parametrize("lengths", [(3, 3), (3, 2)])
def test_noise_levels_survive_every_format(tmp_path, lengths):
    """Also where a value was not measured, and its level is not known."""
    x = [X[k, :n].copy() for k, n in enumerate(lengths)]
    x[0][1, 0] = np.nan
    levels = [1 / np.arange(1.0, 2 * n + 1).reshape(n, 2) for n in lengths]
    expected = Trajectories.from_arrays(x, [T[:n] for n in lengths], ["q", "p"], ["m", ""], sigma=levels)
    for suffix in WRITERS:
        save(expected, tmp_path / f"runs{suffix}")
        assert load(tmp_path / f"runs{suffix}").digest() == expected.digest(), suffix


# ------------------------------------------------------------------------------------ layouts of arrays

ONE = Trajectories.from_arrays(X[0], T, names=["q", "p"])
BOTH = Trajectories.from_arrays(X, T, names=["q", "p"])
NAMED = Trajectories.from_arrays(X, T, names=["q", "p"], run_names=["r2", "r10"])
STACKED = {"t": T, "q": X[:, :, 0], "p": X[:, :, 1]}
LONG = {"run": np.repeat([7, 3], 3), "t": np.tile(T, 2), "q": X[:, :, 0].ravel(), "p": X[:, :, 1].ravel()}
GROUPS = {"r10": {"t": T, "x": X[1]}, "r2": {"t": T, "x": X[0]}}
LAYOUTS = [
    ({"t": T, "q": X[0, :, 0], "p": X[0, :, 1]}, ONE),
    ({"time": T, "q": X[0, :, 0], "p": X[0, :, 1], "dt": 0.1}, ONE),
    (STACKED, BOTH),
    ({**STACKED, "t": np.stack([T, T])}, BOTH),
    ({"t": T, "x": X, "names": ["q", "p"]}, BOTH),
    ({"t": np.stack([T, T]), "x": X, "names": ["q", "p"]}, BOTH),
    ({"t": T, "x": X[0], "names": ["q", "p"]}, ONE),
    (LONG, Trajectories.from_arrays(X, T, names=["q", "p"], run_names=["7", "3"])),
    ({k: {**v, "names": ["q", "p"]} for k, v in GROUPS.items()}, NAMED),
    ({k: {"t": T, "q": v["x"][:, 0], "p": v["x"][:, 1]} for k, v in GROUPS.items()}, NAMED),
]


def write_npz(tree, path):
    flat = {}
    for name, value in tree.items():
        flat |= {f"{name}/{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    np.savez(path, **flat)


def write_hdf5(tree, path):
    def fill(group, inner):
        for name, value in inner.items():
            if isinstance(value, dict):
                fill(group.create_group(name), value)
            elif name != "names":
                group[name] = value
        if "names" in inner:
            group["x"].attrs["names"] = inner["names"]

    with h5py.File(path, "w", track_order=True) as file:
        fill(file, tree)


def write_mat(tree, path):
    cells = {k: np.array(v, dtype=object) if k == "names" else v for k, v in tree.items()}
    for name, value in tree.items():
        if isinstance(value, dict) and "names" in value:
            cells[name] = {**value, "names": np.array(value["names"], dtype=object)}
    scipy.io.savemat(path, cells)


@pytest.mark.parametrize(("tree", "expected"), LAYOUTS)
@pytest.mark.parametrize(
    ("suffix", "write"), [(".npz", write_npz), (".h5", write_hdf5), (".mat", write_mat), (".mat", write_mat_7_3)]
)
def test_layouts(tmp_path, suffix, write, tree, expected):
    path = tmp_path / f"runs{suffix}"
    write(tree, path)
    found = load(path, states=["q", "p"])
    assert found.digest() == expected.digest()
    assert found.run_names == expected.run_names


@pytest.mark.parametrize("write", ["5", "7.3"])
def test_a_matlab_struct_array_is_a_run_a_struct(tmp_path, write):
    path = tmp_path / "runs.mat"
    if write == "5":
        records = np.empty((1, 2), dtype=[("t", object), ("q", object), ("p", object)])
        for k in range(2):
            records[0, k] = (T[:, None], X[k, :, :1], X[k, :, 1:])
        scipy.io.savemat(path, {"runs": records})
    else:
        write_mat_7_3({"runs": [{"t": T, "q": X[k, :, 0], "p": X[k, :, 1]} for k in range(2)]}, path)
    found = load(path, states=["q", "p"])
    assert found.digest() == BOTH.digest()
    assert found.run_names == ("1", "2")
    assert read(path).said[0] == "took each of 2 groups (1, 2) for a run"


def test_groups_inside_one_group(tmp_path):
    write_hdf5({"measurements": {"r2": STACKED_ONE, "r10": STACKED_ONE}}, tmp_path / "runs.h5")
    assert load(tmp_path / "runs.h5").run_names == ("r2", "r10")


STACKED_ONE = {"t": T, "q": X[0, :, 0], "p": X[0, :, 1]}


def test_units_of_hdf5_datasets(tmp_path):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        file.update(STACKED_ONE)
        file["q"].attrs["units"] = "m"
        file["p"].attrs["unit"] = np.bytes_("kg m/s")
        file["t"].attrs["units"] = "s"
    recording = read(tmp_path / "runs.h5")
    assert recording.time_unit == "s"
    assert recording.trajectories().units == ("kg m/s", "m")
    assert recording.summary() == "1 run of 3 samples, time in s, states p [kg m/s], q [m]"


def test_units_of_time_in_arrays_without_attributes(tmp_path):
    for k, arrays in enumerate(({"t": T, "time_unit": "s"}, {"t [s]": T}, {"t": T, "time_unit": np.array(["s"])})):
        np.savez(tmp_path / f"block{k}.npz", x=X, **arrays)
        np.savez(tmp_path / f"columns{k}.npz", q=X[0, :, 0], **arrays)
        assert load(tmp_path / f"block{k}.npz").time_unit == "s"
        columns = load(tmp_path / f"columns{k}.npz")
        assert (columns.time_unit, columns.names) == ("s", ("q",))


@pytest.mark.parametrize(("given", "shown"), [(np.array(["s", "h"]), r"\['s', 'h'\]"), (0.5, r"\[0.5\]")])
@pytest.mark.parametrize("states", ["x", "q"])
def test_units_of_time_that_are_none(tmp_path, given, shown, states):
    np.savez(tmp_path / "r.npz", t=T, **{states: X if states == "x" else X[0, :, 0]}, time_unit=given)
    with pytest.raises(InputError, match=f"'time_unit' must be a single text, such as 's', but holds {shown}. Remove"):
        load(tmp_path / "r.npz")


def test_padded_units_are_stripped(tmp_path):
    with h5py.File(tmp_path / "runs.h5", "w") as file:
        file.update({"t": T, "q": X[0, :, 0]})
        file["t"].attrs["units"] = np.bytes_("s   ")
    assert load(tmp_path / "runs.h5").time_unit == "s"
    assert load(xr.Dataset({"q": ("t", X[0, :, 0])}, {"t": ("t", T, {"units": "s "})})).time_unit == "s"


def test_dimensions_of_a_dataset_in_any_order():
    found = load(to_dataset(grid()).transpose("time", "run"))
    assert_same(found, grid())
    single = xr.Dataset({"q": ("t", X[0, :, 0]), "constant": 3.0}, {"t": ("t", T, {"units": "s"})})
    recording = read(single)
    assert_same(recording.trajectories(), Trajectories.from_arrays(X[0, :, :1], T, ["q"], time_unit="s"))
    assert recording.said[-1] == "left out constant, which do not go along 't'"


def test_a_dataset_without_names_of_runs():
    nameless = to_dataset(grid()).drop_vars("run")
    assert load(nameless).run_names == ("0", "1")
    other = nameless.rename(run="realisation")
    assert load(other, run="realisation").digest() == grid().digest()
    with pytest.raises(InputError, match=r"Dataset: variable 'q' has dimensions .* but a state has \('time',\)"):
        load(other)


def test_one_time_for_all_runs_of_a_dataset():
    shared = to_dataset(grid()).assign(load=("time", [1.0, 2.0, 3.0]))
    assert [run.x[:, 2].tolist() for run in load(shared).runs] == [[1.0, 2.0, 3.0]] * 2


# ---------------------------------------------------------------------------------------------- frames


def test_frames():
    frame = to_frame(grid())
    assert_same(load(frame.set_index(["run", "time"])), grid())
    bare = frame.rename(columns={"q [m]": "q"})
    bare.attrs["units"] = {"q": "m", "time": "s"}
    assert_same(load(bare), replace(grid(), time_unit="s"))
    bare.attrs["units"] = "m"
    with pytest.raises(InputError, match=r"DataFrame: attrs\['units'\] must map columns to units, but received 'm'"):
        load(bare)


def test_other_types_are_refused():
    with pytest.raises(InputError, match=r"data of type ndarray cannot be read: give a path, a pandas DataFrame"):
        load(X)
    with pytest.raises(InputError, match=r"data of type DataArray cannot be read"):
        load(xr.DataArray(X))


# ---------------------------------------------------------------------------------------- a row of units


@pytest.mark.parametrize("row", [",s,m,-", "-,[s],[m],", ",s,m,NA"])
def test_a_second_row_may_hold_units(tmp_path, row):
    (tmp_path / "r.csv").write_text(f"run,time,q,p\n{row}\na,0,1,2\na,1,3,4\n")
    recording = read(tmp_path / "r.csv")
    assert recording.units == ("m", "")
    assert recording.time_unit == "s"
    assert recording.said[0] == "took row 2 for the units of the columns"
    np.testing.assert_array_equal(recording.runs[0].x, [[1.0, 2.0], [3.0, 4.0]])


def test_rows_count_on_below_units(tmp_path):
    (tmp_path / "r.csv").write_text("time,q\n\ns,m\n0,1\n1,x\n")
    with pytest.raises(InputError, match="column 'q', row 5: expected a finite number, but received 'x'"):
        load(tmp_path / "r.csv")


# ---------------------------------------------------------------------------------------------- folders


def test_runs_of_a_folder(tmp_path):
    """Natural order; columns in any order; other files and hidden ones do not count."""
    (tmp_path / "r10.csv").write_text("time,p,q [m]\n0,4,3\n1,6,5\n")
    (tmp_path / "r2.csv").write_text("time,q [m],p\n0,1,2\n2,3,4\n")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".r3.csv").write_text("")
    seen = []
    found = load(tmp_path, progress=lambda *at: seen.append(at))
    expected = Trajectories.from_arrays(
        [[[1.0, 2], [3, 4]], [[3, 4], [5, 6]]], [[0.0, 2], [0, 1]], ["q", "p"], ["m", ""], ["r2", "r10"]
    )
    assert_same(found, expected)
    assert seen == [(1, 2), (2, 2)]
    assert read(tmp_path).said[0] == "took each of 2 .csv files for a run"
    assert not any("one run" in guess for guess in read(tmp_path).said)


def test_runs_of_a_folder_in_different_units_of_time(tmp_path):
    (tmp_path / "a.csv").write_text("time [s],q\n0,1\n1,2\n")
    (tmp_path / "b.csv").write_text("time [ms],q\n0,1\n1000,2\n")
    with pytest.raises(InputError, match=r"b.csv: its unit of time is 'ms', but that of .*a.csv is 's'; all runs must"):
        load(tmp_path)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".h5", ".mat", ".nc", ".tsv"])
def test_folders_of_every_format(tmp_path, suffix):
    for k in range(2):
        save(grid().subset([k]), tmp_path / f"{k}{suffix}")
    assert load(tmp_path).digest() == grid().digest()


# -------------------------------------------------------------------------------------------- libraries


@pytest.mark.parametrize(
    ("suffix", "library", "message"),
    [
        (".csv", "pandas", "CSV and TSV files need the library pandas, which is not installed: pip install pandas"),
        (".parquet", "pyarrow", "Parquet files need the library pyarrow, which is not installed: pip install pyarrow"),
        (".h5", "h5py", "HDF5 files need the library h5py, which is not installed: pip install h5py"),
        (".nc", "h5netcdf", r'netCDF files need the library h5netcdf.*: pip install "wgfinn\[formats\]"'),
        (".nc", "xarray", r'netCDF files need the library xarray.*: pip install "wgfinn\[formats\]"'),
        (".zarr", "zarr", r'zarr folders need the library zarr.*: pip install "wgfinn\[formats\]"'),
    ],
)
def test_a_missing_library(tmp_path, monkeypatch, suffix, library, message):
    path = tmp_path / f"runs{suffix}"
    if suffix == ".zarr":
        path.mkdir()
    else:
        save(grid(), path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, library, None)
        with pytest.raises(InputError, match=message):
            load(path)


def test_formats_are_imported_when_used():
    """`import wgfinn` needs none of them."""
    code = "import sys, wgfinn; print([m for m in ('pandas', 'pyarrow', 'h5py', 'xarray', 'zarr') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("suffix", "name", "message"),
    [
        (".parquet", "time", "a Parquet file cannot hold a state named 'time'"),
        (".tsv", "run", "a TSV file cannot hold a state named 'run'"),
        (".nc", "sample", "a netCDF file cannot hold a state named 'sample'"),
        (".nc", "a/b", "a netCDF file cannot hold a state named 'a/b': '/' is its separator"),
        (".csv", "q_sigma", "a CSV file cannot hold states named 'q' and 'q_sigma'"),
        (".zarr", "p", r"runs.zarr: unknown suffix '.zarr'; known formats are .csv, .h5"),
    ],
)
def test_names_that_could_not_be_read_back(tmp_path, suffix, name, message):
    with pytest.raises(InputError, match=message):
        save(Trajectories.from_arrays(X[0], T, ["q", name]), tmp_path / f"runs{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_too_much_for_matlab(tmp_path, monkeypatch):
    monkeypatch.setattr("wgfinn.data.formats.mat._LARGEST", 95)
    with pytest.raises(InputError, match=r"a MATLAB file of version 5 holds at most 2 GiB a variable.*use .h5"):
        save(grid(), tmp_path / "runs.mat")
    assert list(tmp_path.iterdir()) == []
