"""The default method from end to end, on data so small that it takes seconds."""

import itertools
import json
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from small_fits import STEP
from wgfinn import WGFINN, InputError
from wgfinn._spec import parse
from wgfinn.artefact import load_model
from wgfinn.data import Scales, Trajectories
from wgfinn.estimator import make_spec
from wgfinn.fitting import (
    METRICS_FILE,
    MODEL_FILE,
    FitSpec,
    fit,
    hold_out,
    polishing,
    resolve,
    stages,
    steps_reached,
    weak_chi_square,
)
from wgfinn.fitting.choices import choose_scales
from wgfinn.fitting.members import ensemble, make_equations, rescale, train_members
from wgfinn.fitting.polishing import Polish
from wgfinn.models import MLP, NO_FUNCTIONS, Box, ConfinedBracket, GenericField, PlainField, parameter_count
from wgfinn.refining import (
    Data,
    Misfit,
    begin,
    best_member,
    coverage,
    leg,
    misfits,
    prepare,
    resolution,
    signal_level,
    stage,
    steady_window,
    telling,
)
from wgfinn.training import member
from wgfinn.verdict import judge

SETTINGS = {
    "model": {"layers": 2, "width": 4, "rows": 2},
    "optimiser": {"decay_every": 10},
    "training": {"steps": 20, "check_every": 10, "log_every": 10, "members": 2, "starts": 3},
    "polish": {"steps": 10, "equations": 30, "rounds": 1},
    "refine": {"steps": 20, "window": 8, "judge_every": 10, "trial": 10},
}


def some_runs(n_runs=6, n_times=30, noise=0.005):
    rng = np.random.default_rng(0)
    t = STEP * np.arange(n_times)
    x = np.stack([np.exp(-0.1 * t) * np.cos(t), np.exp(-0.1 * t) * np.sin(t), 1 - np.exp(-0.2 * t)], axis=1)
    sizes = np.linspace(0.5, 1.5, n_runs)
    return Trajectories.from_arrays([s * x + noise * rng.normal(size=x.shape) for s in sizes], t, names=("q", "p", "S"))


RUNS = some_runs()


@pytest.fixture(scope="module")
def spec():
    return parse(FitSpec, SETTINGS)


@pytest.fixture(scope="module")
def whole(spec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, fit(RUNS, spec, folder=folder)


def test_compiling_ahead_changes_nothing(whole, spec, monkeypatch):
    """As on an accelerator, where the refinement is prepared while the weak stage runs."""
    prepared = []
    monkeypatch.setattr(stages, "platform", lambda: "gpu")
    monkeypatch.setattr(stages, "prepare", lambda *args: prepared.append(args) or prepare(*args))
    model = fit(RUNS, spec)
    assert len(prepared) == 1
    for expected, found in zip(jax.tree.leaves(whole[1].field()), jax.tree.leaves(model.field()), strict=True):
        np.testing.assert_array_equal(found, expected)


def stop_at(step, stage=None):
    def observe(record):
        if record.step == step and stage in (None, record.stage):
            signal.raise_signal(signal.SIGINT)

    return observe


def test_default_is_the_staged_method():
    assert FitSpec().method == "auto"
    assert FitSpec().total_steps == FitSpec().training.steps + FitSpec().refine.steps
    assert FitSpec(method="weak").total_steps == FitSpec().training.steps


def test_stages_and_what_they_leave(whole):
    folder, model = whole
    records = [json.loads(line) for line in (folder / METRICS_FILE).read_text().splitlines()]
    assert [(r["stage"], r["step"], len(r["members"])) for r in records] == [
        ("train", 10, 3),
        ("train", 20, 3),
        ("polish", 20, 3),
        ("refine", 30, 3),
        ("refine", 40, 2),
    ]
    # The steps of the polish are not those of the training.
    assert [(r["stage_step"], r["stage_steps"]) for r in records if "stage_step" in r] == [(10, 10)]
    assert steps_reached(folder) == model.manifest.steps_done == 40
    misfits = [m.misfit for m in model.manifest.members]
    assert misfits[model.manifest.served] <= (1 + resolution(RUNS.subset([0]))) * min(misfits)
    assert load_model(folder / MODEL_FILE).manifest == model.manifest
    verdict = model.manifest.verdict
    assert verdict.level in ("good", "fair", "poor")
    assert "1 held-out run" in str(verdict).splitlines()[0]
    assert WGFINN.load(folder / MODEL_FILE).verdict == verdict


@pytest.mark.parametrize(("step", "stage"), [(10, "train"), (20, "train"), (20, "polish"), (30, "refine")])
def test_interrupted_in_any_stage_and_resumed(whole, spec, tmp_path, step, stage):
    early = fit(RUNS, spec, folder=tmp_path, observe=stop_at(step, stage))
    assert early.manifest.steps_done == step
    assert np.isfinite(early.simulate(RUNS.runs[0].x[:1], RUNS.runs[0].t)).all()
    model = fit(RUNS, spec, folder=tmp_path, resume=True)
    assert model.manifest == whole[1].manifest
    ours, theirs = ((f / METRICS_FILE).read_text().splitlines() for f in (tmp_path, whole[0]))
    assert len(ours) == len(theirs)


@pytest.mark.parametrize(
    ("n_runs", "noise", "steps", "polished"),
    [(6, 0.002, 10, True), (6, 0.1, 10, False), (20, 0.1, 10, True), (6, 0.002, 0, False)],
)
def test_polish_where_values_are_many_or_noise_is_little(n_runs, noise, steps, polished, tmp_path):
    """Networks of a few weights: runs of 30 samples and three states are little or much for them."""
    spec = parse(FitSpec, {**SETTINGS, "polish": {"steps": steps, "equations": 30, "rounds": 1}})
    model = fit(some_runs(n_runs, noise=noise), spec, folder=tmp_path)
    assert 5 * 90 * 0.9 < 5 * parameter_count(model.field()) < 18 * 90
    records = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert any(r["stage"] == "polish" for r in records) == polished


def test_polish_lowers_the_weak_residual_and_leaves_no_member_worse():
    """Clean runs, a field of a few steps: Gauss-Newton goes where those steps would need thousands."""
    runs = some_runs(noise=0.0)
    weak = parse(FitSpec, {**SETTINGS, "method": "weak", "polish": {"steps": 60, "equations": 60, "rounds": 1}})
    members = ensemble(runs, weak)
    started = train_members(members, weak, functions=NO_FUNCTIONS)
    fields = [member(started.fields, i) for i in range(len(members))]
    scaled = rescale(runs, choose_scales(weak, runs))
    noise = np.full(3, 1e-3)
    before = misfits(fields, scaled, noise)
    stage = Polish(weak, runs, members)
    after, found = stage(fields, before, scaled, noise, observe=None, should_stop=lambda: False)

    def losses(fields):
        equations = make_equations(resolve(weak, runs), scaled)
        fields = [jax.tree.map(jnp.asarray, field) for field in fields]
        return [float(jnp.mean(equations.residual(field) ** 2)) for field in fields]

    assert max(losses(after)) < 0.1 * min(losses(fields))
    assert all(new.mean <= old.mean for new, old in zip(found, before, strict=True))


@pytest.mark.parametrize(("needed", "rounds"), [(1.0, 3), (0.0, 1)])
def test_polish_goes_on_while_it_pays(needed, rounds, monkeypatch):
    """A field of a few steps gains in every round; where another must leave nothing to gain, one round it is."""
    monkeypatch.setattr(polishing, "_PAYS", needed)
    runs = some_runs(noise=0.0)
    weak = parse(FitSpec, {**SETTINGS, "method": "weak", "polish": {"steps": 5, "equations": 60, "rounds": 3}})
    members = ensemble(runs, weak)
    fields = [member(train_members(members, weak, functions=NO_FUNCTIONS).fields, i) for i in range(len(members))]
    scaled = rescale(runs, choose_scales(weak, runs))
    noise, records = np.full(3, 1e-3), []
    before = misfits(fields, scaled, noise)
    stage = Polish(weak, runs, members)
    stage(fields, before, scaled, noise, observe=records.append, should_stop=lambda: False)
    assert len(records) == rounds
    assert all(earlier.seconds < later.seconds for earlier, later in itertools.pairwise(records))


def test_without_refinement_nothing_is_refined(tmp_path):
    spec = parse(FitSpec, {**SETTINGS, "refine": {"steps": 0}})
    assert fit(RUNS, spec, folder=tmp_path).manifest.steps_done == 20
    assert not (tmp_path / "refine_checkpoint.npz").exists()


@pytest.mark.parametrize("patience", [1, 2])
def test_refinement_ends_where_nothing_is_gained(patience, tmp_path):
    """With a rate of nothing the runs held out are predicted as before at every look."""
    still = {"rate": 1e-12, "decay_every": 10}
    refine = {"steps": 60, "judge_every": 10, "patience": patience, "optimiser": still}
    spec = parse(FitSpec, {**SETTINGS, "refine": refine})
    ended = 20 + 10 * patience
    manifest = fit(RUNS, spec, folder=tmp_path).manifest
    assert manifest.steps_done == manifest.verdict.ended_at == ended
    assert any(f"ended at step {ended} by itself" in line for line in manifest.verdict.lines)
    assert fit(RUNS, spec, folder=tmp_path, resume=True).manifest.steps_done == ended


@pytest.mark.parametrize(("growth", "window"), [(0.5, 8), (3.0, 2), (1e4, 1)])
def test_windows_are_as_long_as_fields_keep_the_data(growth, window):
    """A field that blows states up by e^(growth t): the shorter the time from free state to free state."""
    affine = MLP(3, 3, layers=1, width=1, initialisation="unit", key=jax.random.key(0))
    field = PlainField(eqx.tree_at(lambda f: f.weights[0], affine, growth * np.eye(3)))
    field = jax.tree.map(lambda leaf: np.asarray(leaf, "float32"), field)
    assert steady_window([field] * 2, Data(RUNS, np.full(3, 0.01), "float32"), 8) == window


@pytest.mark.parametrize("step", [30, 35])
def test_windows_grow_where_fields_allow_it(step, spec, tmp_path, monkeypatch):
    """A first leg with windows of two samples: after the first look they are as long as asked for, and an interrupted
    training goes on with the same."""
    monkeypatch.setattr(stage, "steady_window", lambda fields, data, longest: 2)
    windows = []
    monkeypatch.setattr(stage, "begin", lambda *args: windows.append(args[-1]) or begin(*args))
    monkeypatch.setattr(leg, "begin", lambda *args: windows.append(args[-2]) or begin(*args))
    short = spec.model_copy(update={"training": spec.training.model_copy(update={"check_every": 5})})
    whole = fit(RUNS, short, folder=tmp_path / "whole")
    assert windows == [2, 8]
    fit(RUNS, short, folder=tmp_path / "part", observe=stop_at(step))
    windows.clear()
    assert fit(RUNS, short, folder=tmp_path / "part", resume=True).manifest == whole.manifest
    assert windows == [8]


@pytest.mark.parametrize(("noise", "met", "grown"), [(0.3, np.inf, [8]), (0.001, np.inf, [8, 16]), (0.001, 2.0, [8])])
def test_windows_grow_beyond_where_runs_are_far_from_predicted(noise, met, grown, spec, monkeypatch):
    """Far from the measurements by many noise levels and by a part of their spread, as after these few steps on nearly
    clean data; with much noise nobody is. But not before they are met themselves, which takes more steps than these."""
    monkeypatch.setattr(stage, "_MET", met)
    monkeypatch.setattr(stage, "steady_window", lambda fields, data, longest: min(longest, 8))
    monkeypatch.setattr(leg, "steady_window", lambda fields, data, longest, at_least: longest)
    windows = []
    monkeypatch.setattr(stage, "begin", lambda *args: windows.append(args[-1]) or begin(*args))
    monkeypatch.setattr(leg, "begin", lambda *args: windows.append(args[-2]) or begin(*args))
    fit(some_runs(noise=noise), spec)
    assert windows == grown


def test_the_best_look_is_kept():
    """A rate that ruins every member: what each came with is what it leaves with."""
    ruinous = {"name": "adamw", "rate": 10.0, "decay_every": 10}
    refine = {"steps": 20, "judge_every": 10, "optimiser": ruinous}
    ruined = fit(RUNS, parse(FitSpec, {**SETTINGS, "refine": refine}))
    untouched = fit(RUNS, parse(FitSpec, {**SETTINGS, "refine": {"steps": 0}}))
    assert [m.misfit for m in ruined.manifest.members] == [m.misfit for m in untouched.manifest.members]
    start, t = RUNS.runs[0].x[:1], RUNS.runs[0].t
    np.testing.assert_array_equal(ruined.simulate(start, t), untouched.simulate(start, t))


def test_a_state_that_stands_still():
    """Beside states that move: no part of a spread of nothing (a warning would be an error here)."""
    runs = some_runs()
    still = runs.with_states([np.column_stack([run.x[:, :2], np.full(len(run.t), 3.0)]) for run in runs.runs])
    model = fit(still, parse(FitSpec, SETTINGS))
    assert np.isfinite(model.simulate(still.runs[0].x[:1], still.runs[0].t)).all()


def test_a_few_runs_are_all_learnt_from():
    few = some_runs(4)
    assert hold_out(few, 0.1) == (few, None)
    learnt, judged = hold_out(some_runs(20), 0.1)
    assert judged is not None
    assert (len(learnt), len(judged)) == (18, 2)
    assert not set(learnt.run_names) & set(judged.run_names)


def test_incomplete_and_irregular_runs(spec):
    rng = np.random.default_rng(3)
    times, states = [], []
    for n, run in enumerate(RUNS.runs):
        kept = np.sort(rng.permutation(30)[: 24 + n % 3])
        x = np.array(run.x[kept])
        x[5, n % 3] = np.nan
        times.append(run.t[kept] + 0.01 * rng.uniform(size=len(kept)))
        states.append(x)
    model = fit(Trajectories.from_arrays(states, times, names=RUNS.names), spec)
    assert all(np.isfinite(m.misfit) for m in model.manifest.members)


def test_what_is_served_is_confined_to_the_runs_learnt_from(whole):
    learnt, _ = hold_out(RUNS, 0.1)
    scales = Scales.standardise(learnt)
    expected = Box.around(np.concatenate([scales.forward(run.x) for run in learnt.runs]), "float32")
    for index in range(2):
        field = whole[1].field(index).inner
        assert isinstance(field, GenericField)
        for bracket in (field.reversible, field.irreversible):
            assert isinstance(bracket, ConfinedBracket)
            np.testing.assert_array_equal(bracket.box.low, np.asarray(expected.low, np.float64))


def test_structure_stays_exact_after_the_stages(whole):
    field = whole[1].field()
    x = jnp.asarray(RUNS.runs[0].x[3])
    gradients = field.energy_gradient(x), field.entropy_gradient(x)
    poisson, friction = np.asarray(field.poisson(x)), np.asarray(field.friction(x))
    scale = max(np.abs(poisson).max(), np.abs(friction).max(), 1.0) * max(np.abs(g).max() for g in gradients)
    assert np.abs(poisson @ gradients[1]).max() < 1e-13 * scale
    assert np.abs(friction @ gradients[0]).max() < 1e-13 * scale
    np.testing.assert_allclose(poisson, -poisson.T, atol=1e-14 * scale)
    assert np.linalg.eigvalsh(friction).min() > -1e-13 * scale


def test_the_papers_method_as_settings():
    spec = make_spec({"training": {"steps": 7}}, method="paper")
    assert (spec.method, spec.coordinates, spec.optimiser.name, spec.training.batch) == (
        "weak",
        "physical",
        "adamw",
        "all",
    )
    assert spec.training.steps == 7
    assert WGFINN(method="paper").spec.model.initialisation == "paper"
    with pytest.raises(InputError, match="WGFINN learns by 'auto' or 'weak' or 'paper'"):
        WGFINN(method="strong")


@pytest.mark.parametrize(
    ("means", "losses", "served"),
    [
        ([1.2, 1.0], [0.9, 0.95], 1),
        ([1.001, 1.0], [0.9, 0.95], 0),
        ([1.001, 1.0], [np.inf, np.inf], 1),
        ([1.001, 1.0, 1.2], [0.95, np.inf, 0.8], 0),
    ],
)
def test_members_that_held_out_runs_do_not_tell_apart_go_by_their_loss(means, losses, served):
    """Eight runs of 30 samples of three states tell 1 / sqrt(1440) = 2.6 % apart."""
    judged = some_runs(8)
    assert resolution(judged) == pytest.approx(1 / np.sqrt(1440))
    found = [Misfit(np.array([m, m]), np.ones(3)) for m in means]
    assert best_member(found, losses, judged, np.full(3, 0.01)) == served


@pytest.mark.parametrize(
    ("n_runs", "means", "told", "served"),
    [
        (2, [0.3, 0.1], [0.3, 0.1], 1),  # both tell
        (2, [0.9, 0.7], [0.5, 0.5], 0),  # missed as a whole: the loss decides
        (2, [0.9, 0.2], [0.5, 0.2], 1),
        (8, [0.9, 0.7], [0.9, 0.7], 1),  # of many runs it is a part
    ],
)
def test_a_few_runs_missed_as_a_whole_tell_no_more_than_that(n_runs, means, told, served):
    """`means` and `told` in parts of what the runs' own means miss."""
    judged, noise = some_runs(n_runs), np.full(3, 1e-3)
    spread = signal_level(judged, noise)
    found = [Misfit(np.array([m * spread]), np.ones(3)) for m in means]
    np.testing.assert_allclose(telling(found, judged, noise) / spread, told)
    assert best_member(found, [0.8, 0.9], judged, noise) == served


def test_a_lost_run_counts_but_does_not_drown_the_others():
    assert Misfit(np.array([1.0, np.inf]), np.ones(1)).mean == pytest.approx(500.5)


@pytest.mark.parametrize(
    ("per_run", "level", "words"),
    [
        ([1.0, 1.1, 0.9], "good", "to within the noise"),
        ([1.4, 1.5, 1.6], "fair", "not to within the noise"),
        ([1.4, 1.5, 1.6], "fair", "try more runs"),
        ([30.0, 40.0, 50.0], "poor", "try more starts"),
        ([1.0, 1.0, np.inf], "good", "run 2; more runs that start like these would help"),
    ],
)
def test_verdicts(per_run, level, words):
    runs = some_runs(3)
    verdict = judge(Misfit(np.array(per_run), np.array([1.0, 1.0, 1.0])), runs, np.full(3, 0.01), held_out=True)
    assert verdict.level == level
    assert words in " ".join([verdict.headline, *verdict.lines])


def test_a_verdict_names_weak_states_and_what_it_rests_on():
    runs = some_runs(3)
    verdict = judge(Misfit(np.ones(3), np.array([1.0, 5.0, 1.0])), runs, np.full(3, 0.01), held_out=False)
    assert "the 3 training runs" in verdict.headline
    assert any("weakest state: p" in line for line in verdict.lines)
    assert any("nothing was held out" in line for line in verdict.lines)


@pytest.mark.parametrize(
    ("count", "words"), [(1, "one run is little to judge by"), (3, "3 runs are little to judge by"), (4, None)]
)
def test_a_verdict_says_that_few_runs_are_little_to_judge_by(count, words):
    verdict = judge(Misfit(np.ones(count), np.ones(3)), some_runs(count), np.full(3, 0.01), held_out=True)
    found = [line for line in verdict.lines if "little to judge by" in line]
    assert (words is None and not found) or (words is not None and found[0].startswith(words))


def turning_runs(n_runs=20, n_times=121, noise=0.05):
    """A damped rotation, x' = (-0.1 q - p, q - 0.1 p), and the noise of each state."""
    rng = np.random.default_rng(1)
    t = 0.05 * np.arange(n_times)
    sizes, phases = rng.uniform(0.5, 1.5, n_runs), rng.uniform(0, 6, n_runs)
    x = [s * np.exp(-0.1 * t[:, None]) * np.stack([np.cos(t + f), np.sin(t + f)], 1) for s, f in zip(sizes, phases)]  # noqa: B905
    noisy = [run + noise * rng.standard_normal(run.shape) for run in x]
    return Trajectories.from_arrays(noisy, t, names=("q", "p")), np.full(2, noise)


def turning(x, pull=0.1):
    return jnp.stack([-pull * x[0] - x[1], x[0] - pull * x[1]])


def test_weak_chi_square_is_one_for_the_truth_alone():
    """Windows overlap, so that the few hundred residuals hold some forty independent ones: one in five is noise."""
    runs, noise = turning_runs()
    spec = resolve(parse(FitSpec, {"test_functions": {"width": 40, "degree": 4, "overlap": 0.5}}), runs)
    np.testing.assert_allclose(weak_chi_square(spec, turning, runs, noise), 1.0, atol=0.3)
    assert (weak_chi_square(spec, lambda x: turning(x, pull=0.5), runs, noise) > 3).all()


def test_coverage_of_members_that_are_right_and_of_members_that_agree_on_a_mistake():
    runs, noise = turning_runs(n_runs=10)
    clean, _ = turning_runs(n_runs=10, noise=0.0)
    truth = np.stack([run.x for run in clean.runs], -1)

    def share(*predictions):
        return coverage([Misfit(np.ones(10), np.ones(2), p) for p in predictions], runs, noise) or 0.0

    assert share(truth, truth + 1e-6) == pytest.approx(0.95, abs=0.02)
    assert share(truth + 0.2, truth + 0.2001) < 0.1
    assert share(truth + 0.2, truth - 0.2) > 0.99
    assert coverage([Misfit(np.ones(10), np.ones(2), truth)], runs, noise) is None


def test_a_verdict_tells_chi_square_and_coverage():
    verdict = judge(
        Misfit(np.ones(3), np.ones(3)),
        some_runs(3),
        np.full(3, 0.01),
        held_out=True,
        chi_square=np.array([1.0, 1.25, 0.9]),
        coverage=0.94,
    )
    assert any("q 1.00, p 1.25, S 0.90" in line for line in verdict.lines)
    assert any(line.startswith("94 % of the measurements") for line in verdict.lines)


def test_a_verdict_tells_of_outliers():
    runs, noise = some_runs(3), np.full(3, 0.01)
    for share, words in ((0.0, []), (0.012, ["outliers: 1.5 % of the measurements stand alone"])):
        verdict = judge(
            Misfit(np.ones(3), np.ones(3), None, share), runs, noise, held_out=True, mended=0.003 if share else 0.0
        )
        assert [line.split(",")[0] for line in verdict.lines if "outliers" in line] == words


@pytest.mark.parametrize(
    ("entropy", "misfit", "told"),
    [("none", 1.0, False), ("none", 1.5, True), ("neural", 1.5, False), ("neural", 9.0, True), ("bath", 9.0, False)],
)
def test_a_verdict_names_heat_that_was_not_measured(entropy, misfit, told):
    verdict = judge(
        Misfit(np.full(3, misfit), np.ones(3)), some_runs(3), np.full(3, 0.2), held_out=True, entropy=entropy
    )
    assert told is any("the heat was not measured" in line for line in verdict.lines)
    assert (entropy == "neural" and told) is any("if nothing rubs" in line for line in verdict.lines)


def test_a_verdict_on_one_run():
    verdict = judge(Misfit(np.ones(1), np.ones(3)), some_runs(1), np.full(3, 0.01), held_out=False)
    assert verdict.headline.startswith("Good: the one training run predicted to within the noise")


def test_worse_than_no_dynamics_is_poor():
    runs = some_runs(3)
    verdict = judge(Misfit(np.full(3, 1.1), np.ones(3)), runs, np.full(3, 10.0), held_out=True)
    assert verdict.level == "poor"
