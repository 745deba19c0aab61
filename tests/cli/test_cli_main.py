"""The entry point: bad input is one sentence on standard error and exit code 2, never a traceback."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from wgfinn import cli
from wgfinn.cli import app, studying


def main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["wgfinn", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("generate", "pendulum", "--out", "x.npz"), "wgfinn: system='pendulum' is unknown"),
        (("generate", "damped_oscillator", "--noise", "-1", "--out", "x.npz"), "wgfinn: noise=-1.0 must be"),
        (("fit", "none.npz", "--out", "run"), "wgfinn: none.npz: there is no such file."),
        (("resume", "nowhere"), "wgfinn: nowhere: no interrupted run here"),
        (("evaluate", "nowhere", "none.npz"), "wgfinn: nowhere: no such model file."),
    ],
)
def test_one_sentence_and_code_two(monkeypatch, capsys, tmp_path, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert main(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.splitlines()[-1].startswith("wgfinn: ")
    assert "Traceback" not in printed.err
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_is_code_two_as_well(monkeypatch, capsys):
    assert main(monkeypatch, "fit", "--speed", "3") == 2
    assert "No such option" in capsys.readouterr().err


def test_success_is_code_zero(monkeypatch, capsys):
    assert main(monkeypatch, "generate", "--list", "--json") == 0
    assert "gas_containers" in json.loads(capsys.readouterr().out)


def wgfinn(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "wgfinn", *arguments], capture_output=True, text=True, timeout=120, **options
    )


def test_the_program_refuses_in_one_line(tmp_path):
    ended = wgfinn("fit", "none.npz", "--out", "run", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == "wgfinn: none.npz: there is no such file.\n"
    assert list(tmp_path.iterdir()) == []


def test_the_program_generates(tmp_path):
    ended = wgfinn("generate", "damped_oscillator", "--trajectories", "2", "--out", "a.npz", "--json", cwd=tmp_path)
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == {"a.npz": {"runs": 2, "samples": 802}}
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["generate", "fit", "resume", "simulate", "evaluate", "report", "demo"])
def test_help(command):
    """Every command and every option says what it does."""
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert told.exit_code == 0
    for parameter in cli_parameters(command):
        assert parameter.help or parameter.name == "help", parameter.name


def cli_parameters(command):
    return typer.main.get_command(app).commands[command].params


def test_demo_passes_its_options_on(monkeypatch, tmp_path):
    called = {}
    monkeypatch.setattr(studying, "run_demo", lambda out, **options: called.update(out=out, **options))
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--noise", "0.2", "--seed", "4"])
    assert result.exit_code == 0
    assert (called["out"], called["noise"], called["seed"]) == (tmp_path, 0.2, 4)
    with called["bar"]("title", 10) as observe:
        assert callable(observe)
