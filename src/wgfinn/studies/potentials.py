"""Learnt energies and entropies in the units of the true ones, as numbers for figures.

The maps are affine, by least squares (paper, appendix, "Calibration"). That does not remove all freedom: any
monotone E -> h(E) with L -> L/h' leaves the dynamics unchanged, likewise for S with M. So a perfect model may
differ from the truth in the values of its contours, though not in their shapes; for an affine entropy of a
system whose entropy is affine the map is exact.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._errors import InputError
from wgfinn._types import Array
from wgfinn.evaluate import calibrate, calibrate_anchored
from wgfinn.studies.recipes import ContourSpec

_PLANE_POINTS = 61

Potential = Callable[[Array], Array]


def plane(contour: ContourSpec, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The axes of a contour's plane and its states, `(x)`, `(y)` and `(y, x, state)`."""
    if {contour.x, contour.y, *contour.fixed} != set(names):
        raise InputError(
            f"figures.contours: x, y and fixed must name each state once ({', '.join(names)}), "
            f"but name {', '.join([contour.x, contour.y, *contour.fixed])}."
        )
    x = np.linspace(*contour.x_range, _PLANE_POINTS)
    y = np.linspace(*contour.y_range, _PLANE_POINTS)
    grid = dict(zip((contour.x, contour.y), np.meshgrid(x, y), strict=True))
    states = [grid[name] if name in grid else np.full_like(grid[contour.x], contour.fixed[name]) for name in names]
    return x, y, np.stack(states, axis=-1)


def true_values(potential: Potential, states: np.ndarray) -> np.ndarray:
    """A system's own energy or entropy, a function of one state, at states `(..., state)`."""
    with jax.enable_x64(True):
        values = jax.vmap(potential)(jnp.asarray(states.reshape(-1, states.shape[-1])))
    return np.asarray(values).reshape(states.shape[:-1])


def learnt_values(potential: Potential, states: np.ndarray) -> np.ndarray:
    """A model's energy or entropy, a function of `state *batch`, in its own units at states `(..., state)`."""
    with jax.enable_x64(True):
        values = potential(jnp.asarray(states.reshape(-1, states.shape[-1]).T))
    return np.asarray(values).reshape(states.shape[:-1])


def calibrated(learnt: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """A model's values on a plane, calibrated to the true ones there: the plane is the reference domain."""
    scale, offset = calibrate(learnt.ravel(), truth.ravel())
    return scale * learnt + offset


def calibrated_along(learnt: Any, truth: Any) -> np.ndarray:
    """A potential along a rollout, anchored at the first time, the scale fitted to all that is finite."""
    learnt, truth = np.asarray(learnt, np.float64), np.asarray(truth, np.float64)
    sound = np.isfinite(learnt)
    if not sound[0]:
        return np.full_like(learnt, np.nan)
    scale, offset = calibrate_anchored(learnt[sound], truth[sound])
    return scale * learnt + offset
