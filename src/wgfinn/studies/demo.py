"""The demonstration: weak against strong form on two noisy systems, small enough for two CPU cores in minutes."""

import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from wgfinn import systems
from wgfinn._spec import parse
from wgfinn.artefact import Model
from wgfinn.data import Trajectories, add_noise, split
from wgfinn.evaluate import (
    Errors,
    ThermodynamicChecks,
    calibrate,
    energy_entropy_figure,
    prediction_errors,
    simulate_runs,
    thermodynamic_checks,
    trajectory_figure,
)
from wgfinn.fitting import FitSpec, finite, fit
from wgfinn.training import Observer

Bar = Callable[[str, int], AbstractContextManager[Observer]]

SYSTEMS = ("gas_containers", "damped_oscillator")
METHODS = {"weak": "WGFINN (weak form)", "strong": "GFINN (strong form)"}
MEMBERS = 5
STEPS = 2_500


@dataclass(frozen=True)
class Outcome:
    """One method on one system: the model, its rollouts of the test runs, and what they are worth."""

    model: Model
    rollouts: list[list[np.ndarray]]
    errors: list[Errors]
    checks: ThermodynamicChecks
    seconds: float

    @property
    def median(self) -> float:
        return statistics.median(e.overall for e in self.errors)


def demo_spec(method: str, seed: int) -> FitSpec:
    """Each form alone, in one stage: the same model, optimiser and steps, about the same seconds."""
    return parse(
        FitSpec,
        {
            "method": method,
            "training": {"steps": STEPS, "members": MEMBERS, "seed": seed},
        },
    )


def run_demo(out: Path, *, noise: float, seed: int, bar: Bar, show: Callable[[Any], None]) -> dict[str, Any]:
    """Train both methods on both systems, show the table, write figures and `demo.json` into `out`."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    table = Table("system", "form", "test errors", "median", "E drift", "least dS", "|L∇S|", "|M∇E|")
    for name in SYSTEMS:
        system = systems.make(name)
        assert isinstance(system, systems.System)
        train, test = split(systems.generate(system, seed=seed).clean, fraction=system.train_fraction, seed=seed)
        noisy = add_noise(train, noise, seed=seed)
        outcomes = {method: _train(name, method, noisy, test, seed, bar) for method in METHODS}
        for method, outcome in outcomes.items():
            table.add_row(name, method, *_row(outcome))
        _draw(out, name, system, test, noise, seed, outcomes)
        results[name] = {method: _summary(outcome) for method, outcome in outcomes.items()}
    results["seconds"] = time.monotonic() - started
    (out / "demo.json").write_text(json.dumps(finite(results), indent=1) + "\n")
    show(table)
    show(_verdict(results, noise))
    show(f"{results['seconds']:.0f} s in all; figures and demo.json: {out.resolve()}")
    return results


def _train(name: str, method: str, noisy: Trajectories, test: Trajectories, seed: int, bar: Bar) -> Outcome:
    spec = demo_spec(method, seed)
    started = time.monotonic()
    with bar(f"{name}, {method} form", spec.training.steps) as observe:
        model = fit(noisy, spec, observe=observe)
    seconds = time.monotonic() - started
    fields = [model.field(i) for i in range(model.n_members)]
    rollouts = [simulate_runs(field, test) for field in fields]
    checks = thermodynamic_checks(model.field(), test, simulated=rollouts[model.manifest.served])
    assert checks is not None
    return Outcome(model, rollouts, [prediction_errors(test, r) for r in rollouts], checks, seconds)


def _row(outcome: Outcome) -> list[str]:
    checks = outcome.checks
    return [
        " ".join(f"{e.overall:.2f}" for e in outcome.errors),
        f"{outcome.median:.3f}",
        f"{checks.energy_drift:.1e}",
        f"{checks.min_entropy_increment:.1e}",
        f"{checks.degeneracy['poisson_degeneracy']:.0e}",
        f"{checks.degeneracy['friction_degeneracy']:.0e}",
    ]


def _summary(outcome: Outcome) -> dict[str, Any]:
    return {
        "relative_l2_members": [e.overall for e in outcome.errors],
        "relative_l2": outcome.errors[outcome.model.manifest.served].overall,
        "median": outcome.median,
        "energy_drift": outcome.checks.energy_drift,
        "min_entropy_increment": outcome.checks.min_entropy_increment,
        "degeneracy": outcome.checks.degeneracy,
        "training_seconds": outcome.seconds,
    }


def _verdict(results: dict[str, Any], noise: float) -> str:
    factors = {n: results[n]["strong"]["median"] / results[n]["weak"]["median"] for n in SYSTEMS}
    told = ", ".join(f"{name}: strong / weak = {factor:.1f}" for name, factor in factors.items())
    return (
        f"Test errors: relative l2 on clean test runs, {MEMBERS} members trained at {noise:.0%} noise.\n"
        f"Medians: {told}.\n"
        "L∇S = 0 and M∇E = 0 hold at rounding for every model; E drift and least dS (in units of their variation over\n"
        "the data) are the fixed-step integrator's."
    )


def _draw(
    out: Path,
    name: str,
    system: systems.System,
    test: Trajectories,
    noise: float,
    seed: int,
    outcomes: dict[str, Outcome],
) -> None:
    """One test run, the one whose weak-form error is the median: neither the best nor the worst."""
    weak = outcomes["weak"]
    errors = list(weak.errors[weak.model.manifest.served].per_run.values())
    shown = int(np.argsort(errors)[len(errors) // 2])
    run = test.runs[shown]
    sample = add_noise(test, noise, seed=seed).runs[shown].x
    predictions = {METHODS[m]: _served_first(o, shown) for m, o in outcomes.items()}
    title = f"{name.replace('_', ' ')}, {noise:.0%} noise in the training data, test run {run.name}"
    trajectory_figure(
        out / f"{name}_trajectories.png",
        run.t,
        run.x,
        predictions,
        noisy=sample,
        names=test.names,
        time_unit=test.time_unit,
        title=title,
    )
    states = np.concatenate([r.x for r in test.runs])
    energies, entropies, calibration = {}, {}, {}
    for method, outcome in outcomes.items():
        field, label = outcome.model.field(), METHODS[method]
        path = jnp.asarray(predictions[label][0].T)
        energies[label], entropies[label] = np.asarray(field.energy(path)), np.asarray(field.entropy(path))
        learnt = np.asarray(field.energy(jnp.asarray(states.T)))
        calibration[label] = calibrate(learnt, np.asarray(jax.vmap(system.energy)(jnp.asarray(states))))
    energy_entropy_figure(
        out / f"{name}_energy_entropy.png",
        run.t,
        energies,
        entropies,
        truth_energy=np.asarray(jax.vmap(system.energy)(jnp.asarray(run.x))),
        truth_entropy=np.asarray(jax.vmap(system.entropy)(jnp.asarray(run.x))),
        energy_calibration=calibration,
        time_unit=test.time_unit,
        title=title,
    )


def _served_first(outcome: Outcome, run: int) -> list[np.ndarray]:
    served = outcome.model.manifest.served
    order = [served, *(i for i in range(len(outcome.rollouts)) if i != served)]
    return [outcome.rollouts[i][run] for i in order]
