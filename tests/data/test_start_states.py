"""Start states from tables and from data files."""

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, load_start_states, save

NAMES = ("q", "p")


def table(tmp_path, text):
    path = tmp_path / "starts.csv"
    path.write_text(text)
    return path


def test_columns_by_name_in_any_order(tmp_path):
    path = table(tmp_path, "p, extra, q [m]\n2, 9, 1\n4.5, 9, -3e-1\n")
    states, runs = load_start_states(path, NAMES)
    np.testing.assert_array_equal(states, [[1.0, 2.0], [-0.3, 4.5]])
    assert runs == ["0", "1"]


def test_a_run_column_names_the_states(tmp_path):
    states, runs = load_start_states(table(tmp_path, "q,run,p\n1,cold,2\n3,7,4\n"), NAMES)
    np.testing.assert_array_equal(states, [[1.0, 2.0], [3.0, 4.0]])
    assert runs == ["cold", "7"]


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_first_states_of_a_data_file(tmp_path, suffix):
    x = np.arange(18.0).reshape(2, 3, 3)
    runs = Trajectories.from_arrays(x, np.arange(3.0), names=["p", "z", "q"], run_names=["a", "b"])
    save(runs, tmp_path / f"data{suffix}")
    states, names = load_start_states(tmp_path / f"data{suffix}", NAMES)
    np.testing.assert_array_equal(states, [[2.0, 0.0], [11.0, 9.0]])
    assert names == ["a", "b"]


def test_missing_state(tmp_path):
    with pytest.raises(InputError, match=r"starts.csv: the state 'p' of the model is missing; the file has q, run"):
        load_start_states(table(tmp_path, "q,run\n1,a\n"), NAMES)
    save(Trajectories.from_arrays(np.ones((3, 1)), np.arange(3.0), names=["q"]), tmp_path / "data.npz")
    with pytest.raises(InputError, match=r"data.npz: the state 'p' of the model is missing; the file has q"):
        load_start_states(tmp_path / "data.npz", NAMES)


def test_no_rows(tmp_path):
    with pytest.raises(InputError, match=r"starts.csv: holds no start state; give one row for each"):
        load_start_states(table(tmp_path, "q,p\n"), NAMES)


def test_not_a_number(tmp_path):
    with pytest.raises(InputError, match=r"starts.csv: column 'p', row 3: expected a finite number, but received 'x'"):
        load_start_states(table(tmp_path, "q,p\n1,2\n3,x\n"), NAMES)


@pytest.mark.parametrize(("name", "match"), [("none.csv", "there is no such file"), ("none.xyz", "unknown suffix")])
def test_no_file(tmp_path, name, match):
    with pytest.raises(InputError, match=match):
        load_start_states(tmp_path / name, NAMES)


def test_a_run_whose_first_state_is_incomplete(tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    x[0, 1] = np.nan
    save(Trajectories.from_arrays(x, 2 + np.arange(3.0), names=["q", "p"]), tmp_path / "data.npz")
    with pytest.raises(InputError, match="run '0' cannot be a start: 'p' was not measured at its first time, t = 2"):
        load_start_states(tmp_path / "data.npz", NAMES)
    np.testing.assert_array_equal(load_start_states(tmp_path / "data.npz", ("q",))[0], [[0.0]])
