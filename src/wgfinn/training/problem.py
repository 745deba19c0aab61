"""What a training makes small, and by which means."""

import equinox as eqx

from wgfinn._types import State
from wgfinn.losses import AbstractEquations
from wgfinn.training.optimisers import AbstractOptimiser, AdamW
from wgfinn.training.structure import Structure


class Problem(eqx.Module):
    """The equations, the state weights, how many items a step draws, and the optimiser.

    `structure` makes a field of a member's vector of weights. `setback`: where a check finds the loss more than this
    many times the least so far, the member goes on from its best weights with half the learning rate, and the first 200
    steps are shorter; None: no such caution. `judged`: equations that tell which weights are the best, where those
    learnt from should not.
    """

    equations: AbstractEquations
    weights: State
    structure: Structure
    batch: int | None = eqx.field(static=True)
    optimiser: AbstractOptimiser = eqx.field(static=True, default=AdamW())
    judged: AbstractEquations | None = None
    setback: float | None = eqx.field(static=True, default=None)
