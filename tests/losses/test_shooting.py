"""Multiple shooting: zero for the truth, blind to padding and to what was not measured, one in noise units."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.data import Run, Trajectories
from wgfinn.integrate import step
from wgfinn.losses import (
    FieldAndStarts,
    ShootingEquations,
    fresh_starts,
    make_shots,
    mean_over_equations,
    part_that_leaves,
    run_misfits,
    starts_along,
)
from wgfinn.losses.shooting import shoot
from wgfinn.models import ModelSpec, build

DT, NOISE = 0.1, np.array([0.02, 0.05])
MATRIX = np.array([[-0.1, 1.0], [-1.0, -0.2]])


def truth(x):
    """A damped rotation."""
    return jnp.tensordot(jnp.asarray(MATRIX, x.dtype), x, 1)


def solution(start, n_times):
    """The scheme's own trajectory, so that the truth's residual is rounding."""
    x = [jnp.asarray(start)]
    for _ in range(n_times - 1):
        x.append(step(truth, x[-1], DT))
    return np.stack(x)


def runs_of(*lengths, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    states = [solution(rng.normal(size=2), n) for n in lengths]
    noisy = [x + noise * NOISE * rng.normal(size=x.shape) for x in states]
    return Trajectories.from_arrays(noisy, [DT * np.arange(n) for n in lengths])


def shots_of(runs, window=6):
    return make_shots(runs, NOISE, window=window, longest=1000, dtype="float64")


class Truth(FieldAndStarts):
    def __init__(self, starts):
        self.field = build(ModelSpec(field="plain", layers=2, width=2), 2, key=jax.random.key(0))
        self.starts = starts


@pytest.fixture
def true_field(monkeypatch):
    """`FieldAndStarts` whose field is the truth: only its starts are left to say."""
    monkeypatch.setattr("wgfinn.losses.shooting.shoot", _with(truth))
    return Truth


def _with(field):
    return lambda _, first, steps, limits: shoot(field, first, steps, limits)


def starts_at_the_truth(shots, runs, window):
    exact = np.array(shots.first)
    for r, run in enumerate(runs.runs):
        for w in range(exact.shape[2]):
            exact[:, r, w] = run.x[min(w * window, len(run.t) - 1)]
    return (jnp.asarray(exact) - shots.first) / (30.0 * shots.noise)


def test_the_truth_misses_nothing(true_field):
    """Samples and gaps, with a run that fills no window exactly and one much shorter than the other."""
    runs = runs_of(20, 9)
    shots = shots_of(runs)
    residual = ShootingEquations(shots, 100.0).residual(true_field(starts_at_the_truth(shots, runs, 6)))
    assert residual.shape == (2, 2, 4, 8)
    np.testing.assert_allclose(residual, 0, atol=1e-10)


def test_every_sample_counts_once():
    shots = shots_of(runs_of(20, 9, 6, 7))
    assert float((shots.weight > 0).sum()) == 2 * (20 + 9 + 6 + 7)


def test_a_displaced_start_is_missed_in_noise_levels_and_opens_a_gap(true_field):
    runs = runs_of(13)
    shots = shots_of(runs)
    starts = starts_at_the_truth(shots, runs, 6)
    equations = ShootingEquations(shots, 9.0)
    moved = np.asarray(equations.residual(true_field(starts.at[0, 0, 1].add(1 / 30))))
    # sqrt(9) times one noise level, which the bound of thirty takes next to nothing off
    assert moved[0, 0, 0, -1] == pytest.approx(-3 / np.sqrt(1 + 3**2 / 30**2), rel=1e-9)
    np.testing.assert_allclose(moved[:, 0, 0, :-1], 0, atol=1e-10)
    assert moved[0, 0, 1, 1] == pytest.approx(1.0, rel=0.2)


def test_what_was_not_measured_does_not_count(true_field):
    runs = runs_of(13)
    x = np.array(runs.runs[0].x)
    x[4, 1] = np.nan
    holed = Trajectories.from_arrays([x], runs.runs[0].t)
    shots = shots_of(holed)
    exists = ShootingEquations(shots, 1.0).mask()
    assert float(exists[..., :-1].sum()) == 2 * 13 - 1
    residual = ShootingEquations(shots, 1.0).residual(true_field(fresh_starts(shots)))
    assert np.isfinite(mean_over_equations(residual**2, exists)).all()


def test_items_are_runs(true_field):
    runs = runs_of(20, 9, 13)
    shots = shots_of(runs)
    equations, field = ShootingEquations(shots, 2.0), true_field(0.01 + fresh_starts(shots))
    items = jnp.asarray([2, 0])
    np.testing.assert_array_equal(equations.residual(field, items), equations.residual(field)[:, [2, 0]])
    np.testing.assert_array_equal(equations.mask(items), equations.mask()[:, [2, 0]])


def test_long_steps_are_divided():
    """Three samples missing: the scheme crosses the gap in steps of the usual length."""
    runs = runs_of(20)
    kept = [k for k in range(20) if k not in (5, 6, 7)]
    shots = make_shots(
        Trajectories.from_arrays([runs.runs[0].x[kept]], runs.runs[0].t[kept]),
        NOISE, window=None, longest=1000, dtype="float64",
    )  # fmt: skip
    assert float(shots.steps.max()) < 1.5 * DT
    assert float(shots.steps.sum()) == pytest.approx(19 * DT)
    assert float((shots.weight > 0).sum()) == 2 * 17


def test_known_noise_levels_weigh_samples():
    run = runs_of(13).runs[0]
    sigma = np.broadcast_to(NOISE * np.linspace(1, 2, 13)[:, None], (13, 2))
    shots = shots_of(Trajectories((Run(run.t, run.x, "a", sigma),), ("x", "y"), ("", "")))
    np.testing.assert_allclose(1 / np.asarray(shots.weight[:7, :, 0, 0]), sigma[:7])


def test_a_window_that_leaves_the_data_stays_and_spoils_no_slope(monkeypatch):
    """The field explodes beyond the data: without limits the slopes would not be numbers."""
    shots = shots_of(runs_of(20, 20))
    equations = ShootingEquations(shots, 100.0)

    def mean_square(factor):
        monkeypatch.setattr("wgfinn.losses.shooting.shoot", _with(lambda x: truth(x) + factor * x**3))
        return jnp.mean(equations.residual(Truth(fresh_starts(shots))) ** 2)

    value, slope = jax.value_and_grad(mean_square)(1e3)
    assert np.isfinite([value, slope]).all()
    assert value > 30 * mean_square(0.0)
    low, high = np.asarray(shots.limits)
    measured = np.concatenate([run.x for run in runs_of(20, 20).runs])
    np.testing.assert_allclose(high - low, 3 * (measured.max(axis=0) - measured.min(axis=0)))


@pytest.mark.parametrize(("factor", "least", "most"), [(0.0, 0.0, 0.0), (1e3, 0.9, 1.0)])
def test_the_part_of_windows_that_leave(factor, least, most):
    assert least <= float(part_that_leaves(lambda x: truth(x) + factor * x, shots_of(runs_of(20, 20)))) <= most


def test_misfit_of_the_truth_is_one():
    """2 x 60 x 101 squares of unit normal numbers, less two for each refitted start: 1 to within four errors."""
    runs = runs_of(*[101] * 60, noise=1.0)
    squares, predicted, outliers = run_misfits(truth, shots_of(runs, window=None))
    assert squares.shape == (2, 60)
    assert not outliers.any()
    missed = (np.asarray(predicted) - np.stack([run.x for run in runs.runs], -1)) / NOISE[:, None]
    np.testing.assert_allclose(squares, (missed**2).mean(axis=0), rtol=1e-10)
    assert float(squares.mean()) == pytest.approx(1 - 1 / 101, abs=4 * np.sqrt(2 / (2 * 60 * 101)))


def test_misfit_of_another_field_is_larger_and_a_lost_one_infinite():
    runs = runs_of(*[101] * 4, noise=1.0)
    shots = shots_of(runs, window=None)
    assert float(run_misfits(lambda x: 1.1 * truth(x), shots)[0].mean()) > 1.5
    lost, *_ = run_misfits(lambda x: truth(x) + 1e3 * x**3, shots)
    assert not np.isfinite(lost).any()


def test_outliers_do_not_count():
    """Of 60 x 101 x 2 measurements 1 % are off by 20 noise levels, of which those inside a run are found; a field that
    is wrong is missed by many samples in a row, and none of these is an outlier."""
    runs = runs_of(*[101] * 60, noise=1.0)
    rng = np.random.default_rng(3)
    off = rng.random((60, 101, 2)) < 0.01
    spoilt = runs.with_states([run.x + 20 * NOISE * off[r] for r, run in enumerate(runs.runs)])
    squares, _, outliers = run_misfits(truth, shots_of(spoilt, window=None))
    found, there = np.asarray(outliers), np.moveaxis(off, 0, -1)
    assert not (found & ~there).any()
    assert found.sum() > 0.9 * there[1:-1].sum()
    assert float(squares.mean()) < 1.3
    wrong, _, none = run_misfits(lambda x: 1.1 * truth(x), shots_of(runs, window=None))
    assert float(wrong.mean()) > 1.5
    assert none.sum() < 1e-3 * none.size


def test_padding_changes_no_misfit():
    together, *_ = run_misfits(truth, shots_of(runs_of(40, 25, noise=1.0), window=None))
    alone, *_ = run_misfits(truth, shots_of(dataclasses.replace(runs_of(40, 25, noise=1.0)).subset([1]), window=None))
    np.testing.assert_allclose(together[:, 1], alone[:, 0], rtol=1e-8)


@pytest.mark.parametrize("others", [3, 9, 12, 40])
def test_other_windows_start_on_the_trajectories_learnt(others):
    """Also where a run ends before the longest one does: there padding starts at its last sample."""
    runs = runs_of(31, 20, 14, noise=1.0)
    shots, longer = shots_of(runs), shots_of(runs, window=others)
    field = build(ModelSpec(field="plain", layers=2, width=2), 2, key=jax.random.key(1))
    moved = 0.1 * np.random.default_rng(0).standard_normal(shots.first.shape)
    learnt = FieldAndStarts(field, jnp.asarray(moved))
    first = np.asarray(longer.first + 30 * longer.noise * starts_along(learnt, shots, longer))
    x = np.asarray(shoot(field, shots.first + 30 * shots.noise * moved, shots.steps, shots.limits))
    for r, run in enumerate(runs.runs):
        for w in range(first.shape[2]):
            begin = min(w * min(others, 30), len(run.t) - 1)
            window = min(begin // 6, x.shape[3] - 1)
            np.testing.assert_allclose(first[:, r, w], x[begin - 6 * window, :, r, window], atol=1e-12)
