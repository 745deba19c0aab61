"""Time of one training step of the weak-form GENERIC model on the gas containers' shapes.

    python benchmarks/step_time.py --members 1 5 --steps 200 --repeats 5 [--json]

80 runs of 401 samples, four states, the paper's networks (3,646 weights), full batch, single precision, State-RBA on:
the numbers in the data do not change the work. Prints the median and the spread over the repeats of milliseconds per
step, after one call that compiles. `torch_step.py` beside this does the same in compiled PyTorch.
"""

import argparse
import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from wgfinn.data import Trajectories
from wgfinn.losses import AttentionSpec, WeakEquations
from wgfinn.models import ModelSpec, build
from wgfinn.training import MemberSettings, OptimiserSpec, Problem, Structure, advance, initial_state, stack, take_apart
from wgfinn.weak import TestFunctionSpec

N_RUNS, N_TIMES, N_STATES = 80, 401, 4
PAPER = ModelSpec(layers=4, width=20, entropy="affine", initialisation="paper", activation="tanh")


def problem() -> Problem:
    walk = np.cumsum(np.random.default_rng(0).normal(size=(N_RUNS, N_TIMES, N_STATES)), axis=1)
    trajectories = Trajectories.from_arrays(0.05 * walk, 0.01 * np.arange(N_TIMES))
    equations = WeakEquations(trajectories, TestFunctionSpec(width=80, degree=4, overlap=0.9), "float32")
    return Problem(equations, jnp.ones(N_STATES, "float32"), fresh_weights(0)[1], None)


def fresh_weights(seed: int) -> tuple[jax.Array, Structure]:
    field = build(PAPER, N_STATES, key=jax.random.key(seed))
    return take_apart(field, "float32")


def milliseconds_per_step(members: int, steps: int, repeats: int) -> list[float]:
    settings = [
        MemberSettings.create(i, OptimiserSpec(), AttentionSpec(rate=0.005, decay=0.995), "float32")
        for i in range(members)
    ]
    states = stack([initial_state(fresh_weights(i)[0], s, N_STATES) for i, s in enumerate(settings)])
    data, stacked = problem(), stack(settings)
    times = []
    for _ in range(repeats + 1):
        before = time.perf_counter()
        states, info = advance(states, stacked, data, jnp.asarray(1), interval=steps, own_data=False)
        jax.block_until_ready(info)
        times.append(1e3 * (time.perf_counter() - before) / steps)
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with jax.enable_x64(True):
        for members in arguments.members:
            times = milliseconds_per_step(members, arguments.steps, arguments.repeats)
            result = {
                "device": jax.devices()[0].device_kind,
                "jax": jax.__version__,
                "members": members,
                "ms_per_step": statistics.median(times),
                "least": min(times),
                "most": max(times),
            }
            print(
                json.dumps(result) if arguments.json else "  ".join(f"{k} {v}" for k, v in result.items()), flush=True
            )


if __name__ == "__main__":
    main()
