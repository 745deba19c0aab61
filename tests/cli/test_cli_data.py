"""How the commands read data: options, the [data] table of the settings, what is said."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
import tomli_w
from rich.console import Console
from typer.testing import CliRunner

from small_fits import NAMES, small_settings, some_runs
from wgfinn._errors import InputError
from wgfinn.artefact import load_model
from wgfinn.cli import app, data_options
from wgfinn.data import load, save

RUNS = some_runs()
STRANGE = "probe,tau [s],S,q,p,note\n"


def wgfinn(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A table whose columns have names and an order of their own."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{run.name},{t!r},{s!r},{q!r},{p!r},ok\n"
        for run in RUNS.runs
        for t, (q, p, s) in zip(run.t.tolist(), run.x.tolist(), strict=True)
    ]
    (tmp_path / "strange.csv").write_text(STRANGE + "".join(rows))
    (tmp_path / "small.toml").write_text(tomli_w.dumps(small_settings(steps=5, members=1)))
    return tmp_path


ROLES = ("--run", "probe", "--time", "tau", "--states", "q, p,S", "--ignore", "note")


def test_roles_by_options(here):
    result = wgfinn("fit", "strange.csv", "--out", "run", "--config", "small.toml", *ROLES)
    assert result.exit_code == 0
    assert "strange.csv: 3 runs of 30 samples, time in s, states q, p, S\n" in result.stderr
    assert "guessed" not in result.stderr
    manifest = load_model(here / "run" / "model.wgfinn").manifest
    assert manifest.names == NAMES
    assert manifest.data.digest == replace(RUNS, time_unit="s").digest()
    found = wgfinn("evaluate", "run", "strange.csv", "--json", *ROLES)
    save(RUNS, "plain.npz")
    assert json.loads(found.stdout) == json.loads(wgfinn("evaluate", "run", "plain.npz", "--json").stdout)
    wgfinn("simulate", "run", "--initial", "strange.csv", "--until", 1, "--step", 0.1, "--out", "a.parquet", *ROLES)
    wgfinn("simulate", "run", "--initial", "plain.npz", "--until", 1, "--step", 0.1, "--out", "b.mat")
    assert load("a.parquet").digest() == load("b.mat").digest()


def test_roles_in_the_settings(here):
    """An option wins over the table; `resume` reads the data as `fit` did."""
    roles = {"run": "probe", "time": "tau", "states": ["S", "q"], "ignore": ["note"]}
    (here / "small.toml").write_text(tomli_w.dumps({**small_settings(steps=5, members=1), "data": roles}))
    wgfinn("fit", "strange.csv", "--out", "a", "--config", "small.toml", "--states", "q,p,S")
    manifest = load_model(here / "a" / "model.wgfinn").manifest
    assert manifest.names == NAMES
    assert list(manifest.settings["data"]["states"]) == ["q", "p", "S"]
    assert manifest.settings["data"]["time"] == "tau"
    assert wgfinn("resume", "a").exit_code == 0
    wgfinn("fit", "strange.csv", "--out", "b", "--config", "small.toml")
    assert load_model(here / "b" / "model.wgfinn").manifest.names == ("S", "q")


def test_guesses_are_said(here):
    (here / "data.csv").write_text((here / "strange.csv").read_text().replace("tau [s]", "t").replace("probe", "id"))
    result = wgfinn("fit", "data.csv", "--out", "run", "--config", "small.toml", "--ignore", "note")
    assert "data.csv: 3 runs of 30 samples, states S, q, p\n" in result.stderr
    assert (
        "guessed: took column 'id' for the run, column 't' for the time and the rest for states: S, q, p "
        "(--run, --time, --states, --ignore decide otherwise)\n"
    ) in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), r"strange.csv: has no column 'time' \(or 't'\); the columns are 'probe', 'tau \[s\]'"),
        (("--time", "tau"), r"strange.csv: column 'note', row 2: expected a finite number, but received 'ok'"),
        (("--time", "taw"), r"has no column 'taw' \(given as time\); there are .*did you mean 'tau'"),
        (("--time", "tau", "--states", "q,,p"), r"--states 'q,,p': give names of columns with commas between them"),
        (("--time", "tau", "--states", "q,tau"), r"column 'tau \[s\]' is given twice, as time and as states"),
        ((*ROLES, "--sigma", "z"), r"has no column 'z' \(given as sigma\)"),
    ],
)
def test_bad_options(here, options, message):
    with pytest.raises(InputError, match=message):
        wgfinn("fit", "strange.csv", "--out", "run", *options)
    assert not (here / "run").exists()


def test_bad_table_in_the_settings(here):
    (here / "bad.toml").write_text('[data]\ntimes = "t"\n')
    with pytest.raises(
        InputError, match=r"bad.toml: unknown key 'data.times'; known here are decimal, ignore, run, separator, sigma"
    ):
        wgfinn("fit", "strange.csv", "--out", "run", "--config", "bad.toml")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz", ".h5", ".hdf5", ".mat", ".nc"])
def test_generate_by_suffix(tmp_path, suffix):
    for name in (f"a{suffix}", "b.npz"):
        wgfinn("generate", "damped_oscillator", "--trajectories", 2, "--out", tmp_path / name)
    assert load(tmp_path / f"a{suffix}").digest() == load(tmp_path / "b.npz").digest()


def test_a_bad_suffix_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("wgfinn.systems.make", None)
    with pytest.raises(InputError, match=r"x.txt: unknown suffix"):
        wgfinn("generate", "vlasov_poisson", "--out", tmp_path / "x.txt")


# ---------------------------------------------------------------------------------------------- progress


def test_a_bar_for_those_who_watch():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with data_options.reading_bar(console, "reading data.csv") as progress:
        progress(100, 100)  # a small file, read in one go
    assert screen.getvalue().strip("\x1b[?25hl\n\r") == ""
    with data_options.reading_bar(console, "reading data.csv") as progress:
        progress(30, 100)
        progress(100, 100)
    assert "reading data.csv" in screen.getvalue()
    assert "100%" in screen.getvalue()


def test_lines_for_a_log_file(monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 6.0).tolist())
    monkeypatch.setattr(data_options.time, "monotonic", lambda: next(clock))
    log = io.StringIO()
    with data_options.reading_bar(Console(file=log, width=100), "reading data.csv") as progress:
        for done in (10, 20, 30, 40, 100):
            progress(done, 100)
    assert log.getvalue() == "reading data.csv: 20%\nreading data.csv: 40%\n"
