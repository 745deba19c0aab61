"""Synthetic measurement noise, relative to the spread of each state."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from wgfinn._errors import InputError
from wgfinn.data._arrays import real_array
from wgfinn.data._random import generator
from wgfinn.data.trajectories import Trajectories

# A spread below this fraction of the largest value is rounding, not motion.
_CONSTANT = 1e-12


def state_std(trajectories: Trajectories) -> Float64[np.ndarray, " state"]:
    r"""$\sigma_l$: population standard deviation of state $l$ over all its measured values (paper, section 5).

    Exactly zero for a state that never moves, also where rounding leaves a trace of spread.
    """
    x = np.concatenate([run.x for run in trajectories.runs])
    spread = np.nanstd(x, axis=0)
    return np.where(spread > _CONSTANT * np.nanmax(np.abs(x), axis=0), spread, 0.0)


def add_noise(
    trajectories: Trajectories, level: float | int, *, seed: int | np.integer, sigma: Any = None
) -> Trajectories:
    r"""$y = x + \rho\,\sigma_l\,\xi$ with $\xi \sim N(0, 1)$ for each run, time and state (paper, section 5).

    `level` is $\rho$ (0.05 is 5 % noise). The initial state is corrupted too; what was not measured stays so.
    `sigma` is $\sigma_l$ and defaults to `state_std(trajectories)`; the paper takes it from the clean training runs.
    """
    if not np.isfinite(level) or level < 0:
        raise InputError(
            f"the noise level must be a finite number of at least 0, but received {level}; 0.05 is 5 % noise."
        )
    spread = state_std(trajectories) if sigma is None else real_array(sigma, "sigma")
    if spread.shape != (trajectories.n_states,) or not np.all(np.isfinite(spread) & (spread >= 0)):
        raise InputError(
            f"sigma must be {trajectories.n_states} finite numbers of at least 0, one for each state, "
            f"but received {spread}."
        )
    rng = generator(seed)
    if level == 0:
        return trajectories
    return trajectories.with_states(
        [run.x + level * spread * rng.standard_normal(run.x.shape) for run in trajectories.runs]
    )
