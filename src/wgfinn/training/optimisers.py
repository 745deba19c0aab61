"""Optimisers behind one interface: AdamW, and SOAP, which turns to the axes of the gradients first.

Their numbers (rates, decays) are values of the compiled program, so that members may differ in them.
"""

import math
from abc import abstractmethod
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

REFRESH_EVERY = 10
"""Steps from one renewal of SOAP's axes to the next."""

_LARGEST_SIDE = 128
_KEPT_MEAN, _KEPT_SQUARE, _KEPT_AXES = 0.95, 0.95, 0.95
_TINY = 1e-8


def learning_rate(settings: MemberSettings, step: Int[Array, ""]) -> Scalar:
    """The staircase: rate * decay ** floor(step / decay_every)."""
    stairs = (step // settings.decay_every).astype(settings.rate.dtype)
    return settings.rate * settings.decay**stairs


class AbstractOptimiser:
    """From a gradient to the next weights. `refresh` says whether it is time for rare, dear work."""

    @abstractmethod
    def init(self, weights: Vector, settings: MemberSettings) -> Any:
        """The state before the first step."""

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
class AdamW(AbstractOptimiser):
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
class Soap(AbstractOptimiser):
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


def _product(a: Blocks, b: Blocks) -> Blocks:
    # Full precision: axes rounded by an accelerator are no longer orthogonal.
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def make_optimiser(spec: OptimiserSpec, shapes: tuple[tuple[int, ...], ...]) -> AbstractOptimiser:
    """The optimiser that `spec` names, for weights of these shapes."""
    return Soap(shapes) if spec.name == "soap" else AdamW()
