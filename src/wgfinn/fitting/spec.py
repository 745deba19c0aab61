"""All settings of a fit."""

from typing import Any, Literal

from pydantic import Field as Key

from wgfinn._spec import Spec
from wgfinn.data import DataSpec
from wgfinn.losses import AttentionSpec, Weights
from wgfinn.models import ModelSpec
from wgfinn.refining import RefineSpec
from wgfinn.training import OptimiserSpec, PolishSpec, TrainingSpec
from wgfinn.weak import TestFunctionSpec


class FitSpec(Spec):
    """All settings of a fit; each section belongs to one stage. The same keys serve Python and TOML."""

    method: Literal["auto", "weak", "strong"] = Key(
        default="auto",
        description="weak form, then refinement on trajectories; or the weak form alone; or that of one step",
    )
    coordinates: Literal["standardised", "physical"] = Key(
        default="standardised", description="where the networks live; the structure is exact in physical coordinates"
    )
    weights: Weights = Key(default="inverse_std", description="state weights W of the loss (paper: inverse_std)")
    outliers: Literal["mend", "keep"] = Key(
        default="mend", description="single samples far off both neighbours: put between these first, or learnt from"
    )
    data: DataSpec = Key(default=DataSpec(), description="roles of columns, for commands that read DATA")
    model: ModelSpec = ModelSpec()
    test_functions: TestFunctionSpec | None = Key(default=None, description="none: from the data's noise")
    attention: AttentionSpec = AttentionSpec()
    optimiser: OptimiserSpec = OptimiserSpec()
    training: TrainingSpec = TrainingSpec()
    polish: PolishSpec = PolishSpec()
    refine: RefineSpec = RefineSpec()

    @property
    def total_steps(self) -> int:
        """Optimiser steps of all stages."""
        return self.training.steps + (self.refine.steps if self.method == "auto" else 0)


PAPER: dict[str, Any] = {
    "method": "weak",
    "coordinates": "physical",
    "outliers": "keep",
    "model": {"initialisation": "paper", "layers": 5, "width": 30, "activation": "tanh", "confined": False},
    "optimiser": {"name": "adamw", "rate": 1e-3, "decay": 0.95, "decay_every": 1_000},
    "training": {"steps": 60_000, "batch": "all", "members": 1},
}
"""The paper's weak form as settings (`method="paper"`); its tables differ from system to system (`studies/recipes`)."""
