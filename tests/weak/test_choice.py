"""The width of the test functions chosen from the data, and the sentence that goes with it."""

import numpy as np
import pytest

from wgfinn import systems
from wgfinn.data import Trajectories, add_noise, estimate_noise
from wgfinn.weak import TestFunctionSpec, choose_test_functions


def waves(sigma: float, *, samples: int = 401, runs: int = 10, period: float = 200.0) -> Trajectories:
    t = np.arange(float(samples))
    rng = np.random.default_rng(0)
    x = [np.sin(2 * np.pi * t / period + k)[:, None] + sigma * rng.standard_normal((samples, 1)) for k in range(runs)]
    return Trajectories.from_arrays(x, t, names=["q"])


def choose(runs: Trajectories) -> tuple[TestFunctionSpec, str]:
    return choose_test_functions(runs, estimate_noise(runs))


# Widths which the paper tuned by hand: 30, 80, 80 (gas containers), 10, 40, 40 (double pendulum), 60 (damped
# oscillator). Fields fitted at each width (docs/inspect.md) are best at 10 to 20, 10 to 20 and 20 to 30 samples with 5
# and 10 % noise, with flat minima; the choice lies between.
@pytest.mark.parametrize(
    ("system", "level", "low", "high"),
    [
        ("gas_containers", 0.0, 10, 30),
        ("gas_containers", 0.05, 15, 80),
        ("gas_containers", 0.1, 20, 80),
        ("double_pendulum", 0.0, 10, 20),
        ("double_pendulum", 0.05, 15, 40),
        ("double_pendulum", 0.1, 20, 60),
        ("damped_oscillator", 0.0, 10, 60),
        ("damped_oscillator", 0.05, 20, 60),
        ("damped_oscillator", 0.1, 30, 80),
    ],
)
def test_widths_on_systems_of_the_paper(system, level, low, high):
    runs = systems.generate(systems.make(system), trajectories=20, noise=level, seed=0).noisy
    assert low <= choose(runs)[0].width <= high


def test_more_noise_makes_wider_windows():
    widths = [choose(waves(sigma))[0].width for sigma in (0.0, 0.02, 0.1, 0.5)]
    assert widths == sorted(widths)
    assert widths[0] < widths[2] < widths[3]


def test_faster_dynamics_make_narrower_windows():
    widths = [choose(waves(0.1, period=period))[0].width for period in (40.0, 200.0)]
    assert widths[0] < widths[1]


def test_clean_data_take_narrow_windows_of_higher_degree():
    spec, reason = choose(waves(0.0))
    assert (spec.width <= 14, spec.degree, spec.overlap) == (True, 6, 0.9)
    assert "there is no noise to average" in reason


def test_the_reason_names_the_faintest_state_and_its_size():
    runs = waves(0.1)
    slow = [np.concatenate([r.x, 0.01 * r.t[:, None] ** 0.5], axis=1) for r in runs.runs]
    rng = np.random.default_rng(1)
    slow = [x + [0.0, 0.05] * rng.standard_normal(x.shape) for x in slow]
    _, reason = choose(Trajectories.from_arrays(slow, runs.runs[0].t, names=["q", "S"]))
    assert "change of S" in reason


def test_overwhelming_noise_takes_the_widest_windows_and_says_so():
    spec, reason = choose(waves(20.0))
    assert spec.width == 100  # a quarter of 401
    assert "as wide as the lengths of the runs allow" in reason
    assert "does not stand out of its noise" in reason


def test_never_wider_than_the_shortest_run():
    """Every run must hold a window, or the fit refuses it."""
    long, short = waves(0.5).runs[0], waves(0.5, samples=15).runs[0]
    both = Trajectories.from_arrays([long.x, short.x], [long.t, short.t])
    assert choose(both)[0].width <= 15


@pytest.mark.parametrize(("samples", "width"), [(4, 4), (7, 7), (12, 12)])
def test_short_runs_leave_no_choice(samples, width):
    spec, reason = choose(waves(0.1, samples=samples))
    assert spec.width == width
    assert f"the shortest run has {samples}, which leaves no choice" in reason


def test_three_samples_are_left_to_the_error_of_the_fit():
    """The smallest legal width; `TestFunctionSpec.count` then refuses the run in words."""
    assert choose(waves(0.1, samples=3))[0].width == 4


def test_without_motion_or_noise_level_a_tenth_of_the_shortest_run():
    flat = Trajectories.from_arrays(np.ones((300, 1)), np.arange(300.0))
    spec, reason = choose(flat)
    assert spec.width == 30
    assert "no state moves" in reason
    spec, reason = choose_test_functions(waves(0.1, samples=300), np.array([np.nan]))
    assert spec.width == 30
    assert "the noise is not known" in reason


def test_a_constant_state_does_not_count():
    runs = waves(0.1)
    wider = [np.concatenate([r.x, np.full((401, 1), 3.0)], axis=1) for r in runs.runs]
    assert choose(Trajectories.from_arrays(wider, runs.runs[0].t))[0] == choose(runs)[0]


def test_units_do_not_matter():
    runs = waves(0.1)
    scaled = Trajectories.from_arrays([1e6 * r.x for r in runs.runs], [1e-3 * r.t for r in runs.runs], names=["q"])
    assert choose(scaled) == choose(runs)


def test_unequal_steps():
    """Jitter of a fifth of a step: the record is interpolated, and the width hardly changes."""
    rng = np.random.default_rng(2)
    t = np.arange(401) + rng.uniform(-0.2, 0.2, 401)
    x = [np.sin(2 * np.pi * t / 200 + k)[:, None] + 0.1 * rng.standard_normal((401, 1)) for k in range(10)]
    jittered = choose(Trajectories.from_arrays(x, t))[0].width
    assert jittered == pytest.approx(choose(waves(0.1))[0].width, rel=0.3)


def test_long_records_are_sampled():
    """A long record gives the width of a part of it, and never windows that a training could not hold."""
    t = np.arange(500_000) * 0.001
    x = np.sin(t / 10)[:, None] + 0.5 * np.random.default_rng(0).standard_normal((t.size, 1))
    spec, _ = choose(Trajectories.from_arrays(x, t))
    assert 100 < spec.width <= 800


def test_equal_data_equal_choice():
    runs = add_noise(waves(0.0), 0.1, seed=3)
    assert choose(runs) == choose(runs)
