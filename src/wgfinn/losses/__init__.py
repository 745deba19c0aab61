"""Residuals of a field on data, weak and strong, and how they are weighted into one number."""

from wgfinn.losses.residuals import (
    AbstractEquations,
    StrongEquations,
    WeakEquations,
    require_windows,
    strong_residual,
    weak_residual,
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
    "AttentionSpec",
    "StrongEquations",
    "WeakEquations",
    "Weights",
    "attention",
    "mean_over_equations",
    "require_windows",
    "state_weights",
    "strong_residual",
    "weak_residual",
    "weighted_loss",
]
