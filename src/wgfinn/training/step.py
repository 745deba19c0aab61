"""One optimiser step, and many of them as one compiled program."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from wgfinn._device import platform
from wgfinn._types import Float, Scalar, State
from wgfinn.losses import AbstractWeakEquations, attention, mean_over_equations, weighted_loss
from wgfinn.training.optimisers import (
    REFRESH_EVERY,
    AbstractOptimiser,
    AdamW,
    GaussNewton,
    GradientOptimiser,
    learning_rate,
)
from wgfinn.training.problem import Problem
from wgfinn.training.state import MemberSettings, StepInfo, TrainState

_SHORTER_STEPS = 200

T = TypeVar("T")
R = TypeVar("R")


def initial_state(
    weights: Float[Array, " weight"],
    settings: MemberSettings,
    n_states: int,
    optimiser: AbstractOptimiser = AdamW(),  # noqa: B008
) -> TrainState:
    """One member before its first step."""
    dtype = settings.rate.dtype
    return TrainState(
        weights=weights,
        optimiser=optimiser.init(weights, settings),
        multiplier=jnp.ones(n_states, dtype),
        step=jnp.zeros((), jnp.int32),
        best=jnp.copy(weights),
        best_loss=jnp.asarray(jnp.inf, dtype),
        diverged_at=jnp.asarray(-1, jnp.int32),
        caution=jnp.ones((), dtype),
    )


def initial_states(
    weights: Float[Array, "member weight"],
    settings: MemberSettings,
    n_states: int,
    optimiser: AbstractOptimiser = AdamW(),  # noqa: B008
) -> TrainState:
    """All members before their first step."""
    return jax.jit(jax.vmap(lambda w, s: initial_state(w, s, n_states, optimiser)))(weights, settings)


def train_step(
    state: TrainState, settings: MemberSettings, problem: Problem, refresh: Bool[Array, ""] | bool = True
) -> tuple[TrainState, Scalar]:
    """One State-RBA update and one step of the optimiser (paper, section 3.1); also the gradient's norm.

    The multiplier is renewed from the residual at the present weights and then weighs that residual. `refresh`: time
    for the optimiser's rare work, one value for all members, so that the others' steps do not pay for it.
    """
    if isinstance(problem.optimiser, GaussNewton):
        return _gauss_newton_step(state, settings, problem, problem.optimiser)
    assert isinstance(problem.optimiser, GradientOptimiser)
    items = _draw_items(settings.seed, state.step, problem)
    mask = problem.equations.mask(items)

    def loss(weights: Float[Array, " weight"]) -> tuple[Scalar, Array]:
        residual = problem.equations.residual(problem.structure.field(weights), items)
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
    if problem.setback is not None:
        settings = _more_cautious(settings, state)
    weights, optimiser = problem.optimiser.update(
        gradient, state.optimiser, state.weights, settings, state.step, refresh
    )
    return _after(state, weights, optimiser, multiplier), jnp.sqrt(jnp.sum(gradient**2))


def _gauss_newton_step(
    state: TrainState, settings: MemberSettings, problem: Problem, optimiser: GaussNewton
) -> tuple[TrainState, Scalar]:
    """A step from `problem.batch` test functions, drawn one by one from all runs; without attention."""
    equations = problem.equations
    assert isinstance(equations, AbstractWeakEquations)
    count = len(equations.windows)
    windows = equations.windows[_draw(settings.seed, state.step, min(problem.batch or count, count), count)]
    scale = jnp.sqrt(problem.weights / (len(windows) * len(problem.weights)))

    def at_window(weights: Float[Array, " weight"], window: Int[Array, " 2"]) -> Float[Array, " state"]:
        return scale * equations.at_window(problem.structure.field(weights), window)

    def residuals(weights: Float[Array, " weight"]) -> Float[Array, " row"]:
        return jax.vmap(lambda window: at_window(weights, window))(windows).ravel()

    slopes = jax.vmap(lambda window: jax.jacrev(at_window)(state.weights, window))(windows)
    slopes = slopes.reshape(-1, slopes.shape[-1])
    last = jnp.asarray(state.optimiser)
    weights, direction = optimiser.update(residuals, slopes, last, state.weights, settings, state.step)
    gradient = 2 * residuals(state.weights) @ slopes
    return _after(state, weights, direction, state.multiplier), jnp.sqrt(jnp.sum(gradient**2))


def _after(state: TrainState, weights: Float[Array, " weight"], optimiser: Any, multiplier: State) -> TrainState:
    return TrainState(
        weights=weights,
        optimiser=optimiser,
        multiplier=multiplier,
        step=state.step + 1,
        best=state.best,
        best_loss=state.best_loss,
        diverged_at=state.diverged_at,
        caution=state.caution,
    )


def _more_cautious(settings: MemberSettings, state: TrainState) -> MemberSettings:
    """After setbacks the rate is lower, and so it is in the first steps: means of few gradients are mostly chance, and
    a training that goes on from another one would lose in them what that has reached."""
    begun = jnp.minimum(1, (state.step + 1) / _SHORTER_STEPS).astype(settings.rate.dtype)
    return eqx.tree_at(lambda s: s.rate, settings, settings.rate * state.caution * begun)


def _draw_items(seed: Array, step: Array, problem: Problem) -> Array | None:
    """Which items this step sees, a function of seed and step alone (with replacement); None for all."""
    return None if problem.batch is None else _draw(seed, step, problem.batch, problem.equations.n_items)


def _draw(seed: Array, step: Array, batch: int, count: int) -> Array:
    return jax.random.randint(jax.random.fold_in(jax.random.key(seed), step), (batch,), 0, count)


def check(
    state: TrainState, settings: MemberSettings, problem: Problem, gradient_norm: Scalar
) -> tuple[TrainState, StepInfo]:
    """Look at the loss over all data (without attention) and keep the weights if they are the best so far: by the
    equations that judge, where there are any."""
    field = problem.structure.field(state.weights)
    residual = problem.equations.residual(field)
    mask = problem.equations.mask()
    loss = judged = weighted_loss(residual, problem.weights, mask)
    if problem.judged is not None:
        judged = weighted_loss(problem.judged.residual(field), problem.weights, problem.judged.mask())
    better = judged < state.best_loss
    newly_diverged = (state.diverged_at < 0) & ~jnp.isfinite(loss)
    weights, caution = state.weights, state.caution
    if problem.setback is not None:
        lost = ~(loss <= problem.setback * state.best_loss)
        weights, caution = jnp.where(lost, state.best, weights), jnp.where(lost, caution / 2, caution)
    state = TrainState(
        weights=weights,
        optimiser=state.optimiser,
        multiplier=state.multiplier,
        step=state.step,
        best=jnp.where(better, state.weights, state.best),
        best_loss=jnp.where(better, judged, state.best_loss),
        diverged_at=jnp.where(newly_diverged, state.step, state.diverged_at),
        caution=caution,
    )
    info = StepInfo(
        loss=loss,
        residual=mean_over_equations(jnp.abs(residual), mask),
        gradient_norm=gradient_norm,
        rate=learning_rate(settings, state.step) * caution,
    )
    return state, info


@eqx.filter_jit
def check_starts(states: TrainState, settings: MemberSettings, problem: Problem) -> TrainState:
    """A look at every member before its first step, so that none ends worse than it began."""

    def one(member: tuple[TrainState, MemberSettings]) -> TrainState:
        return check(*member, problem, jnp.zeros((), member[1].rate.dtype))[0]

    return over_members(one, (states, settings))


def _one_interval(
    state: TrainState, settings: MemberSettings, problem: Problem, interval: int
) -> tuple[TrainState, StepInfo]:
    def body(carry, index):
        return train_step(carry[0], settings, problem, index % REFRESH_EVERY == 0), None

    no_norm = jnp.zeros((), settings.rate.dtype)
    (state, norm), _ = jax.lax.scan(body, (state, no_norm), jnp.arange(interval))
    return check(state, settings, problem, norm)


def _advance(
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

    def intervals(state: TrainState, settings: MemberSettings, problem: Problem) -> tuple[TrainState, StepInfo]:
        zero = jnp.zeros((), settings.rate.dtype)
        nothing_yet = StepInfo(loss=zero, residual=jnp.zeros_like(state.multiplier), gradient_norm=zero, rate=zero)

        def body(_, carry: tuple[TrainState, StepInfo]) -> tuple[TrainState, StepInfo]:
            return _one_interval(carry[0], settings, problem, interval)

        return jax.lax.fori_loop(0, n_checks, body, (state, nothing_yet))

    shared, own = eqx.partition(problem, lambda leaf: not own_data or not eqx.is_array(leaf))

    def one(member: tuple[TrainState, MemberSettings, Problem]) -> tuple[TrainState, StepInfo]:
        state, settings, data = member
        return intervals(state, settings, eqx.combine(shared, data))

    return over_members(one, (states, settings, own))


advance = eqx.filter_jit(_advance)

# On a CUDA device the compiler otherwise tries many forms of each product, which takes longer than a short training.
advance_soon = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
    _advance, compiler_options={"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
)
"""`advance`, compiled in a fraction of the time, with steps that take longer."""


def over_members(function: Callable[[T], R], members: T) -> R:
    """`function` of each member of a stack.

    Side by side on an accelerator, which a single member leaves idle; one after another on a CPU, where batched
    matrix products are slower than single ones and a member's arrays better fit the caches.
    """
    return jax.lax.map(function, members) if platform() == "cpu" else jax.vmap(function)(members)
