"""The kernels, interpreted where there is no CUDA device, against the scheme step by step."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn.losses import onchip, shooting
from wgfinn.models import GenericField, ModelSpec, build, trainable

N_WINDOWS, N_STEPS = 37, 3


def field_of(n_states: int, **model) -> GenericField:
    field = build(ModelSpec(**model), n_states, key=jax.random.key(0))
    assert isinstance(field, GenericField)
    return jax.tree.map(lambda leaf: leaf.astype("float32"), field)


def windows(n_states: int, n_windows: int = N_WINDOWS, n_steps: int = N_STEPS) -> tuple[jax.Array, jax.Array]:
    first = jax.random.normal(jax.random.key(1), (n_states, n_windows), "float32")
    # One window is padding: steps of length zero.
    steps = 0.2 * jax.random.uniform(jax.random.key(2), (n_steps, n_windows), "float32").at[:, -1].set(0)
    return first, steps


def limits(n_states: int, far: float) -> jax.Array:
    return far * jnp.tile(jnp.array([[-1.0], [1.0]], "float32"), (1, n_states))


def slopes(shoot: Callable, field: GenericField, first: jax.Array, steps: jax.Array, around: jax.Array):
    """By the field's weights and the first states, of something that no state enters linearly."""
    return eqx.filter_jit(jax.grad(lambda f, x: jnp.sin(3 * shoot(f, x, steps, around)).sum(), (0, 1)))(field, first)


def where_one_leaves(field: GenericField, first: jax.Array, steps: jax.Array) -> float:
    """Half-way between start and end of the window that goes out furthest."""
    last = jax.jit(shooting._step_by_step)(field, first, steps, limits(len(first), jnp.inf))[-1]
    begin, end = (np.abs(x).max(axis=0) for x in (first, last))
    furthest = np.argmax(end - begin)
    assert end[furthest] > begin[furthest]
    return float(begin[furthest] + end[furthest]) / 2


def interpreted(field: GenericField, first: jax.Array, steps: jax.Array, around: jax.Array) -> jax.Array:
    return onchip.shoot(field, first, steps, around, interpret=True)


@pytest.mark.parametrize(
    ("n_states", "model", "limited"),
    [
        (3, {}, False),
        (3, {}, True),
        (4, {"activation": "tanh", "width": 20}, True),
        (2, {"layers": 4, "width": 8, "rows": 5}, False),
        (3, {"layers": 2, "activation": "softplus"}, True),
    ],
)
def test_values_and_slopes_are_those_of_the_scheme(n_states, model, limited):
    """With limits some windows start beyond them, some get there on their way."""
    field = field_of(n_states, **model)
    first, steps = windows(n_states)
    far = where_one_leaves(field, first, steps) if limited else jnp.inf
    around = limits(n_states, far)
    expected, found = (jax.jit(f)(field, first, steps, around) for f in (shooting._step_by_step, interpreted))
    assert found.shape == (N_STEPS, n_states, N_WINDOWS)
    assert not limited or 0 < np.any(np.abs(found) == np.float32(far), axis=(0, 1)).sum() < N_WINDOWS
    np.testing.assert_allclose(found, expected, atol=2e-5)
    expected, found = (slopes(f, field, first, steps, around) for f in (shooting._step_by_step, interpreted))
    expected, found = ((trainable(of_field)[0], of_first) for of_field, of_first in (expected, found))
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(b, a, atol=2e-4 * max(1.0, float(jnp.abs(a).max())))


def test_members_side_by_side_are_those_alone():
    fields = [field_of(3), field_of(3, initialisation="paper")]
    first, steps = windows(3)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *fields)
    around = limits(3, 2.0)
    together = jax.jit(jax.vmap(interpreted, (0, None, None, None)))(stacked, first, steps, around)
    for field, found in zip(fields, together, strict=True):
        np.testing.assert_allclose(found, jax.jit(interpreted)(field, first, steps, around), atol=1e-6)


@pytest.mark.parametrize("n_states", [2, 8, 10, 16])
def test_the_compiler_for_cuda_takes_the_kernels(n_states):
    """Without a device: every operation in them has a form there, of a legal size."""
    field = field_of(n_states)
    first, steps = windows(n_states)
    both_ways = jax.jit(jax.grad(lambda f, x: (onchip.shoot(f, x, steps, limits(n_states, 2.0)) ** 2).sum(), (0, 1)))
    program = both_ways.trace(field, first).lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("@__gpu$xla.gpu.triton") == 2


@pytest.mark.parametrize(
    ("n_states", "model", "known"),
    [
        (4, {}, True),
        (16, {"layers": 5}, True),
        (17, {}, False),
        (4, {"rows": 17}, False),
        (4, {"width": 33}, False),
        (4, {"entropy": "affine"}, False),
        (4, {"field": "plain"}, False),
    ],
)
def test_fields_that_the_kernels_know(n_states, model, known):
    assert onchip.knows(build(ModelSpec(**model), n_states, key=jax.random.key(0))) is known


@pytest.mark.parametrize(
    ("capability", "switch", "served"), [(9.0, "1", True), (10.0, "1", True), (9.0, "0", False), (8.6, "1", False)]
)
def test_devices_that_are_served(monkeypatch, capability, switch, served):
    monkeypatch.setattr(onchip, "_capability", lambda: capability)
    monkeypatch.setenv("WGFINN_ONCHIP", switch)
    assert onchip.serves(field_of(4)) is served
    assert not onchip.serves(field_of(4, width=33))
    monkeypatch.delenv("WGFINN_ONCHIP")
    assert onchip.serves(field_of(4)) is (capability >= 9)


def test_a_cpu_has_no_capability():
    assert jax.default_backend() != "cpu" or onchip._capability() == 0
