"""A fit of motion that dies down, of which the heat was not measured: energy leaves for a bath."""

import numpy as np
import pytest
from typer.testing import CliRunner

from small_fits import some_runs
from wgfinn import WGFINN
from wgfinn._spec import parse
from wgfinn.cli import app
from wgfinn.data import Trajectories, save
from wgfinn.evaluate import thermodynamic_checks
from wgfinn.fitting import FitSpec, fit
from wgfinn.fitting.choices import resolve

SETTINGS = {
    "model": {"layers": 2, "width": 8},
    "training": {"starts": 2, "members": 2, "steps": 400, "decays": [0.0]},
    "optimiser": {"decay_every": 50},
    "polish": {"steps": 0},
    "refine": {"steps": 60, "judge_every": 30},
}


def swings(friction=0.15, n_runs=6, noise=0.02):
    """An oscillator whose swings die down, of which position and momentum were measured and the heat was not."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 8, 60)
    rate = np.sqrt(1 - friction**2)
    q = np.exp(-friction * t) * np.cos(rate * t)
    p = -np.exp(-friction * t) * (friction * np.cos(rate * t) + rate * np.sin(rate * t))
    x = [size * np.stack([q, p], axis=1) for size in np.linspace(0.5, 1.5, n_runs)]
    return Trajectories.from_arrays(np.stack(x) + noise * rng.standard_normal((n_runs, 60, 2)), t, names=("q", "p"))


@pytest.fixture(scope="module")
def swung(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swung")
    return folder, fit(swings(), parse(FitSpec, SETTINGS), folder=folder)


def test_what_dies_down_gives_its_energy_to_a_bath(swung):
    """The swings lose nine tenths of their size; predicted to a tenth of the largest, which no constant energy does."""
    folder, model = swung
    assert model.manifest.verdict.level in ("good", "fair")
    lines = model.manifest.verdict.lines
    assert any(line.startswith("learnt as open: the energy of the states falls") for line in lines)
    clean = swings(noise=0.0)
    loaded = WGFINN.load(folder / "model.wgfinn")
    predicted = loaded.simulate(clean.runs[3].x[0], clean.runs[3].t)
    assert np.abs(predicted - clean.runs[3].x).max() < 0.2
    assert (np.diff(loaded.energy(predicted)) < 0).all()
    np.testing.assert_allclose(loaded.entropy(predicted), -loaded.energy(predicted), rtol=1e-12)


def test_checks_of_an_open_model(swung):
    """Its energy never rises; of degeneracy nothing is asked, since no state holds the heat."""
    checks = thermodynamic_checks(swung[1].field(), swings(noise=0.0))
    assert checks.is_open
    assert checks.energy_drift == 0
    assert set(checks.degeneracy) == {"skew", "symmetric", "min_eigenvalue"}
    assert checks.degeneracy["min_eigenvalue"] > -1e-12


def test_evaluate_and_report_say_that_it_is_open(swung, tmp_path):
    save(swings(noise=0.0), tmp_path / "clean.npz")
    wgfinn = lambda *words: CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)  # noqa: E731
    table = wgfinn("evaluate", swung[0], tmp_path / "clean.npz").stdout
    assert "largest rise of energy" in table
    assert "energy drift" not in table
    wgfinn("report", swung[0], tmp_path / "clean.npz", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The model is open: heat goes into surroundings that are no states. Energy never rises." in page
    assert "Largest rise of energy" in page
    assert "Energy drift" not in page


@pytest.mark.parametrize(
    ("runs", "model", "chosen"),
    [
        (swings(), {}, "bath"),
        (swings(), {"poisson": {"canonical": [["q", "p"]]}}, "bath"),
        (swings(friction=0.0), {}, "none"),
        (swings(), {"entropy": "none"}, "none"),
        (swings(), {"field": "plain"}, "neural"),
        (some_runs(), {}, "neural"),
    ],
)
def test_two_states_that_die_down_have_a_bath(runs, model, chosen):
    assert resolve(parse(FitSpec, {"model": model}), runs).model.entropy == chosen
