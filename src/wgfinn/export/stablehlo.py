"""StableHLO through `jax.export`: one compiled-ahead function for any number of states, on any kind of device."""

import jax
import jax.export
import jax.numpy as jnp

from wgfinn._errors import InputError
from wgfinn._types import Array, Float
from wgfinn.artefact import Model
from wgfinn.export._optional import require
from wgfinn.export.arrays import DType
from wgfinn.models import AbstractField

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def stablehlo_bytes(model: Model, member: int | None, dtype: DType) -> bytes:
    """`jax.export`'s serialisation of x `(batch, state)` -> {"f", "energy", "entropy"}; f alone for a plain network."""
    require("flatbuffers", "stablehlo")
    with jax.enable_x64(True):
        field = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), model.field(member))
        (batch,) = jax.export.symbolic_shape("batch")
        states = jax.ShapeDtypeStruct((batch, len(model.names)), dtype)
        exported = jax.export.export(jax.jit(lambda x: evaluate(field, x)), platforms=PLATFORMS)(states)
        # One derivative may be taken of what is read back, for implicit solvers and fits.
        return bytes(exported.serialize(vjp_order=1))


def evaluate(field: AbstractField, x: Float[Array, "batch state"]) -> dict[str, Array]:
    """The field and its potentials, the batch in front."""
    values = {"f": field(x.T).T}
    try:
        return {**values, "energy": field.energy(x.T), "entropy": field.entropy(x.T)}
    except InputError:  # a plain network has no potentials
        return values
