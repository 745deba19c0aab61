r"""Test functions over samples at any times: the weak operator where steps differ.

A window has a physical duration, $\ell - 1$ median steps of its run, and stands at a physical time, so that it holds
about `width` samples wherever it stands. Sums over a window take the weights of `quadrature_weights`, which are those
of the trapezoidal rule where the samples happen to be equally spaced.

As in `WeakOperator`, windows start at multiples of a stride and the record is cut into blocks of that length; here it
is a length of time, so that blocks hold different numbers of samples. They are padded to the fullest. Block b meets
window $b - p$ with its p-th piece, and all sums are dense products: no scatter, whose order a GPU would not keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64, Int

from wgfinn._types import Array, Float
from wgfinn.data.local_cubic import quadrature_weights
from wgfinn.weak.test_functions import TestFunctionSpec

# A window that sticks out by rounding alone lies inside.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Placement:
    """The windows over one stretch of samples, in blocks: what `integrate` needs, in double precision.

    `samples` says which sample stands in a slot; a slot that stays empty repeats one and weighs nothing.
    """

    samples: Int[np.ndarray, "slot block"]
    values: Float64[np.ndarray, "piece slot block"]
    slopes: Float64[np.ndarray, "piece slot block"]

    @property
    def count(self) -> int:
        """Windows over the stretch."""
        return self.values.shape[2] - self.values.shape[0] + 1

    def slope_integrals(self, x: Float64[np.ndarray, "time state"]) -> Float64[np.ndarray, "test state"]:
        r"""$\int \dot\phi_j (x - c_j)\,dt$ with $c_j$ the mean of $x$ under $\phi_j$.

        $\int \dot\phi_j = 0$, but a rule for uneven samples has an error there, which an offset of the states, however
        little they move, would multiply.
        """
        here = x[self.samples]
        means = _over_windows(self.values, here) / _over_windows(self.values, np.ones_like(here))
        return _over_windows(self.slopes, here) - means * _over_windows(self.slopes, np.ones_like(here))

    def slope_noise(self, sigma: Float64[np.ndarray, "time state"]) -> Float64[np.ndarray, "test state"]:
        r"""Standard deviation of $\int \dot\phi_j x\,dt$, $\sqrt{\sum_k (w_k \dot\phi_j(t_k) \sigma_k)^2}$."""
        return np.sqrt(_over_windows(self.slopes**2, sigma[self.samples] ** 2))


def _over_windows(pieces: np.ndarray, here: Float64[np.ndarray, "slot block state"]) -> np.ndarray:
    n_pieces, _, n_blocks = pieces.shape
    count = n_blocks - n_pieces + 1
    partial = np.einsum("psb,sbx->pbx", pieces, here)
    return sum(partial[p, p : p + count] for p in range(1, n_pieces)) + partial[0, :count]


def window_duration(t: Float64[np.ndarray, " time"], spec: TestFunctionSpec) -> float:
    """The support of a test function in the time of a run: `width` samples at its median step."""
    return (spec.width - 1) * float(np.median(np.diff(t)))


def window_count(t: Float64[np.ndarray, " time"], duration: float, spec: TestFunctionSpec) -> int:
    """Windows over a stretch of samples; none if it is shorter than a window."""
    left = (t[-1] - t[0]) / duration - 1 + _ROUNDING
    return 0 if left < 0 else 1 + int(left * (spec.width - 1) / spec.stride)


def place(t: Float64[np.ndarray, " time"], duration: float, spec: TestFunctionSpec) -> Placement:
    """All windows over a stretch of samples without long gaps, long enough for one."""
    block = duration * spec.stride / (spec.width - 1)
    n_pieces = -(-spec.width // spec.stride)
    n_blocks = window_count(t, duration, spec) - 1 + n_pieces
    # Half a step early: jitter then moves no sample into the next block, and the fullest block is no fuller.
    early = t[0] - duration / (spec.width - 1) / 2
    samples, filled = _in_blocks(t, early + block * np.arange(n_blocks + 1))
    start = t[0] + block * (np.arange(n_blocks) - np.arange(n_pieces)[:, None])[:, None, :]
    tau = np.clip(2 * (t[samples] - start) / duration - 1, -1, 1)
    weights = np.where(filled, quadrature_weights(t)[samples], 0.0)
    phi, slope = spec.evaluate(tau)
    return Placement(samples, weights * phi, weights * slope * 2 / duration)


def _in_blocks(
    t: Float64[np.ndarray, " time"], borders: Float64[np.ndarray, " border"]
) -> tuple[Int[np.ndarray, "slot block"], Bool[np.ndarray, "slot block"]]:
    """Which sample stands in which slot of which block, and whether the slot is in use."""
    first = np.searchsorted(t, borders)
    slots = np.arange(max(1, np.diff(first).max()))[:, None]
    filled = slots < np.diff(first)
    return np.where(filled, first[:-1] + slots, np.minimum(first[:-1], len(t) - 1)), filled


class ScatteredOperator(eqx.Module):
    """Integrals of sampled records against test functions, where every record has sample times of its own."""

    values: Float[Array, "item piece slot block"]

    def __init__(self, placed: Sequence[Float64[np.ndarray, "piece slot block"]], dtype: str):
        self.values = jnp.asarray(np.stack(placed), dtype)

    def integrate(
        self, record: Float[Array, "state item slot block"], items: Int[Array, " item"] | None = None
    ) -> Float[Array, "state item test"]:
        r"""$\sum_k w_k \phi_j(t_k) x_k \approx \int \phi_j x\,dt$ of all items, or of those drawn."""
        values = self.values if items is None else self.values[items]
        n_pieces, n_blocks = values.shape[1], values.shape[3]
        count = n_blocks - n_pieces + 1
        windows = [
            jnp.einsum(
                "xisb,isb->xib",
                record[..., p : p + count],
                values[:, p, :, p : p + count],
                precision=jax.lax.Precision.HIGHEST,
            )
            for p in range(n_pieces)
        ]
        return sum(windows[1:], start=windows[0])

    def integrate_one(
        self, record: Float[Array, "state slot piece"], item: Int[Array, ""], place: Int[Array, ""]
    ) -> Float[Array, " state"]:
        """As `integrate`, of the blocks under one window."""
        n_pieces, n_slots = self.values.shape[1:3]
        first = jnp.zeros_like(item)
        under = jax.lax.dynamic_slice(self.values, (item, first, first, place), (1, n_pieces, n_slots, n_pieces))[0]
        return jnp.einsum("xsp,psp->x", record, under, precision=jax.lax.Precision.HIGHEST)
