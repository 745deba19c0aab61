"""The measurement noise of each state, estimated from the data alone."""

import numpy as np
from jaxtyping import Float64

from wgfinn.data import Trajectories

_NEIGHBOURS = (-2, -1, 1, 2)


def estimate_noise(trajectories: Trajectories) -> Float64[np.ndarray, " state"]:
    r"""Standard deviation of white noise in each state; NaN for a state without five measured samples in a run.

    Each sample is compared with the cubic through its two neighbours on either side, at the times as given. For a
    well-sampled signal the difference $x_k - \sum_i w_i x_i$ is noise of variance $\sigma^2 (1 + \sum_i w_i^2)$; its
    median size over all runs gives $\sigma$ and does not feel single jumps.
    """
    found = [_one_state(trajectories, state) for state in range(trajectories.n_states)]
    return np.array(found, np.float64)


def _one_state(trajectories: Trajectories, state: int) -> float:
    sizes = [np.abs(_differences(run.t, run.x[:, state])) for run in trajectories.runs]
    pooled = np.concatenate(sizes)
    # The median of |z| for a standard normal z is 0.6745.
    return float(np.median(pooled) / 0.6744897501960817) if pooled.size else float("nan")


def _differences(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    measured = np.isfinite(x)
    t, x = t[measured], x[measured]
    if t.size < 5:
        return np.zeros(0)
    middle = np.arange(2, t.size - 2)
    # From the middle, in units of the window: products of times stay far from over- and underflow.
    window = t[middle + 2] - t[middle - 2]
    at = {i: (t[middle + i] - t[middle]) / window for i in _NEIGHBOURS}
    weights = {
        i: np.prod([at[j] / (at[j] - at[i]) for j in _NEIGHBOURS if j != i], axis=0) for i in _NEIGHBOURS
    }  # Lagrange's, at 0
    difference = -sum(weights[i] * (x[middle + i] - x[middle]) for i in _NEIGHBOURS)
    return difference / np.sqrt(1 + sum(w**2 for w in weights.values()))
