"""What a model looks like, and how to build it."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import pydantic
from pydantic import Field as Key

from wgfinn._spec import Spec
from wgfinn._types import PRNGKeyArray
from wgfinn.models.brackets import (
    AbstractBracket,
    FreeFrictionBracket,
    FreePoissonBracket,
    FrictionBracket,
    PoissonBracket,
)
from wgfinn.models.confined import Box, ConfinedBracket
from wgfinn.models.fields import AbstractField, GenericField, PlainField
from wgfinn.models.known import NOTHING_KNOWN, Physics, ProjectedPotential, Rows, ScaledBracket, ScaledPotential
from wgfinn.models.mlp import MLP, Activation, Initialisation
from wgfinn.models.potentials import AbstractPotential, AffinePotential, NeuralPotential


class SumForm(Spec):
    """A potential that is the sum of some states."""

    sum: tuple[str, ...] = Key(min_length=1)


class CanonicalForm(Spec):
    """The canonical Poisson matrix of pairs of states, position and momentum; zero elsewhere."""

    canonical: tuple[tuple[str, str], ...] = Key(min_length=1)


class MatrixForm(Spec):
    """An operator that is the same at all states."""

    matrix: tuple[tuple[float, ...], ...] = Key(min_length=1)


PotentialForm = Literal["neural", "affine", "function"] | SumForm
EntropyForm = Literal["auto", "none", "bath"] | PotentialForm
PoissonForm = Literal["neural", "function"] | CanonicalForm | MatrixForm
FrictionForm = Literal["neural", "function"] | MatrixForm

# What may be written for each piece, for those who wrote something else. ("function" is written by Python alone.)
_WRITTEN = {
    "energy": "'neural', 'affine' or {sum = ['E1', 'E2']} with names of states",
    "entropy": "'neural', 'affine', 'none', 'bath' or {sum = ['S1', 'S2']} with names of states",
    "poisson": "'neural', {canonical = [['q', 'p']]} with names of states, or {matrix = [[0, 1], [-1, 0]]}",
    "friction": "'neural' or {matrix = [[1, -1], [-1, 1]]}",
}


class ModelSpec(Spec):
    """Shape and start of a field, and what is known of it (docs/known_physics.md)."""

    field: Literal["generic", "plain"] = Key(default="generic", description="GENERIC structure, or none")
    layers: int = Key(default=3, ge=2, description="linear layers of each network")
    width: int = Key(default=32, ge=1, description="neurons of each hidden layer")
    activation: Activation = Key(
        default="squareplus", description="'squareplus', 'softplus' learn steep potentials best; 'tanh' is the paper's"
    )
    energy: PotentialForm = Key(
        default="neural", description="`neural`, `affine` in the state, or known: `{sum = [...]}` of states"
    )
    entropy: EntropyForm = Key(
        default="auto",
        description="`neural`, `affine` in the state, or known: `{sum = [...]}` of states; `none`: nothing but L∇E; "
        "`bath`: heat goes into surroundings, x' = (L - M)∇E; "
        "auto: for two states that go round `none`, or `bath` if they die down, else `neural`",
    )
    poisson: PoissonForm = Key(
        default="neural", description="`neural`, or known: `{canonical = [[q, p], ...]}`, `{matrix = [[...], ...]}`"
    )
    friction: FrictionForm = Key(default="neural", description="`neural`, or known: `{matrix = [[...], ...]}`")
    rows: int | None = Key(
        default=None, ge=1, description="skew matrices per bracket; the number of states if not given"
    )
    initialisation: Initialisation = Key(
        default="unit", description="'paper' as in GFINN's code; 'unit' for standardised data"
    )

    confined: bool = Key(
        default=True,
        description="outside of the data learnt brackets fade, so that trajectories come to rest there",
    )

    @pydantic.field_validator(*_WRITTEN, mode="wrap")
    @classmethod
    def _says_what_may_be_written(cls, value: Any, validate: Callable[[Any], Any], info: Any) -> Any:
        try:
            return validate(value)
        except pydantic.ValidationError:  # which lists what is wrong by every reading
            raise ValueError(f"give {_WRITTEN[info.field_name]}") from None

    @pydantic.model_validator(mode="after")
    def _a_plain_field_knows_nothing(self) -> "ModelSpec":
        known = [piece for piece in _WRITTEN if getattr(self, piece) not in ("neural", "affine", "auto")]
        if self.field == "plain" and known:
            raise ValueError(f"a plain network has no {known[0]} that could be known; take field = 'generic'")
        return self


def build(
    spec: ModelSpec,
    n_states: int,
    *,
    key: PRNGKeyArray,
    physics: Physics = NOTHING_KNOWN,
    box: Box | None = None,
) -> AbstractField:
    """A field with fresh weights in all that is not known; a learnt brackets are confined to `box`, if
    there is one."""
    size = {
        "layers": spec.layers,
        "width": spec.width,
        "initialisation": spec.initialisation,
        "activation": spec.activation,
    }
    if spec.field == "plain":
        return PlainField(MLP(n_states, n_states, **size, key=key))
    brackets = {"n_states": n_states, "rows": spec.rows or n_states, **size}
    e, s = physics.energy_size, physics.entropy_size
    for_energy, for_entropy, for_poisson, for_friction = jax.random.split(key, 4)
    energy = _potential(spec.energy, n_states, physics.energy_kernel, e, size, for_energy)
    entropy = physics.entropy or _potential(spec.entropy, n_states, physics.entropy_kernel, s, size, for_entropy)
    reversible = FreePoissonBracket if physics.conserves or physics.is_open else PoissonBracket
    irreversible = FreeFrictionBracket if physics.is_open else FrictionBracket
    poisson = _scaled(reversible(**brackets, key=for_poisson), 1 / s, 1 / e)
    friction = _scaled(irreversible(**brackets, key=for_friction), 1 / e, 1 / s)
    if box is not None:
        poisson, friction = ConfinedBracket(poisson, box), ConfinedBracket(friction, box)
    return GenericField(
        energy_potential=physics.energy or energy,
        entropy_potential=None if physics.is_open else entropy,
        reversible=physics.poisson or poisson,
        irreversible=physics.friction or friction,
    )


def _potential(
    form: EntropyForm, n_states: int, kernel: Rows | None, factor: float, size: dict, key: PRNGKeyArray
) -> AbstractPotential:
    n_inputs = n_states if kernel is None else len(kernel)
    learnt = (
        AffinePotential(n_inputs, initialisation=size["initialisation"], key=key)
        if form == "affine"
        else NeuralPotential(n_inputs, **size, key=key)
    )
    placed = learnt if kernel is None else ProjectedPotential(learnt, kernel)
    return placed if factor == 1 else ScaledPotential(placed, factor)


def _scaled(bracket: AbstractBracket, of_annihilated: float, of_vector: float) -> AbstractBracket:
    return bracket if of_annihilated == of_vector == 1 else ScaledBracket(bracket, of_annihilated, of_vector)
