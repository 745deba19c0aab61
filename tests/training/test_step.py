"""One step and many: the optimiser against its textbook rule, members apart and together, nothing lost."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.data import Trajectories
from wgfinn.losses import AbstractEquations, AttentionSpec, StrongEquations, WeakEquations, attention
from wgfinn.models import ModelSpec, build
from wgfinn.training.optimisers import AdamW, learning_rate
from wgfinn.training.problem import Problem
from wgfinn.training.spec import OptimiserSpec
from wgfinn.training.state import MemberSettings, member, stack
from wgfinn.training.step import advance, check, check_starts, initial_state, initial_states, train_step
from wgfinn.training.structure import take_apart
from wgfinn.weak import TestFunctionSpec

# A step does not care what the field is made of, so most tests take the one that compiles fastest.
PLAIN = ModelSpec(field="plain", layers=2, width=4)
GENERIC = ModelSpec(layers=2, width=5, entropy="affine")
INTERVAL = 3


def numbers(seed=0, dtype="float64", attention=AttentionSpec(), **optimiser):  # noqa: B008
    return MemberSettings.create(seed, OptimiserSpec(**{"rate": 1e-2, **optimiser}), attention, dtype)


def some_runs(seed=0):
    """Three damped rotations of different size with a little noise."""
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(40)
    x = np.stack([np.exp(-0.1 * t) * np.cos(t), np.exp(-0.1 * t) * np.sin(t), 1 - np.exp(-0.2 * t)], axis=1)
    return Trajectories.from_arrays([s * x + 0.01 * rng.normal(size=x.shape) for s in (0.7, 1.0, 1.3)], t)


def some_field(seed=0, dtype="float64", model=PLAIN):
    """The field's weights and the rest of it, drawn by numpy."""
    rng = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(build, model, 3, key=jax.random.key(0))
    field = jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.standard_normal(leaf.shape), dtype), shapes)
    return take_apart(field, dtype)


def problem_of(runs, dtype="float64", batch=None, strong=False, model=PLAIN, **options):
    spec = TestFunctionSpec(width=12, degree=3)
    equations = StrongEquations(runs, dtype) if strong else WeakEquations(runs, spec, dtype)
    structure = some_field(dtype=dtype, model=model)[1]
    return Problem(equations, jnp.asarray([1.0, 1.5, 3.0], dtype), structure, batch, **options)


def start(settings, seed=0, dtype="float64", model=PLAIN):
    return initial_state(some_field(seed, dtype, model)[0], settings, 3)


def run(states, settings, problem, n_checks=2, own_data=False):
    return advance(stack(states), stack(settings), problem, jnp.asarray(n_checks), interval=INTERVAL, own_data=own_data)


def assert_same(actual, expected, rtol=0.0, atol=0.0):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


# To rounding: 1e-16 times the few hundred operations of a step, through Adam's division by a root.
ROUNDING = {"rtol": 1e-8, "atol": 1e-11}


def test_staircase():
    settings = numbers(rate=0.1, decay=0.5, decay_every=10)
    rates = [float(learning_rate(settings, jnp.asarray(k))) for k in (0, 9, 10, 19, 20, 35)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 0.05, 0.025, 0.0125], rtol=1e-15)


def test_adamw_against_the_textbook():
    """torch.optim.AdamW (beta 0.9 and 0.999, eps 1e-8) in numpy, with a stair after two steps; the decay of
    the weights is decoupled: p <- p - rate (adam + decay p)."""
    settings = numbers(rate=0.1, decay=0.3, decay_every=2, weight_decay=0.05)
    rng = np.random.default_rng(0)
    p = rng.normal(size=4)
    gradients = rng.normal(size=(3, 4)) * [1.0, 1e-3, 10.0, 0.0]
    weights = jnp.asarray(p)
    state = AdamW().init(weights, settings)
    m = v = np.zeros(4)
    for k, g in enumerate(gradients, start=1):
        weights, state = AdamW().update(jnp.asarray(g), state, weights, settings, jnp.asarray(k - 1), False)
        rate = 0.1 * 0.3 ** ((k - 1) // 2)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        adam = m / (1 - 0.9**k) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        p = p - rate * (adam + 0.05 * p)
        np.testing.assert_allclose(weights, p, rtol=1e-12)


def test_one_step_against_its_parts():
    """Attention from the residual at the present weights, then the gradient of the loss it weighs."""
    rule = AttentionSpec(rate=0.2, decay=0.8)
    settings, problem = numbers(attention=rule), problem_of(some_runs())
    before = start(settings)

    def loss(weights, multiplier):
        r = problem.equations.residual(problem.structure.field(weights))
        return jnp.mean(problem.weights * multiplier * jnp.mean(r**2, axis=(1, 2)))

    @jax.jit
    def expected(before):
        residual = problem.equations.residual(problem.structure.field(before.weights))
        multiplier = attention(before.multiplier, residual, problem.weights, rule.rate, rule.decay)
        gradient = jax.grad(loss)(before.weights, multiplier)
        # The first step of Adam is rate * g / (|g| + eps).
        first = jax.tree.map(lambda p, g: p - 1e-2 * g / (jnp.abs(g) + 1e-8), before.weights, gradient)
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient)))
        return first, multiplier, norm

    first, multiplier, norm = expected(before)
    after, norm_of_step = eqx.filter_jit(train_step)(before, settings, problem)
    assert_same(after.weights, first, **ROUNDING)
    assert_same(after.multiplier, multiplier, rtol=1e-12)
    assert float(norm_of_step) == pytest.approx(float(norm), rel=1e-12)
    assert int(after.step) == 1
    assert_same(after.best, before.best)


@pytest.mark.parametrize(("strong", "model"), [(False, GENERIC), (True, PLAIN)])
def test_training_lowers_the_loss(strong, model):
    settings, problem = numbers(), problem_of(some_runs(), strong=strong, model=model)
    state, first = eqx.filter_jit(check)(start(settings, model=model), settings, problem, jnp.zeros(()))
    _, last = run([state], [settings], problem, n_checks=40)
    assert float(last.loss[0]) < 0.5 * float(first.loss)


class Recorded(AbstractEquations):
    """Equations that note which items they are asked for."""

    seen: list = eqx.field(static=True)
    n_items: int = eqx.field(static=True)

    def residual(self, field, items=None):
        self.seen.append(np.asarray(items))
        return field(jnp.ones((3, len(items))))

    def mask(self, items=None):
        return None


def drawn_items(seed, n_steps, weights_seed=0):
    settings = numbers(seed=seed)
    state = start(settings, weights_seed)
    equations = Recorded([], 1000)
    problem = Problem(equations, jnp.ones(3), some_field()[1], batch=16)
    for _ in range(n_steps):
        state, _ = train_step(state, settings, problem)
    return np.array(equations.seen)


def test_items_depend_on_seed_and_step_alone():
    """Not on the weights, nor on what was drawn before; another seed or step draws others."""
    items = drawn_items(0, 2)
    assert items.shape == (2, 16)
    assert items.min() >= 0
    assert items.max() < 1000
    np.testing.assert_array_equal(items, drawn_items(0, 2, weights_seed=5))
    assert not np.array_equal(items[0], items[1])
    assert not np.array_equal(items[0], drawn_items(1, 1)[0])
    settings = numbers()
    later = eqx.tree_at(lambda s: s.step, start(settings), jnp.asarray(1, jnp.int32))
    equations = Recorded([], 1000)
    train_step(later, settings, Problem(equations, jnp.ones(3), some_field()[1], batch=16))
    np.testing.assert_array_equal(equations.seen[0], items[1])


@pytest.fixture(scope="module")
def three():
    """Three members of different seed and settings, trained together."""
    settings = [
        numbers(seed=0),
        numbers(seed=1, rate=3e-3, decay=0.5, decay_every=2),
        numbers(seed=2, weight_decay=0.1, attention=AttentionSpec(rate=0.1, decay=0.9)),
    ]
    starts = [start(s, k) for k, s in enumerate(settings)]
    problem = problem_of(some_runs(), batch=2)
    return starts, settings, problem, run(starts, settings, problem)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_members_together_equal_members_alone(three, k):
    starts, settings, problem, together = three
    alone = run([starts[k]], [settings[k]], problem)
    assert_same(member(alone, 0), member(together, k), **ROUNDING)


def test_members_have_their_own_rate(three):
    """Two intervals of three steps: the second member has come down three stairs, the others none."""
    states, info = three[-1]
    np.testing.assert_allclose(info.rate, [1e-2, 3e-3 * 0.5**3, 1e-2], rtol=1e-15)
    assert states.step.tolist() == [6, 6, 6]
    assert np.all(np.asarray(states.multiplier[:2]) == 1)
    assert np.any(np.asarray(states.multiplier[2]) != 1)
    assert np.all(np.asarray(states.diverged_at) == -1)


def test_a_lost_member_takes_nobody_along(three):
    """Its weights are NaN from the start; the other two end bit-equal, in the same program."""
    starts, settings, problem, (healthy, _) = three
    lost = eqx.tree_at(lambda s: s.weights, starts[1], jax.tree.map(lambda leaf: leaf * jnp.nan, starts[1].weights))
    states, info = run([starts[0], lost, starts[2]], settings, problem)
    assert states.diverged_at.tolist() == [-1, INTERVAL, -1]
    assert np.isnan(info.loss).tolist() == [False, True, False]
    assert np.isinf(states.best_loss[1])
    for k in (0, 2):
        assert_same(member(states, k), member(healthy, k))
    # What was best before the loss became NaN is kept.
    assert_same(member(states.best, 1), starts[1].best)
    without, _ = run([starts[0], starts[2]], [settings[0], settings[2]], problem)
    assert_same(member(without, 1), member(states, 2), **ROUNDING)


def test_splitting_the_checks_changes_no_bit(three):
    starts, settings, problem, _ = three
    whole, info = run(starts, settings, problem, n_checks=4)
    first, _ = run(starts, settings, problem, n_checks=1)
    then, last = advance(first, stack(settings), problem, jnp.asarray(3), interval=INTERVAL, own_data=False)
    assert_same(then, whole)
    assert_same(last, info)


def test_each_member_with_its_own_data():
    """Stacked problems: every member is the one that was trained on its data alone."""
    settings = [numbers(seed=0), numbers(seed=1)]
    starts = [start(s, k) for k, s in enumerate(settings)]
    problems = [problem_of(some_runs(seed)) for seed in (0, 7)]
    together = run(starts, settings, stack(problems), own_data=True)
    for k in range(2):
        alone = run([starts[k]], [settings[k]], problems[k])
        assert_same(member(together, k), member(alone, 0), **ROUNDING)


def test_the_number_of_checks_does_not_recompile(three):
    starts, settings, problem, _ = three
    traced = []

    class Counted(WeakEquations):
        def residual(self, field, items=None):
            traced.append(items)
            return super().residual(field, items)

    counted = Counted(some_runs(), TestFunctionSpec(width=12, degree=3), "float64")
    problem = eqx.tree_at(lambda p: p.equations, problem, counted)
    run(starts, settings, problem, n_checks=1)
    compiled_once = len(traced)
    run(starts, settings, problem, n_checks=5)
    assert len(traced) == compiled_once > 0


def test_best_is_a_copy_and_stays():
    """It holds the weights of the lowest loss, in memory of its own, whatever the weights do next."""
    settings, problem = numbers(), problem_of(some_runs())
    state = start(settings)
    for ours, best in zip(jax.tree.leaves(state.weights), jax.tree.leaves(state.best), strict=True):
        assert ours.unsafe_buffer_pointer() != best.unsafe_buffer_pointer()
    look = eqx.filter_jit(check)
    good, info = look(state, settings, problem, jnp.zeros(()))
    assert_same(good.best, state.weights)
    assert float(good.best_loss) == float(info.loss)
    for ours, best in zip(jax.tree.leaves(good.weights), jax.tree.leaves(good.best), strict=True):
        assert ours.unsafe_buffer_pointer() != best.unsafe_buffer_pointer()
    worse = eqx.tree_at(lambda s: s.weights, good, jax.tree.map(lambda leaf: 3 * leaf, good.weights))
    after, info = look(worse, settings, problem, jnp.zeros(()))
    assert float(info.loss) > float(good.best_loss)
    assert_same(after.best, state.weights)
    assert float(after.best_loss) == float(good.best_loss)


def test_what_a_check_tells():
    """The loss over all data without attention, the mean size of each state's residual, the rate."""
    settings = numbers(decay=0.5, decay_every=1)
    problem = problem_of(some_runs(), batch=1)
    state = eqx.tree_at(lambda s: s.multiplier, start(settings), jnp.array([9.0, 9.0, 9.0]))
    _, info = eqx.filter_jit(check)(state, settings, problem, jnp.asarray(2.5))
    residual = np.asarray(problem.equations.residual(problem.structure.field(state.weights)))
    expected = np.mean([1.0, 1.5, 3.0] * np.mean(residual**2, axis=(1, 2)))
    assert float(info.loss) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(info.residual, np.abs(residual).mean(axis=(1, 2)), rtol=1e-12)
    assert (float(info.gradient_norm), float(info.rate)) == (2.5, 1e-2)


@pytest.mark.parametrize(("setback", "returns"), [(None, False), (1.5, True), (1e9, False)])
def test_after_a_setback_a_member_goes_on_from_its_best_with_half_the_rate(setback, returns):
    settings = numbers()
    problem = problem_of(some_runs(), setback=setback)
    best, _ = check(start(settings), settings, problem, jnp.zeros(()))
    away = eqx.tree_at(lambda s: s.weights, best, best.weights + 3.0)
    after, info = check(away, settings, problem, jnp.zeros(()))
    assert float(info.loss) > 1.5 * float(best.best_loss)
    np.testing.assert_array_equal(after.weights, best.best if returns else away.weights)
    assert float(after.caution) == (0.5 if returns else 1.0)
    assert float(info.rate) == pytest.approx(float(settings.rate) * float(after.caution))


def test_caution_shortens_steps():
    """Adam's step is proportional to the rate."""
    settings = numbers()
    problem = problem_of(some_runs(), setback=1.5)
    state = start(settings)
    cautious = eqx.tree_at(lambda s: s.caution, state, jnp.asarray(0.25))
    whole, part = (train_step(s, settings, problem)[0].weights - s.weights for s in (state, cautious))
    np.testing.assert_allclose(part, whole / 4, rtol=1e-10)


def test_starts_are_checked_before_the_first_step():
    settings = stack([numbers(seed=1), numbers(seed=2)])
    weights = stack([some_field(seed)[0] for seed in (1, 2)])
    problem = problem_of(some_runs())
    states = check_starts(initial_states(weights, settings, 3), settings, problem)
    for i, loss in enumerate(states.best_loss):
        alone, _ = check(start(numbers(seed=i + 1), seed=i + 1), numbers(seed=i + 1), problem, jnp.zeros(()))
        np.testing.assert_allclose(loss, alone.best_loss, rtol=1e-12)
        np.testing.assert_array_equal(states.best[i], weights[i])
    np.testing.assert_array_equal(states.step, 0)


def test_the_first_divergence_is_remembered():
    settings, problem = numbers(), problem_of(some_runs())
    state = start(settings)
    lost = eqx.tree_at(
        lambda s: (s.weights, s.diverged_at),
        state,
        (jax.tree.map(lambda leaf: leaf * jnp.nan, state.weights), jnp.asarray(4, jnp.int32)),
    )
    after, _ = eqx.filter_jit(check)(lost, settings, problem, jnp.zeros(()))
    assert int(after.diverged_at) == 4


def test_single_precision_stays_single():
    """Also with double precision switched on, as here: every number of the state and the info."""
    settings = numbers(dtype="float32", attention=AttentionSpec(rate=0.1, decay=0.9), weight_decay=0.1)
    problem = problem_of(some_runs(), "float32", batch=2)
    states, info = run([start(settings, dtype="float32")], [settings], problem)
    kinds = {leaf.dtype for leaf in jax.tree.leaves((states, info)) if eqx.is_inexact_array(leaf)}
    assert kinds == {jnp.dtype("float32")}
    assert np.isfinite(info.loss).all()
