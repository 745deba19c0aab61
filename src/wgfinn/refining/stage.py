"""The second stage of a fit: learnt fields refined on whole trajectories by multiple shooting (`losses.shooting`).

The weak form finds the basin; its noisy states inside the field bias what lies at its bottom. Here no measured state
enters the field, so that the noise averages out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int

from wgfinn.data import Trajectories, relative_noise
from wgfinn.models import AbstractField
from wgfinn.refining.leg import Data, Entrant, Leg, begin, lengthened, steady_window
from wgfinn.refining.misfit import Misfit, misfits, resolution, telling
from wgfinn.refining.spec import RefineSpec
from wgfinn.training import (
    Observer,
    TrainingSpec,
    TrainState,
    beside_checkpoint,
    compile_ahead,
    load_checkpoint,
    save_checkpoint,
    train,
)

# A misfit that is far: in noise levels, and as a part of the spread of the states; and what is left of the loss of a
# field that still learns, from look to look.
_FAR, _FAR_PART, _LEARNS = 2.0, 0.03, 0.9
# The loss of windows that are met about as well as noise allows.
_MET = 2.0


@dataclass(frozen=True)
class Refined:
    """Each member's best field by the runs held out, the one it came with among them, and how far the stage came."""

    fields: list[AbstractField]
    misfits: list[Misfit]
    losses: tuple[float, ...]
    """Of these fields on the runs learnt from; infinite for a member that came with its best."""
    indices: tuple[int, ...]
    """Which of those that came they are."""
    steps_done: int
    ended_early: bool

    @classmethod
    def untouched(cls, fields: list[AbstractField], misfits: list[Misfit]) -> "Refined":
        """Without this stage."""
        indices = tuple(range(len(fields)))
        return cls(fields, misfits, tuple(np.inf for _ in fields), indices, 0, ended_early=False)

    def best(self, count: int, judged: Trajectories, noise: Float64[np.ndarray, " state"]) -> "Refined":
        """The `count` members of least misfit on the runs `judged`, then of least loss, in the order they came in."""
        order = np.lexsort((np.array(self.losses), telling(self.misfits, judged, noise)))
        kept = sorted(int(i) for i in order[:count])
        return replace(
            self,
            fields=[self.fields[i] for i in kept],
            misfits=[self.misfits[i] for i in kept],
            losses=tuple(self.losses[i] for i in kept),
            indices=tuple(self.indices[i] for i in kept),
        )


def refine(
    fields: Sequence[AbstractField],
    before: Sequence[Misfit],
    trajectories: Trajectories,
    judged: Trajectories,
    noise: Float64[np.ndarray, " state"],
    spec: RefineSpec,
    training: TrainingSpec,
    *,
    entrants: Sequence[Entrant],
    observe: Observer | None,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    should_stop: Callable[[], bool],
) -> Refined:
    """Train `fields`, whose misfits are `before`, further on `trajectories`, and look at the runs `judged` every so
    often: the latest that predicts them as well as any before is kept, windows grow where the fields allow it (beyond
    `spec.window` while those runs are far from predicted), and where they cannot and no member gains any more the stage
    ends.

    All in one set of coordinates. Goes on from `checkpoint` if it is there, to the same end.
    """
    data = Data(trajectories, noise, training.dtype)
    seconds = 0.0
    if checkpoint is not None and checkpoint.exists():
        beside = beside_checkpoint(checkpoint)
        window, kept = int(beside.pop("window")), _Kept.from_arrays(beside)
        leg = begin([fields[i] for i in kept.indices], data, spec, [entrants[i] for i in kept.indices], window)
        states, seconds = load_checkpoint(checkpoint, leg.states)
        leg = replace(leg, states=states)
    else:
        leg = begin(fields, data, spec, entrants, steady_window(fields, data, spec.window))
        kept = _Kept.before(leg, telling(before, judged, noise))
    tie = resolution(judged)
    far = max(_FAR, _FAR_PART / relative_noise(trajectories, noise))

    def save(states: TrainState, until: float) -> None:
        nonlocal seconds
        seconds = until
        if checkpoint is not None:
            save_checkpoint(checkpoint, states, until, {"window": np.asarray(leg.window), **kept.to_arrays()})

    def look() -> _Kept:
        found = misfits(leg.fields(leg.best), judged, noise)
        return kept.after(leg, telling(found, judged, noise), tie, far)

    def goes_on() -> bool:
        may_gain = kept.looks_without_gain < spec.patience or leg.window < min(spec.window, data.longest_window)
        return leg.step < spec.steps and may_gain and not should_stop()

    while goes_on():
        until = min(spec.steps, (leg.step // spec.judge_every + 1) * spec.judge_every)
        states = train(
            leg.states,
            leg.settings,
            leg.problem,
            training.model_copy(update={"steps": until}),
            [entrant.name for entrant in leg.entrants],
            observe=observe,
            save=save,
            save_every=checkpoint_seconds,
            seconds_before=seconds,
            should_stop=should_stop,
        )
        leg = replace(leg, states=states)
        if leg.step == until and leg.step > kept.step:
            kept = look()
            if leg.step >= spec.trial and len(leg.entrants) > training.members:
                best = kept.best(training.members)
                leg, kept = leg.only(best), kept.only(best)
            if leg.step < spec.steps:
                # Windows that are met while whole runs are not: only longer ones show what goes wrong.
                hidden = kept.least.min() > far and kept.last_losses.min() <= _MET
                longest = max(spec.window, 2 * leg.window) if hidden else spec.window
                leg = lengthened(leg, data, spec, min(longest, data.longest_window))
            save(leg.states, seconds)
    if leg.step > kept.step:
        # Interrupted between two looks: what was reached counts, but a resumed run looks where it would have.
        kept = look()
    best = leg.fields(kept.weights)
    return Refined(
        fields=best,
        misfits=misfits(best, judged, noise),
        losses=tuple(float(loss) for loss in kept.losses),
        indices=tuple(int(i) for i in kept.indices),
        steps_done=leg.step,
        ended_early=leg.step < spec.steps and not should_stop(),
    )


def prepare(
    field: AbstractField,
    trajectories: Trajectories,
    noise: Float64[np.ndarray, " state"],
    spec: RefineSpec,
    training: TrainingSpec,
    count: int,
) -> None:
    """Compile what `refine` needs for `count` fields of this shape, while another stage keeps an accelerator busy."""
    data = Data(trajectories, noise, training.dtype)
    fields = [field] * count
    leg = begin(fields, data, spec, [Entrant("", 0, 0.0)] * count, spec.window)
    compile_ahead(leg.states, leg.settings, leg.problem, training.model_copy(update={"steps": spec.steps}))
    steady_window(fields, data, spec.window)


@dataclass(frozen=True)
class _Kept:
    """Who is still there; each member's latest weights that no earlier ones beat on the runs held out, their loss, the
    least misfit seen until `step`, that of its last gain, the loss at the last look; for how many looks none gained."""

    indices: Int[np.ndarray, " member"]
    weights: Float[np.ndarray, "member weight"]
    losses: Float64[np.ndarray, " member"]
    least: Float64[np.ndarray, " member"]
    reference: Float64[np.ndarray, " member"]
    last_losses: Float64[np.ndarray, " member"]
    step: int
    looks_without_gain: int

    @classmethod
    def before(cls, leg: Leg, found: Float64[np.ndarray, " member"]) -> "_Kept":
        """Before the first step of the first leg, with fields of these misfits."""
        infinite = np.full(len(found), np.inf)
        losses = np.asarray(leg.states.best_loss, np.float64)
        return cls(np.arange(len(found)), leg.best, infinite, found, found, losses, step=0, looks_without_gain=0)

    def best(self, count: int) -> list[int]:
        """The places of the `count` members of least misfit, then of least loss, in order."""
        return sorted(int(i) for i in np.lexsort((self.last_losses, self.least))[:count])

    def only(self, places: Sequence[int]) -> "_Kept":
        """The same with the members in these places alone."""
        per_member = ("indices", "weights", "losses", "least", "reference", "last_losses")
        return replace(self, **{name: getattr(self, name)[list(places)] for name in per_member})

    def after(self, leg: Leg, found: Float64[np.ndarray, " member"], tie: float, far: float) -> "_Kept":
        """`found` are the misfits of the best fields on `leg`; those that differ by less than `tie` are equal, and the
        later, of lower loss, is then the better one."""
        better = found <= (1 + tie) * self.least
        losses = np.asarray(leg.states.best_loss, np.float64)
        # Since the last gain: small ones from look to look add up. Far from the runs held out a field that learns is on
        # its way, though they do not show it yet.
        gained = found < (1 - tie) * self.reference
        on_its_way = (self.least > far) & (losses < _LEARNS * self.last_losses)
        return _Kept(
            indices=self.indices,
            weights=np.where(better[:, None], leg.best, self.weights),
            losses=np.where(better, losses, self.losses),
            least=np.minimum(found, self.least),
            reference=np.where(gained, found, self.reference),
            last_losses=losses,
            step=leg.step,
            looks_without_gain=0 if (gained | on_its_way).any() else self.looks_without_gain + 1,
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> "_Kept":
        arrays = {**arrays, "step": int(arrays["step"]), "looks_without_gain": int(arrays["looks_without_gain"])}
        return cls(**arrays)
