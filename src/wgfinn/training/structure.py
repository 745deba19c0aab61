"""A field as one vector of trainable numbers and the rest.

Optimiser, best-so-far and checkpoint then work on a few vectors instead of dozens of small arrays, each of which would
cost a launch per operation and step.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from wgfinn._types import Array, Float
from wgfinn.models import trainable


class Structure(eqx.Module):
    """Everything of a field (or of a field and what is learnt beside it) but its trainable numbers;
    `field(vector)` puts the two together."""

    rest: eqx.Module
    treedef: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def field(self, vector: Float[Array, " weight"]) -> Any:
        pieces = jax.lax.split(vector, [math.prod(shape) for shape in self.shapes])
        leaves = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return eqx.combine(jax.tree.unflatten(self.treedef, leaves), self.rest)

    def fields(self, vectors: Float[Array, "member weight"]) -> Any:
        """Those of several members, stacked, on the host."""
        return jax.device_get(_fields(self, vectors))


@eqx.filter_jit
def _fields(structure: Structure, vectors: Float[Array, "member weight"]) -> Any:
    return eqx.filter_vmap(structure.field)(vectors)


def take_apart(field: eqx.Module, dtype: str) -> tuple[Float[Array, " weight"], Structure]:
    """The trainable numbers of a field as one vector of type `dtype`, and the rest."""
    weights, rest = trainable(field)
    leaves, treedef = jax.tree.flatten(weights)
    vector = jnp.concatenate([leaf.ravel() for leaf in leaves]).astype(dtype)
    return vector, Structure(rest, treedef, tuple(leaf.shape for leaf in leaves))
