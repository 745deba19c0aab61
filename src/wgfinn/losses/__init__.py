"""Residuals of a field on data, weak and strong, and how they are weighted into one number."""

from wgfinn.losses.residuals import (
    AbstractEquations,
    StrongEquations,
    WeakEquations,
    strong_residual,
    weak_residual,
)
from wgfinn.losses.scattered import ScatteredWeakEquations, is_regular, require_windows, width_over_gaps
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
    "AttentionSpec",
    "ScatteredWeakEquations",
    "StrongEquations",
    "WeakEquations",
    "Weights",
    "attention",
    "is_regular",
    "mean_over_equations",
    "require_windows",
    "state_weights",
    "strong_residual",
    "weak_residual",
    "weighted_loss",
    "width_over_gaps",
]
