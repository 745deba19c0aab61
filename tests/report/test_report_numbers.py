"""Every number of a report against an independent computation, and the cases where there is none."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reports_for_tests import some_data, some_model, with_a_lost_run, with_gaps

from wgfinn._errors import InputError
from wgfinn.data import Trajectories
from wgfinn.evaluate import simulate_runs, thermodynamic_checks
from wgfinn.report import report_data
from wgfinn.report.numbers import Normalised, choose_runs, histogram, predict

DATA = some_data()
MODEL = some_model(DATA)


@pytest.fixture(scope="module")
def report():
    return report_data(MODEL, DATA)


# ------------------------------------------------------------------------------------------------ complete data


def test_errors_over_the_spread(report):
    predicted = simulate_runs(MODEL.field(), DATA)
    spread = np.concatenate([r.x for r in DATA.runs]).std(axis=0)
    errors = [np.sqrt(np.mean((r.x - p) ** 2, axis=0)) / spread for r, p in zip(DATA.runs, predicted, strict=True)]
    per_run = np.mean(errors, axis=1)
    assert report.error == pytest.approx(np.mean(errors), rel=1e-12)
    assert report.median_error == pytest.approx(np.median(per_run), rel=1e-12)
    np.testing.assert_allclose([s.mean for s in report.states], np.mean(errors, axis=0), rtol=1e-12)
    np.testing.assert_allclose([s.spread for s in report.states], spread, rtol=1e-12)
    np.testing.assert_allclose([r.error for r in report.runs], per_run, rtol=1e-12)
    assert report.run_errors == {r.name: r.error for r in report.runs}
    assert report.worst_run == report.runs[int(np.argmax(per_run))].name
    assert report.worst_error == pytest.approx(np.max(per_run), rel=1e-12)
    assert report.diverged == report.unpredicted == ()


def test_checks_are_those_of_evaluate(report):
    expected = thermodynamic_checks(MODEL.field(), DATA)
    assert report.checks.energy_drift == pytest.approx(expected.energy_drift, rel=1e-9)
    assert report.checks.min_entropy_increment == pytest.approx(expected.min_entropy_increment, rel=1e-9)


def test_bands_reach_from_the_lowest_to_the_highest_member(report):
    members = [simulate_runs(MODEL.field(k), DATA)[2] for k in range(2)]
    np.testing.assert_allclose(report.runs[2].predicted, members[1], rtol=1e-12)
    np.testing.assert_allclose(report.runs[2].low, np.minimum(*members), rtol=1e-12)
    np.testing.assert_allclose(report.runs[2].high, np.maximum(*members), rtol=1e-12)
    assert np.any(report.runs[2].low < report.runs[2].high)


def test_residuals(report):
    predicted = np.concatenate(simulate_runs(MODEL.field(), DATA))
    expected = np.sqrt(np.mean((np.concatenate([r.x for r in DATA.runs]) - predicted) ** 2, axis=0))
    np.testing.assert_allclose([s.residual for s in report.states], expected, rtol=1e-12)


def test_potentials_along_a_run(report):
    """0 at the median state, in units of the natural variation; the rate of S is the friction's quadratic form."""
    field, x = MODEL.field(), np.array(report.runs[1].predicted)
    median = jnp.asarray(np.median(np.concatenate([r.x for r in DATA.runs]), axis=0))
    scaled = Normalised.of(field, Trajectories.from_arrays(np.concatenate([r.x for r in DATA.runs]), np.arange(120.0)))
    energy = (field.energy(jnp.asarray(x.T)) - field.energy(median)) / scaled.energy_unit
    np.testing.assert_allclose(report.runs[1].potentials.energy, energy, rtol=1e-9, atol=1e-12)
    gradient = field.entropy_gradient(jnp.asarray(x[3]))
    production = gradient @ field.friction(jnp.asarray(x[3])) @ gradient / scaled.entropy_unit
    assert report.runs[1].potentials.production[3] == pytest.approx(float(production), rel=1e-9)
    assert np.all(report.runs[1].potentials.production >= -1e-12)


def test_normalised_matrices_give_the_same_field(report):
    """L and M as shown, applied to the gradients of E and S as shown, are the right-hand side."""
    field = MODEL.field()
    scaled = Normalised.of(field, Trajectories.from_arrays(np.concatenate([r.x for r in DATA.runs]), np.arange(120.0)))
    shown = report.runs[0].matrices
    for k in (0, len(shown.t) - 1):
        x = jnp.asarray(shown.x[k])
        of_energy, of_entropy = (jax.grad(lambda y, i=i: scaled.potentials(y[:, None])[i, 0])(x) for i in range(2))
        velocity = shown.poisson[k] @ of_energy + shown.friction[k] @ of_entropy
        np.testing.assert_allclose(velocity, field(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(shown.t[[0, -1]], DATA.runs[0].t[[0, -1]])


def test_slices_hold_the_other_states_at_the_median(report):
    slices = report.slices
    assert slices.planes == ((0, 1), (0, 2), (1, 2))
    x = report.median_state.copy()
    x[0], x[2] = slices.axes[0][3], slices.axes[2][5]
    with jax.enable_x64(True):
        cloud = Trajectories.from_arrays(np.concatenate([r.x for r in DATA.runs]), np.arange(120.0))
        expected = Normalised.of(MODEL.field(), cloud).potentials(jnp.asarray(x[:, None]))[:, 0]
    assert slices.energy[1][5, 3] == pytest.approx(float(expected[0]), rel=1e-9)
    assert slices.entropy[1][5, 3] == pytest.approx(float(expected[1]), rel=1e-9)
    states = np.concatenate([r.x for r in DATA.runs])
    assert slices.axes[1][0] < states[:, 1].min() < states[:, 1].max() < slices.axes[1][-1]


# ------------------------------------------------------------------------------------------- what may be missing


def test_gaps_do_not_count():
    """A run starts from its first complete sample; errors are over what was measured from there on."""
    data = with_gaps(DATA)
    report = report_data(MODEL, data)
    run = report.runs[0]
    assert np.all(np.isnan(run.predicted[0]))
    np.testing.assert_array_equal(run.predicted[1], DATA.runs[0].x[1])
    measured, predicted = run.measured[1:, 1], run.predicted[1:, 1]
    known = np.arange(39) != 6
    np.testing.assert_array_equal(np.isfinite(measured), known)
    q, p, s = (state.spread for state in report.states)
    of_p = np.sqrt(np.mean((measured - predicted)[known] ** 2)) / p
    of_others = [np.sqrt(np.mean((run.measured - run.predicted)[1:, j] ** 2)) / size for j, size in ((0, q), (2, s))]
    assert run.error == pytest.approx((of_p + sum(of_others)) / 3, rel=1e-12)
    assert report.missing == 2
    assert np.isnan(run.potentials.energy[0])
    assert np.isfinite(run.potentials.energy[7])
    assert np.isnan(run.potentials.measured_energy[7])
    assert report.diverged == ()
    assert all(np.isfinite([s.residual, s.noise, s.mean]).all() for s in report.states)


@pytest.mark.parametrize("outliers", ["mend", "keep"])
def test_outliers_stand_where_their_neighbours_are(outliers):
    """If the fit took them so."""
    x = np.array(DATA.runs[0].x)
    x[20, 1] = -9999.0
    settings = {**MODEL.manifest.settings, "outliers": outliers}
    model = replace(MODEL, manifest=MODEL.manifest.model_copy(update={"settings": settings}))
    report = report_data(model, DATA.with_states([x, *(r.x for r in DATA.runs[1:])]))
    values = sum(r.x.size for r in DATA.runs)
    assert report.mended == (1 / values if outliers == "mend" else 0)
    assert (report.states[1].spread < 100) is (outliers == "mend")


def test_a_run_without_a_complete_sample():
    data = with_gaps(DATA)
    never = np.array(DATA.runs[0].x)
    never[:, 0] = np.nan
    report = report_data(MODEL, data.with_states([never, *(r.x for r in DATA.runs[1:])]))
    assert report.unpredicted == ("0",)
    assert report.diverged == ()
    assert np.isnan(report.runs[0].error)
    assert np.isfinite(report.error)
    assert report.runs[0].matrices is None
    in_turns = np.array(DATA.runs[0].x)
    in_turns[::2, 0] = in_turns[1::2, 1] = np.nan
    with pytest.raises(InputError, match="no run has a complete sample, with every state measured"):
        predict(MODEL.field(), data.with_states([in_turns] * 3), "rk23")


def test_a_diverged_run():
    with np.errstate(all="ignore"):
        report = report_data(MODEL, with_a_lost_run(DATA))
    assert report.diverged == ("lost",)
    assert report.worst_run == "lost"
    assert np.isinf(report.worst_error)
    assert np.isfinite(report.median_error)
    assert report.runs[3].lost_at == DATA.runs[0].t[1]
    assert np.isinf(report.checks.energy_drift)


def test_values_beyond_all_axes():
    far = DATA.with_states([np.full(run.x.shape, 1e300) for run in DATA.runs])
    with (
        np.errstate(all="ignore"),
        pytest.raises(InputError, match=r"no sample is complete with all states below 1e\+30"),
    ):
        report_data(MODEL, far)


def test_members_without_a_finite_loss_are_left_out():
    report = report_data(some_model(DATA, members=3, losses=[None, 0.1, 0.2]), DATA)
    both = report_data(some_model(DATA, members=3), DATA)
    assert report.left_out_members == 1
    assert np.all(report.runs[0].high - report.runs[0].low <= both.runs[0].high - both.runs[0].low)
    assert np.any(report.runs[0].high - report.runs[0].low < both.runs[0].high - both.runs[0].low)


def test_a_single_member_has_no_band():
    report = report_data(some_model(DATA, members=1), DATA)
    assert report.runs[0].low is report.runs[0].high is None


def test_a_plain_network_has_no_thermodynamics():
    report = report_data(some_model(DATA, field="plain"), DATA)
    assert report.checks is report.slices is report.runs[0].potentials is report.runs[0].matrices is None


def test_one_state_has_no_plane():
    data = some_data(names=("c",))
    assert report_data(some_model(data, field="plain"), data).slices is None
    assert report_data(some_model(data), data).slices is None


# ------------------------------------------------------------------------------------------- what a page can hold


def test_the_worst_run_is_among_the_chosen():
    errors = np.array([0.1, 0.2, 0.3, 9.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert choose_runs(errors, 3) == [0, 3, 9]
    assert choose_runs(errors, 20) == list(range(10))
    errors[6] = np.inf
    assert 6 in choose_runs(errors, 2)


def test_fewer_runs_can_be_asked_for(report):
    some = report_data(MODEL, DATA, max_runs=2)
    assert len(some.runs) == 2
    assert some.error == report.error
    with pytest.raises(InputError, match="a report shows at least one run, but was asked for 0"):
        report_data(MODEL, DATA, max_runs=0)


def test_long_runs_are_thinned_out():
    data = some_data(runs=1, samples=3000)
    run = report_data(MODEL, data).runs[0]
    assert run.t.size == 1000
    assert run.samples == 3000
    np.testing.assert_array_equal(run.t[[0, -1]], data.runs[0].t[[0, -1]])


def test_many_states_keep_the_planes_that_matter():
    data = some_data(names=tuple(f"x{k}" for k in range(14)), runs=1)
    slices = report_data(some_model(data, members=1), data).slices
    assert len(slices.axes) == 12
    assert len(slices.planes) == 66


# ------------------------------------------------------------------------------------------------ noise


def test_histogram_of_noise_is_the_normal_density():
    """10^5 draws: a bin at the centre holds about 6600, so 5 % is four standard deviations."""
    draws = np.random.default_rng(0).normal(scale=3.0, size=100_000)
    found = histogram(draws, noise=3.0, spread=10.0)
    centres = (found.edges[1:] + found.edges[:-1]) / 2
    middle = np.abs(centres) < 1
    normal = np.exp(-(centres**2) / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found.density[middle], normal[middle], rtol=0.05)
    assert np.sum(found.density) * (found.edges[1] - found.edges[0]) + found.beyond == pytest.approx(1)


def test_histogram_without_noise_or_residuals():
    draws = np.random.default_rng(0).normal(scale=0.5, size=1000)
    assert histogram(draws, noise=1e-9, spread=1.0).scale == pytest.approx(np.sqrt(np.mean(draws**2)))
    assert histogram(np.zeros(0), noise=1.0, spread=1.0) is None
    assert histogram(np.zeros(5), noise=0.0, spread=0.0) is None
