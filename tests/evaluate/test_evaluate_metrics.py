"""Rollouts of whole data sets and the paper's relative error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fields_for_tests import FaultyField, KnownField

from wgfinn import systems
from wgfinn._errors import InputError
from wgfinn.data import Trajectories
from wgfinn.evaluate import metrics, prediction_errors, relative_l2, simulate_runs, spread_errors, trajectory_errors
from wgfinn.models import ModelSpec, build

GAS = systems.make("gas_containers")


def ragged() -> Trajectories:
    """Runs of a gas in four lengths and steps, one of them not uniform."""
    grids = [np.arange(n) * dt for n, dt in ((101, 0.01), (80, 0.02), (101, 0.005), (3, 0.01))]
    grids[1] = grids[1] ** 1.1
    starts = GAS.sample(len(grids), jax.random.key(3))
    return Trajectories.from_arrays([GAS.simulate(x0, t) for x0, t in zip(starts, grids, strict=True)], grids)


def test_spread_errors():
    """By hand: misses of 3 and 4 in two samples of three, over spreads 2 and 1; zero may lie anywhere."""
    truth = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]])
    prediction = truth + np.array([[0, 1], [3, 0], [4, -1]])
    prediction[1, 1] = 9.0
    expected = [[np.sqrt(25 / 3) / 2, 1.0]]
    for offset in (0.0, 290.0):
        found = spread_errors([truth + offset], [prediction + offset], np.array([2.0, 1.0]))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_spread_errors_where_there_are_none():
    truth = np.array([[1.0, 1.0, 1.0, np.nan], [2.0, 1.0, 1.0, np.nan]])
    prediction = np.array([[1.0, 1.0, 2.0, 0.0], [np.nan, 1.0, 2.0, 0.0]])
    found = spread_errors([truth], [prediction], np.array([0.5, 0.0, 0.0, 1.0]))
    np.testing.assert_array_equal(found, [[np.inf, 0.0, np.inf, np.nan]])


class TestRelativeL2:
    def test_by_hand(self):
        truth = np.array([[[3.0, 1.0], [4.0, 2.0]]])
        prediction = np.array([[[3.0, 1.0], [4.5, 1.0]]])
        np.testing.assert_allclose(relative_l2(truth, prediction), [[0.5 / 5, 1 / np.sqrt(5)]], rtol=1e-15)

    def test_paper_formula(self):
        rng = np.random.default_rng(0)
        truth, prediction = rng.normal(size=(2, 5, 7, 3))
        expected = np.linalg.norm(truth - prediction, axis=1) / np.linalg.norm(truth, axis=1)
        np.testing.assert_allclose(relative_l2(truth, prediction), expected, rtol=1e-14)

    @pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
    def test_units_do_not_matter(self, unit):
        rng = np.random.default_rng(1)
        truth, prediction = rng.normal(size=(2, 2, 7, 3))
        np.testing.assert_allclose(
            relative_l2(unit * truth, unit * prediction), relative_l2(truth, prediction), rtol=1e-13
        )

    def test_zero_truth(self):
        truth = np.zeros((1, 4, 2))
        prediction = np.zeros((1, 4, 2))
        prediction[0, 2, 1] = 1e-9
        np.testing.assert_array_equal(relative_l2(truth, prediction), [[0.0, np.inf]])

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
    def test_divergence_is_infinite(self, bad):
        """Also where the truth is zero, and where only the square leaves the range of doubles."""
        truth = np.stack([np.ones(4), np.zeros(4), np.ones(4)], axis=1)[None]
        prediction = truth.copy()
        prediction[0, 3, :2] = bad
        np.testing.assert_array_equal(relative_l2(truth, prediction), [[np.inf, np.inf, 0.0]])

    def test_over_the_measured_samples(self):
        truth = np.array([[[3.0, 1.0, np.nan], [np.nan, 2.0, np.nan], [4.0, np.nan, np.nan]]])
        prediction = np.array([[[3.0, 1.0, 7.0], [99.0, 1.0, 7.0], [4.5, 99.0, 7.0]]])
        np.testing.assert_allclose(relative_l2(truth, prediction), [[0.5 / 5, 1 / np.sqrt(5), np.nan]], rtol=1e-15)
        prediction[0, 1, 0] = np.nan  # diverged where nothing was measured
        np.testing.assert_allclose(relative_l2(truth, prediction)[0, 0], np.inf)

    @pytest.mark.parametrize(
        ("truth", "prediction", "match"),
        [
            (np.ones((2, 3, 1)), np.ones((1, 3, 1)), "1 predicted runs for 2"),
            (np.ones((0, 3, 1)), np.ones((0, 3, 1)), "no runs"),
            ([np.ones((3, 1)), np.ones((4, 1))], [np.ones((3, 1))] * 2, r"run 1: .*\(4, 1\) and \(3, 1\)"),
        ],
    )
    def test_refuses(self, truth, prediction, match):
        with pytest.raises(InputError, match=match):
            relative_l2(truth, prediction)


class TestSimulateRuns:
    def test_ragged(self):
        """The oracle solves each run alone; padding must not be felt."""
        runs = ragged()
        simulated = simulate_runs(KnownField(GAS), runs)
        assert [x.shape for x in simulated] == [run.x.shape for run in runs.runs]
        for run, x in zip(runs.runs, simulated, strict=True):
            assert x.dtype == np.float64
            np.testing.assert_allclose(x, run.x, rtol=0, atol=1e-13)

    def test_padding_of_accurate_solutions(self):
        """x' = -x in closed form; between its steps the solver interpolates, wrong by about 1e-8."""
        grids = [np.linspace(0, 1, 9), np.linspace(0, 3, 15)]
        runs = Trajectories.from_arrays([np.exp(-np.stack([t, t - 1], axis=1)) for t in grids], grids)
        for run, x in zip(runs.runs, simulate_runs(FaultyField(), runs, "accurate"), strict=True):
            np.testing.assert_allclose(x, run.x, rtol=0, atol=1e-7)

    def test_one_compilation_for_runs_of_similar_length(self):
        grid = np.linspace(0, 1, 33)
        grids = [grid[:n] * (1 + 0.1 * n) for n in (33, 40, 33, 36)]
        x = [np.ones((t.size, 2)) for t in grids]
        traces = []

        class Counted(FaultyField):
            def __call__(self, x):
                traces.append(1)
                return super().__call__(x)

        simulate_runs(Counted(), Trajectories.from_arrays(x, grids))
        first = len(traces)
        assert first <= 6  # three stages, traced at most twice by scan
        simulate_runs(Counted(), Trajectories.from_arrays(x, grids))
        assert len(traces) == first

    def test_weights_in_single_precision(self):
        """Evaluation is in double precision, whatever the training was in."""
        field = build(ModelSpec(width=4, layers=2), 4, key=jax.random.key(0))
        single = jax.tree.map(lambda a: a.astype(jnp.float32), field)
        runs = Trajectories.from_arrays(np.ones((5, 4)), np.arange(5.0))
        with jax.enable_x64(False):
            simulated = simulate_runs(single, runs)
        double = simulate_runs(jax.tree.map(lambda a: a.astype(jnp.float64), single), runs)
        for x, y in zip(simulated, double, strict=True):
            np.testing.assert_array_equal(x, y)

    def test_start_must_be_complete(self):
        x = np.ones((2, 5, 2))
        x[1, 0, 1] = np.nan
        runs = Trajectories.from_arrays(x, 3 + np.arange(5.0), names=("q", "p"))
        message = r"run '1': a simulation starts from the first state, but 'p' was not measured there \(t = 3\)"
        with pytest.raises(InputError, match=message):
            simulate_runs(FaultyField(), runs)
        assert [len(x) for x in simulate_runs(FaultyField(), runs.from_complete_start())] == [5, 4]

    def test_unknown_integrator(self):
        with pytest.raises(InputError, match="'euler' is unknown; choose one of rk23, accurate"):
            simulate_runs(FaultyField(), ragged(), "euler")


class TestErrors:
    def test_perfect_field(self):
        """The data of the gas containers are the RK23 solution (spec, section 0)."""
        errors = trajectory_errors(KnownField(GAS), systems.generate(GAS, trajectories=20).clean)
        assert errors.overall < 1e-13
        assert errors.diverged == ()

    def test_means(self):
        truth = np.ones((3, 4, 2))
        prediction = truth + np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.9]])[:, None]
        runs = Trajectories.from_arrays(truth, np.arange(4.0), names=("a", "b"), run_names=("u", "v", "w"))
        errors = prediction_errors(runs, prediction)
        assert errors.overall == pytest.approx(0.4)
        assert errors.per_state == pytest.approx({"a": 0.3, "b": 0.5})
        assert errors.per_run == pytest.approx({"u": 0.15, "v": 0.35, "w": 0.7})
        assert errors.median_run == pytest.approx(0.35)

    def test_means_leave_out_states_that_a_run_never_measured(self):
        truth = np.ones((2, 4, 2))
        truth[1, :, 0] = np.nan
        prediction = np.ones((2, 4, 2)) + np.array([[0.1, 0.2], [0.3, 0.4]])[:, None]
        errors = prediction_errors(Trajectories.from_arrays(truth, np.arange(4.0), names=("a", "b")), prediction)
        assert errors.per_state == pytest.approx({"a": 0.1, "b": 0.3})
        assert errors.per_run == pytest.approx({"0": 0.15, "1": 0.4})
        assert errors.overall == pytest.approx(0.7 / 3)

    @pytest.mark.parametrize("integrator", ["rk23", "accurate"])
    def test_a_diverging_run_stays_in_the_mean(self, integrator):
        """x' = x^3 from 1 reaches infinity at t = 1/2; from 0.1 it hardly moves until t = 2."""
        start = np.array([[1.0, 1.0], [0.1, 0.1], [0.1, 0.1]])
        runs = Trajectories.from_arrays(
            np.repeat(start[:, None], 21, axis=1), np.linspace(0, 2, 21), run_names=("far", "near", "also")
        )
        errors = trajectory_errors(FaultyField(rate=1.0, power=3), runs, integrator)
        assert errors.overall == np.inf
        assert errors.per_run["far"] == np.inf
        assert errors.per_state == {"x1": np.inf, "x2": np.inf}
        assert errors.diverged == ("far",)
        # (1 - 2 t x0^2)^(-1/2) - 1 at its largest, t = 2.
        assert 0 < errors.median_run < (1 - 0.04) ** -0.5 - 1


def test_batches_pad_less_than_half():
    runs = Trajectories.from_arrays(
        [np.ones((n, 1)) for n in (2, 3, 4, 7, 8, 15)], [np.arange(float(n)) for n in (2, 3, 4, 7, 8, 15)]
    )
    assert metrics._batches(runs.runs) == [[0, 1], [2, 3], [4, 5]]
