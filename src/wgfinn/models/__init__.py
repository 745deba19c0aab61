"""Fields that obey thermodynamics by construction, and a plain network to compare with.

A field maps one state to its velocity; it holds weights and nothing else (no data, no time step).
"""

from wgfinn.models.brackets import AbstractBracket, FrictionBracket, PoissonBracket, annihilator
from wgfinn.models.fields import AbstractField, GenericField, PlainField, RescaledField, parameter_count
from wgfinn.models.mlp import MLP
from wgfinn.models.potentials import AbstractPotential, AffinePotential, NeuralPotential
from wgfinn.models.spec import ModelSpec, build
from wgfinn.models.weights import named_arrays, with_named_arrays

__all__ = [
    "MLP",
    "AbstractBracket",
    "AbstractField",
    "AbstractPotential",
    "AffinePotential",
    "FrictionBracket",
    "GenericField",
    "ModelSpec",
    "NeuralPotential",
    "PlainField",
    "PoissonBracket",
    "RescaledField",
    "annihilator",
    "build",
    "named_arrays",
    "parameter_count",
    "with_named_arrays",
]
