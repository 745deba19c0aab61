"""Between the weak stage and refinement: Gauss-Newton steps on the weak form, where there is little noise.

Without noise the weak form has no bias and its minimum is the field itself, but gradients hardly show the last of the
way there: what is left are slow drifts, small in the residual of a short window and large in a long trajectory.
Gauss-Newton steps treat all directions alike. With much noise they would take it for a signal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from wgfinn.data import Trajectories, state_std
from wgfinn.fitting.choices import resolve
from wgfinn.fitting.members import Member, make_problem
from wgfinn.fitting.spec import FitSpec
from wgfinn.losses import AttentionSpec
from wgfinn.models import AbstractField, confined_like, freed
from wgfinn.refining import Misfit, misfits
from wgfinn.training import (
    GaussNewton,
    MemberSettings,
    Observer,
    OptimiserSpec,
    PolishSpec,
    Problem,
    Structure,
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


def worth_polishing(spec: FitSpec, runs: Trajectories, noise: Float64[np.ndarray, " state"]) -> bool:
    """Whether noise, a standard deviation for each state, is small against the spread of the states."""
    return spec.polish.steps > 0 and float(np.median(noise / state_std(runs))) <= spec.polish.noise


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
        return states, settings, replace(problem, batch=self._windows(structure))

    def _windows(self, structure: Structure) -> int:
        """Test functions a step, each with one residual for every state."""
        n_weights = sum(int(np.prod(shape)) for shape in structure.shapes)
        return max(1, min(self.spec.polish.equations, _MOST_SLOPES // n_weights) // self.runs.n_states)


def _schedule(spec: PolishSpec) -> OptimiserSpec:
    return OptimiserSpec(rate=spec.rate, decay=spec.decay, decay_every=spec.decay_every)
