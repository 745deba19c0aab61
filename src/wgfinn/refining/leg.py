"""A leg of the refinement: windows of one length, and everything that is trained on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from wgfinn.data import Trajectories
from wgfinn.losses import (
    AttentionSpec,
    FieldAndStarts,
    ShootingEquations,
    Shots,
    fresh_starts,
    make_shots,
    part_that_leaves,
    starts_along,
)
from wgfinn.models import AbstractField, confined_like, freed
from wgfinn.refining.misfit import LONGEST_PART
from wgfinn.refining.spec import RefineSpec
from wgfinn.training import (
    MemberSettings,
    Problem,
    Structure,
    TrainingSpec,
    TrainState,
    check_starts,
    initial_states,
    make_optimiser,
    member,
    over_members,
    stack,
    take_apart,
)

_SAMPLES_PER_STEP = 6400
_SETBACK = 1.5
_MAY_LEAVE = 0.02


@dataclass(frozen=True)
class Data:
    """What all legs learn from, in the coordinates of the fields."""

    trajectories: Trajectories
    noise: Float64[np.ndarray, " state"]
    dtype: str

    @property
    def longest_window(self) -> int:
        """Whole runs, or the parts that they are cut into."""
        return min(max(len(run.t) for run in self.trajectories.runs), LONGEST_PART) - 1

    def shots(self, window: int) -> Shots:
        return make_shots(self.trajectories, self.noise, window=window, longest=LONGEST_PART, dtype=self.dtype)


@dataclass(frozen=True)
class Entrant:
    """A member at the door of the refinement."""

    name: str
    seed: int
    weight_decay: float


def worth_refining(trajectories: Trajectories, training: TrainingSpec) -> int:
    """How many starts to refine at first: more than members are asked for where steps are cheap."""
    cheaper = _SAMPLES_PER_STEP / min(_SAMPLES_PER_STEP, sum(len(run.t) for run in trajectories.runs))
    return max(training.members, min(training.starts, int(cheaper * training.members)))


@dataclass(frozen=True)
class Leg:
    """Windows of one length, what is trained on them, and how far it has come.

    Fields are trained as they are everywhere, so that they may learn to come back from outside of their box, and judged
    as they are served, confined to it.
    """

    entrants: tuple[Entrant, ...]
    window: int
    shots: Shots
    structure: Structure
    problem: Problem
    settings: MemberSettings
    states: TrainState
    served: AbstractField
    """One of the fields as they are served: what is confined in it, and to what."""

    @property
    def step(self) -> int:
        """Steps of this and of all earlier legs."""
        return int(self.states.step[0])

    def only(self, indices: Sequence[int]) -> "Leg":
        """The same with these members alone."""
        settings, states = jax.tree.map(lambda leaf: leaf[jnp.asarray(indices)], (self.settings, self.states))
        return replace(self, entrants=tuple(self.entrants[i] for i in indices), settings=settings, states=states)

    @property
    def best(self) -> Float[np.ndarray, "member weight"]:
        """The weights of the members' best fields on this leg, without the starts of the windows."""
        return np.asarray(self.states.best)[:, : -self.shots.first.size]

    def fields(self, weights: Float[np.ndarray, "member weight"]) -> list[AbstractField]:
        """Fields of these weights, from this leg or another."""
        no_starts = np.zeros((len(weights), self.shots.first.size), weights.dtype)
        stacked = self.structure.fields(jnp.asarray(np.concatenate([weights, no_starts], axis=1))).field
        return [confined_like(self.served, member(stacked, i)) for i in range(len(weights))]


def begin(
    fields: Sequence[AbstractField],
    data: Data,
    spec: RefineSpec,
    entrants: Sequence[Entrant],
    window: int,
    starts: Float[Array, "member state traj window"] | None = None,
) -> Leg:
    """The first leg, with windows that start where the measurements suggest, or from `starts`."""
    shots = data.shots(window)
    starts = jnp.stack([fresh_starts(shots)] * len(fields)) if starts is None else starts
    parts = [take_apart(FieldAndStarts(freed(f), s), data.dtype) for f, s in zip(fields, starts, strict=True)]
    structure = parts[0][1]
    optimiser = make_optimiser(spec.optimiser, structure.shapes)
    settings = stack([_settings(entrant, spec, data.dtype) for entrant in entrants])
    states = initial_states(stack([w for w, _ in parts]), settings, data.trajectories.n_states, optimiser)
    equations = ShootingEquations(shots, spec.continuity)
    longest = max(len(run.t) for run in data.trajectories.runs)
    batch = max(1, round(_SAMPLES_PER_STEP / min(longest, LONGEST_PART)))
    problem = Problem(
        equations=equations,
        weights=jnp.ones(data.trajectories.n_states, data.dtype),
        structure=structure,
        batch=None if batch >= equations.n_items else batch,
        optimiser=optimiser,
        setback=_SETBACK,
    )
    states = check_starts(states, settings, problem)
    return Leg(tuple(entrants), window, shots, structure, problem, settings, states, served=fields[0])


def _settings(entrant: Entrant, spec: RefineSpec, dtype: str) -> MemberSettings:
    """A weight decay of the refinement's own goes before that of the entrant."""
    decay = spec.optimiser.weight_decay or entrant.weight_decay
    optimiser = spec.optimiser.model_copy(update={"weight_decay": decay})
    return MemberSettings.create(entrant.seed, optimiser, AttentionSpec(), dtype)


def lengthened(leg: Leg, data: Data, spec: RefineSpec, longest: int) -> Leg:
    """The next leg, if the fields keep the data over longer windows by now, up to `longest`; `leg` itself if not.

    Its windows start on the trajectories of `leg`, its steps and its caution go on from there.
    """
    fields = leg.fields(leg.best)
    window = steady_window(fields, data, longest, at_least=leg.window)
    if window == leg.window:
        return leg
    starts = _starts_along(leg.structure.fields(leg.states.best), leg.shots, data.shots(window))
    following = begin(fields, data, spec, leg.entrants, window, starts)
    carried = lambda states: (states.step, states.caution)  # noqa: E731
    return replace(following, states=eqx.tree_at(carried, following.states, carried(leg.states)))


@eqx.filter_jit
def _starts_along(learnt: FieldAndStarts, shots: Shots, longer: Shots) -> Float[Array, "member state traj window"]:
    return over_members(lambda one: starts_along(one, shots, longer), learnt)


def steady_window(fields: Sequence[AbstractField], data: Data, longest: int, at_least: int = 1) -> int:
    """The longest of `longest`, a half, a quarter of it ... in which the fields (their median) keep nearly all windows.

    Where a small displacement grows many times within a window, as beside the few directions in which data with many
    states really move, a step of the optimiser throws most windows out of the data and nothing is left to learn from.
    """
    window, free = longest, stack([freed(field) for field in fields])
    while window > at_least and np.median(_parts_that_leave(free, data.shots(window))) > _MAY_LEAVE:
        window //= 2
    return max(window, at_least)


@eqx.filter_jit
def _parts_that_leave(fields: AbstractField, shots: Shots) -> jax.Array:
    return over_members(lambda field: part_that_leaves(field, shots), fields)
