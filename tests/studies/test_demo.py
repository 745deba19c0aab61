"""The demonstration at a size of seconds: every file, every number, the words at the end."""

import io
import json
from contextlib import contextmanager

import jax
import pytest
from rich.console import Console

from wgfinn import systems
from wgfinn._errors import InputError
from wgfinn.studies import demo


@pytest.fixture
def small(monkeypatch):
    """One system of six runs, networks of four neurons, twenty steps, two members."""
    generate, spec = systems.generate, demo.demo_spec
    monkeypatch.setattr(demo, "SYSTEMS", ("damped_oscillator",))
    monkeypatch.setattr(demo, "STEPS", 20)
    monkeypatch.setattr(demo, "MEMBERS", 2)
    monkeypatch.setattr(systems, "generate", lambda system, **options: generate(system, trajectories=6, **options))

    def small_spec(method, seed):
        full = spec(method, seed)
        model = full.model.model_copy(update={"layers": 2, "width": 4, "rows": 1})
        training = full.training.model_copy(update={"check_every": 5, "batch": 2})
        return full.model_copy(update={"model": model, "training": training})

    monkeypatch.setattr(demo, "demo_spec", small_spec)


def test_writes_figures_and_numbers_and_tells(small, tmp_path):
    bars, shown = [], []

    @contextmanager
    def bar(title, steps):
        seen = []
        bars.append((title, steps, seen))
        yield lambda record: seen.append(record.step)

    out = tmp_path / "new" / "folder"
    with jax.enable_x64(True):
        results = demo.run_demo(out, noise=0.1, seed=0, bar=bar, show=shown.append)
    assert {p.name for p in out.iterdir()} == {
        "damped_oscillator_trajectories.png",
        "damped_oscillator_energy_entropy.png",
        "demo.json",
    }
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in out.glob("*.png"))
    assert [(title, steps, seen[-1]) for title, steps, seen in bars] == [
        ("damped_oscillator, weak form", 20, 20),
        ("damped_oscillator, strong form", 20, 20),
    ]
    written = json.loads((out / "demo.json").read_text())
    assert written == results
    for method in ("weak", "strong"):
        found = written["damped_oscillator"][method]
        errors = found["relative_l2_members"]
        assert len(errors) == 2
        assert found["median"] == pytest.approx(sum(errors) / 2)
        assert found["relative_l2"] in errors
        assert abs(found["degeneracy"]["poisson_degeneracy"]) < 1e-12
        assert abs(found["degeneracy"]["friction_degeneracy"]) < 1e-12
    table, verdict, end = shown
    page = io.StringIO()
    Console(width=200, file=page).print(table)
    printed = page.getvalue()
    assert printed.count("damped_oscillator") == 2
    assert f"{written['damped_oscillator']['weak']['median']:.3f}" in printed
    assert "2 members trained at 10% noise" in verdict
    assert "damped_oscillator: strong / weak = " in verdict
    assert str(out.resolve()) in end


def test_what_the_demonstration_trains():
    """The two forms differ in nothing but the form; both systems of the issue are shown."""
    weak, strong = (demo.demo_spec(method, 3) for method in demo.METHODS)
    assert strong == weak.model_copy(update={"method": "strong"})
    assert weak.training.seed == 3
    assert weak.training.members >= 3
    assert demo.SYSTEMS == ("gas_containers", "damped_oscillator")


def test_bad_noise(small, tmp_path):
    with pytest.raises(InputError, match="noise"):
        demo.run_demo(tmp_path, noise=-0.1, seed=0, bar=lambda *_: None, show=print)
