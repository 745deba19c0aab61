"""Residuals of a field on data, weak and strong, and how they are weighted into one number."""

from wgfinn.losses.residuals import (
    AbstractEquations,
    AbstractWeakEquations,
    StrongEquations,
    WeakEquations,
    strong_residual,
    weak_residual,
)
from wgfinn.losses.scattered import ScatteredWeakEquations, is_regular, require_windows, width_over_gaps
from wgfinn.losses.shooting import (
    FieldAndStarts,
    ShootingEquations,
    Shots,
    fresh_starts,
    make_shots,
    part_that_leaves,
    run_misfits,
    starts_along,
)
from wgfinn.losses.weighting import (
    AttentionSpec,
    Weights,
    attention,
    mean_over_equations,
    state_weights,
    weighted_loss,
)

__all__ = [
    "AbstractEquations",
    "AbstractWeakEquations",
    "AttentionSpec",
    "FieldAndStarts",
    "ScatteredWeakEquations",
    "ShootingEquations",
    "Shots",
    "StrongEquations",
    "WeakEquations",
    "Weights",
    "attention",
    "fresh_starts",
    "is_regular",
    "make_shots",
    "mean_over_equations",
    "part_that_leaves",
    "require_windows",
    "run_misfits",
    "starts_along",
    "state_weights",
    "strong_residual",
    "weak_residual",
    "weighted_loss",
    "width_over_gaps",
]
