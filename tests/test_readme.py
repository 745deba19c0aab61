"""What the README says works as it says."""

import re
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import typer

from wgfinn.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def shell_lines():
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def test_opens_with_two_commands():
    assert [line.split("#")[0].strip() for line in blocks("sh")[0].splitlines()] == ["make demo", "make test"]


@pytest.mark.parametrize("line", [line for line in shell_lines() if line.startswith("wgfinn ")])
def test_commands_parse(line):
    """Every option exists and every value is of its type; nothing is run."""
    _, name, *arguments = shlex.split(line)
    assert COMMANDS.commands[name].make_context(name, arguments).params


def test_the_commands_are_shown():
    shown = {line.split()[1] for line in shell_lines() if line.startswith("wgfinn ")}
    assert shown >= {"generate", "inspect", "fit", "resume", "report", "simulate", "evaluate", "export"}


def test_commands_in_the_text_exist():
    for name in re.findall(r"`wgfinn ([a-z]+)", README):
        assert name in COMMANDS.commands


def test_links_lead_somewhere():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target


def test_python_example(tmp_path, monkeypatch, capsys):
    """At most 15 lines; run as it stands, but for the length of the training."""
    (example,) = blocks("python")
    lines = [line for line in example.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= 15
    few = 'WGFINN(settings={"training": {"steps": 2, "starts": 2}, "polish": {"steps": 2}, "refine": {"steps": 2}})'
    short, replaced = re.subn(r"WGFINN\(\)", few, example)
    assert replaced == 1
    monkeypatch.chdir(tmp_path)
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    names = {}
    try:
        exec(compile(short, "README.md", "exec"), names)
    finally:
        plt.close("all")
        plt.switch_backend(backend)
    assert names["predicted"].shape == (len(names["t"]), 3)
    assert (tmp_path / "oscillator.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip()
