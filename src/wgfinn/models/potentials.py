"""Scalar functions of the state: energy and entropy."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from wgfinn._types import Array, Float, PRNGKeyArray, State, States, Values
from wgfinn.models.mlp import MLP, Activation, Initialisation


class AbstractPotential(eqx.Module):
    """A scalar of the state and its gradient."""

    @abstractmethod
    def __call__(self, x: States) -> Values:
        """The value at each state."""

    @abstractmethod
    def gradient(self, x: States) -> Float[Array, "state ..."]:
        """The gradient at each state; without batch axes where it is the same at all of them."""


class NeuralPotential(AbstractPotential):
    """A perceptron with one output."""

    network: MLP

    def __init__(
        self,
        n_states: int,
        *,
        layers: int,
        width: int,
        initialisation: Initialisation,
        activation: Activation = "tanh",
        key: PRNGKeyArray,
    ):
        self.network = MLP(
            n_states, 1, layers=layers, width=width, initialisation=initialisation, activation=activation, key=key
        )

    def __call__(self, x: States) -> Values:
        return self.network(x)[0]

    def gradient(self, x: States) -> States:
        return jax.grad(lambda y: self(y).sum())(x)


class AffinePotential(AbstractPotential):
    r"""$a \cdot x + b$: the entropy of systems whose entropies are states (spec, section 5).

    Its gradient does not depend on the state, so nothing is evaluated per state for it.
    """

    slope: State
    offset: Float[Array, ""]

    def __init__(self, n_states: int, *, initialisation: Initialisation, key: PRNGKeyArray):
        layer = MLP(n_states, 1, layers=1, width=1, initialisation=initialisation, key=key)
        self.slope, self.offset = layer.weights[0][0], layer.biases[0][0]

    def __call__(self, x: States) -> Values:
        return jnp.tensordot(self.slope, x, 1) + self.offset

    def gradient(self, x: States) -> State:
        return self.slope
