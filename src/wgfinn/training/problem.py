"""What a training makes small, and by which means."""

import equinox as eqx

from wgfinn._types import State
from wgfinn.losses import AbstractEquations
from wgfinn.training.optimisers import AbstractOptimiser, AdamW
from wgfinn.training.structure import Structure


class Problem(eqx.Module):
    """The equations, the state weights, how many items a step draws, and the optimiser.

    `structure` makes a field of a member's vector of weights.
    """

    equations: AbstractEquations
    weights: State
    structure: Structure
    batch: int | None = eqx.field(static=True)
    optimiser: AbstractOptimiser = eqx.field(static=True, default=AdamW())
