"""What figures and tables are made of: chosen members, observables, calibrated potentials, numbers in words."""

import math

import jax
import numpy as np
import pytest

from wgfinn import systems
from wgfinn._errors import ArtefactError, InputError
from wgfinn.studies import drawing
from wgfinn.studies.figures import shown_index
from wgfinn.studies.observables import observe
from wgfinn.studies.potentials import calibrated, calibrated_along, learnt_values, plane, true_values
from wgfinn.studies.recipes import ContourSpec, load_recipe
from wgfinn.studies.results import MemberResult, RowResult, Spread, StudyResult, read_json
from wgfinn.studies.tables import factor_rows, study_table, summary_table


def member(seed: int, error: float | None, loss: float | None = 1.0) -> MemberResult:
    return MemberResult(
        seed=seed,
        error=error,
        median_run=error,
        per_state={"q": error, "p": error},
        diverged_runs=() if error is not None else ("run000",),
        loss=loss,
        diverged_at=None,
        energy_drift=None if error is None else 1e-6,
        min_entropy_increment=None if error is None else 1e-9,
        degeneracy={"poisson_degeneracy": 1e-16, "friction_degeneracy": 2e-16},
    )


def row(arm: str, noise: float, errors: list[float | None]) -> RowResult:
    return RowResult(
        key=f"{arm}_{100 * noise:g}",
        arm=arm,
        noise=noise,
        digest="0",
        settings={},
        data_digest="0",
        steps=10,
        program_seconds=12.0,
        program_members=2 * len(errors),
        hardware={},
        versions={},
        members=tuple(member(i, e) for i, e in enumerate(errors)),
    )


@pytest.fixture
def result():
    rows = (
        row("weak", 0.0, [0.01, 0.02, 0.03]),
        row("weak", 0.05, [0.1, 0.2, 0.6]),
        row("strong", 0.05, [0.5, None, 1.0]),
        row("strong_fair", 0.05, [0.2, 0.4, 0.3]),
    )
    return StudyResult(
        system="s", title="A system", scale="short", seeds=3, train_runs=80, test_runs=20, rows=rows, pending=("x_1",)
    )


def test_spread_over_seeds(result):
    assert Spread.of(result.rows[1]) == Spread(mean=0.3, median=0.2, best=0.1, worst=0.6)
    # One diverged seed: no mean, no worst, but a median and a best.
    assert Spread.of(result.rows[2]) == Spread(mean=None, median=1.0, best=0.5, worst=None)


def test_a_row_pays_its_share_of_the_program(result):
    assert result.rows[0].seconds == 6.0


def test_table(result):
    table = study_table(result)
    assert "Not finished yet: `x_1`." in table
    assert "| 5 % | WGFINN | 0.3 | 0.2 | 0.1 | 0.6 | 0.1 | 0.2 | 0.6 |" in table
    assert "| 5 % | GFINN | ∞ | 1 | 0.5 | ∞ | 0.5 | ∞ | 1 |" in table
    assert "| 5 % | GFINN | 1 | ∞ | -∞ | 2e-16 | 6.0 |" in table
    assert "A system (scale `short`)" in summary_table([result])


def test_factors_compare_the_strong_form_with_the_weak(result):
    assert factor_rows(result)[2:] == [
        "| 5 % | GFINN | ∞ | 5 | ∞ |",
        "| 5 % | GFINN, fair | 1 | 1.5 | 0.667 |",
    ]


def test_a_result_without_rows_has_a_table():
    empty = StudyResult(system="s", title="t", scale="smoke", seeds=1, train_runs=1, test_runs=1, rows=(), pending=())
    assert study_table(empty).startswith("# t")


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "row.json").write_text('{"key": 3}')
    with pytest.raises(ArtefactError, match=r"row.json: not a result of this version"):
        read_json(tmp_path / "row.json", RowResult)


@pytest.mark.parametrize(("which", "index"), [("smallest", 2), ("median", 0)])
def test_the_member_shown(which, index):
    losses = [0.3, None, 0.1, 0.2, 0.5]
    members = tuple(member(i, 0.1, loss) for i, loss in enumerate(losses))
    assert shown_index(row("weak", 0.0, [0.1]).model_copy(update={"members": members}), which) == index


def test_observables_of_the_pendulum():
    system = systems.make("double_pendulum")
    assert isinstance(system, systems.System)
    x = system.sample(5, jax.random.key(0))
    panels = load_recipe("double_pendulum").figures.panels
    shown = observe(panels, system.state_names, x)
    np.testing.assert_allclose(shown[:, :2], jax.vmap(system.spring_lengths)(x), rtol=1e-14)
    np.testing.assert_allclose(shown[:, 2], x[:, 8] + x[:, 9])
    np.testing.assert_array_equal(observe(["p2x"], system.state_names, x)[:, 0], x[:, 6])


def test_unknown_observables_are_refused():
    with pytest.raises(InputError, match="'colour' is neither a state nor an observable; known are q, p, spring"):
        observe(["colour"], ["q", "p"], np.zeros((3, 2)))
    with pytest.raises(InputError, match="'total entropy' needs the state 'S1'; this system has q, p"):
        observe(["total entropy"], ["q", "p"], np.zeros((3, 2)))


@pytest.fixture
def gas():
    system = systems.make("gas_containers")
    assert isinstance(system, systems.System)
    return system


def test_planes_of_the_gas_containers(gas):
    energy, entropy = load_recipe("gas_containers").figures.contours
    x, y, states = plane(energy, gas.state_names)
    assert states.shape == (len(y), len(x), 4)
    np.testing.assert_array_equal(states[3, 7], [x[7], y[3], 2.5, 2.5])
    *_, states = plane(entropy, gas.state_names)
    np.testing.assert_array_equal(states[0, -1], [1.0, 0.0, 3.0, 1.0])
    wrong = ContourSpec(of="energy", x="q", y="p", x_range=(0, 1), y_range=(0, 1), fixed={"S1": 1.0})
    with pytest.raises(InputError, match=r"must name each state once \(q, p, S1, S2\), but name q, p, S1"):
        plane(wrong, gas.state_names)


def test_calibration_undoes_an_affine_map(gas):
    *_, states = plane(load_recipe("gas_containers").figures.contours[0], gas.state_names)
    truth = true_values(gas.energy, states)
    learnt = learnt_values(jax.vmap(lambda x: 5.0 - 0.3 * gas.energy(x), in_axes=1), states)
    assert learnt.shape == truth.shape == states.shape[:2]
    np.testing.assert_allclose(calibrated(learnt, truth), truth, rtol=1e-10)


def test_calibration_along_a_run_is_anchored_and_survives_divergence():
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    learnt = np.array([10.0, 12.0, np.inf, np.nan])
    np.testing.assert_allclose(calibrated_along(learnt, truth)[:2], truth[:2])
    assert np.isnan(calibrated_along(np.array([np.nan, 1.0]), np.array([0.0, 1.0]))).all()


def test_figures_survive_diverged_members(tmp_path):
    drawing.draw_errors(
        tmp_path / "errors.png",
        {"weak": {0.0: [0.01, 0.02], 0.05: [0.1, math.inf]}, "strong": {0.05: [math.inf, 1e9]}},
        title="t",
    )
    t = np.linspace(0, 1, 5)
    truth = np.stack([t, np.zeros(5)], axis=1)
    lost = np.array([[0.0, 0.0], [1e300, np.nan], [np.inf, 0.0], [np.nan, 0.0], [-1e300, 0.0]])
    drawing.draw_trajectories(tmp_path / "runs.png", t, truth, {"5 %": {"weak": truth, "strong": lost}}, "ab", title="")
    panel = drawing.ContourPanel("E", "q", "p", t, t, np.outer(t, t), {0.0: {"weak": np.zeros((5, 5))}})
    drawing.draw_potentials(tmp_path / "potentials.png", [panel], t, t, {0.0: {"weak": np.full(5, np.nan)}}, title="t")
    assert len(list(tmp_path.iterdir())) == 3
