"""`wgfinn report`."""

import numpy as np
import pytest
from typer.testing import CliRunner

from small_fits import GENERIC, small_spec, some_runs
from wgfinn._errors import InputError
from wgfinn.cli import app
from wgfinn.data import save
from wgfinn.fitting import fit

RUNS = some_runs()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    save(RUNS, folder / "data.npz")
    fit(RUNS, small_spec(GENERIC), folder=folder / "run", source=str(folder / "data.npz"))
    return folder


def wgfinn(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


def test_report_of_a_run_folder(trained):
    """The path is printed, and the page holds the run's records."""
    result = wgfinn("report", trained / "run")
    path = trained / "run" / "report.html"
    assert result.stdout == f"{path}\n"
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "data the model was trained on" in html
    assert 'id="plot-training"' in html


def test_report_of_a_model_file_elsewhere(trained, tmp_path):
    other = some_runs(seed=1)
    save(other, tmp_path / "other.csv")
    out = tmp_path / "new" / "page.html"
    options = ("--out", out, "--runs", 2, "--integrator", "accurate")
    result = wgfinn("report", trained / "run" / "model.wgfinn", tmp_path / "other.csv", *options)
    assert result.stdout == f"{out}\n"
    html = out.read_text(encoding="utf-8")
    assert "2 of 3 runs, evenly chosen, the worst among them" in html
    assert "trained on" not in html
    assert "There is no record of the training" in html


def test_report_without_data(trained, tmp_path):
    with pytest.raises(InputError, match="a model file does not know where its data lie"):
        wgfinn("report", trained / "run" / "model.wgfinn")
    assert wgfinn("report", trained / "run", "--runs", 0).exit_code == 2


def test_a_report_of_a_lost_run(trained, tmp_path):
    """The page is written, and says so."""
    x = RUNS.stacked()[1].copy()
    x[1] = np.array([1e308, -1e308, 1e308])
    save(RUNS.with_states(list(x)), tmp_path / "far.npz")
    with np.errstate(all="ignore"):
        wgfinn("report", trained / "run", tmp_path / "far.npz", "--out", tmp_path / "far.html")
    assert "1 prediction left the finite range: 1." in (tmp_path / "far.html").read_text(encoding="utf-8")
