"""From trajectories and settings to a model: choices from the data, stages of training, a run's folder."""

from wgfinn.fitting.choices import (
    choose_batch,
    choose_scales,
    choose_test_functions,
    hold_out,
    item_length,
    noise_levels,
    resolve,
)
from wgfinn.fitting.folder import (
    CHECKPOINT_FILE,
    METRICS_FILE,
    MODEL_FILE,
    SETTINGS_FILE,
    finite,
    steps_reached,
    write_settings,
)
from wgfinn.fitting.learning import fit
from wgfinn.fitting.members import Member, Trained, ensemble, known_physics, make_equations, rescale, train_members
from wgfinn.fitting.spec import PAPER, FitSpec
from wgfinn.fitting.stages import weak_chi_square

__all__ = [
    "CHECKPOINT_FILE",
    "METRICS_FILE",
    "MODEL_FILE",
    "PAPER",
    "SETTINGS_FILE",
    "FitSpec",
    "Member",
    "Trained",
    "choose_batch",
    "choose_scales",
    "choose_test_functions",
    "ensemble",
    "finite",
    "fit",
    "hold_out",
    "item_length",
    "known_physics",
    "make_equations",
    "noise_levels",
    "rescale",
    "resolve",
    "steps_reached",
    "train_members",
    "weak_chi_square",
    "write_settings",
]
