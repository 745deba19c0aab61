"""What a learnt field is worth: prediction errors, thermodynamic checks, calibration and figures.

Everything here starts from a field, trajectories or numbers, and is computed in double precision. What does
not live here: anything that changes a weight, and the formatting of tables and pages.
"""

from wgfinn.evaluate.calibration import calibrate, calibrate_anchored
from wgfinn.evaluate.figures import energy_entropy_figure, training_figure, trajectory_figure
from wgfinn.evaluate.metrics import (
    Errors,
    prediction_errors,
    relative_l2,
    simulate_runs,
    spread_errors,
    trajectory_errors,
)
from wgfinn.evaluate.reading import as_learnt, matching, read_for
from wgfinn.evaluate.thermodynamics import (
    ThermodynamicChecks,
    has_thermodynamics,
    natural_variations,
    thermodynamic_checks,
)

__all__ = [
    "Errors",
    "ThermodynamicChecks",
    "as_learnt",
    "calibrate",
    "calibrate_anchored",
    "energy_entropy_figure",
    "has_thermodynamics",
    "matching",
    "natural_variations",
    "prediction_errors",
    "read_for",
    "relative_l2",
    "simulate_runs",
    "spread_errors",
    "thermodynamic_checks",
    "training_figure",
    "trajectory_errors",
    "trajectory_figure",
]
