"""Right-hand sides x' = f(x): the GENERIC field, a plain perceptron, and either in other coordinates."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from wgfinn._errors import InputError
from wgfinn._types import Array, Float, Matrix, State, States, Values
from wgfinn.models.brackets import AbstractBracket
from wgfinn.models.confined import Box, ConfinedBracket
from wgfinn.models.mlp import MLP
from wgfinn.models.potentials import AbstractPotential


class AbstractField(eqx.Module):
    """A vector field and, where it has them, its thermodynamic parts.

    All take `state *batch`, except the matrices, which are for one state.
    """

    @abstractmethod
    def __call__(self, x: States) -> States:
        """x' at each state."""

    @abstractmethod
    def energy(self, x: States) -> Values:
        """E(x), determined up to an affine map."""

    @abstractmethod
    def entropy(self, x: States) -> Values:
        """S(x), determined up to an affine map."""

    @abstractmethod
    def energy_gradient(self, x: States) -> States:
        """The gradient of the energy."""

    @abstractmethod
    def entropy_gradient(self, x: States) -> States:
        """The gradient of the entropy."""

    @abstractmethod
    def poisson(self, x: State) -> Matrix:
        """L(x), skew, with L times the entropy gradient zero."""

    @abstractmethod
    def friction(self, x: State) -> Matrix:
        """M(x), symmetric positive semidefinite, with M times the energy gradient zero."""

    @property
    def is_open(self) -> bool:
        """Whether energy leaves for surroundings that are no states."""
        return False


class GenericField(AbstractField):
    r"""$f(x) = L(x) \nabla E(x) + M(x) \nabla S(x)$ (paper, eq. GENERIC).

    Without an entropy of its own it is open. GENERIC then holds for the states together with the heat $h$ of
    surroundings of constant temperature 1: energy $E(x) + h$, entropy $h$, an L that acts on the states alone and an M
    that annihilates $(\nabla E, 1)$. Whence $x' = (L - R) \nabla E$ and $h' = \nabla E \cdot R \nabla E \ge 0$, with
    any skew L and any positive semidefinite R. Since $h = -E(x)$ but for a constant, that is the formula above with
    $S = -E$ and $M = R$.
    """

    energy_potential: AbstractPotential
    entropy_potential: AbstractPotential | None
    reversible: AbstractBracket
    irreversible: AbstractBracket

    @property
    def is_open(self) -> bool:
        return self.entropy_potential is None

    def __call__(self, x: States) -> States:
        reversible, irreversible = self.parts(x)
        return reversible + irreversible

    def parts(self, x: States) -> tuple[States, States]:
        r"""$L \nabla E$ and $M \nabla S$ at each state."""
        of_energy = self.energy_potential.gradient(x)
        of_entropy = -of_energy if self.entropy_potential is None else self.entropy_potential.gradient(x)
        reversible = self.reversible.apply(x, annihilated=of_entropy, vector=of_energy)
        irreversible = self.irreversible.apply(x, annihilated=of_energy, vector=of_entropy)
        return reversible, irreversible

    def energy(self, x: States) -> Values:
        return self.energy_potential(x)

    def entropy(self, x: States) -> Values:
        return -self.energy(x) if self.entropy_potential is None else self.entropy_potential(x)

    def energy_gradient(self, x: States) -> States:
        return _at_each(self.energy_potential.gradient(x), x)

    def entropy_gradient(self, x: States) -> States:
        if self.entropy_potential is None:
            return -self.energy_gradient(x)
        return _at_each(self.entropy_potential.gradient(x), x)

    def poisson(self, x: State) -> Matrix:
        return self.reversible.matrix(x, annihilated=self.entropy_gradient(x))

    def friction(self, x: State) -> Matrix:
        return self.irreversible.matrix(x, annihilated=self.energy_gradient(x))


def _at_each(gradient: Array, x: States) -> States:
    return gradient if gradient.ndim == x.ndim else jnp.broadcast_to(_column(gradient, x), x.shape)


class PlainField(AbstractField):
    """A perceptron from state to velocity, the baseline without any physics."""

    network: MLP

    def __call__(self, x: States) -> States:
        return self.network(x)

    def energy(self, x: States) -> Values:
        raise _no_thermodynamics("energy")

    def entropy(self, x: States) -> Values:
        raise _no_thermodynamics("entropy")

    def energy_gradient(self, x: States) -> States:
        raise _no_thermodynamics("energy")

    def entropy_gradient(self, x: States) -> States:
        raise _no_thermodynamics("entropy")

    def poisson(self, x: State) -> Matrix:
        raise _no_thermodynamics("Poisson matrix")

    def friction(self, x: State) -> Matrix:
        raise _no_thermodynamics("friction matrix")


def _no_thermodynamics(what: str) -> InputError:
    return InputError(f"a plain network has no {what}; fit with field = 'generic' to get one.")


class RescaledField(AbstractField):
    r"""A field learnt in $z = D^{-1}(x - m)$, $\tau = t / t_c$, served in $x$ and $t$.

    With $D$ diagonal, $L_x = D L_z D / t_c$, $M_x = D M_z D / t_c$, $E_x(x) = E_z(z)$ and
    $\nabla_x E = D^{-1} \nabla_z E$: the structure of the inner field carries over exactly.
    """

    inner: AbstractField
    shift: State
    scale: State
    time: Float[Array, ""]

    @property
    def is_open(self) -> bool:
        return self.inner.is_open

    def inward(self, x: States) -> States:
        return (x - _column(self.shift, x)) / _column(self.scale, x)

    def __call__(self, x: States) -> States:
        return _column(self.scale, x) * self.inner(self.inward(x)) / self.time

    def energy(self, x: States) -> Values:
        return self.inner.energy(self.inward(x))

    def entropy(self, x: States) -> Values:
        return self.inner.entropy(self.inward(x))

    def energy_gradient(self, x: States) -> States:
        return self.inner.energy_gradient(self.inward(x)) / _column(self.scale, x)

    def entropy_gradient(self, x: States) -> States:
        return self.inner.entropy_gradient(self.inward(x)) / _column(self.scale, x)

    def poisson(self, x: State) -> Matrix:
        return self._outward(self.inner.poisson(self.inward(x)))

    def friction(self, x: State) -> Matrix:
        return self._outward(self.inner.friction(self.inward(x)))

    def _outward(self, matrix: Matrix) -> Matrix:
        return self.scale[:, None] * matrix * self.scale[None, :] / self.time


def _column(per_state: State, x: States) -> Array:
    return jnp.expand_dims(per_state, tuple(range(1, x.ndim)))


def fading(field: AbstractField, x: States) -> Values:
    """What is left of the field's brackets at each state: one where data were seen (`Box.fading`)."""
    if isinstance(field, RescaledField):
        return fading(field.inner, field.inward(x))
    brackets = (field.reversible, field.irreversible) if isinstance(field, GenericField) else ()
    left = [bracket.box.fading(x) for bracket in brackets if isinstance(bracket, ConfinedBracket)]
    return jnp.min(jnp.stack(left), axis=0) if left else jnp.ones(x.shape[1:], x.dtype)


def trainable(field: eqx.Module) -> tuple[Any, Any]:
    """The numbers of a field (or of what holds one) that are learnt, and the rest of it."""
    return eqx.partition(field, eqx.is_inexact_array, is_leaf=lambda node: isinstance(node, Box))


def parameter_count(field: AbstractField) -> int:
    """Number of trainable numbers, counted as the paper does (unused generator entries included)."""
    if isinstance(field, RescaledField):  # the scales come from the data
        return parameter_count(field.inner)
    return sum(leaf.size for leaf in jax.tree.leaves(trainable(field)[0]))
