r"""Poisson and friction operators that annihilate a given gradient by construction.

Both are built from rows $q_i = A_i g$ with constant skew $A_i$ and $g$ the gradient to annihilate, so that
$q_i \cdot g = 0$ (paper, theorem 2.2; GFINNs, lemma 3.6). They act on a vector; the matrix is formed only
for inspection.
"""

import functools
import itertools
import math
import operator
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float, Matrix, PRNGKeyArray, State, States
from wgfinn.models.mlp import MLP, Activation, Initialisation

Gradient = Float[Array, "state ..."]

# Up to here sums of products are written out entry by entry, which on a CPU saves a few per cent of a step; the program
# grows with the square of it, and with it the time to compile (22 s instead of 1 with ten rows, and no faster).
_LARGEST_UNROLLED = 4

# Scale of the normal draws for the skew matrices: GFINN's code uses 0.1 (spec, section 5);
# 0.7 gives a field of order one in standardised coordinates.
_GENERATOR_SCALE: dict[str, float] = {"paper": 0.1, "unit": 0.7}
# What varies with the state in a core before training, as a part of what usual weights would give.
_VARYING_PART = 0.1


def annihilator(
    generators: Float[Array, "row state state"], gradient: Float[Array, "state *batch"]
) -> Float[Array, "row state *batch"]:
    r"""Rows $A_i g$ with $A_i$ skew, so that their products with $g$ vanish at rounding level.

    Only the strictly upper part of each generator is used: $A_i = U_i - U_i^\top$.
    """
    upper = jnp.triu(generators, 1)
    skew = upper - jnp.swapaxes(upper, -1, -2)
    # Full precision: accelerators otherwise round the factors, and the degeneracy with them.
    return jnp.tensordot(skew, gradient, 1, precision=jax.lax.Precision.HIGHEST)


class AbstractBracket(eqx.Module):
    """A state-dependent operator that sends `annihilated` to zero."""

    @abstractmethod
    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        """The operator at each state, applied to `vector`; gradients without batch axes hold at all states."""

    @abstractmethod
    def matrix(self, x: State, annihilated: State) -> Matrix:
        """The operator at one state as a matrix, for inspection."""


def _square_output(core: MLP, x: States) -> Float[Array, "row row *batch"]:
    n_rows = math.isqrt(len(core.biases[-1]))
    return core(x).reshape(n_rows, n_rows, *x.shape[1:])


def _parts(
    n_states: int,
    *,
    rows: int,
    layers: int,
    width: int,
    initialisation: Initialisation,
    activation: Activation = "tanh",
    key: PRNGKeyArray,
) -> tuple[Float[Array, "row state state"], MLP]:
    for_generators, for_core = jax.random.split(key)
    scale = _GENERATOR_SCALE[initialisation]
    generators = scale * jax.random.normal(for_generators, (rows, n_states, n_states))
    core = MLP(
        n_states,
        rows * rows,
        layers=layers,
        width=width,
        initialisation=initialisation,
        activation=activation,
        key=for_core,
    )
    return generators, core if initialisation == "paper" else _nearly_constant(core, jax.random.fold_in(key, 2))


def _nearly_constant(core: MLP, key: PRNGKeyArray) -> MLP:
    """A network that starts as a random constant with a small part that varies.

    Energy and entropy can take over much of what brackets may say, and the other way round. Brackets that vary no more
    than the data ask for leave it to the potentials, which then hold beyond the data.
    """
    last = lambda mlp: (mlp.weights[-1], mlp.biases[-1])  # noqa: E731
    weight, bias = last(core)
    return eqx.tree_at(last, core, (_VARYING_PART * weight, jax.random.normal(key, bias.shape, bias.dtype)))


def times(matrix: Float[Array, "a b ..."], vector: Float[Array, "b ..."]) -> Float[Array, "a ..."]:
    """Matrix times vector, each one for all states or one per state (trailing batch axes).

    Per state, a matrix this small is a few sums of products that fuse into their neighbours: much faster than batched
    products, here and in the backward pass, and never rounded to an accelerator's short formats.
    """
    if _is_per_state(matrix, vector):
        if not _is_small(matrix):
            return (matrix * vector[None]).sum(axis=1)
        n_columns = matrix.shape[1]
        entries = _entries(matrix)
        return _sums_of_products([entries[i : i + n_columns] for i in range(0, len(entries), n_columns)], vector)
    return jnp.einsum("ab...,b...->a...", matrix, vector, precision=jax.lax.Precision.HIGHEST)


def _transposed_times(matrix: Float[Array, "a b ..."], vector: Float[Array, "a ..."]) -> Float[Array, "b ..."]:
    """As `_times`, with the transposed matrix, which is not formed."""
    if _is_per_state(matrix, vector):
        if not _is_small(matrix):
            return (matrix * vector[:, None]).sum(axis=0)
        n_columns = matrix.shape[1]
        entries = _entries(matrix)
        return _sums_of_products([entries[j::n_columns] for j in range(n_columns)], vector)
    return jnp.einsum("ab...,a...->b...", matrix, vector, precision=jax.lax.Precision.HIGHEST)


def _is_per_state(matrix: Array, vector: Array) -> bool:
    return matrix.ndim == vector.ndim + 1 > 2


def _is_small(matrix: Array) -> bool:
    return max(matrix.shape[:2]) <= _LARGEST_UNROLLED


def _entries(matrix: Array) -> list[Array]:
    flat = matrix.reshape(matrix.shape[0] * matrix.shape[1], *matrix.shape[2:])
    return jax.lax.split(flat, [1] * len(flat), axis=0)  # pyright: ignore[reportReturnType]


def _sums_of_products(rows: list[list[Array]], vector: Array) -> Array:
    factors = jax.lax.split(vector, [1] * len(vector), axis=0)
    return jnp.concatenate([functools.reduce(operator.add, map(operator.mul, row, factors)) for row in rows])


class PoissonBracket(AbstractBracket):
    r"""$L(x) = Q_S^\top (B - B^\top) Q_S$: skew, and $L \nabla S = 0$."""

    generators: Float[Array, "row state state"]
    core: MLP

    def __init__(self, n_states: int, **size: Any):
        self.generators, self.core = _parts(n_states, **size)

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        rows = annihilator(self.generators, annihilated)
        along = times(rows, vector)
        turned = _skew_times(self._upper(x), along) if _is_small(rows) else times(self._skew(x), along)
        return _transposed_times(rows, turned)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        rows = annihilator(self.generators, annihilated)
        matrix = rows.T @ self._skew(x) @ rows
        # Skew to the last bit: where large factors cancel, what the products round off is no longer small beside it.
        return (matrix - matrix.T) / 2

    def _skew(self, x: States) -> Float[Array, "row row *batch"]:
        return _skew_output(self.core, x)

    def _upper(self, x: States) -> Float[Array, "pair *batch"]:
        """Its entries above the diagonal, row by row."""
        n_rows = self.generators.shape[0]
        above, right = np.triu_indices(n_rows, 1)
        upper, lower = above * n_rows + right, right * n_rows + above
        return self.core.recombined(lambda part: part[upper] - part[lower])(x)


class FreePoissonBracket(AbstractBracket):
    r"""$L(x) = B - B^\top$, any skew matrix: where there is no entropy, nothing has to be annihilated."""

    core: MLP

    def __init__(self, n_states: int, **size: Any):
        _, self.core = _parts(n_states, **{**size, "rows": n_states})

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        return times(self._skew(x), vector)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        return self._skew(x)

    def _skew(self, x: States) -> Float[Array, "state state *batch"]:
        return _skew_output(self.core, x)


def _skew_output(core: MLP, x: States) -> Float[Array, "row row *batch"]:
    """B - Bᵀ of a network that gives B: linear in B, so the last layer gives it directly."""
    n_rows = math.isqrt(len(core.biases[-1]))
    transposed = np.arange(n_rows * n_rows).reshape(n_rows, n_rows).T.ravel()
    return core.recombined(lambda part: part - part[transposed])(x).reshape(n_rows, n_rows, *x.shape[1:])


def _skew_times(upper: Float[Array, "pair *batch"], vector: Float[Array, "row ..."]) -> Float[Array, "row *batch"]:
    """A skew matrix per state, given by its entries above the diagonal, times a vector (one for all, or per state)."""
    n_rows = len(vector)
    if n_rows == 1:
        return jnp.zeros((1, *upper.shape[1:]), upper.dtype)
    vector = jnp.expand_dims(vector, tuple(range(vector.ndim, upper.ndim)))
    entries = jax.lax.split(upper, [1] * len(upper), axis=0)
    factors = jax.lax.split(vector, [1] * n_rows, axis=0)
    terms: list[list[Array]] = [[] for _ in range(n_rows)]
    for entry, (i, j) in zip(entries, itertools.combinations(range(n_rows), 2), strict=True):
        terms[i].append(entry * factors[j])
        terms[j].append(-(entry * factors[i]))
    return jnp.concatenate([functools.reduce(operator.add, row) for row in terms])


class FrictionBracket(AbstractBracket):
    r"""$M(x) = Q_E^\top C C^\top Q_E$: symmetric positive semidefinite, and $M \nabla E = 0$."""

    generators: Float[Array, "row state state"]
    core: MLP

    def __init__(self, n_states: int, **size: Any):
        self.generators, self.core = _parts(n_states, **size)

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        rows = annihilator(self.generators, annihilated)
        core = _square_output(self.core, x)
        # For skew A, (A g) . v = -(A v) . g: with a constant v (affine entropy) these rows are constant too.
        along = -times(annihilator(self.generators, vector), annihilated)
        return _transposed_times(rows, times(core, _transposed_times(core, along)))

    def matrix(self, x: State, annihilated: State) -> Matrix:
        factor = _square_output(self.core, x).T @ annihilator(self.generators, annihilated)
        return factor.T @ factor


class FreeFrictionBracket(AbstractBracket):
    r"""$M(x) = C C^\top$, any symmetric positive semidefinite matrix: what is lost goes into surroundings."""

    core: MLP

    def __init__(self, n_states: int, **size: Any):
        _, self.core = _parts(n_states, **{**size, "rows": n_states})

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        core = _square_output(self.core, x)
        return times(core, _transposed_times(core, vector))

    def matrix(self, x: State, annihilated: State) -> Matrix:
        core = _square_output(self.core, x)
        return core @ core.T
