"""What a training carries from step to step, and what it tells about a step."""

from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Int, UInt

from wgfinn._types import Array, Float, Scalar, State
from wgfinn.losses import AttentionSpec
from wgfinn.training.spec import OptimiserSpec

T = TypeVar("T")


class MemberSettings(eqx.Module):
    """The settings that may differ between members of equal shape, as numbers inside the program."""

    seed: UInt[Array, ""]
    rate: Scalar
    decay: Scalar
    decay_every: Int[Array, ""]
    weight_decay: Scalar
    attention_rate: Scalar
    attention_decay: Scalar

    @classmethod
    def create(cls, seed: int, optimiser: OptimiserSpec, attention: AttentionSpec, dtype: str) -> "MemberSettings":
        def number(value: float) -> Scalar:
            return jnp.asarray(value, dtype)

        return cls(
            seed=jnp.asarray(seed, jnp.uint32),
            rate=number(optimiser.rate),
            decay=number(optimiser.decay),
            decay_every=jnp.asarray(optimiser.decay_every, jnp.int32),
            weight_decay=number(optimiser.weight_decay),
            attention_rate=number(attention.rate),
            attention_decay=number(attention.decay),
        )


class TrainState(eqx.Module):
    """One member between two steps. `weights` and `best` hold the trainable numbers of a field."""

    weights: Float[Array, " weight"]
    optimiser: optax.OptState
    multiplier: State
    step: Int[Array, ""]
    best: Float[Array, " weight"]
    best_loss: Scalar
    diverged_at: Int[Array, ""]
    """The first check at which the loss was not finite; -1 while all is well."""
    caution: Scalar
    """What is left of the learning rate after setbacks (`Problem.setback`); one while there were none."""


class StepInfo(eqx.Module):
    """A look at the training; it can be dropped without changing a number."""

    loss: Scalar
    residual: State
    gradient_norm: Scalar
    rate: Scalar


def stack(members: Sequence[T]) -> T:
    """Members of equal shape as one value with a leading member axis on every array."""
    # On the host: stacked on a device, each shape would be a program to compile.
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])), *members)


def member(stacked: T, index: int) -> T:
    """One member of a stack."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)
