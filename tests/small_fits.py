"""Data and settings so small that a training takes a fraction of a second.

All tests share their shapes: equal programs compile once in a session.
"""

import numpy as np

from wgfinn._spec import parse
from wgfinn.data import Trajectories
from wgfinn.fitting import FitSpec

NAMES = ("q", "p", "S")
STEP = 0.1
TRAINING = {"steps": 40, "check_every": 5, "log_every": 10, "members": 2}
GENERIC = {"layers": 2, "width": 4, "rows": 2}
PLAIN = {"field": "plain", "layers": 2, "width": 4}


def some_runs(seed: int = 0, noise: float = 0.01, n_times: int = 30) -> Trajectories:
    """Three damped rotations of different size with a little noise."""
    rng = np.random.default_rng(seed)
    t = STEP * np.arange(n_times)
    x = np.stack([np.exp(-0.1 * t) * np.cos(t), np.exp(-0.1 * t) * np.sin(t), 1 - np.exp(-0.2 * t)], axis=1)
    states = [size * x + noise * rng.normal(size=x.shape) for size in (0.7, 1.0, 1.3)]
    return Trajectories.from_arrays(states, t, names=NAMES)


def small_settings(model: dict = PLAIN, method: str = "weak", **training) -> dict:
    return {"method": method, "model": model, "optimiser": {"name": "adamw"}, "training": TRAINING | training}


def small_spec(model: dict = PLAIN, method: str = "weak", **training) -> FitSpec:
    return parse(FitSpec, small_settings(model, method, **training))
