r"""The weak operator: integrals of a sampled record against every test function, applied locally.

Windows start at multiples of `stride`. The record is cut into blocks of that length; each block meets the
few pieces of a window that can lie over it, and the pieces of one window are added up. Time and memory
are linear in the record's length; no matrix of size (windows x samples) exists.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float
from wgfinn.weak.test_functions import TestFunctionSpec


class WeakOperator(eqx.Module):
    """Test functions for records of up to `n_times` equally spaced samples (trapezoidal rule, unit step).

    Both ends of a window carry the value zero, so every other sample has the full weight.
    """

    values: Float[Array, "piece stride"]
    slopes: Float[Array, "piece stride"]
    count: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, spec: TestFunctionSpec, n_times: int, dtype: str = "float64"):
        self.count = spec.count(n_times)
        self.width = spec.width
        self.values, self.slopes = (_in_pieces(window, spec.stride, dtype) for window in spec.window())

    @property
    def stride(self) -> int:
        return self.values.shape[1]

    @property
    def length(self) -> int:
        """Samples from the start of the first window to the end of the last."""
        return (self.count - 1) * self.stride + self.width

    def integrate(self, record: Float[Array, "*batch time"]) -> Float[Array, "*batch test"]:
        r"""$\sum_k \phi_j(t_k) x_k$; times the step this is $\int \phi_j x\,dt$."""
        return self._apply(self.values, record)

    def integrate_slope(self, record: Float[Array, "*batch time"]) -> Float[Array, "*batch test"]:
        r"""$\int \dot\phi_j x\,dt$, whatever the step: the step in the slope and in the rule cancel."""
        return self._apply(self.slopes, record)

    def integrate_one(self, record: Float[Array, "state time"]) -> Float[Array, " state"]:
        """As `integrate`, of a record as long as one window."""
        return jnp.matmul(record, self.values.ravel()[: self.width], precision=jax.lax.Precision.HIGHEST)

    def covered(self, n_times: int) -> np.ndarray:
        """Which windows lie wholly inside a record of `n_times` samples."""
        return np.arange(self.count) * self.stride + self.width <= n_times

    def _apply(
        self, pieces: Float[Array, "piece stride"], record: Float[Array, "*batch time"]
    ) -> Float[Array, "*batch test"]:
        n_pieces, stride = pieces.shape
        batch, n_times = record.shape[:-1], record.shape[-1]
        n_blocks = self.count - 1 + n_pieces
        needed = n_blocks * stride
        fitted = jnp.pad(record[..., :needed], [(0, 0)] * len(batch) + [(0, max(0, needed - n_times))])
        blocks = fitted.reshape(*batch, n_blocks, stride)
        partial = jnp.einsum("...s,ps->...p", blocks, pieces, precision=jax.lax.Precision.HIGHEST)
        windows = [partial[..., p : p + self.count, p] for p in range(n_pieces)]
        return sum(windows[1:], start=windows[0])


def _in_pieces(window: Float[np.ndarray, " width"], stride: int, dtype: str) -> Float[Array, "piece stride"]:
    n_pieces = -(-len(window) // stride)
    padded = np.zeros(n_pieces * stride)
    padded[: len(window)] = window
    return jnp.asarray(padded.reshape(n_pieces, stride), dtype)
