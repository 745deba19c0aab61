"""Which activation learns a known field best: the true x' of clean runs, regressed with SOAP.

    python benchmarks/activations.py [--systems gas_containers ...] [--steps 1500] [--seeds 2]

No noise and no time derivative: what is left is whether the network can be taught the field at all. Standardised
coordinates and default networks; the error is the paper's, over rollouts on clean test runs. Data of seed 1001. One
JSON line for each system, activation and seed.
"""

import argparse
import json
import time
from typing import get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn.data import Scales, Trajectories, split
from wgfinn.evaluate import trajectory_errors
from wgfinn.losses import AbstractEquations, AttentionSpec
from wgfinn.models import Activation, ModelSpec, RescaledField, build
from wgfinn.studies.recipes import load_recipe
from wgfinn.systems import generate, make
from wgfinn.training import (
    MemberSettings,
    OptimiserSpec,
    Problem,
    TrainingSpec,
    initial_state,
    make_optimiser,
    stack,
    take_apart,
    train,
)

SEED, BATCH = 1001, 3200


class Rates(AbstractEquations):
    """f(x) against the true rates, in units of their spread."""

    x: jax.Array
    rates: jax.Array
    spread: jax.Array
    n_items: int = eqx.field(static=True)

    def residual(self, field, items=None):
        x, rates = (a if items is None else a[:, items] for a in (self.x, self.rates))
        return (field(x) - rates) / self.spread

    def mask(self, items=None):
        return None


def rates_of(system, runs: Trajectories, scales: Scales) -> Rates:
    x = np.concatenate([run.x for run in runs.runs])
    rates = np.asarray(jax.vmap(system.rhs)(jnp.asarray(x))) * scales.time / scales.scale
    spread = rates.std(axis=0)[:, None]
    x, rates, spread = (jnp.asarray(a, "float32") for a in (scales.forward(x).T, rates.T, spread))
    return Rates(x, rates, spread, rates.shape[1])


def learn(model: ModelSpec, equations: Rates, steps: int, seeds: int) -> list:
    optimiser_spec = OptimiserSpec(decay_every=max(1, round(0.08 * steps)))
    n_states = len(equations.x)
    parts = [take_apart(build(model, n_states, key=jax.random.key(k)), "float32") for k in range(seeds)]
    structure = parts[0][1]
    optimiser = make_optimiser(optimiser_spec, structure.shapes)
    settings = [MemberSettings.create(k, optimiser_spec, AttentionSpec(), "float32") for k in range(seeds)]
    states = stack([initial_state(w, s, n_states, optimiser) for (w, _), s in zip(parts, settings, strict=True)])
    problem = Problem(equations, jnp.ones(n_states, "float32"), structure, BATCH, optimiser)
    names = [f"seed {k}" for k in range(seeds)]
    states = train(states, stack(settings), problem, TrainingSpec(steps=steps, check_every=250), names)
    return [structure.field(best) for best in states.best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=["gas_containers", "damped_oscillator"])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in options.systems:
        system, spec = make(name), load_recipe(name).data
        clean = generate(system, trajectories=spec.trajectories, seed=SEED).clean
        train_runs, test = split(clean, fraction=spec.train_fraction, seed=SEED)
        scales = Scales.standardise(train_runs)
        equations = rates_of(system, train_runs, scales)
        coordinates = [jnp.asarray(a) for a in (scales.shift, scales.scale, scales.time)]
        for activation in get_args(Activation):
            started = time.monotonic()
            fields = learn(ModelSpec(activation=activation), equations, options.steps, options.seeds)
            seconds = time.monotonic() - started
            for seed, field in enumerate(fields):
                double = jax.tree.map(lambda leaf: jnp.asarray(leaf, "float64"), field)
                missed = float(jnp.sqrt(jnp.mean(equations.residual(double) ** 2)))
                errors = trajectory_errors(RescaledField(double, *coordinates), test)
                row = {"system": name, "activation": activation, "seed": seed, "missed_rates": missed}
                row |= {"error": errors.overall, "median_run": errors.median_run, "seconds": round(seconds)}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
