"""Settings of the refinement."""

from pydantic import Field as Key

from wgfinn._spec import Spec
from wgfinn.training import OptimiserSpec


class RefineSpec(Spec):
    """Multiple shooting after the weak stage."""

    steps: int = Key(default=5_000, ge=0, description="optimiser steps at most; 0 leaves the stage out")
    window: int = Key(default=20, ge=1, description="samples from one free state to the next at first, at most")
    continuity: float = Key(default=100.0, gt=0, description="weight of the gaps between windows, in noise variances")
    held_out: float = Key(default=0.1, ge=0, lt=1, description="part of the runs kept for judging (from five runs on)")
    trial: int = Key(
        default=2_000, ge=0, description="steps after which no more than `training.members` go on, where more began"
    )
    judge_every: int = Key(default=1_000, ge=1, description="steps between two looks at the runs held out")
    patience: int = Key(default=2, ge=1, description="looks in which no member gains, after which the stage ends")
    optimiser: OptimiserSpec = OptimiserSpec(name="soap", rate=3e-3, decay=0.85, decay_every=300)
