"""Both formats keep every bit; every damaged file is refused by name."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, files, load, save

SUFFIXES = [".npz", ".csv"]
T = np.array([0.0, 0.1, 0.3])
X = np.array([[[1.0, -0.0], [1e-300, 1e300], [0.1, 1 / 3]], [[5e-324, 2.0], [3.0, 4.0], [5.0, 6.0]]])


def grid() -> Trajectories:
    return Trajectories.from_arrays(X, T, names=["q", "p"], units=["m", ""], run_names=["b", "a"])


def ragged() -> Trajectories:
    return Trajectories.from_arrays([X[0], X[1, :2]], [T, T[:2] + 7], names=["q", "p"], units=["m", "kg m/s"])


def assert_same(found: Trajectories, expected: Trajectories) -> None:
    """The digest covers values bit by bit, shapes, state names and units."""
    assert found.digest() == expected.digest()
    assert found.run_names == expected.run_names


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


# ----------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".NPZ", ".CSV"])
@pytest.mark.parametrize("make", [grid, ragged])
def test_round_trip(tmp_path, suffix, make):
    path = tmp_path / "deep" / "er" / f"runs{suffix}"
    save(make(), path)
    assert_same(load(path), make())
    assert_same(load(str(path)), make())
    assert list(path.parent.iterdir()) == [path]


def with_gaps() -> Trajectories:
    x = X.copy()
    x[0, 1, 0] = x[1, 2, 1] = np.nan
    return Trajectories.from_arrays(x, T, names=["q", "p"], units=["m", ""])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_values_round_trip(tmp_path, suffix):
    save(with_gaps(), tmp_path / f"runs{suffix}")
    assert_same(load(tmp_path / f"runs{suffix}"), with_gaps())


def test_empty_cells_and_nan_mean_not_measured(tmp_path):
    found = load(written(tmp_path / "runs.csv", "time,q,p\n0,1,\n1,,\n2, ,3\n3,nan,4\n4,5,6\n"))
    np.testing.assert_array_equal(found.runs[0].t, [0, 2, 3, 4])
    np.testing.assert_array_equal(found.runs[0].x, [[1, np.nan], [np.nan, 3], [np.nan, 4], [5, 6]])


@pytest.mark.parametrize("lengths", [(3, 3), (3, 2)])
def test_noise_levels_round_trip(tmp_path, lengths):
    x, t = [X[k, :n] for k, n in enumerate(lengths)], [T[:n] for n in lengths]
    runs = Trajectories.from_arrays(x, t, sigma=[1 / np.arange(1.0, 2 * n + 1).reshape(n, 2) for n in lengths])
    save(runs, tmp_path / "runs.npz")
    assert_same(load(tmp_path / "runs.npz"), runs)
    with pytest.raises(InputError, match=r"a CSV file cannot hold noise levels \(sigma\); save .* as .npz"):
        save(runs, tmp_path / "runs.csv")
    np.savez(tmp_path / "bad.npz", t=T, x=X, sigma=X[0])
    with pytest.raises(InputError, match=r"bad.npz: 'sigma' must have the shape of 'x', \(2, 3, 2\), but has shape"):
        load(tmp_path / "bad.npz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip_of_awkward_labels(tmp_path, suffix):
    names = ["E[0]", "E [1]", 'a,"b"', "θ", "t", "id", "NA"]
    units = ["", "", "%", "°", "", "m s^-1", ""]
    run_names = ["NA", "007", "x, y", "None", "1e3", "nan", "é"]
    x = np.arange(98.0).reshape(7, 2, 7)
    trajectories = Trajectories.from_arrays(x, [0.0, 1.0], names, units, run_names)
    path = tmp_path / f"runs{suffix}"
    save(trajectories, path)
    assert_same(load(path), trajectories)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=50, deadline=None)
@given(x=arrays(np.float64, (2, 3, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_round_trip_of_extreme_floats(tmp_path_factory, suffix, x):
    path = tmp_path_factory.getbasetemp() / f"extreme{suffix}"
    trajectories = Trajectories.from_arrays(x, T)
    save(trajectories, path)
    assert_same(load(path), trajectories)


@settings(max_examples=50, deadline=None)
@given(t=arrays(np.float64, (4,), elements=st.floats(min_value=-1e307, max_value=1e307), unique=True).map(np.sort))
def test_round_trip_of_extreme_times(tmp_path_factory, t):
    if np.any(np.diff(t) <= 0):  # 0.0 and -0.0 are distinct to hypothesis
        return
    path = tmp_path_factory.getbasetemp() / "times.csv"
    trajectories = Trajectories.from_arrays(np.zeros((4, 1)), t)
    save(trajectories, path)
    assert_same(load(path), trajectories)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_save_is_deterministic(tmp_path, suffix):
    save(grid(), tmp_path / f"a{suffix}")
    save(grid(), tmp_path / f"b{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


# --------------------------------------------------------------------------------------- the dispatcher


def test_unknown_suffix(tmp_path):
    message = r"runs\.xlsx: unknown suffix '\.xlsx'; known formats are \.csv, \.npz"
    with pytest.raises(InputError, match=message):
        load(written(tmp_path / "runs.xlsx", ""))
    with pytest.raises(InputError, match=message):
        save(grid(), tmp_path / "new" / "runs.xlsx")
    assert not (tmp_path / "new").exists()


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"runs\.npz: there is no such file"):
        load(tmp_path / "runs.npz")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder\.csv: is not a file"):
        load(tmp_path / "folder.csv")


@pytest.mark.parametrize("table", ["READERS", "WRITERS"])
def test_failures_of_the_system_name_the_file(tmp_path, monkeypatch, table):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(getattr(files, table), ".npz", fail)
    path = written(tmp_path / "runs.npz", "old")
    with pytest.raises(InputError, match=r"runs\.npz: cannot be (read|written) \(No space left on device\)"):
        load(path) if table == "READERS" else save(grid(), path)
    assert path.read_text() == "old"


# ------------------------------------------------------------------------------------------------- npz


def test_npz_needs_only_t_and_x(tmp_path):
    np.savez(tmp_path / "one.npz", t=T, x=X[0], comment=np.array([None], dtype=object))
    assert_same(load(tmp_path / "one.npz"), Trajectories.from_arrays(X[0], T))
    np.savez(tmp_path / "own.npz", t=np.stack([T, T + 1]), x=X)
    assert_same(load(tmp_path / "own.npz"), Trajectories.from_arrays(X, [T, T + 1]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": X}, "lacks the array 't'; an npz file of trajectories needs"),
        ({"a": X}, "lacks the array 't' and 'x'"),
        (
            {"t": T, "x": X[0].astype(object)},
            r"array 'x' cannot be read \(Object arrays .*allow_pickle=False",
        ),
        ({"t": T, "x": X, "names": np.array([1, 2])}, r"'names' must be a one-dimensional text array"),
        ({"t": T, "x": X, "names": np.array("qp")}, r"'names' must be .* shape \(\)"),
        ({"t": T, "x": X, "names": np.array(["q"])}, r"received 1 state names \['q'\] for 2 states"),
        ({"t": T, "x": X[:, :2]}, r"run '0': x has 2 rows \(axis 0 is time\) but t has 3 times"),
        ({"t": T, "x": np.full_like(X, np.inf)}, r"states must be finite"),
        (
            {"t": T, "x": X[0], "lengths": np.array([2, 2])},
            r"'lengths' adds up to 4 points, so 't' must be \(4,\)",
        ),
        ({"t": T, "x": X, "lengths": np.array([3])}, r"'lengths' adds up to 3 points.*\(2, 3, 2\)"),
        ({"t": T, "x": X[0], "lengths": np.array([3.0])}, r"'lengths' must be a list of counts"),
        ({"t": T, "x": X[0], "lengths": np.array([4, -1])}, r"'lengths' must be a list of counts"),
        ({"t": T, "x": X[0], "lengths": np.array([2, 1])}, r"run '1': a run needs at least 2 points"),
    ],
)
def test_refused_npz(tmp_path, content, message):
    np.savez(tmp_path / "runs.npz", **content)
    with pytest.raises(InputError, match=rf"runs\.npz: .*{message}"):
        load(tmp_path / "runs.npz")


def test_npz_that_is_no_archive(tmp_path):
    path = tmp_path / "runs.npz"
    save(grid(), path)
    whole = path.read_bytes()
    array = io.BytesIO()
    np.save(array, X)
    for content in (whole[: len(whole) // 2], b"", b"hello", array.getvalue()):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"runs\.npz: is not an npz archive, or was cut short"):
            load(path)


def test_npz_with_damaged_bytes(tmp_path):
    path = tmp_path / "runs.npz"
    save(grid(), path)
    content = bytearray(path.read_bytes())
    where = content.index(X[0, 1].tobytes())
    content[where] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"runs\.npz: array 'x' cannot be read \(Bad CRC-32"):
        load(path)


def test_npz_member_that_is_no_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "runs.npz", "w") as archive:
        archive.writestr("t.npy", b"not an array")
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00")
    with pytest.raises(InputError, match=r"runs\.npz: "):
        load(tmp_path / "runs.npz")


# ------------------------------------------------------------------------------------------------- csv


def test_csv_is_long_form(tmp_path):
    save(grid(), tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_text().splitlines()[:3] == [
        "run,time,q [m],p",
        "b,0.0,1.0,-0.0",
        "b,0.1,1e-300,1e+300",
    ]


@pytest.mark.parametrize("run", ["run", "trajectory", "traj", "id"])
@pytest.mark.parametrize("time", ["time", "t", "time [s]"])
def test_csv_columns(tmp_path, run, time):
    """Runs keep the order of first appearance; rows may be mixed; columns stand anywhere."""
    path = written(tmp_path / "r.csv", f"q,{run},{time}\n1,z,0\n5,a,0\n2,z,1\n6,a,2\n3,z,3\n")
    expected = Trajectories.from_arrays(
        [[[1.0], [2.0], [3.0]], [[5.0], [6.0]]], [[0, 1, 3], [0, 2]], ["q"], run_names=["z", "a"]
    )
    assert_same(load(path), expected)


@pytest.mark.parametrize(
    "text",
    [
        "time,q\n0,1\n1,2\n",
        "\ufefftime,q\r\n0,1\r\n1,2\r\n",
        "time , q\n 0, 1 \n1 ,2",
        "time,q\n0,1\n\n1,2\n\n,\n",
        '"time","q"\n"0","1"\n"1","2"\n',
    ],
)
def test_csv_single_run(tmp_path, text):
    expected = Trajectories.from_arrays([[1.0], [2.0]], [0.0, 1.0], ["q"])
    assert_same(load(written(tmp_path / "r.csv", text)), expected)


def test_csv_integers_beyond_64_bits(tmp_path):
    path = written(tmp_path / "r.csv", "time,q\n0,123456789012345678901234567890\n1,2\n")
    assert load(path).runs[0].x[:, 0].tolist() == [1.2345678901234568e29, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, or its first row is"),
        ("\n0,1\n", "is empty, or its first row is"),
        ("time,q\n", "has a header but no rows of numbers"),
        ("time,q\n\n\n", "has a header but no rows of numbers"),
        ("run,q\n1,2\n", r"has no column 'time' \(or 't'\); the columns are 'run', 'q'"),
        ("run;time;q\n1;0;2\n", r"has no column 'time' .*'run;time;q'.* commas between them"),
        ("0.0,1.0\n0.1,2.0\n", r"has no column 'time' .*The first row must name the columns"),
        ("run,time\n1,0\n1,1\n", r"has no column for a state beside 'run', 'time'"),
        ("time,,q\n0,1,2\n", r"column 2 has no name in the first row"),
        ("time,q,q\n0,1,2\n", r"column names must be unique, but 'q' appears 2 times"),
        ("time,q [m],q [s]\n0,1,2\n1,2,3\n", r"state names must be unique, but 'q' appears 2 times"),
        ("time,q\n0,1\n1,abc\n", r"column 'q', row 3: expected a finite number, but received 'abc'"),
        ("time,q\n0,1\n\n1,abc\n", r"column 'q', row 4: expected a finite number, but received 'abc'"),
        ('time,q\n0,1\n1,"1,5"\n', r"column 'q', row 3: expected a finite number, but received '1,5'"),
        ("time,q\n0,True\n1,False\n", r"column 'q', row 2: expected a finite number, but received 'True'"),
        (
            "time,q\nyesterday,1\n1,2\n",
            r"column 'time', row 2: expected a finite number, but received 'yesterday'",
        ),
        ("time,q\n,1\n1,2\n", r"column 'time', row 2: expected a finite number, but the cell is empty"),
        ("time,q\nnan,1\n1,2\n", r"column 'time', row 2: expected a finite number, but received 'nan'"),
        ("time,q\n0,inf\n1,2\n", r"column 'q', row 2: expected a finite number, but received 'inf'"),
        ("time,q,p\n0,1,\n1,2,\n", r"state 'p' was never measured"),
        ("time,q\n0,1\n1,\n", r"run '0': a run needs values at 2 points in time"),
        ("time,q\n0,1\n1,-inf\n", r"column 'q', row 3: expected a finite number, but received '-inf'"),
        ("time,q\n0,1\n1,1e999\n", r"column 'q', row 3: expected a finite number, but received '1e999'"),
        ("time,q\n0,1\n1,2,3\n", r"is not a readable CSV table \(.*line 3"),
        ("time,q\n0,1,2\n1,2,3\n", r"the rows have more cells than the 2 columns"),
        ("time,q\n0,1,\n1,2,\n", r"the rows have more cells than the 2 columns"),
        ("run,time,q\na,0,1\n,1,2\n", r"column 'run', row 3: the run has no name"),
        (
            "run,time,q\na,0,1\nb,0,2\na,0,3\n",
            r"run 'a': times must increase, but row 4 has 0 after row 2 with 0",
        ),
        ("time,q\n0,1\n2,2\n1,3\n", r"run '0': times must increase, but row 4 has 1 after row 3 with 2"),
        ("run,time,q\na,0,1\na,1,2\nb,0,1\n", r"run 'b': a run needs at least 2 points in time, but has 1"),
    ],
)
def test_refused_csv(tmp_path, text, message):
    with pytest.raises(InputError, match=rf"runs\.csv: {message}"):
        load(written(tmp_path / "runs.csv", text))


def test_csv_that_is_no_text(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes("time,q\n0,1\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"runs\.csv: is not UTF-8 text"):
        load(path)
    path.write_bytes(b"time,q\n0,1\n1,\xff\n")
    with pytest.raises(InputError, match=r"runs\.csv: is not UTF-8 text"):
        load(path)


@pytest.mark.parametrize(
    ("name", "unit", "message"),
    [
        ("time", "", "a CSV file cannot hold a state named 'time'"),
        ("time", "s", "a CSV file cannot hold a state named 'time'"),
        ("run", "", "a CSV file cannot hold a state named 'run'"),
        ("q", "[m]", r"a CSV file cannot hold the unit '\[m\]' of 'q'"),
    ],
)
def test_csv_refuses_to_write_what_it_could_not_read(tmp_path, name, unit, message):
    trajectories = Trajectories.from_arrays(X[0, :, :1], T, [name], [unit])
    with pytest.raises(InputError, match=message):
        save(trajectories, tmp_path / "runs.csv")
    assert list(tmp_path.iterdir()) == []
