"""Between the weak stage and refinement: Gauss-Newton steps on the weak form.

Gradients hardly show the last of the way to its minimum: what is left are slow drifts, small in the residual of a short
window and large in a long trajectory. Gauss-Newton steps treat all directions of the weights alike. Few measurements
with noise they would soon know by heart; many average it.
"""

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
    missed = min(m.mean for m in before) > 1 + _TOLD_APART * float(resolution(judged))
    values = sum(int(np.isfinite(run.x).sum()) for run in runs.runs)
    many = values >= _MANY_VALUES * parameter_count(fields[0])
    return missed and (many or relative_noise(runs, noise) <= _LITTLE_NOISE)


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
        misfits. `judged` and `noise` are in the coordinates of the fields."""
        states, settings, problem = self._begin(fields)
        names = [m.name for m in self.members]
        states = train(states, settings, problem, self._training, names, observe=observe, should_stop=should_stop)
        learnt = problem.structure.fields(states.weights)
        after = [confined_like(field, member(learnt, i)) for i, field in enumerate(fields)]
        found = misfits(after, judged, noise)
        better = [new.mean < old.mean for new, old in zip(found, before, strict=True)]
        return (
            [new if is_better else old for new, old, is_better in zip(after, fields, better, strict=True)],
            [new if is_better else old for new, old, is_better in zip(found, before, better, strict=True)],
        )

    @property
    def _training(self) -> TrainingSpec:
        polish = self.spec.polish
        check_every = min(self.spec.training.check_every, polish.steps)
        return self.spec.training.model_copy(update={"steps": polish.steps, "check_every": check_every})

    def _begin(self, fields: Sequence[AbstractField]) -> tuple[TrainState, MemberSettings, Problem]:
        dtype = self.spec.training.dtype
        parts = [take_apart(freed(field), dtype) for field in fields]
        structure, optimiser = parts[0][1], GaussNewton()
        schedule = _schedule(self.spec.polish)
        settings = stack([MemberSettings.create(m.seed, schedule, AttentionSpec(), dtype) for m in self.members])
        states = initial_states(stack([w for w, _ in parts]), settings, self.runs.n_states, optimiser)
        problem = make_problem(resolve(self.spec, self.runs), self.runs, None, structure, optimiser)
        return states, settings, replace(problem, batch=self._windows(fields[0]))

    def _windows(self, field: AbstractField) -> int:
        """Test functions a step, each with one residual for every state; no more residuals than weights."""
        n_weights = parameter_count(field)
        return max(1, min(self.spec.polish.equations, n_weights, _MOST_SLOPES // n_weights) // self.runs.n_states)


def _schedule(spec: PolishSpec) -> OptimiserSpec:
    return OptimiserSpec(rate=spec.rate, decay=spec.decay, decay_every=spec.decay_every)
