"""The dispatcher, and details of npz and CSV; what all formats share is in `test_formats` and `test_bad_sources`."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_sources import T, X, grid, ragged
from wgfinn._errors import InputError
from wgfinn.data import Trajectories, files, load, read, save
from wgfinn.data.formats import delimited

SUFFIXES = [".npz", ".csv", ".tsv", ".parquet", ".h5", ".mat", ".nc"]


def assert_same(found: Trajectories, expected: Trajectories) -> None:
    """The digest covers values bit by bit, shapes, state names and units."""
    assert found.digest() == expected.digest()
    assert found.run_names == expected.run_names


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


# ----------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".NPZ", ".CSV", ".Mat"])
@pytest.mark.parametrize("make", [grid, ragged])
def test_round_trip(tmp_path, suffix, make):
    path = tmp_path / "deep" / "er" / f"runs{suffix}"
    save(make(), path)
    assert_same(load(path), make())
    assert_same(load(str(path)), make())
    assert list(path.parent.iterdir()) == [path]


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


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
@settings(max_examples=25, deadline=None)
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


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".tsv", ".parquet", ".h5"])
def test_save_is_deterministic(tmp_path, suffix):
    save(grid(), tmp_path / f"a{suffix}")
    save(grid(), tmp_path / f"b{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


# --------------------------------------------------------------------------------------- the dispatcher


def test_unknown_suffix(tmp_path):
    message = r"runs\.xlsx: unknown suffix '\.xlsx'; known formats are \.csv, \.h5, \.hdf5, \.mat, \.nc, \.npz"
    with pytest.raises(InputError, match=message):
        load(written(tmp_path / "runs.xlsx", ""))
    with pytest.raises(InputError, match=message):
        save(grid(), tmp_path / "new" / "runs.xlsx")
    assert not (tmp_path / "new").exists()


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"runs\.npz: there is no such file"):
        load(tmp_path / "runs.npz")
    with pytest.raises(InputError, match=r"runs: unknown suffix ''"):
        load(tmp_path / "runs")


@pytest.mark.parametrize("table", ["READERS", "WRITERS"])
def test_failures_of_the_system_name_the_file(tmp_path, monkeypatch, table):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(getattr(files, table), ".npz", fail)  # the tables are plain dictionaries underneath
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
        ({"x": X}, r"lacks the array 't'; beside 'x' \(traj, time, state\) a file needs 't' \(time,\). It has 'x'"),
        ({"a": X}, r"has no array 'time' \(or 't'\); the arrays are 'a'"),
        ({}, "holds no arrays; needed are 't' and 'x', or 't' and one array a state"),
        (
            {"t": T, "x": X[0].astype(object)},
            r"array 'x' cannot be read \(Object arrays .*allow_pickle=False",
        ),
        ({"t": T, "x": X, "names": np.array([1, 2])}, r"'names' must be a one-dimensional text array"),
        ({"t": T, "x": X, "names": np.array("qp")}, r"'names' must be .* shape \(\)"),
        ({"t": T, "x": X, "names": np.array(["q"])}, r"received 1 state names \['q'\] for 2; give one"),
        ({"t": T, "x": X[:, :2]}, r"run '0': x has 2 rows \(axis 0 is time\) but t has 3 times"),
        ({"t": T, "x": np.full_like(X, np.inf)}, r"states must be finite"),
        (
            {"t": T, "x": X[0], "lengths": np.array([2, 2])},
            r"'lengths' adds up to 4 points, so 't' must be \(4,\)",
        ),
        ({"t": T, "x": X, "lengths": np.array([3])}, r"'lengths' adds up to 3 points.*\(2, 3, 2\)"),
        ({"t": T, "x": X[0], "lengths": np.array([2.5, 0.5])}, r"'lengths' must be a list of counts"),
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
    for content in (whole[: len(whole) // 2], b"hello", array.getvalue()):
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
    x, t = [[[1.0], [2.0], [3.0]], [[5.0], [6.0]]], [[0, 1, 3], [0, 2]]
    unit = "s" if time == "time [s]" else ""
    assert_same(load(path), Trajectories.from_arrays(x, t, ["q"], run_names=["z", "a"], time_unit=unit))


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


@pytest.mark.parametrize("cell", ["", "nan", "NaN", "NA", "N/A", "null", " "])
def test_csv_values_that_were_not_measured(tmp_path, cell):
    """They reach the recording as NaN, and do not shift the rows."""
    path = written(tmp_path / "r.csv", f"run,time,q,p\nNA,0,1,5\nNA,1,{cell},6\nNA,2,3,7\n")
    (run,) = read(path).runs
    assert run.name == "NA"
    np.testing.assert_array_equal(run.x, [[1.0, 5.0], [np.nan, 6.0], [3.0, 7.0]])


def test_csv_in_many_chunks(tmp_path, monkeypatch):
    """Chunks of 1000 rows: runs that go on across chunks, blank rows, and rows of later chunks in messages."""
    monkeypatch.setattr(delimited, "_CHUNK_CELLS", 1)
    rows = [f"{k % 2},{k},{k / 7!r},{k}" for k in range(2500)]
    seen = []
    path = written(
        tmp_path / "r.csv", "run,time,q,p\n" + "\n".join(rows[:1500]) + "\n\n" + "\n".join(rows[1500:]) + "\n"
    )
    found = load(path, progress=lambda done, total: seen.append((done, total)))
    t = np.arange(2500.0)
    expected = [np.stack([t[k::2] / 7, t[k::2]], axis=1) for k in range(2)]
    assert_same(found, Trajectories.from_arrays(expected, [t[::2], t[1::2]], ["q", "p"]))
    assert len(seen) == 3
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    rows[2000] = "0,2000,x,1"
    written(path, "run,time,q,p\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"column 'q', row 2002: expected a finite number, but received 'x'"):
        load(path)


@pytest.mark.parametrize(
    ("separator", "mark", "decimal"),
    [(";", ";", ","), (";", ";", None), ("tab", "\t", ","), ("\t", "\t", "."), ("space", "   ", ","), (" ", " ", None)],
)
def test_csv_written_otherwise(tmp_path, separator, mark, decimal):
    """Every bit as in the usual form; a row of units and cells that are missing too."""
    expected = ragged()
    save(expected, tmp_path / "usual.csv")
    rows = [line.split(",") for line in (tmp_path / "usual.csv").read_text().splitlines()]
    rows[0] = [cell.replace(" ", "") for cell in rows[0]]
    text = "\n".join(mark.join(cell.replace(".", decimal or ".") for cell in row) for row in rows)
    path = written(tmp_path / "r.csv", text + "\n")
    found = load(path, separator=separator, decimal=decimal)
    for run, same in zip(found.runs, expected.runs, strict=True):
        np.testing.assert_array_equal(run.t, same.t)
        np.testing.assert_array_equal(run.x, same.x)


def test_csv_with_decimal_commas_in_messages(tmp_path):
    """Where text stands in a column, its numbers still count as such, and the row of the text is named."""
    path = written(tmp_path / "r.csv", "time;q\ns;m\n0,5;1,5\n1,5;NA\n2,5;high\n")
    with pytest.raises(InputError, match=r"column 'q', row 5: expected a finite number, but received 'high'"):
        load(path, separator=";", decimal=",")
    path = written(tmp_path / "r.csv", "time;q\ns;m\n0,5;1,5\n1,5;NA\n2,5;-2,25\n")
    (run,) = load(path, separator=";", decimal=",").runs
    assert (run.t.tolist(), run.x[:, 0].tolist()) == ([0.5, 2.5], [1.5, -2.25])
    with pytest.raises(InputError, match=r"row 1 holds numbers \(0,5, 1,5\)"):
        load(written(tmp_path / "n.csv", "0,5;1,5\n1,5;2\n"), separator=";", decimal=",")


def test_marks_that_cannot_be(tmp_path):
    path = written(tmp_path / "r.csv", "time,q\n0,1\n1,2\n")
    with pytest.raises(InputError, match=r"r\.csv: commas cannot be both the decimal mark"):
        load(path, decimal=",")
    with pytest.raises(InputError, match=r"separator = '\|': input should be ',', ';'"):
        load(path, separator="|")


def test_csv_integers_beyond_64_bits(tmp_path):
    path = written(tmp_path / "r.csv", "time,q\n0,123456789012345678901234567890\n1,2\n")
    assert load(path).runs[0].x[:, 0].tolist() == [1.2345678901234568e29, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n0,1\n", "is empty, or its first row is"),
        ("time,q\n", "has names of columns but no rows of numbers"),
        ("time,q\n\n\n", "has names of columns but no rows of numbers"),
        ("run,q\n1,2\n", r"has no column 'time' \(or 't'\); the columns are 'run', 'q'"),
        (
            "run;time;q\n1;0;2\n",
            r"row 1: the columns seem to be separated by semicolons .* read with commas .*--separator ';'",
        ),
        ("0.0,1.0\n0.1,2.0\n", r"row 1 holds numbers \(0.0, 1.0\), but it must name the columns"),
        ("run,time\n1,0\n1,1\n", r"has no column for a state beside 'run', 'time'"),
        ("time,,q\n0,1,2\n", r"column 2 has no name in the first row"),
        ("time,q,q\n0,1,2\n", r"column names must be unique, but 'q' appears 2 times"),
        ("time,q [m],q [s]\n0,1,2\n1,2,3\n", r"state names must be unique, but 'q' appears 2 times"),
        ("time,q\n0,1\n1,abc\n", r"column 'q', row 3: expected a finite number, but received 'abc'"),
        ("time,q\n0,1\n\n1,abc\n", r"column 'q', row 4: expected a finite number, but received 'abc'"),
        ('time,q\n0,1\n1,"1,5"\n', r"column 'q', row 3: expected a finite number, but received '1,5'"),
        ("time,q\n0,True\n1,False\n", r"column 'q', row 2: holds truth values"),
        ("time,q\n0,True\n1,2\n", r"column 'q', row 2: expected a finite number, but received 'True'"),
        ("time,q\n0,1_000\n1,2\n", r"column 'q', row 2: expected a finite number, but received '1_000'"),
        (
            "time,q\nyesterday,1\n1,2\n",
            r"column 'time', row 2: expected a finite number, but received 'yesterday'",
        ),
        ("time,q,p\n0,1,\n1,2,\n", r"state 'p' holds no number at all: every value is missing"),
        ("time,q\n0,1\n,2\n", r"column 'time', row 3: the time is missing"),
        ("time,q\n0,1\n1,-inf\n", r"column 'q', row 3: expected a finite number, but received -inf"),
        ("time,q\n0,1\n1,1e999\n", r"column 'q', row 3: expected a finite number, but received inf"),
        ("time,q\n0,1\n1,2,3\n", r"is not a readable table \(.*line 3"),
        ("time,q\n0,1,2\n1,2,3\n", r"row 2 has 3 cells for the 2 columns named in row 1"),
        ("time,q\n0,1,\n1,2,\n", r"row 2 has 3 cells for the 2 columns named in row 1"),
        ("time,q\ns,m\n0,1,\n1,2,\n", r"row 3 has 3 cells for the 2 columns named in row 1"),
        ("time,q,p\n0,1,2\n1,2", r"the last row has 2 cells for 3 columns and no line end.*cut short"),
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


def test_csv_refuses_a_unit_of_time_in_brackets(tmp_path):
    with pytest.raises(InputError, match=r"a CSV file cannot hold the unit '\[s\]' of 'time'; write it without"):
        save(Trajectories.from_arrays(X, T, time_unit="[s]"), tmp_path / "r.csv")
