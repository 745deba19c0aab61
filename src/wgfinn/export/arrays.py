r"""A field as a few named arrays with one meaning, whatever it was made of.

All that is learnt is a perceptron, an activation between linear layers `NAME.W0`, `NAME.b0`, `NAME.W1`, ..., of the
scaled state $z = (x - m)/D$. Affine and known linear potentials are one layer; constants beside a network are taken
into its layers. Brackets are skew matrices `NAME.A` and a network, or one `NAME.matrix`. docs/export.md has the
formulas.
"""

import functools
from typing import Any, Literal

import numpy as np

from wgfinn._errors import InputError
from wgfinn.artefact import Model
from wgfinn.models import (
    MLP,
    AbstractBracket,
    AbstractField,
    AbstractPotential,
    AffinePotential,
    Box,
    ConfinedBracket,
    FreeFrictionBracket,
    FreePoissonBracket,
    FrictionBracket,
    GenericField,
    KnownMatrix,
    KnownSum,
    NeuralPotential,
    PlainField,
    PoissonBracket,
    ProjectedPotential,
    RescaledField,
    ScaledBracket,
    ScaledPotential,
)

DType = Literal["float32", "float64"]
Layers = list[tuple[np.ndarray, np.ndarray]]
Arrays = dict[str, np.ndarray]


def plain_arrays(model: Model, member: int | None, dtype: DType) -> Arrays:
    """The numbers of one member under the names of docs/export.md."""
    field = model.field(member)
    assert isinstance(field, RescaledField)
    numbers = {"shift": field.shift, "scale": field.scale, "time": field.time, **_parts(field.inner, len(model.names))}
    return {name: np.asarray(value, dtype) for name, value in numbers.items()}


def _parts(field: AbstractField, n_states: int) -> dict[str, Any]:
    if isinstance(field, PlainField):
        return _named("velocity", _mlp_layers(field.network))
    assert isinstance(field, GenericField)
    return {
        **_box(field, n_states),
        **_named("energy", potential_layers(field.energy_potential)),
        **_named("entropy", potential_layers(field.entropy_potential or ScaledPotential(field.energy_potential, -1.0))),
        **bracket_arrays(field.reversible, "poisson"),
        **bracket_arrays(field.irreversible, "friction"),
    }


def _box(field: GenericField, n_states: int) -> dict[str, Any]:
    """What learnt brackets are confined to; without walls if they are not."""
    boxes = [b.box for b in (field.reversible, field.irreversible) if isinstance(b, ConfinedBracket)]
    box = boxes[0] if boxes else Box.everywhere(n_states)
    return {"box.axes": box.axes, "box.low": box.low, "box.high": box.high, "box.fading": box.fades_over}


def _named(name: str, layers: Layers) -> Arrays:
    return {
        f"{name}.{letter}{k}": part for k, layer in enumerate(layers) for letter, part in zip("Wb", layer, strict=True)
    }


def _mlp_layers(network: MLP) -> Layers:
    return [(np.asarray(w), np.asarray(b)) for w, b in zip(network.weights, network.biases, strict=True)]


@functools.singledispatch
def potential_layers(potential: AbstractPotential) -> Layers:
    """A potential as a perceptron with one output."""
    raise _no_function("a potential")


@potential_layers.register
def _(potential: NeuralPotential) -> Layers:
    return _mlp_layers(potential.network)


@potential_layers.register
def _(potential: AffinePotential) -> Layers:
    return [(np.asarray(potential.slope)[None], np.asarray(potential.offset)[None])]


@potential_layers.register
def _(potential: KnownSum) -> Layers:
    return [(np.array([potential.slope]), np.array([potential.offset]))]


@potential_layers.register
def _(potential: ProjectedPotential) -> Layers:
    (first, bias), *others = potential_layers(potential.inner)
    return [(first @ np.array(potential.rows), bias), *others]


@potential_layers.register
def _(potential: ScaledPotential) -> Layers:
    *others, (last, bias) = potential_layers(potential.inner)
    return [*others, (potential.factor * last, potential.factor * bias)]


@functools.singledispatch
def bracket_arrays(bracket: AbstractBracket, name: str) -> Arrays:
    """A bracket as skew matrices and a perceptron, or as one matrix."""
    raise _no_function("an operator")


@bracket_arrays.register
def _(bracket: KnownMatrix, name: str) -> Arrays:
    return {f"{name}.matrix": np.array(bracket.rows)}


@bracket_arrays.register(PoissonBracket)
@bracket_arrays.register(FrictionBracket)
def _(bracket: PoissonBracket | FrictionBracket, name: str) -> Arrays:
    upper = np.triu(np.asarray(bracket.generators), 1)
    return {f"{name}.A": upper - np.swapaxes(upper, 1, 2), **_named(name, _mlp_layers(bracket.core))}


@bracket_arrays.register(FreePoissonBracket)
@bracket_arrays.register(FreeFrictionBracket)
def _(bracket: FreePoissonBracket | FreeFrictionBracket, name: str) -> Arrays:
    return _named(name, _mlp_layers(bracket.core))


@bracket_arrays.register
def _(bracket: ScaledBracket, name: str) -> Arrays:
    arrays = bracket_arrays(bracket.inner, name)
    # The core enters L once and M twice.
    twice = isinstance(bracket.inner, FrictionBracket | FreeFrictionBracket)
    factor = np.sqrt(bracket.of_vector) if twice else bracket.of_vector
    last = sum(key.startswith(f"{name}.W") for key in arrays) - 1
    factors = {f"{name}.W{last}": factor, f"{name}.b{last}": factor, f"{name}.A": bracket.of_annihilated}
    return {key: factors.get(key, 1) * array for key, array in arrays.items()}


@bracket_arrays.register
def _(bracket: ConfinedBracket, name: str) -> Arrays:
    return bracket_arrays(bracket.inner, name)


def _no_function(what: str) -> InputError:
    return InputError(
        f"{what} of this model is a Python function, which has no arrays; export with format stablehlo, from Python: "
        "WGFINN.load(path, ...).export(path, format='stablehlo')."
    )
