"""Shooting inside one kernel (`losses.onchip`) on a CUDA device, against the scheme step by step in double precision.

    python benchmarks/onchip.py

Values and slopes for fields of the default's size, by number of states: relative differences (euclidean norms), the
part of the windows that a limit stops, the time of a first call, which compiles, and of one more.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._device import on_cpu
from wgfinn.losses import onchip, shooting
from wgfinn.models import ModelSpec, build, trainable

N_WINDOWS, N_STEPS, STEP, REPEATS = 320, 20, 0.02, 10
LOW, HIGH = -1.6, 1.8


def problem(n_states: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A field, first states, and states to compare with."""
    rng = np.random.default_rng(1)
    field = build(ModelSpec(), n_states, key=jax.random.key(0))
    return field, rng.standard_normal((n_states, N_WINDOWS)), rng.standard_normal((N_STEPS, n_states, N_WINDOWS))


def both_ways(go: Callable, field: Any, target: np.ndarray, dtype: str) -> Callable:
    """Loss and states, and the loss's slopes by weights and first states."""
    rest = trainable(field)[1]
    n_states = target.shape[1]

    def loss(weights: Any, first: jax.Array) -> tuple[jax.Array, jax.Array]:
        limits = jnp.stack([jnp.full(n_states, LOW, dtype), jnp.full(n_states, HIGH, dtype)])
        x = go(eqx.combine(weights, rest), first, jnp.full((N_STEPS, N_WINDOWS), STEP, dtype), limits)
        return jnp.mean((x - target.astype(dtype)) ** 2), x

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))


def difference(found: Any, expected: Any) -> float:
    found, expected = (np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in jax.tree.leaves(t)])
                       for t in (found, expected))  # fmt: skip
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def main() -> None:
    for n_states in (3, 4, 8, 10):
        field, first, target = problem(n_states)
        assert onchip.serves(field), "no device that the kernels serve"
        weights = trainable(field)[0]
        single = jax.tree.map(lambda a: jnp.asarray(a, "float32"), (weights, first))
        go = both_ways(onchip.shoot, field, target, "float32")
        times = [time.perf_counter()]
        for repeats in (1, REPEATS):
            for _ in range(repeats):
                found = go(*single)
            jax.block_until_ready(found)
            times.append(time.perf_counter())
        with jax.enable_x64(True), on_cpu():
            double = jax.tree.map(lambda a: np.asarray(a, np.float64), (weights, first))
            expected = jax.device_get(both_ways(shooting._step_by_step, field, target, "float64")(*double))
        (_, x), slopes = found
        stopped = np.any((expected[0][1][-1] <= LOW) | (expected[0][1][-1] >= HIGH), axis=0).mean()
        print(
            f"{n_states} states: first call {times[1] - times[0]:.1f} s, then "
            f"{1e3 * (times[2] - times[1]) / REPEATS:.2f} ms; "
            f"{stopped:.0%} stopped; states {difference(x, expected[0][1]):.1e}, "
            f"slopes {difference(slopes[0], expected[1][0]):.1e} {difference(slopes[1], expected[1][1]):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
