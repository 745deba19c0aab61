"""The default method: the weak form from several starts, the best polished where there is little noise and refined on
trajectories, a judgement on runs held out."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from wgfinn._device import platform
from wgfinn._types import Field
from wgfinn.data import Trajectories
from wgfinn.fitting.choices import choose_decays, choose_scales, hold_out, noise_levels
from wgfinn.fitting.folder import refinement_checkpoint
from wgfinn.fitting.members import Member, Trained, ensemble, fresh_field, make_equations, rescale, train_members
from wgfinn.fitting.polishing import Polish, worth_polishing
from wgfinn.fitting.spec import FitSpec
from wgfinn.losses import AbstractEquations
from wgfinn.models import AbstractField, KnownFunctions
from wgfinn.refining import (
    FEW_RUNS,
    Entrant,
    Misfit,
    Refined,
    best_member,
    coverage,
    misfits,
    prepare,
    refine,
    telling,
    worth_refining,
)
from wgfinn.training import Observer, Record, graceful_interrupt, member, stack
from wgfinn.verdict import judge

_NOISE_DRAWS = 4


@dataclass(frozen=True)
class _Chosen:
    """The starts that go on: their fields, how far these miss the runs held out, and how the weak stage left them."""

    members: list[Member]
    fields: list[AbstractField]
    misfits: list[Misfit]
    losses: tuple[float, ...]
    diverged_at: tuple[int | None, ...]


def train_staged(
    trajectories: Trajectories, spec: FitSpec, **options: Any
) -> tuple[Trajectories, list[Member], Trained]:
    """All stages; also the runs that were learnt from and the members that were chosen. `mended`: the part of the
    measurements that was put between their neighbours, which the verdict tells."""
    with graceful_interrupt() as should_stop:
        return _stages(trajectories, spec, should_stop=should_stop, **options)


def _stages(
    trajectories: Trajectories,
    spec: FitSpec,
    *,
    functions: KnownFunctions,
    mended: float,
    observe: Observer | None,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    resume: bool,
    should_stop: Callable[[], bool],
) -> tuple[Trajectories, list[Member], Trained]:
    train_runs, judged = hold_out(trajectories, spec.refine.held_out)
    scales = choose_scales(spec, train_runs)
    noise = noise_levels(trajectories) / scales.scale
    scaled_judged = rescale(judged or train_runs, scales)
    clock = _Clock(spec, observe)
    weak_stage = _weak_stage(spec)
    # The weights of the weak stage go by the runs held out only where these are many: by a few they would be those of
    # its first steps, wherever the few lie outside of the others.
    stopped_by = judged if judged is not None and len(judged) > FEW_RUNS else None
    begun = _with_decays(ensemble(train_runs, weak_stage), choose_decays(spec, train_runs))
    count = worth_refining(train_runs, spec.training)

    def prepare_refinement() -> None:
        field = fresh_field(weak_stage, begun, functions)
        prepare(field, rescale(train_runs, scales), noise, spec.refine, spec.training, count)

    def prepare_polish() -> None:
        if spec.polish.steps > 0:
            Polish(weak_stage, train_runs, begun[:count]).compiled(fresh_field(weak_stage, begun, functions))

    def prepare_choice() -> None:
        misfits([fresh_field(weak_stage, begun, functions)], scaled_judged, noise)

    ahead = spec.refine.steps > 0 and platform() != "cpu"
    with _meanwhile(prepare_refinement, prepare_polish, prepare_choice) if ahead else nullcontext():
        started = train_members(
            begun,
            weak_stage,
            functions=functions,
            observe=clock.in_weak_stage,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
            should_stop=should_stop,
            judged=stopped_by,
        )
        chosen = _choose(begun, started, scaled_judged, noise, count)
    later = None if checkpoint is None else refinement_checkpoint(checkpoint)
    goes_on = started.steps_done >= spec.training.steps
    # A run resumed in its refinement has been polished before.
    due = spec.polish.steps > 0 and goes_on and not should_stop() and (later is None or not later.exists())
    if due and worth_polishing(chosen.fields, chosen.misfits, rescale(train_runs, scales), scaled_judged, noise):
        polished = Polish(weak_stage, train_runs, chosen.members)(
            chosen.fields, chosen.misfits, scaled_judged, noise, observe=clock.in_polish, should_stop=should_stop
        )
        chosen = replace(chosen, fields=polished[0], misfits=polished[1])
    refined = Refined.untouched(chosen.fields, chosen.misfits)
    if goes_on and spec.refine.steps > 0 and not should_stop():
        refined = refine(
            chosen.fields,
            chosen.misfits,
            rescale(train_runs, scales),
            scaled_judged,
            noise,
            spec.refine,
            spec.training,
            entrants=[Entrant(m.name, m.seed, m.optimiser.weight_decay) for m in chosen.members],
            observe=clock.in_refinement,
            checkpoint=later,
            checkpoint_seconds=checkpoint_seconds,
            should_stop=should_stop,
        )
    refined = refined.best(spec.training.members, scaled_judged, noise)
    steps_done = started.steps_done + refined.steps_done
    served = best_member(refined.misfits, refined.losses, scaled_judged, noise)
    verdict = judge(
        refined.misfits[served],
        scaled_judged,
        noise,
        held_out=judged is not None,
        chi_square=weak_chi_square(spec, refined.fields[served], scaled_judged, noise),
        coverage=coverage(refined.misfits, scaled_judged, noise),
        ended_at=steps_done if refined.ended_early else None,
        entropy=spec.model.entropy,
        mended=mended,
    )
    trained = Trained(
        fields=stack(refined.fields),
        losses=tuple(chosen.losses[i] for i in refined.indices),
        diverged_at=tuple(chosen.diverged_at[i] for i in refined.indices),
        steps_done=steps_done,
        misfits=tuple(m.mean for m in refined.misfits),
        served=served,
        verdict=verdict,
    )
    return train_runs, [chosen.members[i] for i in refined.indices], trained


@contextmanager
def _meanwhile(*works: Callable[[], None]) -> Iterator[None]:
    """Each of `works` in a thread of its own beside what is inside; all are done at the end."""
    # A thread has settings of its own.
    double = jnp.result_type(float) == jnp.float64

    def as_here(work: Callable[[], None]) -> None:
        with jax.enable_x64(double):
            work()

    with ThreadPoolExecutor(len(works)) as pool:
        begun = [pool.submit(as_here, work) for work in works]
        yield
    for thread in begun:
        thread.result()


def _weak_stage(spec: FitSpec) -> FitSpec:
    """The settings of the first stage: every start is a member."""
    starts = max(spec.training.starts, spec.training.members)
    return spec.model_copy(update={"method": "weak", "training": spec.training.model_copy(update={"members": starts})})


def _with_decays(members: Sequence[Member], decays: Sequence[float]) -> list[Member]:
    """The members with these weight decays in turn."""
    return [
        replace(m, optimiser=m.optimiser.model_copy(update={"weight_decay": decays[i % len(decays)]}))
        for i, m in enumerate(members)
    ]


def _choose(
    begun: Sequence[Member], started: Trained, judged: Trajectories, noise: Float64[np.ndarray, " state"], count: int
) -> _Chosen:
    """The `count` starts of least misfit: near its floor the weak loss no longer tells good fields from bad ones, but
    their trajectories do. Where all lose every run, it is the weak loss that tells.

    Those of each weight decay in turn: what a strong one keeps a field from fitting now, refinement soon makes up for.
    """
    candidates = [member(started.fields, i) for i in range(len(begun))]
    found = misfits(candidates, judged, noise)
    told = telling(found, judged, noise)
    order = sorted(range(len(begun)), key=lambda i: (told[i], started.losses[i]))
    decays = [begun[i].optimiser.weight_decay for i in order]
    place = [decays[:k].count(decay) for k, decay in enumerate(decays)]
    best = [order[k] for k in sorted(range(len(order)), key=lambda k: (place[k], k))[:count]]
    return _Chosen(
        members=[begun[i] for i in best],
        fields=[candidates[i] for i in best],
        misfits=[found[i] for i in best],
        losses=tuple(started.losses[i] for i in best),
        diverged_at=tuple(started.diverged_at[i] for i in best),
    )


class _Clock:
    """Records of both stages told as one training: steps and seconds go on from the first to the second."""

    def __init__(self, spec: FitSpec, observe: Observer | None):
        self._spec, self._observe, self._before, self._seconds = spec, observe, 0.0, 0.0

    def in_weak_stage(self, record: Record) -> None:
        self._before = self._seconds = record.seconds
        self._tell(replace(record, steps=self._spec.total_steps))

    def in_polish(self, record: Record) -> None:
        """Its few steps are not counted."""
        self._seconds = self._before + record.seconds
        self._tell(
            replace(
                record,
                step=self._spec.training.steps,
                steps=self._spec.total_steps,
                seconds=self._seconds,
                stage="polish",
                within=(record.step, record.steps),
            )
        )

    def in_refinement(self, record: Record) -> None:
        self._tell(
            replace(
                record,
                step=record.step + self._spec.training.steps,
                steps=self._spec.total_steps,
                seconds=self._seconds + record.seconds,
                stage="refine",
            )
        )

    def _tell(self, record: Record) -> None:
        if self._observe is not None:
            self._observe(record)


def weak_chi_square(
    spec: FitSpec, field: Field, runs: Trajectories, noise: Float64[np.ndarray, " state"]
) -> Float64[np.ndarray, " state"]:
    r"""Weak residuals against what noise makes of them, by state: $\sum r^2 / \sum \delta r^2$.

    $\delta r$ is the change of the residuals by fresh noise on top of that in the data, inside the field too, so that
    the errors in its argument count as what they are. `runs` and `noise` in the coordinates of the field.
    """

    def residual(runs: Trajectories) -> Float64[np.ndarray, "state equation"]:
        values = np.asarray(_masked_residual(make_equations(spec, runs), field), np.float64)
        return values.reshape(len(values), -1)

    rng = np.random.default_rng(0)
    here = residual(runs)
    changes = [residual(_with_more_noise(runs, noise, rng)) - here for _ in range(_NOISE_DRAWS)]
    return (here**2).sum(axis=1) / np.mean([(c**2).sum(axis=1) for c in changes], axis=0)


@eqx.filter_jit
def _masked_residual(equations: AbstractEquations, field: Field) -> jax.Array:
    values, mask = equations.residual(field), equations.mask()
    return values if mask is None else values * mask


def _with_more_noise(
    runs: Trajectories, noise: Float64[np.ndarray, " state"], rng: np.random.Generator
) -> Trajectories:
    return Trajectories.from_arrays(
        [run.x + (noise if run.sigma is None else run.sigma) * rng.standard_normal(run.x.shape) for run in runs.runs],
        [run.t for run in runs.runs],
        names=runs.names,
    )
