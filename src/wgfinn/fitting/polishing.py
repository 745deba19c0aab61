"""Between the weak stage and refinement: Gauss-Newton steps on the weak form.

Gradients hardly show the last of the way to its minimum: what is left are slow drifts, small in the residual of a short
window and large in a long trajectory. Gauss-Newton steps treat all directions of the weights alike. Few measurements
with noise they would soon know by heart; many average it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from wgfinn.data import Trajectories, relative_noise
from wgfinn.fitting.choices import resolve
from wgfinn.fitting.members import Member, make_problem
from wgfinn.fitting.spec import FitSpec
from wgfinn.losses import AttentionSpec
from wgfinn.models import AbstractField, confined_like, freed, parameter_count
from wgfinn.refining import Misfit, misfits, resolution
from wgfinn.training import (
    GaussNewton,
    MemberSettings,
    Observer,
    OptimiserSpec,
    PolishSpec,
    Problem,
    TrainingSpec,
    TrainState,
    compile_ahead,
    initial_states,
    member,
    stack,
    take_apart,
    train,
)

# Slopes of a step are kept for all weights: no more numbers than this.
_MOST_SLOPES = 30_000_000
# Values measured for each weight from which on noise averages out; noise, as a part of the spread of the states, that
# needs no averaging.
_MANY_VALUES, _LITTLE_NOISE = 5, 0.02
# How many times the resolution of held-out runs a misfit must be above one to be more than chance.
_TOLD_APART = 2
# For another round to follow: what the last one must have left at most of how far the best misfit lies above one, and
# how far that must be still. Less than a tenth of the noise is not worth the time.
_PAYS, _FAR = 0.9, 0.1
_ROUNDS_APART = 2**20


def worth_polishing(
    fields: Sequence[AbstractField],
    before: Sequence[Misfit],
    runs: Trajectories,
    judged: Trajectories,
    noise: Float64[np.ndarray, " state"],
) -> bool:
    """Whether the runs `judged` still tell the best of the fields, whose misfits are `before`, from the truth, and the
    `runs` to learn from have many values for each weight or little noise: its standard deviation for each state,
    against their spread."""
    values = sum(int(np.isfinite(run.x).sum()) for run in runs.runs)
    many = values >= _MANY_VALUES * parameter_count(fields[0])
    return _is_told(before, judged) and (many or relative_noise(runs, noise) <= _LITTLE_NOISE)


def _is_told(found: Sequence[Misfit], judged: Trajectories) -> bool:
    return _excess(found) > _TOLD_APART * float(resolution(judged))


def _excess(found: Sequence[Misfit]) -> float:
    """How far the least misfit lies above that of the truth."""
    return min(m.mean for m in found) - 1


@dataclass(frozen=True)
class Polish:
    """The stage for members that learn from `runs`. All in the coordinates of the data, as in the weak stage."""

    spec: FitSpec
    """That of the weak stage."""
    runs: Trajectories
    members: Sequence[Member]

    def compiled(self, field: AbstractField) -> None:
        """Compile what the stage needs for fields of this shape, while another keeps an accelerator busy."""
        states, settings, problem = self._begin([field] * len(self.members))
        compile_ahead(states, settings, problem, self._training)

    def __call__(
        self,
        fields: Sequence[AbstractField],
        before: Sequence[Misfit],
        judged: Trajectories,
        noise: Float64[np.ndarray, " state"],
        *,
        observe: Observer | None,
        should_stop: Callable[[], bool],
    ) -> tuple[list[AbstractField], list[Misfit]]:
        """Each member's field after the stage, or as it came where that predicts the runs `judged` better; their
        misfits. `judged` and `noise` are in the coordinates of the fields.

        Rounds follow one another, each with long steps at first, while they pay and much is left to learn."""
        started, found = time.monotonic(), list(before)
        for turn in range(self.spec.polish.rounds):
            excess = _excess(found)
            learnt = self._round(turn, fields, started, observe=observe, should_stop=should_stop)
            fields, found = _better(fields, found, learnt, misfits(learnt, judged, noise))
            pays = _excess(found) < _PAYS * excess
            if should_stop() or not (pays and _excess(found) > _FAR and _is_told(found, judged)):
                break
        return list(fields), found

    def _round(
        self,
        turn: int,
        fields: Sequence[AbstractField],
        started: float,
        *,
        observe: Observer | None,
        should_stop: Callable[[], bool],
    ) -> list[AbstractField]:
        states, settings, problem = self._begin(fields, turn)
        states = train(
            states,
            settings,
            problem,
            self._training,
            [m.name for m in self.members],
            observe=observe,
            seconds_before=time.monotonic() - started,
            should_stop=should_stop,
        )
        learnt = problem.structure.fields(states.weights)
        return [confined_like(field, member(learnt, i)) for i, field in enumerate(fields)]

    @property
    def _training(self) -> TrainingSpec:
        polish = self.spec.polish
        check_every = min(self.spec.training.check_every, polish.steps)
        return self.spec.training.model_copy(update={"steps": polish.steps, "check_every": check_every})

    def _begin(self, fields: Sequence[AbstractField], turn: int = 0) -> tuple[TrainState, MemberSettings, Problem]:
        dtype = self.spec.training.dtype
        parts = [take_apart(freed(field), dtype) for field in fields]
        structure, optimiser = parts[0][1], GaussNewton()
        schedule = _schedule(self.spec.polish)
        # Test functions are drawn anew in each round.
        seeds = [m.seed + _ROUNDS_APART * turn for m in self.members]
        settings = stack([MemberSettings.create(seed, schedule, AttentionSpec(), dtype) for seed in seeds])
        states = initial_states(stack([w for w, _ in parts]), settings, self.runs.n_states, optimiser)
        problem = make_problem(resolve(self.spec, self.runs), self.runs, None, structure, optimiser)
        return states, settings, replace(problem, batch=self._windows(fields[0]))

    def _windows(self, field: AbstractField) -> int:
        """Test functions a step, each with one residual for every state; no more residuals than weights."""
        n_weights = parameter_count(field)
        return max(1, min(self.spec.polish.equations, n_weights, _MOST_SLOPES // n_weights) // self.runs.n_states)


def _better(
    fields: Sequence[AbstractField],
    found: Sequence[Misfit],
    others: Sequence[AbstractField],
    of_others: Sequence[Misfit],
) -> tuple[list[AbstractField], list[Misfit]]:
    """Member by member the field of less misfit, and that misfit."""
    pairs = zip(zip(fields, found, strict=True), zip(others, of_others, strict=True), strict=True)
    kept = [other if other[1].mean < here[1].mean else here for here, other in pairs]
    return [field for field, _ in kept], [misfit for _, misfit in kept]


def _schedule(spec: PolishSpec) -> OptimiserSpec:
    return OptimiserSpec(rate=spec.rate, decay=spec.decay, decay_every=spec.decay_every)
