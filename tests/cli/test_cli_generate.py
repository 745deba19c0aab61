"""`wgfinn generate`."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from wgfinn._errors import InputError
from wgfinn.cli import app
from wgfinn.data import load, state_std

SMALL = ("damped_oscillator", "--trajectories", "4")


def generate(*arguments):
    return CliRunner().invoke(app, ["generate", *map(str, arguments)], catch_exceptions=False)


def test_writes_what_the_readme_says(tmp_path):
    out = tmp_path / "data.npz"
    result = generate(*SMALL, "--out", out)
    assert result.exit_code == 0
    assert result.stdout == f"{out}: 4 runs of 401 samples, states q, p, S\n"
    with np.load(out) as file:
        assert file["t"].shape == (401,)
        assert file["x"].shape == (4, 401, 3)
        assert file["names"].tolist() == ["q", "p", "S"]
    assert list(tmp_path.iterdir()) == [out]


def test_seed_and_noise(tmp_path):
    """Equal seeds, equal data; noise of 20 % of each state's deviation, to the accuracy of 1604 draws."""
    for name, options in {"clean": (), "again": (), "noisy": ("--noise", 0.2), "other": ("--seed", 1)}.items():
        generate(*SMALL, *options, "--out", tmp_path / f"{name}.npz")
    clean, again, noisy, other = (load(tmp_path / f"{n}.npz") for n in ("clean", "again", "noisy", "other"))
    assert clean.digest() == again.digest()
    assert clean.digest() != other.digest()
    added = np.concatenate([a.x - b.x for a, b in zip(noisy.runs, clean.runs, strict=True)])
    np.testing.assert_allclose(added.std(axis=0), 0.2 * state_std(clean), rtol=0.1)


def test_parameters_of_the_system(tmp_path):
    """Without damping nothing is lost: the entropy stays where it starts."""
    generate(*SMALL, "--param", "gamma=0", "--param", "mass=2.5", "--out", tmp_path / "data.csv")
    data = load(tmp_path / "data.csv")
    assert all(np.abs(run.x[:, 2]).max() < 1e-12 for run in data.runs)


def test_split_writes_noisy_training_and_clean_test_runs(tmp_path):
    generate(*SMALL, "--noise", 0.1, "--split", "--seed", 3, "--out", tmp_path / "data.npz")
    generate(*SMALL, "--seed", 3, "--out", tmp_path / "all.npz")
    train, test, clean = (load(tmp_path / f"{n}.npz") for n in ("data.train", "data.test", "all"))
    assert len(train) + len(test) == 4
    runs = {run.name: run.x for run in clean.runs}
    assert all(np.array_equal(run.x, runs[run.name]) for run in test.runs)
    assert not any(np.array_equal(run.x, runs[run.name]) for run in train.runs)
    assert {p.name for p in tmp_path.iterdir()} == {"all.npz", "data.train.npz", "data.test.npz"}


def test_json(tmp_path):
    out = tmp_path / "data.npz"
    assert json.loads(generate(*SMALL, "--out", out, "--json").stdout) == {str(out): {"runs": 4, "samples": 1604}}


def test_list():
    listed = json.loads(generate("--list", "--json").stdout)
    assert {"gas_containers", "damped_oscillator"} <= set(listed)
    assert listed["damped_oscillator"]["states"] == ["q", "p", "S"]
    assert listed["damped_oscillator"]["parameters"]["gamma"] == 0.01
    assert "gamma=0.01" in generate("--list").stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("damped_osculator", "--out", "x.npz"), "system='damped_osculator' is unknown .did you mean 'damped_osc"),
        (("--out", "x.npz"), "give a SYSTEM and --out FILE"),
        (("damped_oscillator",), "give a SYSTEM and --out FILE"),
        ((*SMALL, "--noise", "-0.1", "--out", "x.npz"), "noise=-0.1 must be a finite number of at least 0"),
        ((*SMALL, "--noise", "nan", "--out", "x.npz"), "noise=nan must be a finite number"),
        ((*SMALL, "--seed", "-1", "--out", "x.npz"), "seed=-1 must be"),
        ((*SMALL, "--trajectories", "0", "--out", "x.npz"), "trajectories=0 must be"),
        ((*SMALL, "--param", "gamma", "--out", "x.npz"), "--param 'gamma' must have the form name=value"),
        ((*SMALL, "--param", "gama=1", "--out", "x.npz"), "no parameter 'gama' .did you mean 'gamma'"),
        ((*SMALL, "--param", "gamma=much", "--out", "x.npz"), "gamma='much' must be a number"),
        ((*SMALL, "--out", "x.txt"), "x.txt: unknown suffix '.txt'"),
    ],
)
def test_refused_and_nothing_written(tmp_path, monkeypatch, arguments, match):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=match):
        generate(*arguments)
    assert list(tmp_path.iterdir()) == []
