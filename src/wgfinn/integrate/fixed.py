"""Explicit Runge-Kutta steps of fixed size, as a tableau."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from wgfinn._types import Array, Field, Float, Scalar, State, States


class Tableau(NamedTuple):
    """Butcher tableau of an explicit scheme: row i of `stages` holds a_{i,1..i-1}, `weights` holds b."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


RK23 = Tableau(stages=((), (1.0,), (0.25, 0.25)), weights=(1 / 6, 1 / 6, 2 / 3))
"""The paper's "RK23": the third-order strong-stability-preserving scheme of Shu and Osher,
one step per sample, no error control (spec, section 0)."""


def step(field: Field, x: States, dt: float | Array, tableau: Tableau = RK23) -> States:
    r"""One step $x + \Delta t \sum_i b_i k_i$ with $k_i = f(x + \Delta t \sum_j a_{ij} k_j)$."""
    slopes: list[Array] = []
    for row in tableau.stages:
        slopes.append(field(_advance(x, dt, row, slopes)))
    return _advance(x, dt, tableau.weights, slopes)


def looped_step(
    field: Field, x: States, dt: float | Array, confined: Callable[[States], States] = lambda u: u
) -> States:
    r"""One step of `RK23` in the form of Shu and Osher: $u \leftarrow \alpha_i x + (1 - \alpha_i) (u + \Delta t f(u))$.

    A loop of three: a program holds the field once instead of three times and compiles in half the time. `confined` is
    applied to the result of each stage.
    """

    def mix(u: States, kept: Scalar) -> tuple[States, None]:
        return confined(kept * x + (1 - kept) * (u + dt * field(u))), None

    return jax.lax.scan(mix, x, jnp.array([0, 3 / 4, 1 / 3], x.dtype))[0]


def _advance(x: States, dt: float | Array, weights: tuple[float, ...], slopes: list[Array]) -> States:
    increment = sum((w * k for w, k in zip(weights, slopes, strict=True)), start=jnp.zeros_like(x))
    return x + dt * increment


def rollout_fixed(
    field: Field, x0: State, t: Float[Array, " time"], *, substeps: int = 1, tableau: Tableau = RK23
) -> Float[Array, "time state"]:
    """States at the times `t`, with `substeps` equal steps between neighbouring times (paper: one)."""

    def interval(x: State, dt: Scalar) -> tuple[State, State]:
        x = jax.lax.fori_loop(0, substeps, lambda _, z: step(field, z, dt / substeps, tableau), x)
        return x, x

    _, later = jax.lax.scan(interval, x0, jnp.diff(t))
    return jnp.concatenate([x0[None], later])
