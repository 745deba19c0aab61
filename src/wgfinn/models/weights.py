"""Weights of any tree of arrays under readable names, for model files and checkpoints."""

from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._errors import ArtefactError

Tree = TypeVar("Tree")


def named_arrays(tree: object) -> dict[str, np.ndarray]:
    """Every array of the tree under its path, such as `reversible.core.weights.0`."""
    leaves, _ = jax.tree.flatten_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def with_named_arrays(template: Tree, arrays: Mapping[str, np.ndarray]) -> Tree:
    """`template` with its arrays replaced by those of the same name, shape and type."""
    leaves, structure = jax.tree.flatten_with_path(template)
    return jax.tree.unflatten(structure, [_fitting(_name(path), leaf, arrays) for path, leaf in leaves])


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _fitting(name: str, leaf, arrays: Mapping[str, np.ndarray]) -> jax.Array:
    if name not in arrays:
        raise ArtefactError(f"the array {name!r} is missing; the file is damaged or belongs to another model.")
    array = arrays[name]
    if array.shape != leaf.shape or array.dtype != leaf.dtype:
        raise ArtefactError(
            f"the array {name!r} is {array.dtype}{list(array.shape)}, but the settings beside it ask for "
            f"{leaf.dtype}{list(leaf.shape)}; the file is damaged or its settings were changed."
        )
    return jnp.asarray(array)
