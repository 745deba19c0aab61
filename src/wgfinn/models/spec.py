"""What a model looks like, and how to build it."""

from typing import Literal

import jax
from pydantic import Field as Key

from wgfinn._spec import Spec
from wgfinn._types import PRNGKeyArray
from wgfinn.models.brackets import FrictionBracket, PoissonBracket
from wgfinn.models.fields import AbstractField, GenericField, PlainField
from wgfinn.models.mlp import MLP, Initialisation
from wgfinn.models.potentials import AbstractPotential, AffinePotential, NeuralPotential

Form = Literal["neural", "affine"]


class ModelSpec(Spec):
    """Shape and start of a field."""

    field: Literal["generic", "plain"] = Key(default="generic", description="GENERIC structure, or none")
    layers: int = Key(default=3, ge=2, description="linear layers of each network")
    width: int = Key(default=32, ge=1, description="neurons of each hidden layer")
    energy: Form = Key(default="neural", description="energy as a network or an affine function of the state")
    entropy: Form = Key(default="neural", description="entropy as a network or an affine function of the state")
    rows: int | None = Key(
        default=None, ge=1, description="skew matrices per bracket; the number of states if not given"
    )
    initialisation: Initialisation = Key(
        default="unit", description="'paper' as in GFINN's code; 'unit' for standardised data"
    )


def build(spec: ModelSpec, n_states: int, *, key: PRNGKeyArray) -> AbstractField:
    """A field with fresh weights."""
    size = {"layers": spec.layers, "width": spec.width, "initialisation": spec.initialisation}
    if spec.field == "plain":
        return PlainField(MLP(n_states, n_states, **size, key=key))
    rows = spec.rows or n_states
    for_energy, for_entropy, for_poisson, for_friction = jax.random.split(key, 4)
    return GenericField(
        energy_potential=_potential(spec.energy, n_states, size, for_energy),
        entropy_potential=_potential(spec.entropy, n_states, size, for_entropy),
        reversible=PoissonBracket(n_states, rows=rows, **size, key=for_poisson),
        irreversible=FrictionBracket(n_states, rows=rows, **size, key=for_friction),
    )


def _potential(form: Form, n_states: int, size: dict, key: PRNGKeyArray) -> AbstractPotential:
    if form == "affine":
        return AffinePotential(n_states, initialisation=size["initialisation"], key=key)
    return NeuralPotential(n_states, **size, key=key)
