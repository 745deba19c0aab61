"""From trajectories and settings to a model: choices by the data, seeds, interruption and resuming, lost members."""

import json
import math
import signal
import tomllib
from dataclasses import replace

import jax
import numpy as np
import pytest

from small_fits import GENERIC, PLAIN, STEP, small_spec, some_runs
from wgfinn import weak
from wgfinn._errors import ArtefactError, InputError
from wgfinn._spec import parse
from wgfinn.artefact import load_model
from wgfinn.cli.progress import fit_summary
from wgfinn.data import Scales, Trajectories, estimate_noise, mended
from wgfinn.fitting import (
    CHECKPOINT_FILE,
    METRICS_FILE,
    MODEL_FILE,
    SETTINGS_FILE,
    FitSpec,
    Member,
    choose_batch,
    choose_test_functions,
    ensemble,
    fit,
    rescale,
    resolve,
    train_members,
)
from wgfinn.training import OptimiserSpec, loop

RUNS = some_runs()
SPEC = small_spec()


@pytest.fixture(autouse=True)
def one_check_a_chunk(monkeypatch):
    """The host looks after every check, so that a test can stop a training anywhere."""
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", 0.0)


def stop_at(step):
    """An observer that presses Ctrl-C."""

    def observe(record):
        if record.step == step:
            signal.raise_signal(signal.SIGINT)

    return observe


def records(folder):
    lines = (folder / METRICS_FILE).read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def checkpoint(folder):
    with np.load(folder / CHECKPOINT_FILE) as file:
        return {name: file[name] for name in file.files if name != "seconds"}


def assert_same_run(folder, other):
    """Bit for bit: model file, every array of the checkpoint, every record but for its seconds."""
    assert (folder / MODEL_FILE).read_bytes() == (other / MODEL_FILE).read_bytes()
    a, b = checkpoint(folder), checkpoint(other)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert records(folder) == records(other)


def assert_same_bits(a, b):
    for one, two in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, fit(RUNS, SPEC, folder=folder, source="runs.npz")


# ------------------------------------------------------------------------------------------------ choices


def test_ensemble_counts_seeds_from_the_first():
    members = ensemble(RUNS, small_spec(seed=5, members=3))
    assert [(m.name, m.seed) for m in members] == [("seed 5", 5), ("seed 6", 6), ("seed 7", 7)]


def test_windows_follow_the_noise_but_fit_into_the_shortest_run():
    runs = some_runs(noise=0.05, n_times=200)
    assert choose_test_functions(runs) == weak.choose_test_functions(runs, estimate_noise(runs))[0]
    short = Trajectories.from_arrays([np.ones((500, 2)), np.ones((8, 2))], [np.arange(500), np.arange(8)])
    assert choose_test_functions(short).width == 8


@pytest.mark.parametrize(
    ("method", "n_times", "batch"), [("weak", 30, 107), ("weak", 400, 8), ("weak", 10_000, 1), ("strong", 400, 533)]
)
def test_batch_holds_about_3200_states(method, n_times, batch):
    runs = Trajectories.from_arrays([np.ones((n_times, 2)), np.ones((20, 2))], [np.arange(n_times), np.arange(20)])
    assert choose_batch(method, runs) == batch


def test_one_long_run_among_short_ones_is_cut():
    """Items of 100 samples, not of 3,000: 32 of them make a step."""
    lengths = [100] * 50 + [3000]
    runs = Trajectories.from_arrays([np.ones((n, 2)) for n in lengths], [np.arange(n) for n in lengths])
    assert resolve(parse(FitSpec, {}), runs).training.batch == 32


def test_windows_are_wide_enough_for_gaps():
    """A state measured every sixth time: gaps of six steps are a quarter of 24."""
    x = np.ones((120, 2))
    x[np.arange(120) % 6 != 0, 1] = np.nan
    assert choose_test_functions(Trajectories.from_arrays(x, np.arange(120))).width == 25


def irregular_runs() -> Trajectories:
    """Jittered times, missing rows and values, known noise levels."""
    rng = np.random.default_rng(0)
    x, t = [], []
    for run in some_runs(n_times=40).runs:
        states = np.array(run.x)
        states[rng.choice(np.arange(1, 39), 3, replace=False)] = np.nan
        states[rng.choice(np.arange(1, 39), 2, replace=False), 1] = np.nan
        x.append(states)
        t.append(run.t + 0.02 * rng.uniform(-1, 1, 40))
    return Trajectories.from_arrays(x, t, names=some_runs().names, sigma=[np.full((40, 3), 0.01)] * 3)


@pytest.mark.parametrize("method", ["weak", "strong"])
def test_irregular_runs_are_learnt_by_all_members(method):
    model = fit(irregular_runs(), small_spec(method=method))
    losses = [m.loss for m in model.manifest.members]
    assert len(losses) == 2
    assert all(np.isfinite(losses))


def test_noise_levels_are_rescaled():
    runs = irregular_runs()
    scaled = rescale(runs, Scales.standardise(runs))
    for run, other in zip(runs.runs, scaled.runs, strict=True):
        np.testing.assert_allclose(other.sigma, run.sigma / Scales.standardise(runs).scale, rtol=1e-14)


def test_a_run_without_a_window_is_named_before_anything_is_written(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[np.arange(60) % 6 != 0, 1] = np.nan
    runs = Trajectories.from_arrays(x, np.arange(60), names=["q", "slow"])
    with pytest.raises(InputError, match=r"run '0': no test function fits between its gaps: with width = 10"):
        fit(runs, parse(FitSpec, {"model": PLAIN, "test_functions": {"width": 10}}), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_resolve_fills_in_what_was_left_open_and_nothing_else():
    open_spec = parse(FitSpec, {"model": PLAIN})
    chosen = resolve(open_spec, RUNS)
    assert chosen.training.batch == 107
    assert chosen.test_functions == choose_test_functions(RUNS)
    assert resolve(chosen, some_runs(n_times=400)) == chosen
    assert resolve(parse(FitSpec, {"method": "strong"}), RUNS).test_functions is None


def test_runs_too_short_for_the_windows():
    spec = parse(FitSpec, {"model": PLAIN, "test_functions": {"width": 40}})
    with pytest.raises(InputError, match=r"run '0': a record of 30 samples is shorter than the support"):
        fit(RUNS, spec)


# --------------------------------------------------------------------------------------- files and numbers


def test_a_run_folder_holds_everything(whole):
    folder, model = whole
    assert {p.name for p in folder.iterdir()} == {MODEL_FILE, SETTINGS_FILE, METRICS_FILE, CHECKPOINT_FILE}
    settings = tomllib.loads((folder / SETTINGS_FILE).read_text())
    assert settings["data"] == {"digest": RUNS.digest(), "source": "runs.npz"}
    assert parse(FitSpec, settings["fit"]) == resolve(SPEC, RUNS)
    assert [r["step"] for r in records(folder)] == [10, 20, 30, 40]
    assert [m["name"] for m in records(folder)[0]["members"]] == ["seed 0", "seed 1"]
    assert model.manifest.steps_done == 40
    assert model.manifest.names == RUNS.names
    assert model.manifest.data.digest == RUNS.digest()
    assert model.manifest.data.step == pytest.approx(0.1)
    losses = [m.loss for m in model.manifest.members]
    assert model.manifest.served == int(np.argmin(losses))
    assert losses == [m["best_loss"] for m in records(folder)[-1]["members"]]


@pytest.mark.parametrize("log_every", [1, 1000])
def test_records_can_be_rare_or_many_without_changing_the_model(whole, tmp_path, log_every):
    model = fit(RUNS, small_spec(log_every=log_every), folder=tmp_path)
    assert_same_bits(model.fields, whole[1].fields)
    assert [r["step"] for r in records(tmp_path)] == (list(range(5, 41, 5)) if log_every == 1 else [40])


def test_one_seed_one_result(whole, tmp_path):
    fit(RUNS, SPEC, folder=tmp_path, source="elsewhere.csv")
    assert_same_run(tmp_path, whole[0])


def test_members_differ_and_a_seed_is_the_same_in_any_place(whole):
    """Seed 1 as second of seeds 0, 1 and as first of 1, 2: the same program, so the same bits."""
    model = whole[1]
    other = fit(RUNS, small_spec(seed=1))
    first, second = (jax.tree.map(lambda a, k=k: a[k], model.fields) for k in (0, 1))
    assert any(np.any(a != b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True))
    assert_same_bits(jax.tree.map(lambda a: a[0], other.fields), second)


def test_a_new_fit_forgets_the_old_run(whole, tmp_path):
    fit(RUNS, small_spec(seed=7), folder=tmp_path)
    fit(RUNS, SPEC, folder=tmp_path, source="runs.npz")
    assert_same_run(tmp_path, whole[0])


# ------------------------------------------------------------------------------------ interruption, resuming


@pytest.mark.parametrize("step", [5, 20, 35])
def test_interrupted_and_resumed_equals_uninterrupted(whole, tmp_path, step):
    """Stopped on a record (20) and between two (5, 35)."""
    early = fit(RUNS, SPEC, folder=tmp_path, observe=stop_at(step))
    assert early.manifest.steps_done == step
    kept = load_model(tmp_path / MODEL_FILE)
    assert kept.manifest == early.manifest
    assert np.all(np.isfinite(kept.simulate(RUNS.runs[0].x[:1], RUNS.runs[0].t)))
    assert f"stopped after {step} of 40 steps; `wgfinn resume` goes on from there." in fit_summary(kept, 40)
    assert [r["step"] for r in records(tmp_path)] == [s for s in (10, 20, 30) if s <= step]
    model = fit(RUNS, SPEC, folder=tmp_path, resume=True)
    assert_same_bits(model.fields, whole[1].fields)
    assert_same_run(tmp_path, whole[0])


@pytest.mark.parametrize("step", [20, 40])
def test_killed_and_resumed_equals_uninterrupted(whole, tmp_path, step):
    """A process that dies leaves the last checkpoint, a record behind it, and half a line."""

    def die(record):
        if record.step == step:
            raise MemoryError

    with pytest.raises(MemoryError):
        fit(RUNS, SPEC, folder=tmp_path, observe=die, checkpoint_seconds=0.0)
    assert checkpoint(tmp_path)["step"].tolist() == [step - 5, step - 5]
    assert records(tmp_path)[-1]["step"] == step
    with (tmp_path / METRICS_FILE).open("a") as file:
        file.write('{"step": 2')
    seen = []
    fit(RUNS, SPEC, folder=tmp_path, observe=lambda r: seen.append(r.step), resume=True)
    assert seen == list(range(step, 41, 5))
    assert_same_run(tmp_path, whole[0])


def test_interrupted_twice(whole, tmp_path):
    fit(RUNS, SPEC, folder=tmp_path, observe=stop_at(10))
    fit(RUNS, SPEC, folder=tmp_path, observe=stop_at(25), resume=True)
    fit(RUNS, SPEC, folder=tmp_path, resume=True)
    assert_same_run(tmp_path, whole[0])


def test_resuming_a_finished_run_changes_nothing(whole, tmp_path):
    fit(RUNS, SPEC, folder=tmp_path)
    fit(RUNS, SPEC, folder=tmp_path, resume=True)
    assert_same_run(tmp_path, whole[0])


def test_seconds_go_on_counting(tmp_path):
    seconds = []
    fit(RUNS, SPEC, folder=tmp_path, observe=stop_at(20))
    with np.load(tmp_path / CHECKPOINT_FILE) as file:
        before = float(file["seconds"])
    fit(RUNS, SPEC, folder=tmp_path, observe=lambda r: seconds.append(r.seconds), resume=True)
    assert before > 0
    assert all(s > before for s in seconds)


def test_second_ctrl_c_ends_at_once(tmp_path):
    def twice(record):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(RUNS, SPEC, folder=tmp_path, observe=twice)
    assert signal.getsignal(signal.SIGINT) is before
    assert not (tmp_path / MODEL_FILE).exists()


def test_resume_needs_a_sound_checkpoint_of_the_same_model(tmp_path):
    with pytest.raises(ArtefactError, match="no checkpoint here"):
        fit(RUNS, SPEC, folder=tmp_path, resume=True)
    fit(RUNS, SPEC, folder=tmp_path, observe=stop_at(20))
    kept = records(tmp_path)
    with pytest.raises(ArtefactError, match=r"checkpoint.npz: the array 'weights' is float32"):
        fit(RUNS, small_spec(members=3), folder=tmp_path, resume=True)
    (tmp_path / CHECKPOINT_FILE).write_bytes((tmp_path / CHECKPOINT_FILE).read_bytes()[:200])
    with pytest.raises(ArtefactError, match="the checkpoint cannot be read"):
        fit(RUNS, SPEC, folder=tmp_path, resume=True)
    assert records(tmp_path) == kept


# ------------------------------------------------------------------------------- members with something own


def some_members(*rates, runs=None):
    data = [RUNS] * len(rates) if runs is None else runs
    return [
        Member(f"rate {rate:g}", seed, data[seed], OptimiserSpec(name="adamw", rate=rate), SPEC.attention)
        for seed, rate in enumerate(rates)
    ]


@pytest.fixture(scope="module")
def with_a_lost_one():
    return train_members(some_members(1e-2, 1e30), SPEC)


def test_a_lost_member_is_told_and_takes_nobody_along(with_a_lost_one, whole):
    trained = with_a_lost_one
    assert trained.diverged_at == (None, 5)
    assert trained.losses[1] == math.inf
    # The same program with a sound second member: the first is the first member of SPEC.
    assert_same_bits(*(jax.tree.map(lambda a: a[0], fields) for fields in (trained.fields, whole[1].fields)))


def test_other_members_neither_help_nor_harm(with_a_lost_one):
    """Another program (one member), and yet the same bits on a CPU, where members run one after another."""
    alone = train_members(some_members(1e-2), SPEC)
    assert alone.losses[0] == with_a_lost_one.losses[0]
    assert_same_bits(*(jax.tree.map(lambda a: a[0], t.fields) for t in (alone, with_a_lost_one)))


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_member_is_named_and_never_served(monkeypatch, tmp_path, lost):
    rates = [1e-2, 1e-2]
    rates[lost] = 1e30
    monkeypatch.setattr("wgfinn.fitting.learning.ensemble", lambda *_: some_members(*rates))
    model = fit(RUNS, SPEC, folder=tmp_path)
    manifest = load_model(tmp_path / MODEL_FILE).manifest
    assert manifest == model.manifest
    assert manifest.served == 1 - lost
    assert (manifest.members[lost].loss, manifest.members[lost].diverged_at) == (None, 5)
    assert (manifest.members[1 - lost].diverged_at) is None
    told = fit_summary(model, 40)
    assert told[0].startswith("served: rate 0.01, training loss ")
    assert told[1].startswith("rate 1e+30 diverged at step 5 (loss not finite)")
    assert len(told) == 2
    last = records(tmp_path)[-1]["members"][lost]
    assert (last["loss"], last["diverged_at"]) == (None, 5)  # and the line was JSON, without NaN


def test_members_that_were_judged_are_told_by_their_misfit():
    model = fit(RUNS, SPEC)
    members = zip(model.manifest.members, (1.16, 1e3), strict=True)
    told = [member.model_copy(update={"misfit": misfit}) for member, misfit in members]
    judged = replace(model, manifest=model.manifest.model_copy(update={"members": tuple(told), "served": 0}))
    assert fit_summary(judged, 40)[0] == f"served: {told[0].name}, misfit 1.16 (others: {told[1].name} lost)"
    assert judged.sound_members == (0,)
    assert model.sound_members == (0, 1)


def test_all_members_lost(monkeypatch, tmp_path):
    monkeypatch.setattr("wgfinn.fitting.learning.ensemble", lambda *_: some_members(1e30, 1e30))
    model = fit(RUNS, SPEC, folder=tmp_path)
    assert model.manifest.served == 0
    assert fit_summary(model, 40)[0] == "served: rate 1e+30, training loss not finite"


def test_members_with_data_of_their_own_equal_members_alone():
    """Two noise levels under one program against two trainings; another program may round differently: single
    precision's 1e-7 through 40 steps of Adam."""
    runs = [some_runs(noise=0.01), some_runs(noise=0.2)]
    together = train_members(some_members(1e-2, 1e-2, runs=runs), SPEC)
    for k, one in enumerate(some_members(1e-2, 1e-2, runs=runs)):
        alone = train_members([one], SPEC)
        assert together.losses[k] == pytest.approx(alone.losses[0], rel=1e-5)
        for a, b in zip(jax.tree.leaves(together.fields), jax.tree.leaves(alone.fields), strict=True):
            np.testing.assert_allclose(a[k], b[0], rtol=1e-4, atol=1e-5)
    assert together.losses[1] != pytest.approx(together.losses[0], rel=0.1)


@pytest.mark.parametrize("other", [some_runs(n_times=40), some_runs().subset([0, 1])])
def test_data_of_other_shapes_do_not_train_together(other):
    with pytest.raises(InputError, match="train together only if their runs agree in number and length"):
        train_members(some_members(1e-2, 1e-2, runs=[RUNS, other]), SPEC)


def test_outliers_are_not_learnt_from():
    """One value of a sensor that was off. Kept, it fills the scales."""
    x = [run.x.copy() for run in RUNS.runs]
    x[1][7, 2] = -9999.0
    off = RUNS.with_states(x)
    clear = mended(off, estimate_noise(off))
    learnt, alike = (fit(runs, small_spec()) for runs in (off, clear))
    for a, b in zip(jax.tree.leaves(learnt.fields), jax.tree.leaves(alike.fields), strict=True):
        np.testing.assert_array_equal(a, b)
    kept = fit(off, small_spec().model_copy(update={"outliers": "keep"}))
    assert kept.manifest.scales["scale"][2] > 100 * learnt.manifest.scales["scale"][2]


def test_a_single_state_is_refused(tmp_path):
    """x' = 0 by construction: nothing could be learnt, and nothing is written."""
    runs = Trajectories.from_arrays(np.random.default_rng(0).normal(size=(3, 30, 1)), STEP * np.arange(30), names=["T"])
    with pytest.raises(InputError, match=r"one state, 'T', .* needs two or more.*model\.field = 'plain'"):
        fit(runs, small_spec(GENERIC), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for model in ({**GENERIC, "entropy": "bath"}, PLAIN):
        assert fit(runs, small_spec(model)).names == ("T",)


def test_data_without_motion_are_refused():
    runs = Trajectories.from_arrays(np.full((3, 30, 2), 7.0), STEP * np.arange(30), names=["a", "b"])
    with pytest.raises(InputError, match=r"no state ever moves \(a, b are constant\)"):
        fit(runs, SPEC)
