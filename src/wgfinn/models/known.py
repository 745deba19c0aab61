r"""Pieces of a field that are given instead of learnt, and learnt pieces beside them.

A known piece holds in physical coordinates; a field lives in those of its training, $x = m + D z$, $t = t_c \tau$. So
$E_z(z) = E(m + D z)$ and $L_z = t_c D^{-1} L D^{-1}$, likewise S and M: `RescaledField` undoes it, and what is served
is what was given. Nothing known is trained: functions, matrices and coordinates are static, not arrays of the tree.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float, Matrix, Scalar, State, States, Values
from wgfinn.models.brackets import AbstractBracket, Gradient, times
from wgfinn.models.potentials import AbstractPotential

Rows = tuple[tuple[float, ...], ...]


class Frame(NamedTuple):
    """The coordinates of a training, as plain numbers: m, the diagonal of D, and t_c."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    time: float

    def outward(self, z: State) -> State:
        """The physical state."""
        return jnp.asarray(self.shift, z.dtype) + jnp.asarray(self.scale, z.dtype) * z

    def inward_matrix(self, matrix: Any) -> Any:
        r"""$t_c D^{-1} L D^{-1}$ of a physical operator; skew and symmetric ones stay so to the last bit."""
        units = np.multiply.outer(self.scale, self.scale) / self.time
        return matrix / (units if isinstance(matrix, np.ndarray) else jnp.asarray(units, matrix.dtype))


def _at_each(function: Callable[..., Array], *states: Array) -> Array:
    """A function of one state (and perhaps a vector there) at `state *batch`; the batch stays behind."""
    for _ in states[0].shape[1:]:
        function = jax.vmap(function, in_axes=-1, out_axes=-1)
    return function(*states)


class KnownPotential(AbstractPotential):
    """A given function of one physical state."""

    function: Callable[[Array], Any] = eqx.field(static=True)
    frame: Frame = eqx.field(static=True)

    def __call__(self, x: States) -> Values:
        return _at_each(self._value, x)

    def gradient(self, x: States) -> States:
        return _at_each(jax.grad(self._value), x)

    def _value(self, z: State) -> Scalar:
        # Constants of the function may be of higher precision than the training.
        return jnp.asarray(self.function(self.frame.outward(z))).astype(z.dtype)


class KnownSum(AbstractPotential):
    """The sum of some states, or of none; its gradient is the same everywhere."""

    slope: tuple[float, ...] = eqx.field(static=True)
    offset: float = eqx.field(static=True)

    @classmethod
    def of(cls, indices: tuple[int, ...], frame: Frame) -> "KnownSum":
        slope = tuple(scale if k in indices else 0.0 for k, scale in enumerate(frame.scale))
        return cls(slope, float(sum(frame.shift[k] for k in indices)))

    def __call__(self, x: States) -> Values:
        return jnp.tensordot(self.gradient(x), x, 1) + self.offset

    def gradient(self, x: States) -> State:
        return jnp.asarray(self.slope, x.dtype)


class KnownOperator(AbstractBracket):
    """A given matrix as a function of one physical state. What it annihilates is for its giver to see to."""

    function: Callable[[Array], Any] = eqx.field(static=True)
    frame: Frame = eqx.field(static=True)

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        return times(_at_each(self._matrix, x), vector)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        return self._matrix(x)

    def _matrix(self, z: State) -> Matrix:
        return self.frame.inward_matrix(jnp.asarray(self.function(self.frame.outward(z)))).astype(z.dtype)


class KnownMatrix(AbstractBracket):
    """A given operator that is the same at all states; `rows` are those in the coordinates of the training."""

    rows: Rows = eqx.field(static=True)

    @classmethod
    def of(cls, matrix: np.ndarray, frame: Frame) -> "KnownMatrix":
        return cls(as_rows(frame.inward_matrix(matrix)))

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        product = jnp.tensordot(self._matrix(x), vector, 1, precision=jax.lax.Precision.HIGHEST)
        return jnp.broadcast_to(jnp.expand_dims(product, tuple(range(product.ndim, x.ndim))), x.shape)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        return self._matrix(x)

    def _matrix(self, x: Array) -> Matrix:
        return jnp.asarray(self.rows, x.dtype)


def as_rows(matrix: np.ndarray) -> Rows:
    return tuple(map(tuple, matrix.tolist()))


class ProjectedPotential(AbstractPotential):
    r"""A learnt function of $P z$ alone: its gradient $P^\top \nabla g$ lies in the span of the rows of P.

    With rows that span the kernel of a known operator, that operator annihilates the gradient for any weights: the
    learnt function is one of the operator's Casimirs.
    """

    inner: AbstractPotential
    rows: Rows = eqx.field(static=True)

    def __call__(self, x: States) -> Values:
        return self.inner(self._projected(x))

    def gradient(self, x: States) -> Float[Array, "state ..."]:
        rows = jnp.asarray(self.rows, x.dtype)
        return jnp.tensordot(rows.T, self.inner.gradient(self._projected(x)), 1, precision=jax.lax.Precision.HIGHEST)

    def _projected(self, x: States) -> Array:
        return jnp.tensordot(jnp.asarray(self.rows, x.dtype), x, 1, precision=jax.lax.Precision.HIGHEST)


class ScaledPotential(AbstractPotential):
    """A learnt potential times a constant: the size that known pieces beside it ask for."""

    inner: AbstractPotential
    factor: float = eqx.field(static=True)

    def __call__(self, x: States) -> Values:
        return self.factor * self.inner(x)

    def gradient(self, x: States) -> Float[Array, "state ..."]:
        return self.factor * self.inner.gradient(x)


class ScaledBracket(AbstractBracket):
    """A learnt bracket that sees gradients times constants, of order one whatever the units of known potentials."""

    inner: AbstractBracket
    of_annihilated: float = eqx.field(static=True)
    of_vector: float = eqx.field(static=True)

    def apply(self, x: States, annihilated: Gradient, vector: Gradient) -> States:
        return self.inner.apply(x, self.of_annihilated * annihilated, self.of_vector * vector)

    def matrix(self, x: State, annihilated: State) -> Matrix:
        return self.of_vector * self.inner.matrix(x, self.of_annihilated * annihilated)


class Physics(NamedTuple):
    """What is known of a field, in the coordinates of its training; None is learnt."""

    energy: AbstractPotential | None = None
    entropy: AbstractPotential | None = None
    poisson: AbstractBracket | None = None
    friction: AbstractBracket | None = None
    energy_kernel: Rows | None = None
    """Rows that a learnt energy may depend on, so that a known friction annihilates its gradient; None: all states."""
    entropy_kernel: Rows | None = None
    """The same for a learnt entropy and a known Poisson operator."""
    energy_size: float = 1.0
    """Usual length of the energy's gradient."""
    entropy_size: float = 1.0
    """Usual length of the entropy's gradient."""
    is_open: bool = False
    """Whether energy leaves for surroundings that are no states: no entropy but theirs, and nothing to annihilate."""

    @property
    def conserves(self) -> bool:
        """Whether there is no entropy: nothing but L∇E."""
        return isinstance(self.entropy, KnownSum) and not any(self.entropy.slope)

    @property
    def knows_nothing(self) -> bool:
        return all(piece is None for piece in (self.energy, self.entropy, self.poisson, self.friction))


NOTHING_KNOWN = Physics()
