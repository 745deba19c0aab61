"""A multilayer perceptron in plain matrix products.

Our own few lines instead of a library's: plain products export to every format we serve.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from wgfinn._types import Array, Float, PRNGKeyArray

Initialisation = Literal["paper", "unit"]
Activation = Literal["tanh", "softplus", "squareplus"]

_WEIGHT_BOUND: dict[str, Callable[[int, int], float]] = {
    # Xavier-uniform, as in the GFINN code (spec, section 5).
    "paper": lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out)),
    # Unit variance of each pre-activation for unit-variance inputs.
    "unit": lambda fan_in, fan_out: math.sqrt(3 / fan_in),
}


@jax.custom_jvp
def squareplus(x: Array) -> Array:
    r"""$(x + \sqrt{x^2 + 4}) / 2$: smooth and linear at one end like softplus, but a root instead of an exponential
    and a logarithm (Barron, 2021)."""
    return 0.5 * (x + jnp.sqrt(x * x + 4))


@jax.custom_jvp
def _squareplus_slope(x: Array) -> Array:
    return 0.5 * (1 + x * jax.lax.rsqrt(x * x + 4))


# One root serves each derivative; written out, because what jax makes of the formula divides by roots of its own.
squareplus.defjvp(lambda at, along: (squareplus(*at), _squareplus_slope(*at) * along[0]))
_squareplus_slope.defjvp(lambda at, along: (_squareplus_slope(*at), 2 * jax.lax.rsqrt(at[0] ** 2 + 4) ** 3 * along[0]))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "softplus": jax.nn.softplus,
    "squareplus": squareplus,
}


class MLP(eqx.Module):
    """`layers` linear layers of `width` neurons with the activation between them; one layer is affine."""

    weights: tuple[Float[Array, "outputs inputs"], ...]
    biases: tuple[Float[Array, " outputs"], ...]
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        *,
        layers: int,
        width: int,
        initialisation: Initialisation,
        activation: Activation = "tanh",
        key: PRNGKeyArray,
    ):
        self.activation = activation
        sizes = [n_inputs, *[width] * (layers - 1), n_outputs]
        bound = _WEIGHT_BOUND[initialisation]
        self.weights = tuple(
            jax.random.uniform(k, (b, a), minval=-bound(a, b), maxval=bound(a, b))
            for k, (a, b) in zip(jax.random.split(key, layers), pairwise(sizes), strict=True)
        )
        self.biases = tuple(jnp.zeros(b) for b in sizes[1:])

    def __call__(self, x: Float[Array, "inputs *batch"]) -> Float[Array, "outputs *batch"]:
        *hidden, last = zip(self.weights, self.biases, strict=True)
        activate = ACTIVATIONS[self.activation]
        for weight, bias in hidden:
            x = activate(_affine(weight, bias, x))
        return _affine(*last, x)

    def recombined(self, combine: Callable[[Array], Array]) -> "MLP":
        """The network whose outputs are linear combinations of these, taken once in the last layer's weights.

        `combine` acts along axis 0, the outputs.
        """
        last = lambda mlp: (mlp.weights[-1], mlp.biases[-1])  # noqa: E731
        return eqx.tree_at(last, self, tuple(combine(part) for part in last(self)))


def _affine(weight: Array, bias: Array, x: Array) -> Array:
    return jnp.tensordot(weight, x, 1) + jnp.expand_dims(bias, tuple(range(1, x.ndim)))
