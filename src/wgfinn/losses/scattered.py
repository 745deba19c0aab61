"""The weak form of data with uneven steps, gaps, missing values or known noise levels.

An item is a run, or a part of a long one. Its stretches between long gaps lie one behind the other in blocks of time
(`weak.scattered`); a window that would reach from one stretch into the next does not exist.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64, Int

from wgfinn._errors import InputError
from wgfinn._types import Array, Field, Float
from wgfinn.data import Run, Trajectories, stretches
from wgfinn.losses.residuals import AbstractWeakEquations, Items, draw, rates_at, require_room
from wgfinn.weak import ScatteredOperator, TestFunctionSpec, place, window_count, window_duration

LONGEST_GAP = 0.25
"""The longest gap that is filled, as a share of a window: what a window averages over must be mostly measured."""

_MOST_GAPS = 0.99


@dataclass(frozen=True)
class _Blocks:
    """A record in blocks. `slopes`, `noise` and `exists` belong to the window that begins with the block."""

    states: Float64[np.ndarray, "slot block state"]
    values: Float64[np.ndarray, "piece slot block"]
    slopes: Float64[np.ndarray, "block state"]
    noise: Float64[np.ndarray, "block state"]
    exists: Bool[np.ndarray, " block"]


class ScatteredWeakEquations(AbstractWeakEquations):
    r"""Weak residuals at any sample times, $\int \dot\phi_j x\,dt + \int \phi_j f(x)\,dt$.

    With noise levels $\sigma$ each residual is divided by the standard deviation that they give to its first term,
    relative to the typical one of its state: $r_{jl}\, \bar s_l / s_{jl}$, $s_{jl}^2 = \sum_k (w_k \dot\phi_j(t_k)
    \sigma_{kl})^2$ and $\bar s_l^{-2}$ the mean of $s_{jl}^{-2}$.
    """

    states: Float[Array, "state item slot block"]
    slopes: Float[Array, "state item test"]
    exists: Float[Array, "1 item test"]
    windows: Int[Array, "window 2"]
    precision: Float[Array, "state item test"] | None
    operator: ScatteredOperator
    n_items: int = eqx.field(static=True)

    def __init__(self, trajectories: Trajectories, spec: TestFunctionSpec, dtype: str, *, length: int | None = None):
        """`length` is the number of samples above which a run is cut into items of about that many."""
        records = [_in_blocks(run, spec) for run in trajectories.runs]
        items = _items([record for record in records if record is not None], spec, length)
        if not items:
            raise InputError("no test function fits between the gaps of any run; " + _TRY)
        n_windows = items[0].exists.size - (items[0].values.shape[0] - 1)
        self.n_items = len(items)
        self.operator = ScatteredOperator([item.values for item in items], dtype)
        self.states = jnp.asarray(np.stack([np.moveaxis(item.states, -1, 0) for item in items], axis=1), dtype)
        self.slopes = jnp.asarray(np.stack([item.slopes[:n_windows].T for item in items], axis=1), dtype)
        exists = np.stack([item.exists[:n_windows] for item in items])
        self.exists = jnp.asarray(exists[None], dtype)
        self.windows = jnp.asarray(np.argwhere(exists), jnp.int32)
        noise = np.stack([item.noise[:n_windows].T for item in items], axis=1)
        self.precision = jnp.asarray(_precision(noise, exists), dtype) if trajectories.has_noise_levels else None

    def residual(self, field: Field, items: Items = None) -> Float[Array, "state item test"]:
        states, slopes = draw(self.states, items), draw(self.slopes, items)
        residual = slopes + self.operator.integrate(rates_at(field, states), items)
        return residual if self.precision is None else residual * draw(self.precision, items)

    def at_window(self, field: Field, window: Int[Array, " 2"]) -> Float[Array, " state"]:
        item, place = window
        d, _, n_slots, _ = self.states.shape
        n_pieces = self.operator.values.shape[1]
        first = jnp.zeros_like(item)
        under = jax.lax.dynamic_slice(self.states, (first, item, first, place), (d, 1, n_slots, n_pieces))
        rates = field(under.reshape(d, -1)).reshape(d, n_slots, n_pieces)
        residual = self.slopes[:, item, place] + self.operator.integrate_one(rates, item, place)
        return residual if self.precision is None else residual * self.precision[:, item, place]

    def mask(self, items: Items = None) -> Float[Array, "1 item test"]:
        return draw(self.exists, items)


def _precision(
    noise: Float64[np.ndarray, "state item test"], exists: Bool[np.ndarray, "item test"]
) -> Float64[np.ndarray, "state item test"]:
    relative = np.divide(1.0, noise, out=np.zeros_like(noise), where=exists[None])
    typical = np.sqrt(np.sum(relative**2, axis=(1, 2), keepdims=True) / exists.sum())
    return relative / typical


def _in_blocks(run: Run, spec: TestFunctionSpec) -> _Blocks | None:
    """The windows of one run; None if there are none."""
    duration = window_duration(run.t, spec)
    parts = [part for part in stretches(run, LONGEST_GAP * duration) if window_count(part.t, duration, spec)]
    return _joined([_of_stretch(part, duration, spec) for part in parts]) if parts else None


def _of_stretch(part: Run, duration: float, spec: TestFunctionSpec) -> _Blocks:
    placed = place(part.t, duration, spec)
    # Blocks behind the start of the last window begin none.
    behind = ((0, placed.values.shape[0] - 1), (0, 0))
    noise = np.ones((placed.count, part.x.shape[1])) if part.sigma is None else placed.slope_noise(part.sigma)
    return _Blocks(
        states=part.x[placed.samples],
        values=placed.values,
        slopes=np.pad(placed.slope_integrals(part.x), behind),
        noise=np.pad(noise, behind, constant_values=1.0),
        exists=np.arange(placed.samples.shape[1]) < placed.count,
    )


def _joined(parts: list[_Blocks]) -> _Blocks:
    """One behind the other."""
    slots = max(part.states.shape[0] for part in parts)
    parts = [_padded(part, slots, part.exists.size) for part in parts]
    return _Blocks(
        states=np.concatenate([part.states for part in parts], axis=1),
        values=np.concatenate([part.values for part in parts], axis=2),
        slopes=np.concatenate([part.slopes for part in parts]),
        noise=np.concatenate([part.noise for part in parts]),
        exists=np.concatenate([part.exists for part in parts]),
    )


def _padded(part: _Blocks, slots: int, blocks: int) -> _Blocks:
    """With empty slots and blocks. They repeat a state, so that the field is asked about no state that was not seen."""
    more_slots, more_blocks = (0, slots - part.states.shape[0]), (0, blocks - part.exists.size)
    return _Blocks(
        states=np.pad(part.states, (more_slots, more_blocks, (0, 0)), "edge"),
        values=np.pad(part.values, ((0, 0), more_slots, more_blocks)),
        slopes=np.pad(part.slopes, (more_blocks, (0, 0))),
        noise=np.pad(part.noise, (more_blocks, (0, 0)), constant_values=1.0),
        exists=np.pad(part.exists, more_blocks),
    )


def _items(records: list[_Blocks], spec: TestFunctionSpec, length: int | None) -> list[_Blocks]:
    """Records of any length as items of one, every window in exactly one of them; items without a window are left out.

    Neighbouring items of a record share the blocks over which a window at their border reaches.
    """
    if not records:
        return []
    shared = records[0].values.shape[0] - 1
    sizes = np.array([record.exists.size for record in records])
    size = _item_size(sizes, shared, int(sizes.max()) if length is None else -(-length // spec.stride))
    slots = max(record.states.shape[0] for record in records)
    items = [
        _padded(_slice(record, start, start + size), slots, size)
        for record in records
        for start in range(0, record.exists.size - shared, size - shared)
    ]
    return [item for item in items if item.exists[: size - shared].any()]


def _item_size(sizes: np.ndarray, shared: int, about: int) -> int:
    """Blocks in an item, `about` to half as many again (no more than the longest record has), with least padding."""
    about = min(max(about, 4 * shared, shared + 1), int(sizes.max()))
    candidates = np.arange(about, min(about + about // 2, int(sizes.max())) + 1)
    total = [size * np.sum(-(-(sizes - shared) // (size - shared))) for size in candidates]
    return int(candidates[np.argmin(total)])


def _slice(record: _Blocks, start: int, end: int) -> _Blocks:
    return _Blocks(
        states=record.states[:, start:end],
        values=record.values[:, :, start:end],
        slopes=record.slopes[start:end],
        noise=record.noise[start:end],
        exists=record.exists[start:end],
    )


def is_regular(trajectories: Trajectories) -> bool:
    """Whether `WeakEquations` is enough: complete runs of equal steps, without noise levels."""
    return not trajectories.has_noise_levels and all(run.is_complete and run.is_uniform for run in trajectories.runs)


def width_over_gaps(trajectories: Trajectories) -> int:
    """The least width, in samples, with which all but one in a hundred gaps are short enough to be filled."""
    gaps = np.concatenate(
        [
            np.diff(run.t[measured]) / np.median(np.diff(run.t))
            for run in trajectories.runs
            for measured in run.observed.T
        ]
    )
    return 1 + int(np.ceil(np.quantile(gaps, _MOST_GAPS) / LONGEST_GAP * (1 - 1e-6)))


_TRY = "choose another width of the test functions (a wider one fills longer gaps, a narrower one fits between them)."


def require_windows(trajectories: Trajectories, spec: TestFunctionSpec) -> None:
    """`InputError` unless every run has room for a test function."""
    for run in trajectories.runs:
        if run.is_complete and run.is_uniform:
            require_room(run, spec)
        else:
            _require_window(run, spec, trajectories.names)


def _require_window(run: Run, spec: TestFunctionSpec, names: tuple[str, ...]) -> None:
    duration = window_duration(run.t, spec)
    if window_count(run.t, duration, spec) == 0:
        raise InputError(
            f"run {run.name!r}: it lasts {run.duration:.6g}, less than the support of the test functions: with width "
            f"= {spec.width} that is {duration:.6g}, {spec.width - 1} median steps. Choose a smaller width, or leave "
            "this run out."
        )
    if _in_blocks(run, spec) is None:
        longest = [np.diff(run.t[[0, *np.flatnonzero(measured), -1]]).max() for measured in run.observed.T]
        worst = int(np.argmax(longest))
        raise InputError(
            f"run {run.name!r}: no test function fits between its gaps: with width = {spec.width} its support is "
            f"{duration:.6g}, in which no state may go unmeasured for more than {LONGEST_GAP * duration:.6g}, but "
            f"{names[worst]!r} does so for {longest[worst]:.6g}. Leave this run out, or {_TRY}"
        )
