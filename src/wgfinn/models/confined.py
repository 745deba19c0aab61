"""Where data were seen, and brackets that fade beyond.

Far from all data a network says anything, and brackets multiply what they say: with gradients that no longer change and
cores that grow, velocities grow with the square of the distance, and trajectories that get out leave for infinity. Here
cores stay what they are at the nearest point where data were, and brackets fade with the distance from there: both by
the same factor, so that trajectories keep their way, lose their speed and come to rest. A factor takes nothing from the
structure: L stays skew, M positive semidefinite, and both annihilate what they did. Inside, nothing changes.
"""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float, Matrix, State, States, Values
from wgfinn.models.brackets import AbstractBracket, Gradient

# How far beyond the data a box reaches, as a part of their range on either side of its middle.
_MARGIN = 0.25
_THINNEST = 1e-4
# How far beyond the box brackets have faded to exp(-1/2), as a part of its own half width.
_FADES_OVER = 0.5


class Box(eqx.Module):
    """Where data were seen: the intervals, along orthonormal axes (in rows), that hold them. It is not trained."""

    axes: Matrix
    low: State
    high: State

    @classmethod
    def everywhere(cls, n_states: int) -> "Box":
        """A box without walls."""
        return cls(jnp.eye(n_states), jnp.full(n_states, -jnp.inf), jnp.full(n_states, jnp.inf))

    @classmethod
    def around(cls, states: Float[np.ndarray, "sample state"], dtype: str) -> "Box":
        """The box along the principal axes of `states` that holds all of them, and a quarter more on either side.

        Values that were not measured (NaN) count as the mean.
        """
        mean = np.nanmean(states, axis=0)
        centred = np.nan_to_num(states - mean)
        axes = np.linalg.eigh(centred.T @ centred)[1].T
        along = centred @ axes.T
        low, high = along.min(axis=0), along.max(axis=0)
        # Where nothing varies, some width all the same.
        more = np.maximum(_MARGIN * (high - low) / 2, _THINNEST * max(1.0, np.ptp(along, axis=0).max()))
        middle = axes @ mean
        return cls(*(jnp.asarray(a, dtype) for a in (axes, middle + low - more, middle + high + more)))

    def nearest(self, x: States) -> States:
        """The nearest state inside: x itself there, to the last bit."""
        return x - _product(self.axes.astype(x.dtype).T, self._beyond(x))

    def fading(self, x: States) -> Values:
        r"""One inside; outside $\exp(-r^4 / 2)$ with r the distance, along each axis in quarters of the box's width:
        hardly less near by, next to nothing where the data's range is doubled."""
        distance = self._beyond(x) / _columns(self.fades_over, x)
        return jnp.exp(-0.5 * (distance**2).sum(axis=0) ** 2)

    @property
    def fades_over(self) -> State:
        """The distance along each axis at which little more than half is left."""
        return _FADES_OVER * (self.high - self.low) / 2

    def _beyond(self, x: States) -> States:
        """How far outside, along each of the axes."""
        along = _product(self.axes.astype(x.dtype), x)
        return along - jnp.clip(along, _columns(self.low, x), _columns(self.high, x))


def _columns(per_axis: State, x: States) -> Array:
    return jnp.expand_dims(per_axis.astype(x.dtype), tuple(range(1, x.ndim)))


def _product(matrix: Matrix, x: States) -> Array:
    return jnp.tensordot(matrix, x, 1, precision=jax.lax.Precision.HIGHEST)


class ConfinedBracket(AbstractBracket):
    """A bracket that outside of a box is what it is at the nearest point of it, and fades."""

    inner: AbstractBracket
    box: Box

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        return self.box.fading(x)[None] * self.inner.apply(self.box.nearest(x), annihilated, vector)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        return self.box.fading(x) * self.inner.matrix(self.box.nearest(x), annihilated)


Tree = TypeVar("Tree", bound=eqx.Module)


def freed(field: Tree) -> Tree:
    """The same field with brackets as they are without a box."""
    return jax.tree.map(lambda node: node.inner if _is_confined(node) else node, field, is_leaf=_is_confined)


def confined_like(other: eqx.Module, field: Tree) -> Tree:
    """The free `field` with those brackets confined that are so in `other`, to the same box."""

    def confine(node: Any, free: Any) -> Any:
        return ConfinedBracket(free, node.box) if _is_confined(node) else free

    return jax.tree.map(confine, other, field, is_leaf=_is_confined)


def _is_confined(node: object) -> bool:
    return isinstance(node, ConfinedBracket)
