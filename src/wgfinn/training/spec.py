"""How a training runs: optimiser, schedule, length, members."""

from typing import Annotated, Literal

from pydantic import Field as Key

from wgfinn._spec import Spec


class OptimiserSpec(Spec):
    """The optimiser and its staircase schedule: every `decay_every` steps the rate is multiplied by `decay`."""

    name: Literal["adamw", "soap"] = Key(default="soap", description="SOAP, or the paper's AdamW")
    rate: float = Key(default=1e-2, gt=0, description="first learning rate")
    decay: float = Key(default=0.8, gt=0, le=1, description="factor at each stair")
    decay_every: int = Key(default=200, ge=1, description="steps from one stair to the next")
    weight_decay: float = Key(default=0.0, ge=0, description="decoupled weight decay")


class TrainingSpec(Spec):
    """Length and arithmetic of a training."""

    steps: int = Key(default=2_500, ge=1, description="optimiser steps")
    batch: Annotated[int, Key(ge=1)] | Literal["auto", "all"] = Key(
        default="auto", description="runs (weak) or pairs of samples (strong) a step; auto: about 3,200 samples"
    )
    check_every: int = Key(default=100, ge=1, description="steps between two looks at the loss over all data")
    log_every: int = Key(default=500, ge=1, description="steps between two records in metrics.jsonl")
    members: int = Key(default=3, ge=1, description="models of the ensemble, seeds `seed`, `seed` + 1, ...")
    starts: int = Key(default=8, ge=1, description="method auto: weak trainings of which the best become members")
    decays: tuple[Annotated[float, Key(ge=0)], ...] | Literal["auto"] = Key(
        default="auto",
        min_length=1,
        description="method auto: weight decays that starts take in turn; auto: 1 to 0.03 where samples are few, or 0",
    )
    seed: int = Key(default=0, ge=0, le=2**31 - 1, description="seed of the first member")
    dtype: Literal["float32", "float64"] = Key(default="float32", description="arithmetic of the training")


class PolishSpec(Spec):
    """Gauss-Newton steps on the weak form, where measurements are many or noise is little."""

    steps: int = Key(default=250, ge=0, description="steps of a round; 0 leaves the stage out")
    rounds: int = Key(default=6, ge=1, description="rounds at most; another follows where the last one paid")
    equations: int = Key(default=1_200, ge=1, description="residuals a step, about")
    rate: float = Key(default=1.0, gt=0, le=1, description="first length of a step; 1 is all of it")
    decay: float = Key(default=0.8, gt=0, le=1, description="factor at each stair")
    decay_every: int = Key(default=18, ge=1, description="steps from one stair to the next")
