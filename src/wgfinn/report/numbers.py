"""Everything a report shows, as numbers: pure functions from a model and trajectories to `ReportData`.

Samples may be missing (NaN) and steps may differ: a run is predicted from its first complete sample on, errors count
measured samples only. What does not live here: files, words and HTML.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from wgfinn._errors import InputError
from wgfinn._types import Array, Float
from wgfinn.artefact import Model
from wgfinn.data import Run, Trajectories, estimate_noise, part_changed
from wgfinn.evaluate import (
    ThermodynamicChecks,
    as_learnt,
    has_thermodynamics,
    natural_variations,
    simulate_runs,
    spread_errors,
    thermodynamic_checks,
)
from wgfinn.models import AbstractField

MAX_RUNS = 100

# Numbers that the shown runs may take together: 4 bytes each, 5.3 as text, so that a page stays below 10 MB.
_BUDGET = 900_000
_MOST_SAMPLES, _FEWEST_SAMPLES = 1000, 100
_MOST_MATRICES, _FEWEST_MATRICES = 41, 5
_MATRIX_BUDGET = 200_000
# A plane is a square grid of this side, coarser where there are many planes.
_SLICE_SIDE, _SLICE_BUDGET, _MOST_SLICED_STATES = 41, 60_000, 12
_BINS = 48
# Beyond this no axis is of use, and float32 ends not far above.
LARGEST = 1e30
# Noise below this fraction of a state's spread is taken for none.
_NO_NOISE = 1e-3

Values = Float64[np.ndarray, " time"]
Samples = Float64[np.ndarray, "time state"]


@final
@dataclass(frozen=True, eq=False)
class StateErrors:
    """How well one state is predicted."""

    name: str
    unit: str
    mean: float
    """Root mean square error over a run by the spread of the state, mean over runs; infinite where one diverged."""
    median: float
    worst: float
    residual: float
    """Root mean square of measured minus predicted, over all runs that stayed finite."""
    noise: float
    """Estimated standard deviation of the measurement noise."""
    is_noisy: bool
    """Whether the estimate is more than what a smooth signal gives."""
    spread: float
    """Standard deviation of all that was measured."""


@final
@dataclass(frozen=True, eq=False)
class Potentials:
    r"""E and S along one run, 0 at the median state, in units of their natural variation; NaN where there is no state.

    `production` is the rate $\nabla S \cdot \dot x$ along the prediction, for a GENERIC field
    $\nabla S \cdot M \nabla S \ge 0$.
    """

    energy: Values
    entropy: Values
    measured_energy: Values
    measured_entropy: Values
    production: Values


@final
@dataclass(frozen=True, eq=False)
class Matrices:
    """L and M at some states of a prediction, for E and S in the units of `Potentials`."""

    t: Float64[np.ndarray, " point"]
    x: Float64[np.ndarray, "point state"]
    poisson: Float64[np.ndarray, "point state state"]
    friction: Float64[np.ndarray, "point state state"]


@final
@dataclass(frozen=True, eq=False)
class RunPaths:
    """One run: measured and predicted, at no more times than a screen can show."""

    name: str
    error: float
    samples: int
    t: Values
    measured: Samples
    predicted: Samples
    low: Samples | None
    """Lowest and highest prediction of the ensemble; None for a single member."""
    high: Samples | None
    lost_at: float | None
    """The first time at which the prediction is not finite."""
    potentials: Potentials | None
    matrices: Matrices | None


@final
@dataclass(frozen=True, eq=False)
class Slices:
    """E and S in planes of two states; the other states stand at the median of the data."""

    planes: tuple[tuple[int, int], ...]
    axes: dict[int, Values]
    energy: tuple[Float64[np.ndarray, "second first"], ...]
    entropy: tuple[Float64[np.ndarray, "second first"], ...]


@final
@dataclass(frozen=True, eq=False)
class Histogram:
    """Residuals of one state over all runs, in units of `scale`."""

    edges: Float64[np.ndarray, " edge"]
    density: Float64[np.ndarray, " bin"]
    scale: float
    beyond: float
    """The fraction that lies outside the edges."""


@final
@dataclass(frozen=True, eq=False)
class ReportData:
    """The content of a report."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    time_unit: str
    n_runs: int
    n_samples: int
    missing: int
    """Values (one state at one time) that were not measured."""
    mended: float
    """Which part of the measurements are outliers, and stand where their neighbours are."""
    error: float
    """Mean over runs and states; infinite where a rollout diverged."""
    median_error: float
    """Median over runs of the mean over states."""
    worst_run: str
    worst_error: float
    run_errors: dict[str, float]
    """Mean over states of every run, also of those that are not shown."""
    states: tuple[StateErrors, ...]
    diverged: tuple[str, ...]
    unpredicted: tuple[str, ...]
    """Runs without a complete sample that a prediction could start from."""
    left_out_members: int
    """Members that are not sound (`Model.sound_members`) and do not count in the bands."""
    checks: ThermodynamicChecks | None
    """None for a field without energy and entropy."""
    median_state: Float64[np.ndarray, " state"]
    runs: tuple[RunPaths, ...]
    slices: Slices | None
    histograms: tuple[Histogram | None, ...]


def report_data(
    model: Model, trajectories: Trajectories, *, integrator: str = "rk23", max_runs: int = MAX_RUNS
) -> ReportData:
    """All numbers of a report. Facts are over all runs; no more than `max_runs` of them can be looked at singly."""
    if max_runs < 1:
        raise InputError(f"a report shows at least one run, but was asked for {max_runs}.")
    measured, trajectories = trajectories, as_learnt(trajectories, model)
    with jax.enable_x64(True):
        field = model.field()
        predicted = predict(field, trajectories, integrator)
        spread = _spread(trajectories)
        errors = masked_errors(trajectories, predicted, spread)
        per_run = _mean(errors, axis=1)
        cloud = _cloud(trajectories)
        scaled = Normalised.of(field, cloud) if has_thermodynamics(field, len(model.names)) else None
        others = [k for k in model.sound_members if k != model.manifest.served]
        shown = choose_runs(per_run, _affordable_runs(trajectories, max_runs, bool(others)))
        subset = trajectories.subset(shown)
        members = [predict(model.field(k), subset, integrator) for k in others]
        paths = [predicted[k] for k in shown]
        runs = _runs(subset, paths, members, per_run[shown], scaled)
        checks = None if scaled is None else _checks(field, cloud, predicted)
        slices = None if scaled is None or len(model.names) < 2 else slice_planes(scaled, cloud)
    residuals = _residuals(trajectories, predicted)
    noise = estimate_noise(trajectories)
    return ReportData(
        names=model.names,
        units=trajectories.units,
        time_unit=trajectories.time_unit,
        n_runs=len(trajectories),
        n_samples=sum(run.t.size for run in trajectories.runs),
        missing=sum(int(np.sum(~np.isfinite(run.x))) for run in trajectories.runs),
        mended=part_changed(measured, trajectories),
        error=float(_mean(errors.reshape(1, -1), axis=1)[0]),
        median_error=_median(per_run),
        worst_run=trajectories.run_names[_worst(per_run)],
        worst_error=float(per_run[_worst(per_run)]),
        run_errors=dict(zip(trajectories.run_names, per_run.tolist(), strict=True)),
        states=_state_errors(trajectories, errors, residuals, noise, spread),
        diverged=tuple(r.name for r, p in zip(trajectories.runs, predicted, strict=True) if _lost(p) is not None),
        unpredicted=tuple(r.name for r, p in zip(trajectories.runs, predicted, strict=True) if np.all(np.isnan(p))),
        left_out_members=model.n_members - len(model.sound_members),
        checks=checks,
        median_state=np.median(cloud.runs[0].x, axis=0),
        runs=runs,
        slices=slices,
        histograms=tuple(histogram(*of_state) for of_state in zip(residuals, noise, spread, strict=True)),
    )


# ------------------------------------------------------------------------------------------------ predictions


def predict(field: AbstractField, trajectories: Trajectories, integrator: str) -> list[np.ndarray]:
    """The rollout of each run from its first complete sample, `(time, state)`; NaN before that."""
    starts = [_first_complete(run.x) for run in trajectories.runs]
    # Of each run the solver needs the first state and the times alone.
    to_solve = {
        k: Run(t=run.t[start:], x=np.tile(run.x[start], (run.t.size - start, 1)), name=run.name)
        for k, (run, start) in enumerate(zip(trajectories.runs, starts, strict=True))
        if start is not None and run.t.size - start >= 2
    }
    predicted = [np.full(run.x.shape, np.nan) for run in trajectories.runs]
    if not to_solve:
        raise InputError("no run has a complete sample, with every state measured, that a prediction could start from.")
    solved = simulate_runs(field, replace(trajectories, runs=tuple(to_solve.values())), integrator)
    for k, x in zip(to_solve, solved, strict=True):
        predicted[k][len(predicted[k]) - len(x) :] = x
    return predicted


def masked_errors(trajectories: Trajectories, predicted: Sequence[np.ndarray], spread: np.ndarray) -> np.ndarray:
    """`spread_errors` of each run and state over the measured samples from the start of the prediction on.

    NaN where there are none; infinite where a prediction that was begun is not finite.
    """
    compared = [_compared(run.x) for run in trajectories.runs]
    measured = [np.where(use, run.x, np.nan) for use, run in zip(compared, trajectories.runs, strict=True)]
    begun = [np.where(use, p, 0.0) for use, p in zip(compared, predicted, strict=True)]
    return spread_errors(measured, begun, spread)


def _compared(measured: np.ndarray) -> np.ndarray:
    """The measured values from the start of the prediction on."""
    started = np.zeros(len(measured), bool)
    start = _first_complete(measured)
    if start is not None and len(measured) - start >= 2:
        started[start:] = True
    return np.isfinite(measured) & started[:, None]


def _first_complete(x: np.ndarray) -> int | None:
    complete = np.all(np.isfinite(x), axis=1)
    return int(np.argmax(complete)) if complete.any() else None


def _lost(predicted: np.ndarray) -> int | None:
    """The first row that is not finite after one that was."""
    sound = np.all(np.isfinite(predicted), axis=1)
    begun = np.logical_or.accumulate(sound)
    lost = begun & ~sound
    return int(np.argmax(lost)) if lost.any() else None


def _cloud(trajectories: Trajectories) -> Trajectories:
    """All complete samples as one record: for what depends on states and not on times."""
    rows = np.concatenate([run.x[_usable_rows(run.x)] for run in trajectories.runs])
    if len(rows) == 0:
        raise InputError(f"no sample is complete with all states below {LARGEST:g} in size; there is nothing to show.")
    rows = rows if len(rows) > 1 else np.tile(rows, (2, 1))
    return Trajectories.from_arrays(rows, np.arange(len(rows)), names=trajectories.names, units=trajectories.units)


def _usable_rows(x: np.ndarray) -> np.ndarray:
    """Indices of rows without gaps and without values that no axis could show."""
    return np.flatnonzero(np.all(np.abs(x) < LARGEST, axis=1))


def _checks(field: AbstractField, cloud: Trajectories, predicted: Sequence[np.ndarray]) -> ThermodynamicChecks | None:
    begun = [p[np.argmax(np.all(np.isfinite(p), axis=1)) :] for p in predicted if np.isfinite(p).all(axis=1).any()]
    return thermodynamic_checks(field, cloud, simulated=begun)


# --------------------------------------------------------------------------------------------- errors and noise


def _state_errors(
    trajectories: Trajectories,
    errors: np.ndarray,
    residuals: Sequence[np.ndarray],
    noise: np.ndarray,
    spread: np.ndarray,
) -> tuple[StateErrors, ...]:
    means = _mean(errors, axis=0)
    return tuple(
        StateErrors(
            name=name,
            unit=unit,
            mean=float(means[j]),
            median=_median(errors[:, j]),
            worst=float(errors[_worst(errors[:, j]), j]),
            residual=_rms(residuals[j]),
            noise=float(noise[j]),
            is_noisy=_is_noisy(noise[j], spread[j]),
            spread=float(spread[j]),
        )
        for j, (name, unit) in enumerate(zip(trajectories.names, trajectories.units, strict=True))
    )


def _is_noisy(noise: float, spread: float) -> bool:
    return bool(noise > _NO_NOISE * spread)


def _residuals(trajectories: Trajectories, predicted: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Measured minus predicted of each state over all runs, where both are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        all_rows = np.concatenate([run.x - p for run, p in zip(trajectories.runs, predicted, strict=True)])
    return [column[np.isfinite(column)] for column in all_rows.T]


def histogram(residuals: np.ndarray, noise: float, spread: float) -> Histogram | None:
    """Density of residuals over the noise, or over their own size where no noise was found; None without any."""
    scale = float(noise) if _is_noisy(noise, spread) else _rms(residuals)
    if residuals.size == 0 or not np.isfinite(scale) or scale == 0:
        return None
    z = residuals / scale
    limit = float(np.clip(np.ceil(np.quantile(np.abs(z), 0.99)), 4, 20))
    edges = np.linspace(-limit, limit, _BINS + 1)
    counts, _ = np.histogram(z, edges)
    return Histogram(
        edges=edges,
        density=counts / (z.size * (edges[1] - edges[0])),
        scale=scale,
        beyond=float(np.mean(np.abs(z) > limit)),
    )


def _spread(trajectories: Trajectories) -> np.ndarray:
    """The standard deviation of what was measured of each state; 0 where nothing was."""
    columns = np.concatenate([run.x for run in trajectories.runs]).T
    measured = (column[np.isfinite(column)] for column in columns)
    return np.array([np.std(values) if values.size else 0.0 for values in measured])


def _rms(values: np.ndarray) -> float:
    if values.size == 0:
        return float("nan")
    largest = float(np.max(np.abs(values)))
    return largest * float(np.sqrt(np.mean((values / largest) ** 2))) if largest > 0 else 0.0


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """The mean of what is not NaN; NaN where nothing is left."""
    there = ~np.isnan(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _median(values: np.ndarray) -> float:
    there = values[~np.isnan(values)]
    return float(np.median(there)) if there.size else float("nan")


def _worst(values: np.ndarray) -> int:
    return int(np.argmax(np.where(np.isnan(values), -1.0, values)))


# ------------------------------------------------------------------------------------------- what a page can hold


def choose_runs(errors: np.ndarray, count: int) -> list[int]:
    """`count` of the runs, evenly over the data, the worst one among them."""
    if count >= len(errors):
        return list(range(len(errors)))
    chosen = _evenly(len(errors), count).tolist()
    worst = _worst(errors)
    if worst not in chosen:
        nearest = min(chosen, key=lambda k: abs(k - worst))
        chosen[chosen.index(nearest)] = worst
    return sorted(chosen)


def _affordable_runs(trajectories: Trajectories, max_runs: int, has_bands: bool) -> int:
    """As many runs as fit with the fewest samples."""
    d = trajectories.n_states
    cost = _FEWEST_SAMPLES * _columns(d, has_bands) + _FEWEST_MATRICES * 2 * d**2
    return max(1, min(max_runs, len(trajectories), _BUDGET // cost))


def _columns(n_states: int, has_bands: bool) -> int:
    """Numbers a sample of a run takes: time, states, bands, potentials."""
    return 1 + (4 if has_bands else 2) * n_states + 5


def _evenly(length: int, count: int) -> np.ndarray:
    """No more than `count` indices over `length`, both ends among them."""
    return np.unique(np.linspace(0, length - 1, min(length, count)).round().astype(int))


# ------------------------------------------------------------------------------------------------- single runs


def _runs(
    subset: Trajectories,
    predicted: Sequence[np.ndarray],
    members: Sequence[Sequence[np.ndarray]],
    errors: np.ndarray,
    scaled: "Normalised | None",
) -> tuple[RunPaths, ...]:
    share = _BUDGET // (len(subset) * _columns(subset.n_states, bool(members)))
    samples = int(np.clip(share, _FEWEST_SAMPLES, _MOST_SAMPLES))
    kept = [_evenly(run.t.size, samples) for run in subset.runs]
    measured = [run.x[keep] for run, keep in zip(subset.runs, kept, strict=True)]
    shown = [x[keep] for x, keep in zip(predicted, kept, strict=True)]
    bands = [_band([x[k] for x in (predicted, *members)]) if members else None for k in range(len(subset))]
    times = [run.t[keep] for run, keep in zip(subset.runs, kept, strict=True)]
    nothing = [None] * len(subset)
    potentials = nothing if scaled is None else _potentials(scaled, measured, shown)
    matrices = nothing if scaled is None else _matrices(scaled, times, shown)
    lost = [_lost(x) for x in predicted]
    return tuple(
        RunPaths(
            name=run.name,
            error=float(errors[k]),
            samples=run.t.size,
            t=times[k],
            measured=measured[k],
            predicted=shown[k],
            low=None if (band := bands[k]) is None else band[0][kept[k]],
            high=None if band is None else band[1][kept[k]],
            lost_at=None if (row := lost[k]) is None else float(run.t[row]),
            potentials=potentials[k],
            matrices=matrices[k],
        )
        for k, run in enumerate(subset.runs)
    )


def _band(members: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest of the members that are finite; NaN where none is."""
    stacked = np.stack(members)
    sound = np.isfinite(stacked)
    low, high = np.where(sound, stacked, np.inf).min(axis=0), np.where(sound, stacked, -np.inf).max(axis=0)
    some = sound.any(axis=0)
    return np.where(some, low, np.nan), np.where(some, high, np.nan)


# ------------------------------------------------------------------------------------------- energy and entropy


@final
class Normalised(eqx.Module):
    r"""A field with its free affine maps fixed: $\tilde E = (E - E(x_m)) / u_E$, $\tilde L = u_E L$, likewise S and M.

    $x_m$ is the median state and u the natural variation over the data: pictures do not depend on the accidents of
    a training, and $\tilde L \nabla \tilde E = L \nabla E$.
    """

    field: AbstractField
    centre: Float[Array, " state"]
    energy_unit: Float[Array, ""]
    entropy_unit: Float[Array, ""]

    @classmethod
    def of(cls, field: AbstractField, cloud: Trajectories) -> "Normalised":
        # A constant potential has no variation, and any unit will do.
        units = (unit if np.isfinite(unit) and unit > 0 else 1.0 for unit in natural_variations(field, cloud))
        centre = np.median(cloud.runs[0].x, axis=0)
        return cls(field, jnp.asarray(centre), *(jnp.asarray(unit) for unit in units))

    def potentials(self, x: Float[Array, "state point"]) -> Float[Array, "potential point"]:
        energy = (self.field.energy(x) - self.field.energy(self.centre)) / self.energy_unit
        entropy = (self.field.entropy(x) - self.field.entropy(self.centre)) / self.entropy_unit
        return jnp.stack([energy, entropy])

    def production(self, x: Float[Array, "state point"]) -> Float[Array, " point"]:
        return jnp.sum(self.field.entropy_gradient(x) * self.field(x), axis=0) / self.entropy_unit

    def matrices(self, x: Float[Array, "point state"]) -> tuple[Array, Array]:
        poisson, friction = jax.vmap(self.field.poisson)(x), jax.vmap(self.field.friction)(x)
        return poisson * self.energy_unit, friction * self.entropy_unit


@eqx.filter_jit
def _potentials_at(scaled: Normalised, x: Array) -> Array:
    return scaled.potentials(x)


@eqx.filter_jit
def _production_at(scaled: Normalised, x: Array) -> Array:
    return scaled.production(x)


@eqx.filter_jit
def _matrices_at(scaled: Normalised, x: Array) -> tuple[Array, Array]:
    return scaled.matrices(x)


def _potentials(
    scaled: Normalised, measured: Sequence[np.ndarray], predicted: Sequence[np.ndarray]
) -> list[Potentials]:
    ends = np.cumsum([len(x) for x in measured])[:-1]
    along = {"measured": np.concatenate(measured), "predicted": np.concatenate(predicted)}
    values = {which: np.asarray(_potentials_at(scaled, jnp.asarray(x.T))) for which, x in along.items()}
    production = np.asarray(_production_at(scaled, jnp.asarray(along["predicted"].T)))
    # A saturated network gives a state that is not finite a finite energy.
    gaps = {which: ~np.all(np.isfinite(x), axis=1) for which, x in along.items()}
    energy, entropy = (np.split(np.where(gaps["predicted"], np.nan, v), ends) for v in values["predicted"])
    measured_energy, measured_entropy = (
        np.split(np.where(gaps["measured"], np.nan, v), ends) for v in values["measured"]
    )
    rates = np.split(np.where(gaps["predicted"], np.nan, production), ends)
    return [Potentials(*parts) for parts in zip(energy, entropy, measured_energy, measured_entropy, rates, strict=True)]


def _matrices(
    scaled: Normalised, times: Sequence[np.ndarray], predicted: Sequence[np.ndarray]
) -> list[Matrices | None]:
    d = predicted[0].shape[1]
    count = int(np.clip(_MATRIX_BUDGET // (len(times) * 2 * d**2), _FEWEST_MATRICES, _MOST_MATRICES))
    picked = [_some_usable_rows(x, count) for x in predicted]
    states = [x[rows] for x, rows in zip(predicted, picked, strict=True)]
    ends = np.cumsum([len(x) for x in states])[:-1]
    both = _matrices_at(scaled, jnp.asarray(np.concatenate(states)))
    poisson, friction = (np.split(np.asarray(matrices), ends) for matrices in both)
    return [
        Matrices(t=t[rows], x=x, poisson=L, friction=M) if len(rows) else None
        for t, rows, x, L, M in zip(times, picked, states, poisson, friction, strict=True)
    ]


def _some_usable_rows(x: np.ndarray, count: int) -> np.ndarray:
    rows = _usable_rows(x)
    return rows[_evenly(len(rows), count)] if len(rows) else rows


def slice_planes(scaled: Normalised, cloud: Trajectories) -> Slices:
    """E and S on a grid over the range of the data in each plane of two states.

    Of more than twelve states, the twelve that move E and S most.
    """
    rows = cloud.runs[0].x
    states = _most_moving(scaled, rows)
    planes = tuple(itertools.combinations(states, 2))
    side = int(np.clip(np.sqrt(_SLICE_BUDGET / len(planes)), 11, _SLICE_SIDE))
    axes = {j: _padded_range(rows[:, j], side) for j in states}
    energy, entropy = [], []
    for first, second in planes:
        grid = np.tile(np.asarray(scaled.centre)[:, None], (1, side * side))
        grid[first], grid[second] = (g.ravel() for g in np.meshgrid(axes[first], axes[second]))
        e, s = np.asarray(_potentials_at(scaled, jnp.asarray(grid)))
        energy.append(e.reshape(side, side))
        entropy.append(s.reshape(side, side))
    return Slices(planes=planes, axes=axes, energy=tuple(energy), entropy=tuple(entropy))


def _most_moving(scaled: Normalised, rows: np.ndarray) -> list[int]:
    if rows.shape[1] <= _MOST_SLICED_STATES:
        return list(range(rows.shape[1]))
    x = jnp.asarray(rows[_evenly(len(rows), 500)].T)
    gradients = (
        scaled.field.energy_gradient(x) / scaled.energy_unit,
        scaled.field.entropy_gradient(x) / scaled.entropy_unit,
    )
    moved = sum(np.mean(np.square(np.asarray(g)), axis=1) for g in gradients) * np.var(rows, axis=0)
    return sorted(np.argsort(moved)[-_MOST_SLICED_STATES:].tolist())


def _padded_range(values: np.ndarray, side: int) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or max(0.1 * abs(low), 0.1)
    return np.linspace(low - margin, high + margin, side)
