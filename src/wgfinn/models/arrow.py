r"""Which way the energy of an open field falls, learnt like everything else.

$(L - M) \nabla E$ stays what it is if E and L change their signs and M with them, but M must be positive semidefinite,
which leaves one of the two. A training that begins with the other cannot turn: motion that goes round fixes E and L
soon, and friction that works the wrong way shrinks to nothing and stays there. So trainings begin with
$f = (L - a M) \nabla E$, where the number a starts at zero and may take either sign, and what they end with is the open
field of $\mathrm{sign}(a)\, E$, $\mathrm{sign}(a)\, L$ and $|a|\, M$.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from wgfinn._types import Scalar, States
from wgfinn.models.fields import AbstractField, GenericField
from wgfinn.models.known import Physics
from wgfinn.models.mlp import MLP
from wgfinn.models.potentials import AffinePotential

Part = TypeVar("Part", bound=eqx.Module)


class Undirected(eqx.Module):
    """An open field under training whose arrow of time is not known yet."""

    field: GenericField
    arrow: Scalar

    def __call__(self, x: States) -> States:
        reversible, irreversible = self.field.parts(x)
        return reversible + self.arrow * irreversible


def undirected(field: AbstractField, physics: Physics) -> AbstractField | Undirected:
    """An open field with an arrow to learn, unless something known fixes it; any other field as it is."""
    learnt = all(piece is None for piece in (physics.energy, physics.poisson, physics.friction))
    return Undirected(field, jnp.zeros(())) if isinstance(field, GenericField) and field.is_open and learnt else field


def directed(learnt: AbstractField | Undirected) -> AbstractField:
    """The field that it has become."""
    if not isinstance(learnt, Undirected):
        return learnt
    field, sign = learnt.field, jnp.where(learnt.arrow < 0, -1.0, 1.0)
    # The friction's core enters M twice.
    size = jnp.sqrt(jnp.abs(learnt.arrow))
    return GenericField(
        energy_potential=_times(sign, field.energy_potential),
        entropy_potential=None,
        reversible=_times(sign, field.reversible),
        irreversible=_times(size, field.irreversible),
    )


def _times(factor: Scalar, part: Part) -> Part:
    """A learnt potential, or the core of a learnt bracket, times a number."""

    def scaled(node):
        if isinstance(node, MLP):
            return node.recombined(lambda outputs: factor * outputs)
        return jax.tree.map(lambda leaf: factor * leaf, node) if isinstance(node, AffinePotential) else node

    return jax.tree.map(scaled, part, is_leaf=lambda node: isinstance(node, MLP | AffinePotential))
