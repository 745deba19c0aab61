"""Runs with gaps as stretches without: short gaps are filled, long ones divide the run."""

import numpy as np
from jaxtyping import Float64, Int

from wgfinn.data.local_cubic import fill
from wgfinn.data.trajectories import Run

# Gaps that exceed the limit by rounding alone do not exceed it.
_ROUNDING = 1e-9


def stretches(run: Run, longest: float) -> tuple[Run, ...]:
    """The parts of `run` in which no state goes unmeasured for longer than `longest`, with every value filled in.

    A gap is the time between two neighbouring measurements of a state. In a short one, missing values are read off the
    cubic through four measured values about it (`local_cubic`); nothing is extrapolated. A step of more than one and a
    half median steps lacks rows: they are put back, at equal distances, and filled as well, since a test function
    changes faster than the states and must be seen at the usual step. The noise level of a filled value follows from
    those it was made of, as if their errors were independent.
    """
    limit = longest * (1 + _ROUNDING)
    t, measured = _with_missing_rows(run.t, limit)
    x, sigma = (None if given is None else _spread(given, measured, len(t)) for given in (run.x, run.sigma))
    assert x is not None
    for state in range(x.shape[1]):
        fill(t, x[:, state], None if sigma is None else sigma[:, state], limit)
    rows = np.flatnonzero(~np.isnan(x).any(axis=1))
    if rows.size == 0:
        return ()
    breaks = np.flatnonzero((np.diff(rows) > 1) | (np.diff(t[rows]) > limit)) + 1
    parts = [part for part in np.split(rows, breaks) if len(part) > 1]
    return tuple(Run(t[part], x[part], run.name, None if sigma is None else sigma[part]) for part in parts)


def _with_missing_rows(
    t: Float64[np.ndarray, " time"], limit: float
) -> tuple[Float64[np.ndarray, " more"], Int[np.ndarray, " time"]]:
    """The times with those put back that the long steps lack, up to `limit`; and where the given ones stand."""
    steps = np.diff(t)
    into = np.where(steps <= limit, np.maximum(1, np.round(steps / np.median(steps))), 1).astype(int)
    places = np.concatenate([[0], np.cumsum(into)])
    within = np.arange(places[-1]) - np.repeat(places[:-1], into)
    return np.append(np.repeat(t[:-1], into) + within * np.repeat(steps / into, into), t[-1]), places


def _spread(
    given: Float64[np.ndarray, "time state"], places: Int[np.ndarray, " time"], length: int
) -> Float64[np.ndarray, "more state"]:
    spread = np.full((length, given.shape[1]), np.nan)
    spread[places] = given
    return spread
