"""How far simulated runs are from measured ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from wgfinn._errors import InputError
from wgfinn._types import Array, Field, Float
from wgfinn.data import Run, Trajectories
from wgfinn.evaluate._double import in_double
from wgfinn.integrate import INTEGRATORS, rollout


def simulate_runs(
    field: Field, trajectories: Trajectories, integrator: str = "rk23"
) -> list[Float64[np.ndarray, "_ state"]]:
    """x' = field(x) from the first state of each run, at the times of that run, `(time, state)` each.

    All states must have been measured there: `Trajectories.from_complete_start` cuts off what lies before.
    Computed in double precision whatever the caller's setting. A run that blows up holds NaN or infinity
    from there on.
    """
    if integrator not in INTEGRATORS:
        raise InputError(f"integrator={integrator!r} is unknown; choose one of {', '.join(INTEGRATORS)}.")
    runs = trajectories.runs
    _check_starts(trajectories)
    simulated: dict[int, np.ndarray] = {}
    with jax.enable_x64(True):
        double = in_double(field)
        for members in _batches(runs):
            longest = max(runs[i].t.size for i in members)
            start = jnp.asarray(np.stack([runs[i].x[0] for i in members]))
            times = jnp.asarray(np.stack([_padded(runs[i].t, longest) for i in members]))
            solutions = np.asarray(_rollouts(double, start, times, integrator))
            simulated |= {i: x[: runs[i].t.size] for i, x in zip(members, solutions, strict=True)}
    return [simulated[i] for i in range(len(runs))]


def _check_starts(trajectories: Trajectories) -> None:
    for run in trajectories.runs:
        if not run.observed[0].all():
            name = trajectories.names[int(np.argmin(run.observed[0]))]
            raise InputError(
                f"run {run.name!r}: a simulation starts from the first state, but {name!r} was not measured there "
                f"(t = {run.t[0]:.6g}). Cut the run with trajectories.from_complete_start()."
            )


def _batches(runs: Sequence[Run]) -> list[list[int]]:
    """Indices of runs whose lengths differ by less than a factor of two.

    One compilation serves a batch, whatever the grids in it, and less than half of its steps are padding.
    """
    batches: dict[int, list[int]] = {}
    for i, run in enumerate(runs):
        batches.setdefault(run.t.size.bit_length(), []).append(i)
    return list(batches.values())


def _padded(t: np.ndarray, length: int) -> np.ndarray:
    # Steps of zero length: the state stands still, and the copies are cut off again.
    return np.pad(t, (0, length - t.size), mode="edge")


@eqx.filter_jit
def _rollouts(
    field: Field, start: Float[Array, "traj state"], t: Float[Array, "traj time"], integrator: str
) -> Float[Array, "traj time state"]:
    return jax.vmap(lambda x0, times: rollout(field, x0, times, integrator))(start, t)


def relative_l2(truth: Any, prediction: Any) -> Float64[np.ndarray, "traj state"]:
    r"""$\sqrt{\sum_k (x_k - \tilde x_k)^2 / \sum_k x_k^2}$ for each run and state (paper, eq. test_rmse).

    Both are `(traj, time, state)`, or lists of `(time, state)` arrays of any lengths. A prediction that is
    not finite somewhere has an infinite error: a diverged run cannot drop out of a mean. Where the truth of
    a state is zero throughout a run, the error is 0 if the prediction is zero too, and infinite if not: no
    relative error exists there. NaN in the truth means "not measured": the sums go over the other times, and where
    a run never measured a state the error is NaN.
    """
    if len(truth) != len(prediction):
        raise InputError(f"received {len(prediction)} predicted runs for {len(truth)} true ones.")
    if len(truth) == 0:
        raise InputError("no runs were given; an error needs at least one.")
    return np.stack([_run_errors(k, *pair) for k, pair in enumerate(zip(truth, prediction, strict=True))])


def spread_errors(
    truth: Sequence[np.ndarray], prediction: Sequence[np.ndarray], spread: Float64[np.ndarray, " state"]
) -> Float64[np.ndarray, "traj state"]:
    r"""$\sqrt{\mathrm{mean}_k (x_k - \tilde x_k)^2} / \sigma$ for each run and state, with σ the state's spread.

    Unlike `relative_l2` it does not depend on where zero is: a temperature of 290 K that is missed by the whole of its
    variation of 1 K has a relative error of 0.3 %. Not measured, not finite and a spread of 0 count as they do there.
    """
    errors = []
    for x, predicted in zip(truth, prediction, strict=True):
        measured = ~np.isnan(x)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            missed = np.where(measured | ~np.isfinite(predicted), np.where(measured, x, 0.0) - predicted, 0.0)
            missed = np.where(missed == 0, 0.0, missed / spread)
            mean = np.sum(missed**2, axis=0) / np.maximum(measured.sum(axis=0), 1)
        mean = np.where(np.isnan(mean), np.inf, mean)
        errors.append(np.where(measured.any(axis=0), np.sqrt(mean), np.nan))
    return np.stack(errors)


def _run_errors(index: int, truth: Any, prediction: Any) -> np.ndarray:
    truth, prediction = np.asarray(truth, np.float64), np.asarray(prediction, np.float64)
    if truth.ndim != 2 or truth.shape != prediction.shape:
        raise InputError(
            f"run {index}: truth and prediction must be (time, state) arrays of one shape, "
            f"but have shapes {truth.shape} and {prediction.shape}."
        )
    measured = ~np.isnan(truth)
    truth = np.where(measured, truth, 0.0)
    # Squares of very small or large states would leave the range of doubles.
    unit = np.max(np.abs(truth), axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        # A prediction counts where nothing was measured only in so far as it must be finite there.
        missed = np.where(measured | ~np.isfinite(prediction), truth - prediction, 0.0)
        difference = np.sqrt(np.sum((missed / unit) ** 2, axis=0))
    size = np.sqrt(np.sum((truth / unit) ** 2, axis=0))
    # inf / 0 would be inf as well, but 0 / 0 is not 0.
    errors = np.divide(difference, size, out=np.where(difference == 0, 0.0, np.inf), where=size > 0)
    return np.where(measured.any(axis=0), np.where(np.isnan(errors), np.inf, errors), np.nan)


@final
@dataclass(frozen=True)
class Errors:
    """Relative errors in time; infinite where a rollout diverged."""

    overall: float
    """Mean over runs and states (paper, eq. test_rmse)."""
    per_state: dict[str, float]
    """Mean over runs, by the name of the state."""
    per_run: dict[str, float]
    """Mean over states, by the name of the run."""
    median_run: float
    """Median of `per_run`, which a single diverged run leaves finite."""
    diverged: tuple[str, ...]
    """Names of the runs whose prediction is not finite throughout."""


def prediction_errors(trajectories: Trajectories, predictions: Any) -> Errors:
    """Errors of predictions, one `(time, state)` array a run, against the runs of `trajectories`."""
    # NaN: a state that a run never measured. Every run measured some state, and every state some run measured.
    errors = relative_l2([run.x for run in trajectories.runs], predictions)
    per_run = np.nanmean(errors, axis=1)
    return Errors(
        overall=float(np.nanmean(errors)),
        per_state=dict(zip(trajectories.names, np.nanmean(errors, axis=0).tolist(), strict=True)),
        per_run=dict(zip(trajectories.run_names, per_run.tolist(), strict=True)),
        median_run=float(np.median(per_run)),
        diverged=tuple(
            name for name, x in zip(trajectories.run_names, predictions, strict=True) if not np.all(np.isfinite(x))
        ),
    )


def trajectory_errors(field: Field, trajectories: Trajectories, integrator: str = "rk23") -> Errors:
    """Errors of the field's rollouts from the first state of each run."""
    return prediction_errors(trajectories, simulate_runs(field, trajectories, integrator))
