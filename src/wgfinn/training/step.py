"""One optimiser step, and many of them as one compiled program."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from wgfinn._types import Scalar
from wgfinn.losses import attention, mean_over_equations, weighted_loss
from wgfinn.models import AbstractField
from wgfinn.training.state import MemberSettings, Problem, StepInfo, TrainState


def learning_rate(settings: MemberSettings, step: Int[Array, ""]) -> Scalar:
    """The staircase: rate * decay ** floor(step / decay_every)."""
    stairs = (step // settings.decay_every).astype(settings.rate.dtype)
    return settings.rate * settings.decay**stairs


def adamw(settings: MemberSettings) -> optax.GradientTransformation:
    """AdamW whose numbers are values of the program, so that members may differ in them."""
    return optax.chain(
        optax.scale_by_adam(),
        optax.add_decayed_weights(settings.weight_decay),  # pyright: ignore[reportArgumentType]
        optax.scale_by_learning_rate(lambda count: learning_rate(settings, jnp.asarray(count))),
    )


def initial_state(weights: AbstractField, settings: MemberSettings, n_states: int) -> TrainState:
    """One member before its first step."""
    dtype = settings.rate.dtype
    return TrainState(
        weights=weights,
        optimiser=adamw(settings).init(weights),  # pyright: ignore[reportArgumentType]
        multiplier=jnp.ones(n_states, dtype),
        step=jnp.zeros((), jnp.int32),
        best=jax.tree.map(jnp.copy, weights),
        best_loss=jnp.asarray(jnp.inf, dtype),
        diverged_at=jnp.asarray(-1, jnp.int32),
    )


def train_step(state: TrainState, settings: MemberSettings, problem: Problem) -> tuple[TrainState, Scalar]:
    """One State-RBA update and one AdamW step (paper, section 3.1); also the gradient's norm.

    The multiplier is renewed from the residual at the present weights and then weighs that residual.
    """
    items = _draw_items(settings.seed, state.step, problem)
    mask = problem.equations.mask(items)

    def loss(weights: AbstractField) -> tuple[Scalar, Array]:
        residual = problem.equations.residual(eqx.combine(weights, problem.structure), items)
        multiplier = attention(
            state.multiplier,
            jax.lax.stop_gradient(residual),
            problem.weights,
            settings.attention_rate,
            settings.attention_decay,
            mask,
        )
        return weighted_loss(residual, problem.weights * multiplier, mask), multiplier

    gradient, multiplier = jax.grad(loss, has_aux=True)(state.weights)
    update, optimiser = adamw(settings).update(gradient, state.optimiser, state.weights)  # pyright: ignore
    weights: Any = optax.apply_updates(state.weights, update)  # pyright: ignore[reportArgumentType]
    state = TrainState(
        weights=weights,
        optimiser=optimiser,
        multiplier=multiplier,
        step=state.step + 1,
        best=state.best,
        best_loss=state.best_loss,
        diverged_at=state.diverged_at,
    )
    return state, optax.tree.norm(gradient)


def _draw_items(seed: Array, step: Array, problem: Problem) -> Array | None:
    """Which items this step sees, a function of seed and step alone (with replacement); None for all."""
    if problem.batch is None:
        return None
    key = jax.random.fold_in(jax.random.key(seed), step)
    return jax.random.randint(key, (problem.batch,), 0, problem.equations.n_items)


def check(
    state: TrainState, settings: MemberSettings, problem: Problem, gradient_norm: Scalar
) -> tuple[TrainState, StepInfo]:
    """Look at the loss over all data (without attention) and keep the weights if they are the best so far."""
    residual = problem.equations.residual(eqx.combine(state.weights, problem.structure))
    mask = problem.equations.mask()
    loss = weighted_loss(residual, problem.weights, mask)
    better = loss < state.best_loss
    newly_diverged = (state.diverged_at < 0) & ~jnp.isfinite(loss)
    state = TrainState(
        weights=state.weights,
        optimiser=state.optimiser,
        multiplier=state.multiplier,
        step=state.step,
        best=jax.tree.map(lambda new, old: jnp.where(better, new, old), state.weights, state.best),
        best_loss=jnp.where(better, loss, state.best_loss),
        diverged_at=jnp.where(newly_diverged, state.step, state.diverged_at),
    )
    info = StepInfo(
        loss=loss,
        residual=mean_over_equations(jnp.abs(residual), mask),
        gradient_norm=gradient_norm,
        rate=learning_rate(settings, state.step),
    )
    return state, info


def _one_interval(
    state: TrainState, settings: MemberSettings, problem: Problem, interval: int
) -> tuple[TrainState, StepInfo]:
    def body(carry, _):
        return train_step(carry[0], settings, problem), None

    no_norm = jnp.zeros((), settings.rate.dtype)
    (state, norm), _ = jax.lax.scan(body, (state, no_norm), length=interval)
    return check(state, settings, problem, norm)


@eqx.filter_jit
def advance(
    states: TrainState,
    settings: MemberSettings,
    problem: Problem,
    n_checks: Int[Array, ""],
    *,
    interval: int,
    own_data: bool,
) -> tuple[TrainState, StepInfo]:
    """`n_checks` times `interval` steps of every member, with a check after each interval.

    The number of checks is a value, so how often the host looks neither recompiles nor changes a number.
    `own_data`: the arrays of `problem` carry a member axis (noise levels, data sets of equal shape).
    """

    def intervals(state: TrainState, settings: MemberSettings, problem: Problem):
        first = _one_interval(state, settings, problem, interval)
        return jax.lax.fori_loop(
            1, n_checks, lambda _, carry: _one_interval(carry[0], settings, problem, interval), first
        )

    axis = eqx.if_array(0) if own_data else None
    return eqx.filter_vmap(intervals, in_axes=(eqx.if_array(0), eqx.if_array(0), axis))(states, settings, problem)
