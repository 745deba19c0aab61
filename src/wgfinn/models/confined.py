"""Where data were seen, and brackets that say nothing beyond.

Far from all data a network says anything, and brackets multiply what they say: with gradients that no longer change and
cores that grow, velocities grow with the square of the distance, and trajectories that get out leave for infinity. With
cores that stay what they are at the nearest point where data were, velocities are bounded everywhere. Inside, nothing
changes.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float, Matrix, State, States
from wgfinn.models.brackets import AbstractBracket, Gradient

# How far beyond the data a box reaches, as a part of their range on either side of its middle.
_MARGIN = 0.25


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
        more = _MARGIN * (high - low) / 2
        middle = axes @ mean
        return cls(*(jnp.asarray(a, dtype) for a in (axes, middle + low - more, middle + high + more)))

    def nearest(self, x: States) -> States:
        """The nearest state inside: x itself there, to the last bit."""
        axes = self.axes.astype(x.dtype)
        along = _product(axes, x)
        low, high = (jnp.expand_dims(a.astype(x.dtype), tuple(range(1, x.ndim))) for a in (self.low, self.high))
        return x - _product(axes.T, along - jnp.clip(along, low, high))


def _product(matrix: Matrix, x: States) -> Array:
    return jnp.tensordot(matrix, x, 1, precision=jax.lax.Precision.HIGHEST)


Tree = TypeVar("Tree", bound=eqx.Module)


def boxes(field: eqx.Module) -> list[Box]:
    """Those that pieces of the field are confined to."""
    return [node for node in jax.tree.leaves(field, is_leaf=_is_box) if _is_box(node)]


def confined_to(box: Box, field: Tree) -> Tree:
    """The same field with another box, for those pieces that have one."""
    return jax.tree.map(lambda node: box if _is_box(node) else node, field, is_leaf=_is_box)


def _is_box(node: object) -> bool:
    return isinstance(node, Box)


class ConfinedBracket(AbstractBracket):
    """A bracket that outside of a box is what it is at the nearest point of it."""

    inner: AbstractBracket
    box: Box

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        return self.inner.apply(self.box.nearest(x), annihilated, vector)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        return self.inner.matrix(self.box.nearest(x), annihilated)
