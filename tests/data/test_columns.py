"""Roles of columns: given, guessed, and what is said about it."""

import numpy as np
import pandas as pd
import pytest

from wgfinn._errors import InputError
from wgfinn.data import DataSpec, load, read
from wgfinn.data.formats.columns import assign, join_heading, split_heading


def roles(names: str, **given):
    return assign("here", [split_heading(name) for name in names.split("|")], DataSpec(**given))


def keys(found):
    run = None if found.run is None else found.run.key
    return run, found.time.key, [h.key for h in found.states], [h.key for h in found.sigma]


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        ("run|time|q|p", {}, ("run", "time", ["q", "p"], [])),
        ("q|p|t", {}, (None, "t", ["q", "p"], [])),
        ("Run|Time [s]|q [m]", {}, ("Run", "Time [s]", ["q [m]"], [])),
        ("ID|TIME|q", {}, ("ID", "TIME", ["q"], [])),
        ("t (s)|U (V)", {}, (None, "t (s)", ["U (V)"], [])),
        ("Time(s)|T[K]|t[0]", {}, (None, "Time(s)", ["T[K]", "t[0]"], [])),
        ("t|U (left)|U (right)", {"states": ("U (right)",)}, (None, "t", ["U (right)"], [])),
        ("id|run|time|t|q", {}, ("run", "time", ["id", "t", "q"], [])),
        ("t|T", {}, (None, "t", ["T"], [])),  # a temperature
        ("experiment|times|q", {}, ("experiment", "times", ["q"], [])),
        ("t|shot|q", {}, ("shot", "t", ["q"], [])),
        ("tau|q|p|note", {"time": "tau", "ignore": ("note",)}, (None, "tau", ["q", "p"], [])),
        ("tau [s]|q", {"time": "tau"}, (None, "tau [s]", ["q"], [])),
        ("tau [s]|q", {"time": "tau [s]"}, (None, "tau [s]", ["q"], [])),
        ("time|batch|p|q|z", {"run": "batch", "states": ("q", "p")}, ("batch", "time", ["q", "p"], [])),
        ("time|id|q", {"states": ("id", "q")}, (None, "time", ["id", "q"], [])),
        ("time|id|q", {"ignore": ("id",)}, (None, "time", ["q"], [])),
        ("time|q|q_sigma|p|p_sigma", {}, (None, "time", ["q", "p"], ["q_sigma", "p_sigma"])),
        ("time|q|q_sigma|p", {}, (None, "time", ["q", "q_sigma", "p"], [])),  # not one for each
        ("time|q|dq|p|dp", {"sigma": ("dq", "dp")}, (None, "time", ["q", "p"], ["dq", "dp"])),
        ("time|q|dq", {"sigma": ("dq",), "states": ("q",)}, (None, "time", ["q"], ["dq"])),
    ],
)
def test_roles(names, given, expected):
    assert keys(roles(names, **given)) == expected


@pytest.mark.parametrize(
    ("names", "given", "said"),
    [
        (
            "run|time|q [m]|p",
            {},
            "took column 'run' for the run, column 'time' for the time and the rest for states: q [m], p",
        ),
        ("t|q", {}, "took everything for one run; took column 't' for the time and the rest for states: q"),
        ("t|q", {"time": "t"}, "took everything for one run; took the rest for states: q"),
        ("t|q", {"time": "t", "states": ("q",)}, "took everything for one run"),
        ("run|t|q", {"run": "run", "time": "t"}, "took the rest for states: q"),
        ("run|t|q|q_sigma", {"run": "run", "time": "t"}, "took q_sigma for noise levels and the rest for states: q"),
        ("run|t|q", {"run": "run", "time": "t", "states": ("q",)}, ""),
    ],
)
def test_what_was_guessed_is_said(names, given, said):
    assert "; ".join(roles(names, **given).said) == said


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        ("a|b", {}, r"here: has no column 'time' \(or 't'\); the columns are 'a', 'b'. Name the one .*time='...'"),
        ("time|q", {"ignore": ("time",)}, r"has no column 'time'"),
        ("time|run", {}, "has no column for a state beside 'time', 'run'"),
        ("time|q", {"ignore": ("q",)}, "has no column for a state"),
        (
            "time|velocity",
            {"states": ("velocty",)},
            r"has no column 'velocty' \(given as states\); there are .* \(did you mean 'velocity'\?\)",
        ),
        ("time|q", {"run": "z"}, r"has no column 'z' \(given as run\)"),
        ("time|q", {"time": "z"}, r"has no column 'z' \(given as time\)"),
        ("time|q", {"ignore": ("z",)}, r"has no column 'z' \(given as ignore\)"),
        ("time|q", {"sigma": ("z",)}, r"has no column 'z' \(given as sigma\)"),
        ("time|q", {"time": "q", "states": ("q",)}, "column 'q' is given twice, as time and as states"),
        ("time|q", {"states": ("q", "q")}, "column 'q' is given twice, as states and as states"),
        ("time|q|p|dq", {"sigma": ("dq",)}, r"received 1 columns of noise levels for 2 states \(q, p\)"),
        ("time|q [m]|q [s]", {}, "state names must be unique, but 'q' appears 2 times"),
    ],
)
def test_refused_roles(names, given, message):
    with pytest.raises(InputError, match=message):
        roles(names, **given)


@pytest.mark.parametrize(
    "heading",
    [
        *[("q", "m"), ("q", ""), ("E[0]", ""), ("E [1]", ""), ("E [1]", "J"), ("T[K]", ""), ("a b", "1/s")],
        ("U (left)", ""),
    ],
)
def test_headings(heading):
    found = split_heading(join_heading(*heading))
    assert (found.name, found.unit) == heading


def test_units_in_round_brackets():
    found = roles("t (s)|U (V)|f(x)|flow (left)|flow (right)")
    assert (found.time.name, found.time.unit) == ("t", "s")
    assert [(h.name, h.unit) for h in found.states] == [
        ("U", "V"),
        ("f(x)", ""),
        ("flow (left)", ""),
        ("flow (right)", ""),
    ]


def test_noise_levels_reach_the_recording():
    frame = pd.DataFrame({"id": [1.0, 1.0, 2.0, 2.0], "t": [0, 1, 0, 1], "q": [1, 2, 3, 4], "q_sigma": [5, 6, 7, 8]})
    recording = read(frame)
    assert [run.name for run in recording.runs] == ["1", "2"]
    assert [run.sigma.tolist() for run in recording.runs] == [[[5.0], [6.0]], [[7.0], [8.0]]]
    assert recording.names == ("q",)


def test_noise_levels_of_a_block(tmp_path):
    x = np.arange(12.0).reshape(2, 3, 2)
    np.savez(tmp_path / "a.npz", t=np.arange(3.0), x=x, sigma=x + 100, names=["q", "p"])
    recording = read(tmp_path / "a.npz", DataSpec(ignore=("q",)))
    assert recording.said == ("took array 'sigma' for the noise levels",)
    np.testing.assert_array_equal(recording.runs[1].sigma, x[1, :, 1:] + 100)
    assert read(tmp_path / "a.npz", DataSpec(sigma=("sigma",))).said == ()


def test_roles_as_keywords():
    frame = pd.DataFrame({"probe": ["a", "a"], "tau": [0, 1], "q": [1, 2], "note": ["x", "y"]})
    found = load(frame, run="probe", time="tau", ignore=iter(["note"]))
    assert found.names == ("q",)
    assert found.run_names == ("a",)
    with pytest.raises(InputError, match="load: states = 'q': input should be a valid tuple"):
        load(frame, states="q")


def test_states_of_a_block_without_names(tmp_path):
    np.savez(tmp_path / "a.npz", t=[0, 1], x=np.ones((2, 2)))
    assert read(tmp_path / "a.npz").said == ("called the states x1, x2: the file does not name them",)
    np.savez(tmp_path / "a.npz", time=[0, 1], x=np.ones((2, 2)), names=["q", "p"])
    assert read(tmp_path / "a.npz").said == ("took array 'time' for the time",)
