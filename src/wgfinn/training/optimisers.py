"""Optimisers behind one interface: AdamW, SOAP, which turns to the axes of the gradients first, and Gauss-Newton, which
asks for the slopes of single residuals.

Their numbers (rates, decays) are values of the compiled program, so that members may differ in them.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Int

from wgfinn._device import platform
from wgfinn._types import Float, Scalar
from wgfinn.training.spec import OptimiserSpec
from wgfinn.training.state import MemberSettings

Vector = Float[Array, " weight"]
Blocks = Float[Array, "_ _ _"]
Basis = Float[Array, "_ _ _"] | None
Rows = Float[Array, " row"]
Slopes = Float[Array, "row weight"]

REFRESH_EVERY = 10
"""Steps from one renewal of SOAP's axes to the next."""

_LARGEST_SIDE = 128
_KEPT_MEAN, _KEPT_SQUARE, _KEPT_AXES = 0.95, 0.95, 0.95
_TINY = 1e-8
# Of Gauss-Newton steps: what is kept of the last one; the damping, as a part of the mean square of a row of slopes,
# below which single precision would lose the factors; and how many lengths are tried.
_MOMENTUM, _DAMPING, _HALVINGS = 0.9, 1e-3, 6
_ROW_BLOCKS = 4


def learning_rate(settings: MemberSettings, step: Int[Array, ""]) -> Scalar:
    """The staircase: rate * decay ** floor(step / decay_every)."""
    stairs = (step // settings.decay_every).astype(settings.rate.dtype)
    return settings.rate * settings.decay**stairs


class AbstractOptimiser:
    """From a loss to the next weights."""

    @abstractmethod
    def init(self, weights: Vector, settings: MemberSettings) -> Any:
        """The state before the first step."""


class GradientOptimiser(AbstractOptimiser):
    """From a gradient to the next weights. `refresh` says whether it is time for rare, dear work."""

    @abstractmethod
    def update(
        self,
        gradient: Vector,
        state: Any,
        weights: Vector,
        settings: MemberSettings,
        step: Int[Array, ""],
        refresh: Bool[Array, ""] | bool,
    ) -> tuple[Vector, Any]:
        """The weights after this step, and the state."""


@dataclass(frozen=True)
class AdamW(GradientOptimiser):
    """Adam with decoupled weight decay, as the paper uses it."""

    def init(self, weights: Vector, settings: MemberSettings) -> optax.OptState:
        return self._transformation(settings).init(weights)

    def update(self, gradient, state, weights, settings, step, refresh):
        update, state = self._transformation(settings).update(gradient, state, weights)
        return jnp.asarray(optax.apply_updates(weights, update)), state

    def _transformation(self, settings: MemberSettings) -> optax.GradientTransformation:
        return optax.chain(
            optax.scale_by_adam(),
            optax.add_decayed_weights(settings.weight_decay),  # pyright: ignore[reportArgumentType]
            optax.scale_by_learning_rate(lambda count: learning_rate(settings, jnp.asarray(count))),
        )


class SoapState(NamedTuple):
    """Moving means of the gradient and of its square along the axes, and for each side of each stack of blocks the
    moving second moments and their axes."""

    mean: Vector
    square: Vector
    moments: tuple[tuple[Basis, Basis], ...]
    axes: tuple[tuple[Basis, Basis], ...]


@dataclass(frozen=True)
class Soap(GradientOptimiser):
    r"""SOAP (Vyas et al., 2024): Adam in the eigenbasis of Shampoo's second moments.

    For a weight matrix with gradient $G$, moving means of $G G^\top$ and $G^\top G$ give axes $U$, $V$; Adam runs on
    $U^\top G V$ and its step is turned back. The axes are renewed every few steps by one step of subspace iteration.
    `shapes` are those of the arrays in the vector of weights; vectors, and sides too long for a basis, keep theirs.
    Matrices of one shape are worked on together, as a stack of blocks.
    """

    shapes: tuple[tuple[int, ...], ...]

    def init(self, weights: Vector, settings: MemberSettings) -> SoapState:
        def for_sides(make) -> tuple[tuple[Basis, Basis], ...]:
            return tuple(_for_sides(b, make) for b in self._blocks(weights))

        def unit(count: int, n: int) -> Array:
            return jnp.tile(jnp.eye(n, dtype=weights.dtype)[None], (count, 1, 1))

        zeros = for_sides(lambda count, n: jnp.zeros((count, n, n), weights.dtype))
        return SoapState(jnp.zeros_like(weights), jnp.zeros_like(weights), zeros, for_sides(unit))

    def update(self, gradient, state, weights, settings, step, refresh):
        gradients = self._blocks(gradient)
        moments = tuple(
            (_mix(left, lambda b=b: _product(b, b.mT)), _mix(right, lambda b=b: _product(b.mT, b)))
            for b, (left, right) in zip(gradients, state.moments, strict=True)
        )
        square, axes = jax.lax.cond(
            refresh,
            lambda: self._renewed(state.square, moments, state.axes),
            lambda: (state.square, state.axes),
        )
        mean = _KEPT_MEAN * state.mean + (1 - _KEPT_MEAN) * gradient
        turned = self._vector([_turn(b, a) for b, a in zip(gradients, axes, strict=True)])
        turned_mean = self._vector([_turn(b, a) for b, a in zip(self._blocks(mean), axes, strict=True)])
        square = _KEPT_SQUARE * square + (1 - _KEPT_SQUARE) * turned**2
        count = (step + 1).astype(weights.dtype)
        debiased = turned_mean / (1 - _KEPT_MEAN**count)
        direction = debiased / (jnp.sqrt(square / (1 - _KEPT_SQUARE**count)) + _TINY)
        back = self._vector([_turn_back(b, a) for b, a in zip(self._blocks(direction), axes, strict=True)])
        rate = learning_rate(settings, step)
        return weights - rate * (back + settings.weight_decay * weights), SoapState(mean, square, moments, axes)

    def _renewed(self, square: Vector, moments, axes):
        """New axes, and the squares in their order."""
        squares, renewed = [], []
        for blocks, sides, old in zip(self._blocks(square), moments, axes, strict=True):
            left, rows = _renew(sides[0], old[0])
            right, columns = _renew(sides[1], old[1])
            blocks = blocks if rows is None else jnp.take_along_axis(blocks, rows[:, :, None], 1)
            squares.append(blocks if columns is None else jnp.take_along_axis(blocks, columns[:, None, :], 2))
            renewed.append((left, right))
        return self._vector(squares), tuple(renewed)

    def _alike(self) -> list[list[int]]:
        """The places of the arrays, those of one shape together."""
        return [[i for i, s in enumerate(self.shapes) if s == shape] for shape in dict.fromkeys(self.shapes)]

    def _blocks(self, vector: Vector) -> list[Blocks]:
        pieces = jax.lax.split(vector, [math.prod(shape) for shape in self.shapes])
        rows = [shape[0] if shape else 1 for shape in self.shapes]
        return [jnp.stack([pieces[i].reshape(rows[i], -1) for i in places]) for places in self._alike()]

    def _vector(self, blocks: list[Blocks]) -> Vector:
        order = [i for places in self._alike() for i in places]
        pieces = [block.ravel() for stacked in blocks for block in stacked]
        return jnp.concatenate([pieces[order.index(i)] for i in range(len(order))])


def _for_sides(blocks: Blocks, make) -> tuple[Basis, Basis]:
    """What blocks need for their rows and their columns; nothing for vectors or a long side."""
    count, *sides = blocks.shape
    if 1 in sides:
        return None, None
    left, right = (make(count, n) if n <= _LARGEST_SIDE else None for n in sides)
    return left, right


def _mix(moment: Basis, new) -> Basis:
    return None if moment is None else _KEPT_AXES * moment + (1 - _KEPT_AXES) * new()


def _renew(moment: Basis, axes: Basis) -> tuple[Basis, Array | None]:
    if moment is None or axes is None:
        return None, None
    strength = jnp.sum(axes * _product(moment, axes), axis=1)
    order = jnp.argsort(-strength, axis=1)
    return _orthonormal(_product(moment, jnp.take_along_axis(axes, order[:, None, :], 2))), order


def _orthonormal(blocks: Blocks) -> Blocks:
    if platform() != "cpu":
        return jnp.linalg.qr(blocks)[0]
    # One by one: a batch is shared among the threads of the pool, and where several members' batches wait for each
    # other there, nobody is left to work (seen with jaxlib 0.10.2).
    return jnp.stack([jnp.linalg.qr(block)[0] for block in blocks])


def _turn(blocks: Blocks, axes: tuple[Basis, Basis]) -> Blocks:
    left, right = axes
    blocks = blocks if left is None else _product(left.mT, blocks)
    return blocks if right is None else _product(blocks, right)


def _turn_back(blocks: Blocks, axes: tuple[Basis, Basis]) -> Blocks:
    left, right = axes
    blocks = blocks if left is None else _product(left, blocks)
    return blocks if right is None else _product(blocks, right.mT)


def _product(a: Array, b: Array) -> Array:
    # Full precision: axes rounded by an accelerator are no longer orthogonal.
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


@dataclass(frozen=True)
class GaussNewton(AbstractOptimiser):
    r"""Gauss-Newton steps from few residuals at a time, with a memory of earlier ones (SPRING: Goldshlager et al.,
    2024; in the training of physics-informed networks: Dangel et al., 2024).

    Of all changes of the weights that cancel the residuals $r$ drawn, to first order, the one nearest to a part $\mu$
    of the last change $d_0$:

    $$ d = \mu d_0 - J^\top (J J^\top + \lambda)^{-1} (r + \mu J d_0), $$

    with J the slopes of the residuals. All directions of the weights learn at one pace, also those that hardly show in
    the loss but in long trajectories do; noise in the residuals enters the weights at that pace too. A step is as long
    as lowers the same residuals most, of the learning rate and halves of it; none if all raise them.
    """

    def init(self, weights: Vector, settings: MemberSettings) -> Vector:
        """The last change."""
        return jnp.zeros_like(weights)

    def update(
        self,
        residuals: Callable[[Vector], Rows],
        slopes: Slopes,
        last: Vector,
        weights: Vector,
        settings: MemberSettings,
        step: Int[Array, ""],
    ) -> tuple[Vector, Vector]:
        """The weights after this step, and its direction."""
        here = residuals(weights)
        normal = _rows_by_rows(slopes)
        damping = _DAMPING * jnp.trace(normal) / len(normal) + jnp.finfo(normal.dtype).tiny
        factor = jax.scipy.linalg.cho_factor(normal + damping * jnp.eye(len(normal), dtype=normal.dtype))
        missing = here + _MOMENTUM * _product(slopes, last)
        direction = _MOMENTUM * last - _product(jax.scipy.linalg.cho_solve(factor, missing), slopes)
        lengths = learning_rate(settings, step) * 0.5 ** jnp.arange(_HALVINGS, dtype=weights.dtype)
        losses = jax.vmap(lambda length: jnp.sum(residuals(weights + length * direction) ** 2))(lengths)
        best = jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))
        lower = losses[best] < jnp.sum(here**2)
        return (
            jnp.where(lower, weights + lengths[best] * direction, weights),
            jnp.where(lower, direction, jnp.zeros_like(last)),
        )


def _rows_by_rows(slopes: Slopes) -> Float[Array, "row row"]:
    """The products of all rows with each other. Those of two blocks of rows serve on both sides of the diagonal."""
    blocks = jnp.array_split(slopes, _ROW_BLOCKS)
    upper = [[_product(a, b.T) for b in blocks[i:]] for i, a in enumerate(blocks)]
    whole = [[upper[i][j - i] if j >= i else upper[j][i - j].T for j in range(len(blocks))] for i in range(len(blocks))]
    return jnp.block(whole)


def make_optimiser(spec: OptimiserSpec, shapes: tuple[tuple[int, ...], ...]) -> AbstractOptimiser:
    """The optimiser that `spec` names, for weights of these shapes."""
    return Soap(shapes) if spec.name == "soap" else AdamW()
