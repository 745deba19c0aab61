"""The examples run from end to end, with trainings of a few steps."""

import json
import re
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from wgfinn.cli import app

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOK = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def in_this_process(command, *, check):
    """What `subprocess.run([python, "-m", "wgfinn", ...])` would do, without importing everything again."""
    assert check
    assert command[1:3] == ["-m", "wgfinn"]
    print(CliRunner().invoke(app, command[3:], catch_exceptions=False).stdout)


def test_messy_csv(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("subprocess.run", in_this_process)
    monkeypatch.setattr(sys, "argv", ["messy_csv.py", str(tmp_path), "--quick", "--steps", "2"])
    names = runpy.run_path(str(EXAMPLES / "messy_csv.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    for command in ("inspect", "fit", "report", "evaluate", "simulate"):
        assert f"$ wgfinn {command} " in shown
    assert "against the truth" in shown
    data, clean = pd.read_csv(tmp_path / "arm.csv"), pd.read_csv(tmp_path / "clean.csv")
    states = list(names["STATES"])
    assert data[states[2]].isna().sum() > 30
    assert data[states[:2]].notna().all(axis=None)
    assert data[states[1]].std() > 1e4 * data[states[0]].std()
    assert len(data.groupby("experiment").size()) == 24
    _conserves_energy(names, clean)
    with pytest.raises(SystemExit):
        runpy.run_path(str(EXAMPLES / "messy_csv.py"), run_name="__main__")
    assert "holds a run already; give another folder" in capsys.readouterr().err


def _conserves_energy(names, clean):
    """The system is what its formulas say."""
    for _, run in clean.groupby("experiment"):
        energy = names["energy"](run[list(names["STATES"])].to_numpy())
        np.testing.assert_allclose(energy, energy[0], rtol=1e-8)


def test_the_system_of_messy_csv_is_generic():
    """x' = L∇E + M∇S with the E, S, L, M of the docstring."""
    names = runpy.run_path(str(EXAMPLES / "messy_csv.py"))
    friction, capacity = names["FRICTION"], names["HEAT_CAPACITY"]
    q, p, temperature = x = np.array([0.7, -0.4, 293.0])
    gradient = np.array([np.sin(q), p, capacity])
    poisson = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0]])
    u = np.array([0, 1, -p / capacity])
    of_entropy = np.array([0, 0, capacity / temperature])
    motion = poisson @ gradient + friction * temperature * u * (u @ of_entropy)
    np.testing.assert_allclose(names["rates"](0.0, x), motion, rtol=1e-12)
    assert u @ gradient == pytest.approx(0, abs=1e-15)
    np.testing.assert_array_equal(poisson @ of_entropy, 0)


@pytest.fixture
def agg():
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


@pytest.mark.usefixtures("agg")
def test_notebook(tmp_path, monkeypatch, capsys):
    """All cells in order, as they stand but for the length of the training."""
    monkeypatch.chdir(tmp_path)
    code, replaced = re.subn(r'"steps": \d+', '"steps": 2', "\n".join(CELLS))
    assert replaced == 3
    monkeypatch.setattr(plt, "show", lambda: None)
    names: dict = {}
    exec(compile(code, "notebook.ipynb", "exec"), names)
    assert (tmp_path / "arm.wgfinn").exists()
    assert len(plt.get_fignums()) == 2
    assert np.all(np.isfinite(names["predicted"].x))
    assert "angle: noise 0.0" in capsys.readouterr().out


def test_notebook_is_clean():
    """Valid for Jupyter, without outputs."""
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in NOTEBOOK["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_page_lists_every_example():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(\.\./examples/([^)]+)\)", page)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_file())
