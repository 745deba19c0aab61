"""Known systems as fields, and fields whose faults are known."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from wgfinn.models import AbstractField
from wgfinn.systems import System


def at_each(function: Callable, x: jax.Array) -> jax.Array:
    """A function of one state at `state *batch`."""
    for _ in range(x.ndim - 1):
        function = jax.vmap(function, in_axes=-1, out_axes=-1)
    return function(x)


class KnownField(AbstractField):
    """The field of a known system, with $aE + b$, $cS + d$ and the brackets that leave the dynamics alone."""

    system: System
    energy_map: tuple[float, float] = (1.0, 0.0)
    entropy_map: tuple[float, float] = (1.0, 0.0)

    def __call__(self, x):
        return at_each(self.system.rhs, x)

    def energy(self, x):
        return self.energy_map[0] * at_each(self.system.energy, x) + self.energy_map[1]

    def entropy(self, x):
        return self.entropy_map[0] * at_each(self.system.entropy, x) + self.entropy_map[1]

    def energy_gradient(self, x):
        return self.energy_map[0] * at_each(self.system.energy_gradient, x)

    def entropy_gradient(self, x):
        return self.entropy_map[0] * at_each(self.system.entropy_gradient, x)

    def poisson(self, x):
        return self.system.poisson(x) / self.energy_map[0]

    def friction(self, x):
        return self.system.friction(x) / self.entropy_map[0]


class FaultyField(AbstractField):
    """Two states, constant gradients and matrices; every condition violated by a number known by hand."""

    rate: float = -1.0
    power: int = eqx.field(default=1, static=True)

    def __call__(self, x):
        return self.rate * x**self.power

    def energy(self, x):
        return x[0]

    def entropy(self, x):
        return x[1]

    def energy_gradient(self, x):
        return jnp.zeros_like(x).at[0].set(1.0)

    def entropy_gradient(self, x):
        return jnp.zeros_like(x).at[1].set(1.0)

    def poisson(self, x):
        return jnp.array([[0.0, 3.0], [-4.0, 0.0]])

    def friction(self, x):
        return jnp.array([[-1.0, 2.0], [0.0, 4.0]])


class NothingField(AbstractField):
    """x' = 0 with vanishing energy, entropy and brackets."""

    def __call__(self, x):
        return jnp.zeros_like(x)

    def energy(self, x):
        return jnp.zeros_like(x[0])

    entropy = energy

    def energy_gradient(self, x):
        return jnp.zeros_like(x)

    entropy_gradient = energy_gradient

    def poisson(self, x):
        return jnp.zeros((x.size, x.size), x.dtype)

    friction = poisson
