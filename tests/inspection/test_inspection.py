"""What `inspect` says about data that are known to be so."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import wgfinn
from wgfinn._errors import InputError
from wgfinn.data import Run, Trajectories, add_noise
from wgfinn.inspection import inspect, inspection_figure
from wgfinn.inspection.gaps import gap_indices, pieces

T = np.arange(400) * 0.1


def wave(period: float, phase: float = 0.0) -> np.ndarray:
    return np.sin(2 * np.pi * T / period + phase)


def measured(*columns: np.ndarray, names=None, units=None, sigma: float = 0.01, seed: int = 0) -> Trajectories:
    """One run a phase, every column with noise of `sigma` times its spread."""
    x = np.stack(columns, axis=-1)
    spread = np.std(x, axis=0)
    rng = np.random.default_rng(seed)
    runs = [x + sigma * spread * rng.standard_normal(x.shape) for _ in range(3)]
    return Trajectories.from_arrays(runs, T, names=names, units=units)


def kinds(trajectories: Trajectories) -> dict[str, str]:
    return {finding.kind: finding.message for finding in inspect(trajectories).findings}


def test_ordinary_data_raise_no_warning():
    report = inspect(measured(wave(4.0), 50 * wave(2.0, 1.0), names=["q", "p"], units=["m", "kg m/s"]))
    assert report.findings == ()
    assert report.warnings == ()


def test_a_single_state_cannot_move():
    assert "'x1' is the only state" in kinds(measured(wave(4.0)))["single_state"]


def test_two_states_that_go_round():
    swings, decay = (wave(4.0), wave(4.0, np.pi / 2)), np.exp(-T / 20)
    assert "model.entropy = 'none'" in kinds(measured(*swings))["two_states"]
    assert "a fit learns that of surroundings" in kinds(measured(*(decay * x for x in swings)))["two_states"]
    assert "two_states" not in kinds(measured(decay, decay**2))


def test_runs_and_steps():
    a, b = np.arange(20) * 0.5, np.arange(50) * 0.5
    rng = np.random.default_rng(0)
    report = inspect(Trajectories.from_arrays([rng.normal(size=(20, 1)), rng.normal(size=(50, 1))], [a, b]))
    runs, steps = report.runs, report.steps
    assert (runs.count, runs.samples, runs.shortest, runs.median, runs.longest) == (2, 70, 20, 35, 50)
    assert (runs.shortest_duration, runs.longest_duration) == (9.5, 24.5)
    assert (steps.min, steps.median, steps.max, steps.jitter, steps.gaps, steps.uniform) == (0.5, 0.5, 0.5, 0, 0, True)


def test_states():
    report = inspect(measured(3 + wave(4.0), 50 * wave(2.0), names=["q", "p"], units=["m", ""], sigma=0.05))
    q, p = report.states
    assert (q.name, q.unit, q.missing) == ("q", "m", 0)
    assert q.min == pytest.approx(2.0, abs=0.2)
    assert q.max == pytest.approx(4.0, abs=0.2)
    assert q.mean == pytest.approx(3.0, abs=0.01)
    assert q.std == pytest.approx(np.sqrt(0.5), rel=0.01)
    # 1200 samples: a standard error of 3 %.
    assert q.noise == pytest.approx(0.05 * np.sqrt(0.5), rel=0.1)
    assert p.noise_percent == pytest.approx(5.0, rel=0.1)
    assert p.signal_to_noise == pytest.approx(20.0, rel=0.1)


@pytest.mark.parametrize("sigma", [0.0, 0.1])
@pytest.mark.parametrize("period", [0.6, 2.0, 8.0])
def test_periods_of_a_wave(period, sigma):
    """A bin of the spectrum is 1/40; the fastest period lies at most two bins beyond the line."""
    (state,) = inspect(measured(wave(period), sigma=sigma)).states
    assert 1 / state.period == pytest.approx(1 / period, abs=1 / 40)
    assert 1 / period - 1e-9 <= 1 / state.fastest_period <= 1 / period + 2.01 / 40
    assert state.samples_per_period == pytest.approx(state.fastest_period / 0.1)


def test_two_waves_have_a_main_and_a_fastest_period():
    """The fast wave has a hundredth of the power but, at 16 times the frequency, most of that of the rates."""
    (state,) = inspect(measured(wave(8.0) + 0.1 * wave(0.5, 0.3), sigma=0.01)).states
    assert state.period == pytest.approx(8.0, rel=0.1)
    assert state.fastest_period == pytest.approx(0.5, rel=0.05)


def test_a_transient_at_the_start_counts():
    """A Hann window alone would not see the first samples of a run."""
    (slow,) = inspect(measured(np.exp(-T / 10), sigma=0.001)).states
    (fast,) = inspect(measured(np.exp(-T / 10) + np.exp(-T / 0.3), sigma=0.001)).states
    assert fast.fastest_period < slow.fastest_period / 3


def test_the_main_period_of_swings_that_start_at_their_crest_and_die_away():
    """Runs of two lengths, the shorter without a full swing."""
    runs = [np.exp(-t / 8) * np.cos(2 * np.pi * t / 5) for t in (T[T < 4], T[T < 20], T[T < 20])]
    times = [T[: len(x)] for x in runs]
    (state,) = inspect(Trajectories.from_arrays([x[:, None] for x in runs], times)).states
    assert 1 / state.period == pytest.approx(1 / 5, abs=1 / 40)


def test_a_slow_state_has_no_main_period():
    (state,) = inspect(measured(T**1.5)).states
    assert state.period is None
    assert state.fastest_period is not None


def test_the_choice_of_test_functions_comes_with_its_reason():
    report = inspect(measured(wave(8.0), sigma=0.1))
    assert report.test_functions.width > 12
    assert report.reason.startswith(f"{report.test_functions.width} samples")
    assert report.windows == 3 * report.test_functions.count(400)


def test_dictionary_for_machines():
    """The keys promised by docs/inspect.md."""
    content = inspect(measured(wave(4.0), np.ones(400), names=["q", "c"])).to_dict()
    assert json.loads(json.dumps(content)) == content
    assert list(content) == ["runs", "steps", "states", "test_functions", "findings", "time_unit"]
    assert set(content["states"][0]) == {
        *("name", "unit", "min", "max", "mean", "std", "missing", "noise", "noise_percent"),
        *("signal_to_noise", "period", "fastest_period", "samples_per_period"),
    }
    assert set(content["test_functions"]) == {
        *("family", "width", "degree", "overlap", "mode", "duration", "windows", "reason"),
    }
    assert content["findings"][0].keys() == {"kind", "level", "message"}
    constant = content["states"][1]
    assert (constant["noise"], constant["noise_percent"], constant["period"]) == (0.0, None, None)


def test_public_names():
    assert wgfinn.inspect is inspect
    assert isinstance(inspect(measured(wave(4.0))), wgfinn.Inspection)


def test_constant_state():
    message = kinds(measured(wave(4.0), np.full(400, 2.5), names=["q", "k"]))["constant_state"]
    assert "state 'k' never moves" in message
    assert "Leave it out" in message


def test_short_runs():
    runs = Trajectories.from_arrays(
        [np.sin(T)[:, None], np.sin(T[:7])[:, None]], [T, T[:7]], run_names=["long", "stub"]
    )
    message = kinds(runs)["short_run"]
    assert "1 run ('stub') of fewer than 12 samples" in message
    assert "(7 samples)" in message
    assert "different_durations" in kinds(runs)


def test_many_short_runs_are_not_all_named():
    runs = Trajectories.from_arrays([np.sin(T[:8])[:, None]] * 6, [T[:8] + k for k in range(6)])
    assert "6 runs ('0', '1', '2', '3', ...)" in kinds(runs)["short_run"]


def test_gaps():
    t = np.concatenate([T[:200], T[200:] + 7.0])
    x = np.sin(t)[:, None]
    runs = Trajectories.from_arrays([x, x], [t, t + 0.01])
    message = kinds(runs)["gaps"]
    assert "2 gaps in the times; the longest, 7.1, follows t = 19.9" in message
    assert inspect(runs).steps.gaps == 2
    assert [len(piece.t) for piece in pieces(runs.runs[0])] == [200, 200]
    assert gap_indices(runs.runs[0]).tolist() == [199]


def test_a_gap_of_a_year_costs_no_memory():
    t = np.concatenate([T[:200], T[200:] + 3e8])
    (state,) = inspect(Trajectories.from_arrays(np.sin(t)[:, None], t)).states
    # Pieces of 20: within two bins of 1 / 20, the width of the Hann window.
    assert 1 / state.fastest_period == pytest.approx(1 / (2 * np.pi), abs=2.01 / 20)


def test_uneven_steps():
    t = T + 0.03 * np.random.default_rng(0).uniform(-1, 1, T.size)
    runs = Trajectories.from_arrays(np.sin(t)[:, None], t)
    assert "1 run ('0') with unequal steps" in kinds(runs)["uneven_steps"]
    # The difference of two uniform variables of width 0.6 of a step: sqrt(2 / 12) 0.6.
    assert inspect(runs).steps.jitter == pytest.approx(0.6 / np.sqrt(6), rel=0.1)
    other = T + 0.03 * np.random.default_rng(1).uniform(-1, 1, T.size)
    both = kinds(Trajectories.from_arrays([np.sin(t)[:, None], np.sin(other)[:, None]], [t, other]))
    assert "different_steps" not in both


def test_different_steps():
    runs = Trajectories.from_arrays([np.sin(T)[:, None], np.sin(2 * T)[:, None]], [T, 2 * T])
    assert "different steps (0.1 to 0.2)" in kinds(runs)["different_steps"]
    assert inspect(runs).steps.jitter == 0


def test_repeated_run():
    x = np.sin(T)[:, None]
    runs = Trajectories.from_arrays([x, x + 1, x], T, run_names=["a", "b", "c"])
    assert "run 'c' is a copy of run 'a'" in kinds(runs)["repeated_run"]


def test_missing_values():
    x = np.stack([wave(4.0), wave(2.0)], axis=-1) + 0.01 * np.random.default_rng(0).standard_normal((400, 2))
    x[10:30, 1] = np.nan
    runs = Trajectories.from_arrays(x, T, names=["q", "p"])
    assert "state 'p' was not measured at 20 of 400 samples (5 %)" in kinds(runs)["missing_values"]
    q, p = inspect(runs).states
    assert (q.missing, p.missing) == (0, 20)
    assert p.period == pytest.approx(2.0, rel=0.1)
    assert p.noise == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize(("period", "cure"), [(2 * np.pi, r"numpy.unwrap(x)"), (360.0, "numpy.unwrap(x, period=360)")])
def test_wrapped_angle(period, cure):
    angle = np.mod(T / 40 * 3.3 * period, period) - period / 2
    messages = kinds(measured(angle, wave(4.0), names=["phi", "q"]))
    assert "state 'phi' jumps by nearly" in messages["wrapped_angle"]
    assert "9 times" in messages["wrapped_angle"]
    assert cure in messages["wrapped_angle"]
    assert "'q'" not in messages["wrapped_angle"]


def test_outliers():
    runs = measured(wave(4.0), wave(2.0), names=["q", "p"])
    x = [run.x.copy() for run in runs.runs]
    x[1][57, 0] += 1.5
    x[2][100, 0] -= 1.5
    messages = kinds(runs.with_states(x))
    assert "state 'q' has 2 single samples far off both neighbours" in messages["outliers"]
    assert "the first at t = 5.7 in run '1'" in messages["outliers"]
    assert "state 'p'" not in messages["outliers"]


def test_fast_peaks_are_no_outliers():
    """Five samples a period: every peak is alone, and none is an outlier."""
    assert "outliers" not in kinds(measured(wave(0.5, 0.2)))


def test_quantised():
    rounded = np.round(wave(4.0) * 2) / 2
    messages = kinds(Trajectories.from_arrays(np.stack([rounded, wave(3.0)], axis=-1), T, names=["q", "p"]))
    assert "state 'q' takes only 5 different values in 400 samples, 0.5 apart" in messages["quantised"]


def test_coarse_sampling():
    message = kinds(measured(wave(0.45), names=["q"]))["coarse_sampling"]
    assert "state 'q' has only 4." in message
    assert "at least 10 are wanted" in message


def test_loud_noise():
    message = kinds(measured(wave(4.0), sigma=1.0, names=["q"]))["loud_noise"]
    # 1 / sqrt(2), within three times the 3 % of its standard error.
    assert re.search(r"state 'q' is mostly noise \((6[5-9]|7[0-6]) % of its standard deviation\)", message)


def test_no_noise():
    assert "no state shows noise" in kinds(measured(wave(4.0), sigma=0.0))["no_noise"]


def test_unknown_noise():
    runs = Trajectories.from_arrays([[[0.0], [1.0]], [[2.0], [0.5]]], [0.0, 1.0], names=["q"])
    assert "the noise of state 'q' cannot be told" in kinds(runs)["noise_unknown"]


def test_duplicate_states():
    x = wave(4.0) + 0.01 * np.random.default_rng(0).standard_normal(400)
    runs = Trajectories.from_arrays(np.stack([x, -3 * x + 2, wave(3.0)], axis=-1), T, names=["q", "r", "p"])
    assert (
        "states 'q' and 'r' are the same up to scale and shift (correlation -1.00000)"
        in kinds(runs)["duplicate_states"]
    )


def test_different_scales():
    message = kinds(measured(1e6 * wave(4.0), wave(3.0), names=["N", "q"]))["different_scales"]
    assert "the spreads of 'N' and 'q' differ by a factor 1e+06: harmless" in message


def test_warnings_come_before_notes():
    levels = [f.level for f in inspect(measured(1e6 * wave(4.0), np.ones(400), wave(3.0), sigma=0.0)).findings]
    assert levels == sorted(levels, reverse=True)
    assert set(levels) == {"warning", "note"}


def test_noise_changes_no_finding_of_the_paper():
    """Gas containers at 10 %: nothing to complain about."""
    clean = wgfinn.systems.generate(wgfinn.systems.make("gas_containers"), trajectories=10, seed=0).clean
    assert inspect(add_noise(clean, 0.1, seed=0)).warnings == ()


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_figure(tmp_path, suffix):
    runs = measured(wave(4.0), np.ones(400), names=["q", "k"], units=["m", ""])
    inspection_figure(tmp_path / f"figure.{suffix}", runs, inspect(runs))
    assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000


def test_figure_says_the_unit_of_time(tmp_path):
    bare = measured(wave(4.0), names=["a$b$"])
    for unit, shown in (("s", ["time [s]", "frequency [1/s]"]), ("", ["time", "frequency"])):
        runs = replace(bare, time_unit=unit)
        inspection_figure(tmp_path / "figure.svg", runs, inspect(runs))
        svg = (tmp_path / "figure.svg").read_text(encoding="utf-8")
        assert all(f"<!-- {text} -->" in svg for text in shown)


def test_findings_say_the_unit_of_time():
    t = np.arange(60.0)
    t[30:] += 100.0
    x = np.sin(t)[:, None] + [0.0, 1.0]
    runs = Trajectories.from_arrays([x, x[:12]], [t, 2 * t[:12]], time_unit="days since 2000-01-01")
    found = kinds(runs)
    assert "the longest, 101 days, follows t = 29 days in run '0', where the usual step is 1 days" in found["gaps"]
    assert "different steps (1 to 2 days)" in found["different_steps"]
    assert "last from 22 to 159 days" in found["different_durations"]
    assert "with unequal steps (1 to 1.5 ms)" in kinds(uneven(time_unit="ms"))["uneven_steps"]


def uneven(time_unit: str) -> Trajectories:
    t = np.cumsum(np.where(np.arange(60) % 2, 1.0, 1.5))
    return Trajectories.from_arrays(np.sin(t)[:, None], t, time_unit=time_unit)


def test_figure_of_many_states_and_runs(tmp_path):
    rng = np.random.default_rng(0)
    runs = Trajectories.from_arrays(rng.normal(size=(25, 30, 30)).cumsum(axis=1), np.arange(30.0))
    inspection_figure(tmp_path / "figure.png", runs, inspect(runs))
    assert (tmp_path / "figure.png").exists()


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (20, 20), (24, 20), (50, 20)])
def test_the_figure_draws_as_many_runs_as_it_says(tmp_path, count, shown):
    runs = Trajectories.from_arrays(np.random.default_rng(0).normal(size=(count, 30, 2)), T[:30])
    inspection_figure(tmp_path / "figure.svg", runs, inspect(runs))
    svg = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert f"<!-- {shown} of {count} runs -->" in svg
    assert svg.count("stroke: #0072b2") == shown * 2


def test_figure_of_a_state_that_never_moves(tmp_path):
    runs = Trajectories.from_arrays(np.full((2, 30, 2), 7.0), T[:30])
    inspection_figure(tmp_path / "figure.png", runs, inspect(runs))
    assert (tmp_path / "figure.png").exists()


def test_figure_of_an_unknown_format(tmp_path):
    runs = measured(wave(4.0))
    with pytest.raises(InputError, match=r"figure\.txt: a figure is written as \.png, \.pdf, \.svg"):
        inspection_figure(tmp_path / "figure.txt", runs, inspect(runs))


def test_the_smallest_run():
    report = inspect(Trajectories(runs=(Run(t=[0.0, 1.0], x=[[1.0], [2.0]], name="a"),), names=("q",), units=("",)))
    assert report.states[0].noise is None
    assert report.test_functions.width == 4
    assert report.windows == 0
