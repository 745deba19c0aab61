"""Section 4 of the paper: estimating one rate from noisy samples, in strong and in weak form.

Closed forms of both estimators and of their errors (theorems 4.1 to 4.3), and a study that simulates
them. Plain NumPy in double precision; nothing here is used to train a model.
"""

from wgfinn.theory.experiments import study
from wgfinn.theory.strong import (
    StrongError,
    decay_samples,
    euler_error,
    extended_error,
    noise_gain,
    recovery_step,
    sign_changes,
    strong_error,
    strong_estimate,
    strong_expected_error,
    strong_limit,
    strong_limit_as_printed,
)
from wgfinn.theory.weak import (
    Conditions,
    WeakWeights,
    admissible_weights,
    three_point_spread,
    three_point_variance,
    three_point_weights,
    weak_conditions,
    weak_estimate,
    weak_relative_error,
    weak_weights,
    window_samples,
)

__all__ = [
    "Conditions",
    "StrongError",
    "WeakWeights",
    "admissible_weights",
    "decay_samples",
    "euler_error",
    "extended_error",
    "noise_gain",
    "recovery_step",
    "sign_changes",
    "strong_error",
    "strong_estimate",
    "strong_expected_error",
    "strong_limit",
    "strong_limit_as_printed",
    "study",
    "three_point_spread",
    "three_point_variance",
    "three_point_weights",
    "weak_conditions",
    "weak_estimate",
    "weak_relative_error",
    "weak_weights",
    "window_samples",
]
