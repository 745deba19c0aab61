"""The second stage of a fit: learnt fields refined on whole trajectories by multiple shooting (`losses.shooting`).

The weak form finds the basin; its noisy states inside the field bias what lies at its bottom. Here no measured state
enters the field, so that the noise averages out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Float64
from pydantic import Field as Key

from wgfinn._spec import Spec
from wgfinn.data import Trajectories
from wgfinn.losses import (
    AttentionSpec,
    FieldAndStarts,
    ShootingEquations,
    Shots,
    fresh_starts,
    make_shots,
    part_that_leaves,
    run_misfits,
)
from wgfinn.models import AbstractField
from wgfinn.training import (
    MemberSettings,
    Observer,
    OptimiserSpec,
    Problem,
    TrainingSpec,
    TrainState,
    beside_checkpoint,
    check_starts,
    initial_states,
    load_checkpoint,
    make_optimiser,
    member,
    over_members,
    save_checkpoint,
    stack,
    take_apart,
    train,
)

_SAMPLES_PER_STEP = 6400
_LONGEST_PART = 801
_LOST = 1e3
_SETBACK = 1.5
_MAY_LEAVE = 0.02
# 95 % of a Gaussian.
_TWO_SIDED = 1.96
# A held-out run in double precision, so that the integrator's rounding is no part of the misfit.
_MISFIT_DTYPE = "float64"


@dataclass(frozen=True)
class Misfit:
    """How far predictions lie from measurements, in noise levels (root mean square): 1 means as well as the truth."""

    per_run: Float64[np.ndarray, " traj"]
    per_state: Float64[np.ndarray, " state"]
    predicted: Float64[np.ndarray, "time state traj"] | None = None
    """The predictions themselves, runs padded to one length."""

    @property
    def typical(self) -> float:
        """The median over the runs."""
        return float(np.median(self.per_run))

    @property
    def mean(self) -> float:
        """The mean over the runs, lost ones at a large but finite distance: what members are chosen by."""
        return float(np.mean(np.minimum(self.per_run, _LOST)))


def misfits(
    fields: Sequence[AbstractField], trajectories: Trajectories, noise: Float64[np.ndarray, " state"]
) -> list[Misfit]:
    """Whole runs predicted by each field with the initial state refitted; one that diverges is infinitely far."""
    with jax.enable_x64(True):
        shots = make_shots(trajectories, noise, window=None, longest=_LONGEST_PART, dtype=_MISFIT_DTYPE)
        double = stack([jax.tree.map(lambda leaf: np.asarray(leaf, _MISFIT_DTYPE), field) for field in fields])
        squares, predicted = (np.asarray(a, np.float64) for a in _run_misfits(double, shots))
    squares = np.where(np.isnan(squares) & np.asarray((shots.weight > 0).any(axis=(0, 3))), np.inf, squares)
    return [
        Misfit(np.sqrt(np.nanmean(s, axis=0)), np.sqrt(np.nanmedian(s, axis=1)), x)
        for s, x in zip(squares, predicted, strict=True)
    ]


@eqx.filter_jit
def _run_misfits(fields: AbstractField, shots: Shots) -> tuple[jax.Array, jax.Array]:
    return over_members(lambda field: run_misfits(field, shots), fields)


def coverage(found: Sequence[Misfit], trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> float | None:
    r"""Share of the measurements within $1.96\sqrt{s^2 + \sigma^2}$ of the members' mean, with s their standard
    deviation at that time and σ the noise: 0.95 if members differ as far as they are wrong. None for one member."""
    predicted = np.array([m.predicted for m in found if m.predicted is not None and np.isfinite(m.predicted).all()])
    if len(predicted) < 2:
        return None
    shots = make_shots(trajectories, noise, window=None, longest=_LONGEST_PART, dtype="float32")
    measured, weight = (np.asarray(a, np.float64)[..., 0] for a in (shots.measured, shots.weight))
    exists = weight > 0
    spread = np.sqrt(predicted.var(axis=0, ddof=1)[exists] + 1 / weight[exists] ** 2)
    return float(np.mean(np.abs(measured - predicted.mean(axis=0))[exists] <= _TWO_SIDED * spread))


def resolution(judged: Trajectories) -> float:
    r"""How far apart misfits must be, as a part of one, to tell fields apart: N samples with Gaussian noise have a root
    mean square of relative standard deviation $1 / \sqrt{2N}$."""
    return 1 / np.sqrt(2 * sum(np.isfinite(run.x).sum() for run in judged.runs))


def best_member(found: Sequence[Misfit], losses: Sequence[float], judged: Trajectories) -> int:
    """The member of least misfit; of those that the runs held out do not tell from it, the one of least loss."""
    means = [m.mean for m in found]
    equal = (1 + resolution(judged)) * min(means)
    return min(range(len(means)), key=lambda i: (means[i] > equal, losses[i], means[i]))


class RefineSpec(Spec):
    """Multiple shooting after the weak stage."""

    steps: int = Key(default=6_000, ge=0, description="optimiser steps at most; 0 leaves the stage out")
    window: int = Key(default=20, ge=1, description="samples from one free state to the next at most")
    continuity: float = Key(default=100.0, gt=0, description="weight of the gaps between windows, in noise variances")
    held_out: float = Key(default=0.1, ge=0, lt=1, description="part of the runs kept for judging (from five runs on)")
    judge_every: int = Key(default=1_000, ge=1, description="steps between two looks at the runs held out")
    patience: int = Key(default=2, ge=1, description="looks in which no member gains, after which the stage ends")
    optimiser: OptimiserSpec = OptimiserSpec(name="soap", rate=3e-3, decay=0.85, decay_every=300)


@dataclass(frozen=True)
class Refined:
    """Each member's best field by the runs held out, the one it came with among them, and how far the stage came."""

    fields: list[AbstractField]
    misfits: list[Misfit]
    losses: tuple[float, ...]
    """Of these fields on the runs learnt from; infinite for a member that came with its best."""
    steps_done: int
    ended_early: bool

    @classmethod
    def untouched(cls, fields: list[AbstractField], misfits: list[Misfit]) -> "Refined":
        """Without this stage."""
        return cls(fields, misfits, tuple(np.inf for _ in fields), 0, ended_early=False)


def refine(
    fields: Sequence[AbstractField],
    before: Sequence[Misfit],
    trajectories: Trajectories,
    judged: Trajectories,
    noise: Float64[np.ndarray, " state"],
    spec: RefineSpec,
    training: TrainingSpec,
    *,
    seeds: Sequence[int],
    names: Sequence[str],
    observe: Observer | None,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    should_stop: Callable[[], bool],
) -> Refined:
    """Train `fields`, whose misfits are `before`, further on `trajectories`, and look at the runs `judged` every so
    often: the latest that predicts them as well as any before is kept, and where no member gains any more the stage
    ends.

    All in one set of coordinates. Goes on from `checkpoint` if it is there, to the same end.
    """
    window = steady_window(fields, trajectories, noise, spec.window, training.dtype)
    shots = make_shots(trajectories, noise, window=window, longest=_LONGEST_PART, dtype=training.dtype)
    equations = ShootingEquations(shots, spec.continuity)
    parts = [take_apart(FieldAndStarts(field, fresh_starts(shots)), training.dtype) for field in fields]
    structure = parts[0][1]
    optimiser = make_optimiser(spec.optimiser, structure.shapes)
    settings = stack([MemberSettings.create(s, spec.optimiser, AttentionSpec(), training.dtype) for s in seeds])
    states = initial_states(stack([w for w, _ in parts]), settings, trajectories.n_states, optimiser)
    longest = max(len(run.t) for run in trajectories.runs)
    batch = max(1, round(_SAMPLES_PER_STEP / min(longest, _LONGEST_PART)))
    problem = Problem(
        equations=equations,
        weights=jnp.ones(trajectories.n_states, training.dtype),
        structure=structure,
        batch=None if batch >= equations.n_items else batch,
        optimiser=optimiser,
        setback=_SETBACK,
    )
    states = check_starts(states, settings, problem)
    kept = _Kept(
        weights=np.stack([np.asarray(w) for w, _ in parts]),
        losses=np.full(len(fields), np.inf),
        least=np.array([m.mean for m in before]),
        reference=np.array([m.mean for m in before]),
        step=0,
        looks_without_gain=0,
    )
    tie = resolution(judged)
    seconds = 0.0
    if checkpoint is not None and checkpoint.exists():
        states, seconds = load_checkpoint(checkpoint, states)
        kept = _Kept.from_arrays(beside_checkpoint(checkpoint))

    def save(states: TrainState, until: float) -> None:
        nonlocal seconds
        seconds = until
        if checkpoint is not None:
            save_checkpoint(checkpoint, states, until, kept.to_arrays())

    def fields_of(weights: jax.Array) -> list[AbstractField]:
        stacked = structure.fields(weights).field
        return [member(stacked, i) for i in range(len(fields))]

    def look(states: TrainState) -> _Kept:
        found = misfits(fields_of(states.best), judged, noise)
        return kept.after(states, np.array([m.mean for m in found]), tie)

    step = int(states.step[0])
    while step < spec.steps and kept.looks_without_gain < spec.patience and not should_stop():
        until = min(spec.steps, (step // spec.judge_every + 1) * spec.judge_every)
        states = train(
            states,
            settings,
            problem,
            training.model_copy(update={"steps": until}),
            names,
            observe=observe,
            save=save,
            save_every=checkpoint_seconds,
            seconds_before=seconds,
            should_stop=should_stop,
        )
        step = int(states.step[0])
        if step == until and step > kept.step:
            kept = look(states)
            save(states, seconds)
    if step > kept.step:
        # Interrupted between two looks: what was reached counts, but a resumed run looks where it would have.
        kept = look(states)
    best = fields_of(jnp.asarray(kept.weights, training.dtype))
    return Refined(
        fields=best,
        misfits=misfits(best, judged, noise),
        losses=tuple(float(loss) for loss in kept.losses),
        steps_done=step,
        ended_early=step < spec.steps and not should_stop(),
    )


def steady_window(
    fields: Sequence[AbstractField],
    trajectories: Trajectories,
    noise: Float64[np.ndarray, " state"],
    longest: int,
    dtype: str,
) -> int:
    """The longest of `longest`, a half, a quarter of it ... in which the fields (their median) keep nearly all windows.

    Where a small displacement grows many times within a window, as beside the few directions in which data with many
    states really move, a step of the optimiser throws most windows out of the data and nothing is left to learn from.
    """
    window = longest
    while window > 1:
        shots = make_shots(trajectories, noise, window=window, longest=_LONGEST_PART, dtype=dtype)
        if np.median(_parts_that_leave(stack(fields), shots)) <= _MAY_LEAVE:
            break
        window //= 2
    return window


@eqx.filter_jit
def _parts_that_leave(fields: AbstractField, shots: Shots) -> jax.Array:
    return over_members(lambda field: part_that_leaves(field, shots), fields)


@dataclass(frozen=True)
class _Kept:
    """Each member's latest weights that no earlier ones beat on the runs held out, their loss, the least misfit seen
    until `step`, that of its last gain, and for how many looks none has gained."""

    weights: Float[np.ndarray, "member weight"]
    losses: Float64[np.ndarray, " member"]
    least: Float64[np.ndarray, " member"]
    reference: Float64[np.ndarray, " member"]
    step: int
    looks_without_gain: int

    def after(self, states: TrainState, found: Float64[np.ndarray, " member"], tie: float) -> "_Kept":
        """`found` are the misfits at `states`; those that differ by less than `tie` are equal, and the later, of lower
        loss, is then the better one."""
        better = found <= (1 + tie) * self.least
        # Since the last gain: small ones from look to look add up.
        gained = found < (1 - tie) * self.reference
        return _Kept(
            weights=np.where(better[:, None], np.asarray(states.best), self.weights),
            losses=np.where(better, np.asarray(states.best_loss, np.float64), self.losses),
            least=np.minimum(found, self.least),
            reference=np.where(gained, found, self.reference),
            step=int(states.step[0]),
            looks_without_gain=0 if gained.any() else self.looks_without_gain + 1,
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "_Kept":
        step, looks = int(arrays["step"]), int(arrays["looks_without_gain"])
        return cls(arrays["weights"], arrays["losses"], arrays["least"], arrays["reference"], step, looks)
