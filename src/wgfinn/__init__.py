"""wgfinn: learn thermodynamically consistent equations of motion from noisy trajectories.

from wgfinn import WGFINN
model = WGFINN().fit(x, t)            # x' = L ∇E + M ∇S, learnt in weak form
model.simulate(x0, t), model.energy(x), model.friction(x)
"""

from wgfinn import systems
from wgfinn._errors import ArtefactError, InputError, WgfinnError
from wgfinn._version import __version__
from wgfinn.data import Trajectories, add_noise, estimate_noise, load, read, save, split
from wgfinn.estimator import GFINN, WGFINN
from wgfinn.fitting import FitSpec
from wgfinn.inspection import Inspection, inspect

__all__ = [
    "GFINN",
    "WGFINN",
    "ArtefactError",
    "FitSpec",
    "InputError",
    "Inspection",
    "Trajectories",
    "WgfinnError",
    "__version__",
    "add_noise",
    "estimate_noise",
    "inspect",
    "load",
    "read",
    "save",
    "split",
    "systems",
]
