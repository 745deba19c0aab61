"""`wgfinn inspect`."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from wgfinn._errors import InputError
from wgfinn.cli import app
from wgfinn.data import Trajectories, load, save


def run(*arguments):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def data(tmp_path):
    t = np.arange(300) * 0.1
    x = np.stack([np.sin(t), np.full(300, 2.0)], axis=-1)
    x[:, 0] += 0.05 * np.random.default_rng(0).standard_normal(300)
    save(Trajectories.from_arrays([x, x + 1], t, names=["q", "k"], units=["m", ""]), tmp_path / "data.npz")
    return tmp_path / "data.npz"


def test_text(data):
    result = run(data)
    assert result.exit_code == 0
    assert "2 of 300 samples, 600 in all" in result.stdout
    assert "q (m)" in result.stdout
    assert "main period" in result.stdout
    assert "test functions: width" in result.stdout


def test_text_says_the_unit_of_time(data, tmp_path):
    save(replace(load(data), time_unit="s"), tmp_path / "data.csv")
    shown = run(tmp_path / "data.csv").stdout
    assert "29.9 s " in shown
    assert "0.1 s (equal)" in shown
    assert "main period (s)" in shown
    assert "fastest period (s)" in shown
    assert json.loads(run(tmp_path / "data.csv", "--json").stdout)["time_unit"] == "s"
    save(replace(load(data), time_unit="[red]"), tmp_path / "data.npz")
    assert "29.9 [red] " in run(tmp_path / "data.npz").stdout


def test_tables_are_not_cut(tmp_path, monkeypatch):
    """A console of 80 columns, as a log file has, leaves names, units and numbers whole."""
    monkeypatch.setenv("COLUMNS", "80")
    x = 12345.6789 * np.random.default_rng(0).standard_normal((300, 2))
    names = ["angular momentum of the arm", "T"]
    save(Trajectories.from_arrays(x, np.arange(300) * 0.1, names=names, units=["g mm2/s", "K"]), tmp_path / "d.npz")
    shown = run(tmp_path / "d.npz").stdout
    assert "…" not in shown
    assert "angular momentum of the arm (g mm2/s)" in shown
    assert "signal/noise" in shown


def test_warnings_leave_the_exit_code_alone(tmp_path):
    t = np.arange(300) * 0.1
    save(Trajectories.from_arrays(np.stack([np.sin(t), np.ones(300)], -1), t, names=["q", "k"]), tmp_path / "d.npz")
    result = run(tmp_path / "d.npz")
    assert result.exit_code == 0
    assert "warning: state 'k' never moves" in result.stdout
    assert "note: no state shows noise" in result.stdout


def test_json(data):
    content = json.loads(run(data, "--json").stdout)
    assert content["runs"]["count"] == 2
    assert [state["name"] for state in content["states"]] == ["q", "k"]
    assert content["states"][0]["noise"] == pytest.approx(0.05, rel=0.2)
    assert content["test_functions"]["reason"]


def test_figure(data, tmp_path):
    assert run(data, "--figure", tmp_path / "figure.png").exit_code == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.npz"):
        run(tmp_path / "nothing.npz")


def test_text_fits_into_eighty_columns(data):
    """Not a terminal: rich assumes 80 columns, and nothing may be cut."""
    assert "…" not in run(data).stdout
