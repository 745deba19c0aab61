"""One stage of a fit: members with their data and settings, their equations, all trained in one program."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt

from wgfinn._device import on_cpu
from wgfinn._errors import InputError
from wgfinn.artefact import Verdict
from wgfinn.data import Scales, Trajectories, cut, state_std
from wgfinn.fitting.choices import choose_scales, item_length, resolve
from wgfinn.fitting.spec import FitSpec
from wgfinn.losses import (
    AbstractEquations,
    AttentionSpec,
    ScatteredWeakEquations,
    StrongEquations,
    WeakEquations,
    is_regular,
    state_weights,
)
from wgfinn.models import (
    NO_FUNCTIONS,
    AbstractField,
    Box,
    KnownFunctions,
    Physics,
    build,
    directed,
    know,
    require_consistency,
    undirected,
)
from wgfinn.training import (
    AbstractOptimiser,
    MemberSettings,
    Observer,
    OptimiserSpec,
    Problem,
    Structure,
    TrainState,
    graceful_interrupt,
    initial_states,
    load_checkpoint,
    make_optimiser,
    save_checkpoint,
    stack,
    take_apart,
    train,
)

_STATES_TO_TRY = 200


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
    judged: Trajectories | None = None,
) -> Trained:
    """Train all members in one program. Members with data of their own must agree in every shape.

    Each member's best weights are those of least loss over the runs `judged`; over those it learns from if there are
    none.

    Ends early at Ctrl-C, or when the caller's `should_stop` says so.
    """
    spec = resolve(spec, members[0].trajectories)
    dtype = spec.training.dtype
    n_states = members[0].trajectories.n_states
    own_data = any(m.trajectories is not members[0].trajectories for m in members)
    physics = known_physics(members, spec, functions)
    weights, structure = _starts(spec, members, physics)
    settings = stack([MemberSettings.create(m.seed, m.optimiser, m.attention, dtype) for m in members])
    optimiser = make_optimiser(members[0].optimiser, structure.shapes)
    states = initial_states(weights, settings, n_states, optimiser)
    problems = [
        make_problem(spec, m.trajectories, judged, structure, optimiser) for m in (members if own_data else members[:1])
    ]
    problem = _stack_problems(problems) if own_data else problems[0]
    seconds = 0.0
    if resume:
        assert checkpoint is not None
        states, seconds = load_checkpoint(checkpoint, states)
    with graceful_interrupt() if should_stop is None else nullcontext(should_stop) as stop:
        states = train(
            states,
            settings,
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
    return _trained(states, structure)


def _starts(
    spec: FitSpec, members: Sequence[Member], physics: Physics
) -> tuple[Float[Array, "member weight"], Structure]:
    """The first weights of each member, and what is not weights, which they share."""
    scaled = rescale(members[0].trajectories, choose_scales(spec, members[0].trajectories))
    states = np.concatenate([run.x for run in scaled.runs])

    @eqx.filter_jit
    def start(seed: UInt[Array, ""]) -> tuple[jax.Array, Structure]:
        box = Box.around(states, spec.training.dtype) if spec.model.confined else None
        field = build(spec.model, scaled.n_states, key=jax.random.key(seed), physics=physics, box=box)
        return take_apart(undirected(field, physics), spec.training.dtype)

    # On the processor: an accelerator would compile this for longer than all of it takes here.
    with on_cpu():
        weights, structures = zip(*(start(jnp.asarray(m.seed, jnp.uint32)) for m in members), strict=True)
    return stack(weights), jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), structures[0])


def fresh_field(spec: FitSpec, members: Sequence[Member], functions: KnownFunctions = NO_FUNCTIONS) -> AbstractField:
    """The first member's field before its training."""
    weights, structure = _starts(spec, members[:1], known_physics(members[:1], spec, functions))
    return jax.device_get(directed(structure.field(weights[0])))


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


def check_physics(physics: Physics, spec: FitSpec, trajectories: Trajectories) -> None:
    """Known pieces are tried at states drawn from the data."""
    if not physics.knows_nothing:
        states = np.concatenate([run.x for run in trajectories.runs])
        drawn = np.random.default_rng(0).permutation(len(states))[:_STATES_TO_TRY]
        require_consistency(physics, trajectories.names, choose_scales(spec, trajectories), states[drawn])


def make_problem(
    spec: FitSpec,
    trajectories: Trajectories,
    judged: Trajectories | None,
    structure: Structure,
    optimiser: AbstractOptimiser,
) -> Problem:
    """What a stage on the equations of `spec` makes small, in the coordinates of `trajectories`."""
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
        judged=None if judged is None else make_equations(spec, rescale(judged, scales)),
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
        fields=jax.device_get(jax.vmap(directed)(structure.fields(states.best))),
        losses=tuple(float(loss) for loss in losses),
        diverged_at=tuple(int(d) if d >= 0 else None for d in diverged),
        steps_done=int(states.step[0]),
    )
