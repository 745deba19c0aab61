"""Measurement noise: synthetic, relative to the spread of each state, and estimated from the data alone."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64

from wgfinn._errors import InputError
from wgfinn.data._arrays import real_array
from wgfinn.data._random import generator
from wgfinn.data.trajectories import Trajectories

# A spread below this fraction of the largest value is rounding, not motion.
_CONSTANT = 1e-12

# Orders of the difference filters, tried from the first on. The second only serves runs of three or four samples: it
# sees curvature (15 % too much noise for Vlasov-Poisson at 1 %), where the fourth sees next to nothing.
_ORDERS = (4, 6, 8, 10)
_LAST_RESORT = 2

# Median of |z| for a standard normal z, and the size at which residuals are clipped, in standard deviations.
_MEDIAN_SIZE = 0.6744897501960817
_CLIP = 2.5


def state_std(trajectories: Trajectories) -> Float64[np.ndarray, " state"]:
    r"""$\sigma_l$: population standard deviation of state $l$ over all its measured values (paper, section 5).

    Exactly zero for a state that never moves, also where rounding leaves a trace of spread.
    """
    x = np.concatenate([run.x for run in trajectories.runs])
    spread = np.nanstd(x, axis=0)
    return np.where(spread > _CONSTANT * np.nanmax(np.abs(x), axis=0), spread, 0.0)


def relative_noise(trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> float:
    """Standard deviations of the noise as parts of the states' spread: the median over the states that move."""
    spread = state_std(trajectories)
    moving = spread > 0
    return float(np.median(noise[moving] / spread[moving])) if moving.any() else np.inf


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


def estimate_noise(trajectories: Trajectories) -> Float64[np.ndarray, " state"]:
    r"""The standard deviation of white Gaussian noise in each state, from the data alone.

    Divided differences over $q + 1$ neighbouring samples, scaled to unit norm, take any polynomial of degree below
    $q$ to zero and leave the variance of white noise as it is: what remains of a well-sampled signal is noise. They
    use the times as given, so steps may vary and samples may be missing (NaN). The differences of all runs are
    pooled with a scale that single events (wall collisions, outliers, gaps) move little. The order $q$ is 4, and
    rises to 10 as long as that lowers the estimate by more than chance would: coarsely sampled signals need it.

    Measured on the four systems of the paper at 1 to 20 % noise: within 2 % with 100 runs of 401 samples (three
    systems), within 5 % with 30 runs of 101 samples (Vlasov-Poisson), within 15 % with 6 of them; for clean data
    below 0.001 % of the state's standard deviation. The relative standard error is about $1.2 / \sqrt{N}$ for N
    samples: 6 % for one run of 401, 12 % for one of 101.

    What it cannot know: noise that is correlated between samples is underestimated, a signal with fewer than about
    six samples a period counts as noise in part, and a state that rests in most of its samples has none. NaN for a
    state of which no run has three measured samples.
    """
    lengths = [len(run.t) for run in trajectories.runs]
    owner = np.repeat(np.arange(len(lengths)), lengths)
    t = np.concatenate([run.t for run in trajectories.runs])
    x = np.concatenate([run.x for run in trajectories.runs])
    return np.array([noise_of_record(owner, t, values) for values in x.T])


def noise_of_record(owner: np.ndarray, t: np.ndarray, x: np.ndarray) -> float:
    """`estimate_noise` for one state: all runs in one array, `owner` says to which run a sample belongs."""
    measured = ~np.isnan(x)
    record = owner[measured], t[measured], x[measured]
    estimate, error = _scale_and_error(*record, _ORDERS[0])
    if math.isnan(estimate):
        return _scale_and_error(*record, _LAST_RESORT)[0]
    for order in _ORDERS[1:]:
        higher, higher_error = _scale_and_error(*record, order)
        # Also leaves when `higher` is NaN: no run is long enough.
        if not higher < estimate * (1 - 2 * max(error, higher_error)):
            break
        estimate, error = higher, higher_error
    return estimate


def _scale_and_error(owner: np.ndarray, t: np.ndarray, x: np.ndarray, order: int) -> tuple[float, float]:
    """The scale of the differences of one order, and its relative standard error for white noise."""
    starts = np.flatnonzero(owner[order:] == owner[: owner.size - order])
    if starts.size == 0:
        return math.nan, math.nan
    residuals = _unit_differences(t, x, starts, order)
    # Neighbouring differences share samples: sum of squared autocorrelations of the filter, equal steps.
    correlation = math.comb(4 * order, 2 * order) / math.comb(2 * order, order) ** 2
    return _robust_scale(residuals), math.sqrt(correlation / (2 * starts.size))


def _unit_differences(t: np.ndarray, x: np.ndarray, starts: np.ndarray, order: int) -> np.ndarray:
    r"""$\sum_i w_i x_i / |w|$ with $w_i = 1 / \prod_{j \ne i} (t_i - t_j)$ over `order + 1` samples from each start."""
    # From the start and in units of a step: products of differences then stay far from over- and underflow, and
    # rounding is that of the signal's change, not of its size.
    begin, base = t[starts], x[starts]
    step = (t[starts + order] - begin) / order
    times = [(t[starts + i] - begin) / step for i in range(order + 1)]
    total, square = np.zeros(starts.size), np.zeros(starts.size)
    for i in range(order + 1):
        weight = np.ones(starts.size)
        for j in range(order + 1):
            if j != i:
                weight *= times[i] - times[j]
        np.reciprocal(weight, out=weight)
        total += weight * (x[starts + i] - base)
        square += weight**2
    return total / np.sqrt(square)


def _robust_scale(residuals: np.ndarray) -> float:
    r"""Standard deviation of normal residuals among which a few are not.

    The median of the sizes gives a first scale; the mean square of the residuals clipped at 2.5 of it, divided by
    what clipping leaves of a normal variable, is nearly as exact as the plain mean square.
    """
    first = float(np.median(np.abs(residuals))) / _MEDIAN_SIZE
    if first == 0:
        return 0.0
    clipped = np.minimum(np.abs(residuals) / first, _CLIP)
    return first * math.sqrt(float(np.mean(clipped**2)) / _CLIPPED_VARIANCE)


def _clipped_variance(clip: float) -> float:
    r"""$E \min(z^2, c^2)$ for a standard normal $z$."""
    inside = math.erf(clip / math.sqrt(2))
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    return inside - 2 * clip * density + clip**2 * (1 - inside)


_CLIPPED_VARIANCE = _clipped_variance(_CLIP)
