"""Fields in double precision, whatever they were trained in."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


def in_double(tree: Tree) -> Tree:
    """The same field with its weights as doubles; call it where x64 is enabled."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64) if eqx.is_inexact_array(leaf) else leaf, tree)
