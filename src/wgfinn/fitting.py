"""From trajectories and settings to a model: coordinates, equations, training, model file, run folder."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tomli_w
from jaxtyping import Float64
from pydantic import Field as Key

from wgfinn import weak
from wgfinn._errors import InputError
from wgfinn._spec import Spec
from wgfinn._types import Field
from wgfinn.artefact import (
    Manifest,
    MemberManifest,
    Model,
    describe_data,
    save_model,
    serve_index,
    versions,
)
from wgfinn.data import DataSpec, Scales, Trajectories, atomic_write, cut, estimate_noise, fair_length, state_std
from wgfinn.losses import (
    AbstractEquations,
    AttentionSpec,
    ScatteredWeakEquations,
    StrongEquations,
    WeakEquations,
    Weights,
    is_regular,
    require_windows,
    state_weights,
    width_over_gaps,
)
from wgfinn.models import (
    NO_FUNCTIONS,
    AbstractField,
    KnownFunctions,
    ModelSpec,
    Physics,
    build,
    know,
    require_consistency,
)
from wgfinn.refining import RefineSpec, best_member, coverage, misfits, refine
from wgfinn.training import (
    AbstractOptimiser,
    MemberSettings,
    Observer,
    OptimiserSpec,
    Problem,
    Record,
    Structure,
    TrainingSpec,
    TrainState,
    checkpoint_step,
    graceful_interrupt,
    initial_state,
    load_checkpoint,
    make_optimiser,
    member,
    save_checkpoint,
    stack,
    take_apart,
    train,
)
from wgfinn.verdict import Verdict, judge
from wgfinn.weak import TestFunctionSpec

MODEL_FILE = "model.wgfinn"
SETTINGS_FILE = "settings.toml"
METRICS_FILE = "metrics.jsonl"
CHECKPOINT_FILE = "checkpoint.npz"
VERDICT_FILE = "verdict.json"

_STATES_PER_STEP = 3200
_STATES_TO_TRY = 200
_FEWEST_TO_HOLD_OUT = 5
_SMALLEST_NOISE = 1e-3
_NOISE_DRAWS = 4


class FitSpec(Spec):
    """All settings of a fit; each section belongs to one stage. The same keys serve Python and TOML."""

    method: Literal["auto", "weak", "strong"] = Key(
        default="auto",
        description="weak form, then refinement on trajectories; or the weak form alone; or that of one step",
    )
    coordinates: Literal["standardised", "physical"] = Key(
        default="standardised", description="where the networks live; the structure is exact in physical coordinates"
    )
    weights: Weights = Key(default="inverse_std", description="state weights W of the loss (paper: inverse_std)")
    data: DataSpec = Key(default=DataSpec(), description="roles of columns, for commands that read DATA")
    model: ModelSpec = ModelSpec()
    test_functions: TestFunctionSpec | None = Key(default=None, description="none: from the data's noise")
    attention: AttentionSpec = AttentionSpec()
    optimiser: OptimiserSpec = OptimiserSpec()
    training: TrainingSpec = TrainingSpec()
    refine: RefineSpec = RefineSpec()

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all stages."""
        return self.training.steps + (self.refine.steps if self.method == "auto" else 0)


PAPER: dict[str, Any] = {
    "method": "weak",
    "coordinates": "physical",
    "model": {"initialisation": "paper", "layers": 5, "width": 30, "activation": "tanh"},
    "optimiser": {"name": "adamw", "rate": 1e-3, "decay": 0.95, "decay_every": 1_000},
    "training": {"steps": 60_000, "batch": "all", "members": 1},
}
"""The paper's weak form as settings (`method="paper"`); its tables differ from system to system (`studies/recipes`)."""


@dataclass(frozen=True)
class Member:
    """One model to train: its data and those settings in which members of equal shape may differ."""

    name: str
    seed: int
    trajectories: Trajectories
    optimiser: OptimiserSpec
    attention: AttentionSpec


@dataclass(frozen=True)
class Trained:
    """The members after a training: their best fields and how they fared."""

    fields: AbstractField
    losses: tuple[float, ...]
    diverged_at: tuple[int | None, ...]
    steps_done: int
    misfits: tuple[float, ...] = ()
    """Of each member on held-out runs, in noise levels; empty where that was not asked for."""
    served: int | None = None
    """The member chosen by its misfit (`refining.best_member`); None: that of lowest loss."""
    verdict: Verdict | None = None


def ensemble(trajectories: Trajectories, spec: FitSpec) -> list[Member]:
    """The members that `spec` asks for: one data set, one seed each."""
    seeds = range(spec.training.seed, spec.training.seed + spec.training.members)
    return [Member(f"seed {seed}", seed, trajectories, spec.optimiser, spec.attention) for seed in seeds]


def choose_test_functions(trajectories: Trajectories) -> TestFunctionSpec:
    """The default for a data set: as wide as its noise asks for (`weak.choice`), and wide enough for gaps in the data
    to be short against a window."""
    chosen, _ = weak.choose_test_functions(trajectories, estimate_noise(trajectories))
    shortest = min(len(run.t) for run in trajectories.runs)
    return chosen.model_copy(update={"width": max(chosen.width, min(shortest, width_over_gaps(trajectories)))})


def resolve(spec: FitSpec, trajectories: Trajectories) -> FitSpec:
    """`spec` with what depends on the data filled in."""
    chosen: dict[str, Any] = {}
    test_functions = spec.test_functions
    if spec.method != "strong" and test_functions is None:
        chosen["test_functions"] = test_functions = choose_test_functions(trajectories)
    if spec.training.batch == "auto":
        batch = choose_batch(spec.method, trajectories, test_functions)
        chosen["training"] = spec.training.model_copy(update={"batch": batch})
    return spec.model_copy(update=chosen)


def choose_batch(method: str, trajectories: Trajectories, test_functions: TestFunctionSpec | None = None) -> int:
    """Items a step, so that a step evaluates the field at about 3,200 states, whatever the data's size."""
    test_functions = test_functions or choose_test_functions(trajectories)
    longest = min(item_length(trajectories, test_functions.width), _STATES_PER_STEP)
    # A strong residual takes three evaluations one after another, for about twice the time.
    return _STATES_PER_STEP // 6 if method == "strong" else max(1, round(_STATES_PER_STEP / longest))


def item_length(trajectories: Trajectories, width: int) -> int:
    """Samples in an item of the weak form: a run, all of it in memory with every network's activations.

    Long runs go in segments, and so do runs among much shorter ones, which would be padded to their length.
    """
    lengths = [len(run.t) for run in trajectories.runs]
    return fair_length(lengths, shared=width - 1, at_least=4 * width, at_most=max(_STATES_PER_STEP, 4 * width))


def choose_scales(spec: FitSpec, trajectories: Trajectories) -> Scales:
    if spec.coordinates == "physical":
        return Scales.identity(trajectories.n_states)
    return Scales.standardise(trajectories)


def rescale(trajectories: Trajectories, scales: Scales) -> Trajectories:
    """The same runs in the coordinates and the time of `scales`."""
    return Trajectories.from_arrays(
        [scales.forward(run.x) for run in trajectories.runs],
        [run.t / scales.time for run in trajectories.runs],
        names=trajectories.names,
        run_names=[run.name for run in trajectories.runs],
        sigma=[run.sigma / scales.scale for run in trajectories.runs if run.sigma is not None] or None,
    )


def make_equations(spec: FitSpec, trajectories: Trajectories) -> AbstractEquations:
    """The residual function that `spec.method` names; below this line nobody asks which one it is."""
    if spec.method == "strong":
        return StrongEquations(trajectories, spec.training.dtype)
    assert spec.test_functions is not None
    width, dtype = spec.test_functions.width, spec.training.dtype
    length = item_length(trajectories, width)
    if is_regular(trajectories):
        # Segments that together hold every window.
        return WeakEquations(cut(trajectories, length, shared=width - 1), spec.test_functions, dtype)
    return ScatteredWeakEquations(trajectories, spec.test_functions, dtype, length=length)


def train_members(
    members: Sequence[Member],
    spec: FitSpec,
    *,
    functions: KnownFunctions = NO_FUNCTIONS,
    observe: Observer | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
    should_stop: Callable[[], bool] | None = None,
) -> Trained:
    """Train all members in one program. Members with data of their own must agree in every shape.

    Ends early at Ctrl-C, or when the caller's `should_stop` says so.
    """
    spec = resolve(spec, members[0].trajectories)
    dtype = spec.training.dtype
    n_states = members[0].trajectories.n_states
    own_data = any(m.trajectories is not members[0].trajectories for m in members)
    physics = known_physics(members, spec, functions)
    weights, structures = zip(*(_start(spec, n_states, m.seed, physics) for m in members), strict=True)
    settings = [MemberSettings.create(m.seed, m.optimiser, m.attention, dtype) for m in members]
    optimiser = make_optimiser(members[0].optimiser, structures[0].shapes)
    states = stack([initial_state(w, s, n_states, optimiser) for w, s in zip(weights, settings, strict=True)])
    problems = [
        _problem(spec, m.trajectories, structures[0], optimiser) for m in (members if own_data else members[:1])
    ]
    problem = _stack_problems(problems) if own_data else problems[0]
    seconds = 0.0
    if resume:
        assert checkpoint is not None
        states, seconds = load_checkpoint(checkpoint, states)
    with graceful_interrupt() if should_stop is None else nullcontext(should_stop) as stop:
        states = train(
            states,
            stack(settings),
            problem,
            spec.training,
            [m.name for m in members],
            own_data=own_data,
            observe=observe,
            save=None if checkpoint is None else (lambda s, t: save_checkpoint(checkpoint, s, t)),
            save_every=checkpoint_seconds,
            seconds_before=seconds,
            should_stop=stop,
        )
    return _trained(states, structures[0])


def _start(spec: FitSpec, n_states: int, seed: int, physics: Physics) -> tuple[jax.Array, Structure]:
    return take_apart(build(spec.model, n_states, key=jax.random.key(seed), physics=physics), spec.training.dtype)


def known_physics(members: Sequence[Member], spec: FitSpec, functions: KnownFunctions = NO_FUNCTIONS) -> Physics:
    """What is known of the field, in the coordinates of the training, which all members must share."""
    scales = [choose_scales(spec, m.trajectories) for m in members]
    physics = know(spec.model, members[0].trajectories.names, scales[0], functions)
    if not physics.knows_nothing and any(s.to_dict() != scales[0].to_dict() for s in scales):
        raise InputError(
            "members with data of their own have coordinates of their own, but known physics holds in one: "
            "fit them one by one, or with coordinates = 'physical'."
        )
    return physics


def _check_physics(physics: Physics, spec: FitSpec, trajectories: Trajectories) -> None:
    """Known pieces are tried at states drawn from the data."""
    if not physics.knows_nothing:
        states = np.concatenate([run.x for run in trajectories.runs])
        drawn = np.random.default_rng(0).permutation(len(states))[:_STATES_TO_TRY]
        require_consistency(physics, trajectories.names, choose_scales(spec, trajectories), states[drawn])


def _problem(spec: FitSpec, trajectories: Trajectories, structure: Structure, optimiser: AbstractOptimiser) -> Problem:
    scales = choose_scales(spec, trajectories)
    equations = make_equations(spec, rescale(trajectories, scales))
    std = state_std(trajectories) / scales.scale
    batch = spec.training.batch
    assert batch != "auto"
    return Problem(
        equations=equations,
        weights=jnp.asarray(state_weights(std, spec.weights), spec.training.dtype),
        structure=structure,
        batch=None if batch == "all" or batch >= equations.n_items else batch,
        optimiser=optimiser,
    )


def _stack_problems(problems: list[Problem]) -> Problem:
    shapes = [[leaf.shape for leaf in jax.tree.leaves(p)] for p in problems]
    if any(s != shapes[0] for s in shapes):
        raise InputError(
            "members with data of their own train together only if their runs agree in number and length; "
            "fit them one by one."
        )
    return stack(problems)


def _trained(states: TrainState, structure: Structure) -> Trained:
    losses = np.asarray(states.best_loss)
    diverged = np.asarray(states.diverged_at)
    return Trained(
        fields=stack([structure.field(best) for best in states.best]),
        losses=tuple(float(loss) for loss in losses),
        diverged_at=tuple(int(d) if d >= 0 else None for d in diverged),
        steps_done=int(states.step[0]),
    )


def fit(
    trajectories: Trajectories,
    spec: FitSpec,
    *,
    functions: KnownFunctions = NO_FUNCTIONS,
    folder: Path | None = None,
    source: str | None = None,
    observe: Observer | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> Model:
    """Learn an ensemble from `trajectories`; `functions` are the known pieces that settings cannot hold.

    With a `folder`, settings, metrics, checkpoints and the model file go there, and `resume` goes on from its
    checkpoint to the same numbers as a run that was never interrupted. Ctrl-C ends the training early; the
    model is what was best until then.
    """
    _check_motion(spec, trajectories)
    spec = resolve(spec, trajectories)
    if spec.test_functions is not None:
        # Before anything is written.
        require_windows(trajectories, spec.test_functions)
    _check_physics(known_physics(ensemble(trajectories, spec), spec, functions), spec, trajectories)
    checkpoint = None
    if folder is not None:
        checkpoint = folder / CHECKPOINT_FILE
        observe = _log_into(folder, spec, observe, resume=resume)
        if not resume:
            checkpoint.unlink(missing_ok=True)
            _refining(checkpoint).unlink(missing_ok=True)
            write_settings(folder, spec, trajectories, source)
    go = _train_staged if spec.method == "auto" else _train_at_once
    learnt_from, members, trained = go(
        trajectories,
        spec,
        functions=functions,
        observe=observe,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        resume=resume,
    )
    model = Model(trained.fields, _manifest(trajectories, learnt_from, spec, members, trained))
    if folder is not None:
        save_model(model, folder / MODEL_FILE)
        if trained.verdict is not None:
            with atomic_write(folder / VERDICT_FILE) as temporary:
                temporary.write_text(json.dumps(trained.verdict.to_dict(), indent=1) + "\n")
    return model


def _check_motion(spec: FitSpec, trajectories: Trajectories) -> None:
    """Something must move. A single state cannot: L is skew, so 0, and M∇E = 0 leaves M = 0 where E changes."""
    if not state_std(trajectories).any():
        raise InputError(
            f"no state ever moves ({', '.join(trajectories.names)} are constant): there is nothing to learn. "
            "Check which columns are the states."
        )
    if spec.model.field == "generic" and trajectories.n_states == 1:
        raise InputError(
            f"the data have one state, {trajectories.names[0]!r}, but x' = L∇E + M∇S needs two or more: alone, a state "
            "that conserves its energy stands still. Add the state it exchanges energy with (give all of them in "
            "--states), or learn without thermodynamics by model.field = 'plain'."
        )


def _train_at_once(trajectories: Trajectories, spec: FitSpec, **options: Any):
    """One stage: all members on all runs."""
    members = ensemble(trajectories, spec)
    return trajectories, members, train_members(members, spec, **options)


def _train_staged(trajectories: Trajectories, spec: FitSpec, **options: Any):
    """The weak form from several starts, refinement of the best on trajectories, a judgement on runs held out."""
    with graceful_interrupt() as should_stop:
        return _stages(trajectories, spec, should_stop=should_stop, **options)


def _stages(
    trajectories: Trajectories,
    spec: FitSpec,
    *,
    functions: KnownFunctions,
    observe: Observer | None,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    resume: bool,
    should_stop: Callable[[], bool],
) -> tuple[Trajectories, list[Member], Trained]:
    train_runs, judged = hold_out(trajectories, spec.refine.held_out)
    starts = max(spec.training.starts, spec.training.members)
    weak_spec = spec.model_copy(
        update={"method": "weak", "training": spec.training.model_copy(update={"members": starts})}
    )
    seconds = 0.0

    def in_weak(record: Record) -> None:
        nonlocal seconds
        seconds = record.seconds
        if observe is not None:
            observe(replace(record, steps=spec.total_steps))

    begun = ensemble(train_runs, weak_spec)
    weak_trained = train_members(
        begun,
        weak_spec,
        functions=functions,
        observe=in_weak,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        resume=resume,
        should_stop=should_stop,
    )
    scales = choose_scales(spec, train_runs)
    noise = _noise_levels(trajectories) / scales.scale
    scaled_judged = rescale(judged or train_runs, scales)
    # Near its floor the weak loss no longer tells good fields from bad ones, but their trajectories do.
    candidates = [member(weak_trained.fields, i) for i in range(starts)]
    judgements = misfits(candidates, scaled_judged, noise)
    best = np.argsort([j.mean for j in judgements], kind="stable")
    kept = [int(i) for i in best[: spec.training.members]]
    members = [begun[i] for i in kept]
    fields, found = [candidates[i] for i in kept], [judgements[i] for i in kept]
    losses = tuple(weak_trained.losses[i] for i in kept)
    diverged = tuple(weak_trained.diverged_at[i] for i in kept)
    # The weak loss does not tell these from each other, that of refinement does.
    told_by = tuple(np.inf for _ in kept)
    steps_done, ended_early = weak_trained.steps_done, False
    if steps_done >= spec.training.steps and spec.refine.steps > 0 and not should_stop():

        def in_refinement(record: Record) -> None:
            if observe is not None:
                observe(
                    replace(
                        record,
                        step=record.step + spec.training.steps,
                        steps=spec.total_steps,
                        seconds=seconds + record.seconds,
                        stage="refine",
                    )
                )

        refined = refine(
            fields,
            found,
            rescale(train_runs, scales),
            scaled_judged,
            noise,
            spec.refine,
            spec.training,
            seeds=[m.seed for m in members],
            names=[m.name for m in members],
            observe=in_refinement,
            checkpoint=None if checkpoint is None else _refining(checkpoint),
            checkpoint_seconds=checkpoint_seconds,
            should_stop=should_stop,
        )
        steps_done += refined.steps_done
        fields, found, ended_early = refined.fields, refined.misfits, refined.ended_early
        told_by = refined.losses
    served = best_member(found, told_by, scaled_judged)
    return (
        train_runs,
        members,
        Trained(
            fields=stack(fields),
            losses=losses,
            diverged_at=diverged,
            steps_done=steps_done,
            misfits=tuple(m.mean for m in found),
            served=served,
            verdict=judge(
                found[served],
                scaled_judged,
                noise,
                held_out=judged is not None,
                chi_square=weak_chi_square(spec, fields[served], scaled_judged, noise),
                coverage=coverage(found, scaled_judged, noise),
                ended_at=steps_done if ended_early else None,
            ),
        ),
    )


def weak_chi_square(
    spec: FitSpec, field: Field, runs: Trajectories, noise: Float64[np.ndarray, " state"]
) -> Float64[np.ndarray, " state"]:
    r"""Weak residuals against what noise makes of them, by state: $\sum r^2 / \sum \delta r^2$.

    $\delta r$ is the change of the residuals by fresh noise on top of that in the data, inside the field too, so that
    the errors in its argument count as what they are. `runs` and `noise` in the coordinates of the field.
    """

    def residual(runs: Trajectories) -> Float64[np.ndarray, "state equation"]:
        equations = make_equations(spec, runs)
        values = np.asarray(equations.residual(field), np.float64)
        mask = equations.mask()
        values = values if mask is None else values * np.asarray(mask)
        return values.reshape(len(values), -1)

    rng = np.random.default_rng(0)
    here = residual(runs)
    changes = [residual(_with_more_noise(runs, noise, rng)) - here for _ in range(_NOISE_DRAWS)]
    return (here**2).sum(axis=1) / np.mean([(c**2).sum(axis=1) for c in changes], axis=0)


def _with_more_noise(
    runs: Trajectories, noise: Float64[np.ndarray, " state"], rng: np.random.Generator
) -> Trajectories:
    return Trajectories.from_arrays(
        [run.x + (noise if run.sigma is None else run.sigma) * rng.standard_normal(run.x.shape) for run in runs.runs],
        [run.t for run in runs.runs],
        names=runs.names,
    )


def hold_out(trajectories: Trajectories, part: float) -> tuple[Trajectories, Trajectories | None]:
    """Runs to learn from and runs to judge by, drawn once and for all; none of the latter from fewer than five."""
    n = len(trajectories)
    count = max(1, round(part * n)) if n >= _FEWEST_TO_HOLD_OUT and part > 0 else 0
    order = np.random.default_rng(0).permutation(n)
    if count == 0:
        return trajectories, None
    return trajectories.subset(np.sort(order[count:])), trajectories.subset(np.sort(order[:count]))


def _noise_levels(trajectories: Trajectories) -> Float64[np.ndarray, " state"]:
    """The noise of each state, no smaller than what a field may miss of clean data."""
    spread = state_std(trajectories)
    spread = np.where(spread > 0, spread, 1.0)
    return np.fmax(estimate_noise(trajectories), _SMALLEST_NOISE * spread)


def _refining(checkpoint: Path) -> Path:
    """The checkpoint of the second stage, beside that of the first."""
    return checkpoint.with_name(f"refine_{checkpoint.name}")


def steps_reached(folder: Path) -> int:
    """The step that the checkpoints in a run's folder have reached, over all stages."""
    checkpoint = folder / CHECKPOINT_FILE
    second = _refining(checkpoint)
    return checkpoint_step(checkpoint) + (checkpoint_step(second) if second.exists() else 0)


def _manifest(
    trajectories: Trajectories,
    learnt_from: Trajectories,
    spec: FitSpec,
    members: Sequence[Member],
    trained: Trained,
) -> Manifest:
    """`learnt_from` are the runs whose coordinates the networks live in."""
    reports = tuple(
        MemberManifest(
            name=m.name,
            seed=m.seed,
            loss=loss if math.isfinite(loss) else None,
            diverged_at=diverged,
            misfit=trained.misfits[i] if trained.misfits else None,
        )
        for i, (m, loss, diverged) in enumerate(zip(members, trained.losses, trained.diverged_at, strict=True))
    )
    return Manifest(
        model=spec.model,
        names=trajectories.names,
        units=trajectories.units,
        time_unit=trajectories.time_unit,
        scales=choose_scales(spec, learnt_from).to_dict(),
        dtype=spec.training.dtype,
        members=reports,
        served=serve_index(list(trained.losses)) if trained.served is None else trained.served,
        steps_done=trained.steps_done,
        settings=spec.model_dump(mode="json", exclude_none=True),
        data=describe_data(trajectories),
        versions=versions(),
    )


def write_settings(folder: Path, spec: FitSpec, trajectories: Trajectories, source: str | None) -> None:
    """Everything `resume` needs: the settings, and which data they were for."""
    content: dict[str, Any] = {
        "data": {"digest": trajectories.digest()},
        "fit": spec.model_dump(exclude_none=True),
    }
    if source is not None:
        content["data"]["source"] = source
    with atomic_write(folder / SETTINGS_FILE) as temporary:
        temporary.write_text(tomli_w.dumps(content))


def _log_into(folder: Path, spec: FitSpec, observe: Observer | None, *, resume: bool) -> Observer:
    """An observer that appends each due record to the folder's metrics and passes every record on."""
    path = folder / METRICS_FILE
    done = _records_until_checkpoint(folder) if resume else []
    with atomic_write(path) as temporary:
        temporary.write_text("".join(json.dumps(r) + "\n" for r in done))
    last_logged = done[-1]["step"] if done else 0

    def log(record: Record) -> None:
        nonlocal last_logged
        due = record.step // spec.training.log_every > last_logged // spec.training.log_every
        if due or record.step == record.steps:
            with path.open("a") as file:
                file.write(json.dumps(finite(record.to_dict())) + "\n")
            last_logged = record.step
        if observe is not None:
            observe(record)

    return log


def _records_until_checkpoint(folder: Path) -> list[dict[str, Any]]:
    """The records already written that the checkpoint beside them has reached."""
    path = folder / METRICS_FILE
    if not path.exists():
        return []
    step = steps_reached(folder)
    # Only whole lines: a process killed while it wrote leaves a part of one, which lies behind the checkpoint.
    records = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [r for r in records if r["step"] <= step]


def finite(value: Any) -> Any:
    """JSON has no infinity: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
