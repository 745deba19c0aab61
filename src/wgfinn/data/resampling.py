"""Records on equally spaced times, for spectra and windows that only have to be about right."""

import numpy as np
from jaxtyping import Float64

from wgfinn.data.trajectories import Run


def evenly_spaced(run: Run, step: float | None = None) -> Float64[np.ndarray, "even state"]:
    """The run's states from its first time on, every `step` (default: its mean step), linearly interpolated.

    Samples that are missing (NaN) are bridged. A run that already stands on such times comes back as it is. A state of
    which the run has no sample at all stays NaN. Interpolation averages neighbours and so takes off up to a third of
    the variance of white noise: fit for choosing a window or drawing a spectrum, not for learning.
    """
    mean = run.duration / (run.t.size - 1)
    step = mean if step is None else step
    missing = np.isnan(run.x)
    if run.is_uniform and not missing.any() and abs(step - mean) <= 1e-6 * mean:
        return run.x
    # Never beyond the last time, but up to it where the quotient is whole but for rounding.
    times = run.t[0] + step * np.arange(int(run.duration / step * (1 + 1e-9)) + 1)
    columns = [
        np.interp(times, run.t[~gone], x[~gone]) if not gone.all() else np.full(times.size, np.nan)
        for x, gone in zip(run.x.T, missing.T, strict=True)
    ]
    return np.stack(columns, axis=-1)
