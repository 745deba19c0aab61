"""From trajectories and settings to a model: coordinates, equations, training, model file, run folder."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tomli_w
from pydantic import Field as Key

from wgfinn._errors import InputError
from wgfinn._spec import Spec
from wgfinn.artefact import (
    Manifest,
    MemberManifest,
    Model,
    describe_data,
    save_model,
    serve_index,
    versions,
)
from wgfinn.data import DataSpec, Scales, Trajectories, atomic_write, cut, fair_length, state_std
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
from wgfinn.models import AbstractField, ModelSpec, build
from wgfinn.training import (
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
    save_checkpoint,
    stack,
    take_apart,
    train,
)
from wgfinn.weak import SMALLEST_WIDTH, TestFunctionSpec

MODEL_FILE = "model.wgfinn"
SETTINGS_FILE = "settings.toml"
METRICS_FILE = "metrics.jsonl"
CHECKPOINT_FILE = "checkpoint.npz"

_STATES_PER_STEP = 3200


class FitSpec(Spec):
    """All settings of a fit; each section belongs to one stage. The same keys serve Python and TOML."""

    method: Literal["weak", "strong"] = Key(default="weak", description="residual of the weak form, or of one step")
    coordinates: Literal["standardised", "physical"] = Key(
        default="standardised", description="where the networks live; the structure is exact in physical coordinates"
    )
    weights: Weights = Key(default="inverse_std", description="state weights W of the loss (paper: inverse_std)")
    data: DataSpec = Key(default=DataSpec(), description="roles of columns, for commands that read DATA")
    model: ModelSpec = ModelSpec()
    test_functions: TestFunctionSpec | None = Key(default=None, description="none: a tenth of the shortest run wide")
    attention: AttentionSpec = AttentionSpec()
    optimiser: OptimiserSpec = OptimiserSpec()
    training: TrainingSpec = TrainingSpec()


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


def ensemble(trajectories: Trajectories, spec: FitSpec) -> list[Member]:
    """The members that `spec` asks for: one data set, one seed each."""
    seeds = range(spec.training.seed, spec.training.seed + spec.training.members)
    return [Member(f"seed {seed}", seed, trajectories, spec.optimiser, spec.attention) for seed in seeds]


def choose_test_functions(trajectories: Trajectories) -> TestFunctionSpec:
    """The default for a data set: windows a tenth of the shortest run wide, within 10 to 100 samples.

    Where values are missing, wide enough for gaps to be short against them.
    """
    shortest = min(len(run.t) for run in trajectories.runs)
    width = min(100, max(min(shortest, 10), shortest // 10, SMALLEST_WIDTH))
    width = max(width, min(shortest, width_over_gaps(trajectories)))
    return TestFunctionSpec(width=width, degree=4, overlap=0.9)


def resolve(spec: FitSpec, trajectories: Trajectories) -> FitSpec:
    """`spec` with what depends on the data filled in."""
    chosen: dict[str, Any] = {}
    test_functions = spec.test_functions
    if spec.method == "weak" and test_functions is None:
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
    return max(1, round(_STATES_PER_STEP / longest)) if method == "weak" else _STATES_PER_STEP // 6


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
    observe: Observer | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> Trained:
    """Train all members in one program. Members with data of their own must agree in every shape."""
    spec = resolve(spec, members[0].trajectories)
    dtype = spec.training.dtype
    n_states = members[0].trajectories.n_states
    own_data = any(m.trajectories is not members[0].trajectories for m in members)
    weights, structures = zip(*(_start(spec, n_states, m.seed) for m in members), strict=True)
    settings = [MemberSettings.create(m.seed, m.optimiser, m.attention, dtype) for m in members]
    states = stack([initial_state(w, s, n_states) for w, s in zip(weights, settings, strict=True)])
    problems = [_problem(spec, m.trajectories, structures[0]) for m in (members if own_data else members[:1])]
    problem = _stack_problems(problems) if own_data else problems[0]
    seconds = 0.0
    if resume:
        assert checkpoint is not None
        states, seconds = load_checkpoint(checkpoint, states)
    with graceful_interrupt() as should_stop:
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
            should_stop=should_stop,
        )
    return _trained(states, structures[0])


def _start(spec: FitSpec, n_states: int, seed: int) -> tuple[jax.Array, Structure]:
    return take_apart(build(spec.model, n_states, key=jax.random.key(seed)), spec.training.dtype)


def _problem(spec: FitSpec, trajectories: Trajectories, structure: Structure) -> Problem:
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
    folder: Path | None = None,
    source: str | None = None,
    observe: Observer | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> Model:
    """Learn an ensemble from `trajectories`.

    With a `folder`, settings, metrics, checkpoints and the model file go there, and `resume` goes on from its
    checkpoint to the same numbers as a run that was never interrupted. Ctrl-C ends the training early; the
    model is what was best until then.
    """
    spec = resolve(spec, trajectories)
    if spec.method == "weak" and spec.test_functions is not None:
        # Before anything is written.
        require_windows(trajectories, spec.test_functions)
    members = ensemble(trajectories, spec)
    checkpoint = None
    if folder is not None:
        checkpoint = folder / CHECKPOINT_FILE
        observe = _log_into(folder / METRICS_FILE, spec, observe, resume=resume)
        if not resume:
            checkpoint.unlink(missing_ok=True)
            write_settings(folder, spec, trajectories, source)
    trained = train_members(
        members,
        spec,
        observe=observe,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        resume=resume,
    )
    model = Model(trained.fields, _manifest(trajectories, spec, members, trained))
    if folder is not None:
        save_model(model, folder / MODEL_FILE)
    return model


def _manifest(trajectories: Trajectories, spec: FitSpec, members: Sequence[Member], trained: Trained) -> Manifest:
    reports = tuple(
        MemberManifest(name=m.name, seed=m.seed, loss=loss if math.isfinite(loss) else None, diverged_at=diverged)
        for m, loss, diverged in zip(members, trained.losses, trained.diverged_at, strict=True)
    )
    return Manifest(
        model=spec.model,
        names=trajectories.names,
        units=trajectories.units,
        scales=choose_scales(spec, trajectories).to_dict(),
        dtype=spec.training.dtype,
        members=reports,
        served=serve_index(list(trained.losses)),
        steps_done=trained.steps_done,
        settings=spec.model_dump(exclude_none=True),
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


def _log_into(path: Path, spec: FitSpec, observe: Observer | None, *, resume: bool) -> Observer:
    """An observer that appends each due record to `path` and passes every record on."""
    done = _records_until_checkpoint(path) if resume else []
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


def _records_until_checkpoint(path: Path) -> list[dict[str, Any]]:
    """The records already written that the checkpoint beside them has reached."""
    if not path.exists():
        return []
    step = checkpoint_step(path.with_name(CHECKPOINT_FILE))
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
