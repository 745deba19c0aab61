"""`wgfinn fit` and `wgfinn resume`."""

import json
import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import tomli_w
from typer.testing import CliRunner

from small_fits import PLAIN, small_settings, small_spec, some_runs
from wgfinn._errors import ArtefactError, InputError
from wgfinn.artefact import load_model
from wgfinn.cli import app, learning
from wgfinn.data import save
from wgfinn.fitting import fit as fit_in_python
from wgfinn.training import loop

RUNS = some_runs()
FILES = {"model.wgfinn", "settings.toml", "metrics.jsonl", "checkpoint.npz"}


def wgfinn(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with data and settings; the host looks after every check."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", 0.0)
    save(RUNS, "data.npz")
    (tmp_path / "small.toml").write_text(tomli_w.dumps(small_settings()))
    return tmp_path


def fit(*options, out="run"):
    return wgfinn("fit", "data.npz", "--config", "small.toml", "--out", out, *options)


@pytest.fixture
def ctrl_c_at_20(monkeypatch):
    bar = learning.training_bar

    @contextmanager
    def interrupted_bar(*arguments):
        with bar(*arguments) as observe:

            def watch(record):
                observe(record)
                if record.step == 20:
                    signal.raise_signal(signal.SIGINT)

            yield watch

    with monkeypatch.context() as patch:
        patch.setattr(learning, "training_bar", interrupted_bar)
        yield patch


def test_a_run_folder(here):
    result = fit()
    assert result.exit_code == 0
    assert {p.name for p in (here / "run").iterdir()} == FILES
    model = load_model(here / "run" / "model.wgfinn")
    served = model.manifest.members[model.manifest.served]
    lines = result.stdout.splitlines()
    assert lines == [f"served: {served.name}, training loss {served.loss:.4g}", "model: run/model.wgfinn"]
    assert "weak, 2 members: step 40 of 40, loss" in result.stderr
    expected = fit_in_python(RUNS, small_spec())
    assert model.manifest == expected.manifest


def test_json_alone_on_standard_output(here):
    result = json.loads(fit("--json").stdout)
    assert result["model"] == "run/model.wgfinn"
    assert result["steps_done"] == 40
    assert [m["name"] for m in result["members"]] == ["seed 0", "seed 1"]
    assert result["served"] in (0, 1)


def test_options_win_over_the_file(here):
    fit("--members", "1", "--steps", "5", "--seed", "3", "--method", "strong")
    settings = load_model(here / "run" / "model.wgfinn").manifest.settings
    assert settings["method"] == "strong"
    assert settings["training"]["members"] == 1
    assert settings["training"]["steps"] == 5
    assert settings["training"]["seed"] == 3
    assert settings["training"]["check_every"] == 5  # of the file
    assert settings["model"]["width"] == 4


def test_interrupted_and_resumed_equals_uninterrupted(here, ctrl_c_at_20):
    fit(out="whole")  # the bar interrupts this one as well: resumed below
    result = fit()
    assert "stopped after 20 of 40 steps; `wgfinn resume` goes on from there." in result.stdout
    assert load_model(here / "run" / "model.wgfinn").manifest.steps_done == 20
    ctrl_c_at_20.undo()
    shutil.rmtree(here / "whole")
    fit(out="whole")
    result = wgfinn("resume", "run", "--json")
    assert json.loads(result.stdout)["steps_done"] == 40
    assert (here / "run" / "model.wgfinn").read_bytes() == (here / "whole" / "model.wgfinn").read_bytes()


def test_resume_with_data_elsewhere_or_changed(here, ctrl_c_at_20):
    fit()
    ctrl_c_at_20.undo()
    (here / "data.npz").rename(here / "moved.npz")
    with pytest.raises(InputError, match=r"data.npz: there is no such file"):
        wgfinn("resume", "run")
    save(some_runs(seed=1), "data.npz")
    with pytest.raises(InputError, match=r"data.npz: not the data this run began with; restore them, or name them"):
        wgfinn("resume", "run")
    assert load_model(here / "run" / "model.wgfinn").manifest.steps_done == 20
    assert wgfinn("resume", "run", "--data", "moved.npz").exit_code == 0
    assert load_model(here / "run" / "model.wgfinn").manifest.steps_done == 40


def test_resume_of_a_run_from_python(here):
    """`fit(folder=...)` knows no file, so its name must be given."""
    fit_in_python(RUNS, small_spec(), folder=here / "run")
    with pytest.raises(InputError, match="run: the run does not know where its data lie; name them with --data"):
        wgfinn("resume", "run")
    assert wgfinn("resume", "run", "--data", "data.npz").exit_code == 0


@pytest.mark.parametrize("missing", ["settings.toml", "checkpoint.npz"])
def test_resume_of_nothing(here, missing):
    fit("--steps", "5")
    (here / "run" / missing).unlink()
    with pytest.raises(ArtefactError, match=r"run: no interrupted run here \(settings.toml and checkpoint.npz"):
        wgfinn("resume", "run")
    with pytest.raises(ArtefactError, match="nowhere: no interrupted run here"):
        wgfinn("resume", "nowhere")


@pytest.mark.parametrize("text", ["[data", "[fit]\n", "data = 3\n", "[data]\nsource = 'data.npz'\n"])
def test_resume_with_damaged_settings(here, text):
    fit("--steps", "5")
    (here / "run" / "settings.toml").write_text(text)
    with pytest.raises(ArtefactError, match=r"settings.toml: damaged \("):
        wgfinn("resume", "run")


def test_resume_with_a_damaged_checkpoint(here):
    fit("--steps", "5")
    (here / "run" / "checkpoint.npz").write_bytes(b"")
    with pytest.raises(ArtefactError, match=r"checkpoint.npz: the checkpoint cannot be read"):
        wgfinn("resume", "run")


def test_resume_with_changed_settings(here):
    fit("--steps", "5")
    path = here / "run" / "settings.toml"
    path.write_text(path.read_text().replace("width = 4", "width = 5"))
    with pytest.raises(ArtefactError, match=r"checkpoint.npz: the array 'weights' is float32.*settings were changed"):
        wgfinn("resume", "run")


def test_an_older_run_is_never_overwritten(here):
    fit("--steps", "5")
    before = (here / "run" / "model.wgfinn").read_bytes()
    with pytest.raises(InputError, match="--out run: this folder holds a run already; `wgfinn resume run` goes on"):
        fit("--steps", "5")
    (here / "run" / "model.wgfinn").rename(here / "kept")
    with pytest.raises(InputError, match="this folder holds a run already"):
        fit("--steps", "5")
    assert (here / "kept").read_bytes() == before
    with pytest.raises(InputError, match=r"--out data.npz: a file of this name exists; give a folder"):
        fit(out="data.npz")


def test_bad_input(here):
    with pytest.raises(InputError, match=r"none.npz: there is no such file"):
        wgfinn("fit", "none.npz", "--out", "run")
    with pytest.raises(InputError, match=r"none.toml: no such settings file"):
        wgfinn("fit", "data.npz", "--out", "run", "--config", "none.toml")
    with pytest.raises(InputError, match=r"settings: training.steps = 0: input should be greater"):
        wgfinn("fit", "data.npz", "--out", "run", "--steps", "0")
    (here / "bad.toml").write_text(tomli_w.dumps({"model": {"depth": 3}}))
    with pytest.raises(
        InputError, match=r"bad.toml: unknown key 'model.depth'; known here are activation, confined, energy"
    ):
        wgfinn("fit", "data.npz", "--out", "run", "--config", "bad.toml")
    result = wgfinn("fit", "data.npz", "--out", "run", "--method", "medium")
    assert result.exit_code == 2
    assert "'medium' is not one of 'auto'" in result.stderr
    assert not (here / "run").exists()


@pytest.mark.parametrize("n_times", [3, 9])
def test_runs_too_short(here, n_times):
    """Three samples are fewer than any window has; nine fewer than the one that was asked for."""
    save(
        RUNS.__class__.from_arrays(np.random.default_rng(0).normal(size=(2, n_times, 2)), np.arange(n_times)),
        "short.npz",
    )
    (here / "wide.toml").write_text(tomli_w.dumps({"model": PLAIN, "test_functions": {"width": 10}}))
    with pytest.raises(InputError, match=f"run '0': a record of {n_times} samples is shorter than the support"):
        wgfinn("fit", "short.npz", "--out", "run", "--config", "wide.toml")
    assert not (here / "run").exists()
