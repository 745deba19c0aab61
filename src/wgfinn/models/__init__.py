"""Fields that obey thermodynamics by construction, and a plain network to compare with.

A field maps one state to its velocity; it holds weights and nothing else (no data, no time step).
"""

from wgfinn.models.arrow import Undirected, directed, undirected
from wgfinn.models.brackets import (
    AbstractBracket,
    FreeFrictionBracket,
    FreePoissonBracket,
    FrictionBracket,
    PoissonBracket,
    annihilator,
)
from wgfinn.models.confined import Box, ConfinedBracket, confined_like, freed
from wgfinn.models.fields import (
    AbstractField,
    GenericField,
    PlainField,
    RescaledField,
    fading,
    parameter_count,
    trainable,
)
from wgfinn.models.known import (
    KnownMatrix,
    KnownOperator,
    KnownPotential,
    KnownSum,
    Physics,
    ProjectedPotential,
    ScaledBracket,
    ScaledPotential,
)
from wgfinn.models.mlp import ACTIVATIONS, MLP, Activation
from wgfinn.models.physics import NO_FUNCTIONS, KnownFunctions, know, read_known, require_consistency
from wgfinn.models.potentials import AbstractPotential, AffinePotential, NeuralPotential
from wgfinn.models.spec import EntropyForm, ModelSpec, build
from wgfinn.models.weights import named_arrays, with_named_arrays

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "NO_FUNCTIONS",
    "AbstractBracket",
    "AbstractField",
    "AbstractPotential",
    "Activation",
    "AffinePotential",
    "Box",
    "ConfinedBracket",
    "EntropyForm",
    "FreeFrictionBracket",
    "FreePoissonBracket",
    "FrictionBracket",
    "GenericField",
    "KnownFunctions",
    "KnownMatrix",
    "KnownOperator",
    "KnownPotential",
    "KnownSum",
    "ModelSpec",
    "NeuralPotential",
    "Physics",
    "PlainField",
    "PoissonBracket",
    "ProjectedPotential",
    "RescaledField",
    "ScaledBracket",
    "ScaledPotential",
    "Undirected",
    "annihilator",
    "build",
    "confined_like",
    "directed",
    "fading",
    "freed",
    "know",
    "named_arrays",
    "parameter_count",
    "read_known",
    "require_consistency",
    "trainable",
    "undirected",
    "with_named_arrays",
]
