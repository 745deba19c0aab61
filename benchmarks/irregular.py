"""What irregular sampling costs: the same number of samples, regular and complete against jittered with rows missing.

    python benchmarks/irregular.py --out DIR [--systems damped_oscillator gas_containers] [--seeds 5] [--first 0]

For each system at 5 % noise, 80 training runs are measured in three ways: at equally spaced times (`regular`); at
times with 20 % jitter (uniform within 0.2 steps) of which 10 % are missing, as many samples in all (`rows`); and
likewise with 10 % of the single values missing instead of rows (`values`). Each is fitted with the default settings.
The error is that of 20 clean test runs (paper, eq. test_rmse). A seed sets jitter, gaps, noise and weights; start
states are the same throughout.

Writes `irregular.json` after every fit and goes on from it: fits that are there already are not repeated.
`--residuals` measures, in seconds and without any fit, the weak residual of the true field on clean jittered data, by
the trapezoidal rule and by local cubics.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

from wgfinn import systems
from wgfinn._device import on_cpu
from wgfinn.artefact import versions
from wgfinn.data import Trajectories, add_noise, state_std
from wgfinn.evaluate import trajectory_errors
from wgfinn.fitting import FitSpec, fit
from wgfinn.losses import ScatteredWeakEquations, WeakEquations
from wgfinn.systems.base import System
from wgfinn.weak import TestFunctionSpec, scattered

NOISE, JITTER, MISSING = 0.05, 0.2, 0.1
ARMS = ("regular", "rows", "values")
N_RUNS, N_TEST = 80, 20


def jittered(n: int, end: float, rng: np.random.Generator) -> np.ndarray:
    """`n` times from 0 to `end`, each up to `JITTER` steps off its place; the first and the last keep theirs."""
    step = end / (n - 1)
    t = step * np.arange(n)
    t[1:-1] += JITTER * step * rng.uniform(-1, 1, n - 2)
    return t


def measured(system: System, start: np.ndarray, arm: str, seed: int) -> Trajectories:
    """Clean runs as sampled in one arm, each value exact to the solver's 1e-10."""
    rng = np.random.default_rng(seed)
    n, end = len(system.times()), float(system.times()[-1])
    if arm == "regular":
        return exact(system, start, [system.times()] * len(start))
    if arm == "values":
        runs = exact(system, start, [jittered(n, end, rng) for _ in start])
        return runs.with_states([np.where(rng.random(run.x.shape) < MISSING, np.nan, run.x) for run in runs.runs])
    planned = round(n / (1 - MISSING))
    kept = [np.append(0, np.sort(rng.choice(np.arange(1, planned), n - 1, replace=False))) for _ in start]
    return exact(system, start, [jittered(planned, end, rng)[rows] for rows in kept])


def exact(system: System, start: np.ndarray, times: list[np.ndarray]) -> Trajectories:
    x = [system.simulate(x0, t, "accurate") for x0, t in zip(start, times, strict=True)]
    return Trajectories.from_arrays(x, times, names=system.state_names)


def one_fit(system: System, arm: str, seed: int) -> dict:
    with on_cpu():
        start = system.sample(N_RUNS + N_TEST, jax.random.key(0))
        test = exact(system, start[N_RUNS:], [system.times()] * N_TEST)
        clean = measured(system, start[:N_RUNS], arm, seed)
        # Noise levels of the regular runs in every arm.
        sigma = state_std(exact(system, start[:N_RUNS], [system.times()] * N_RUNS))
    noisy = add_noise(clean, NOISE, seed=seed, sigma=sigma)
    before = time.monotonic()
    model = fit(noisy, FitSpec.model_validate({"training": {"seed": seed}}))
    seconds = time.monotonic() - before
    with on_cpu():
        errors = trajectory_errors(model.field(), test)
    return {"error": errors.overall, "median_run": errors.median_run, "seconds": round(seconds, 1)}


def residuals(name: str, spec: TestFunctionSpec, seed: int = 0) -> dict:
    """Root mean square of the weak residual of the true field over that of its first term, the worst state."""
    system = systems.make(name)
    start = system.sample(N_TEST, jax.random.key(0))
    field = jax.jit(jax.vmap(system.rhs, in_axes=-1, out_axes=-1))

    def relative(equations: WeakEquations | ScatteredWeakEquations) -> float:
        residual, slopes = np.asarray(equations.residual(field)), np.asarray(equations.slopes)
        exists = np.ones(residual.shape[1:]) if equations.mask() is None else np.asarray(equations.mask())[0]
        return float(np.sqrt(np.max(np.sum(residual**2 * exists, (1, 2)) / np.sum(slopes**2 * exists, (1, 2)))))

    row = {"system": name, "width": spec.width, "degree": spec.degree}
    row["regular"] = relative(WeakEquations(measured(system, start, "regular", seed), spec, "float64"))
    for arm in ARMS[1:]:
        runs = measured(system, start, arm, seed)
        row[f"{arm}, cubic"] = relative(ScatteredWeakEquations(runs, spec, "float64"))
        rule, scattered.quadrature_weights = scattered.quadrature_weights, trapezoidal_weights
        try:
            row[f"{arm}, trapezoidal"] = relative(ScatteredWeakEquations(runs, spec, "float64"))
        finally:
            scattered.quadrature_weights = rule
    return row


def trapezoidal_weights(t: np.ndarray) -> np.ndarray:
    steps = np.diff(t, prepend=t[0], append=t[-1])
    return (steps[1:] + steps[:-1]) / 2


def summary(fits: dict[str, dict], name: str) -> str:
    medians = {}
    for arm in ARMS:
        errors = [row["error"] for key, row in fits.items() if key.startswith(f"{name}/{arm}/")]
        if errors:
            medians[arm] = (float(np.median(errors)), len(errors))
    if "regular" not in medians:
        return ""
    reference = medians["regular"][0]
    parts = (f"{arm} {m:.4g} ({m / reference:.2f} x, {n} seeds)" for arm, (m, n) in medians.items())
    return f"{name}: median error " + ", ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--systems", nargs="+", default=["damped_oscillator", "gas_containers"])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--residuals", action="store_true")
    arguments = parser.parse_args()
    path = arguments.out / "irregular.json"
    arguments.out.mkdir(parents=True, exist_ok=True)
    with jax.enable_x64(True):
        if arguments.residuals:
            for name, width in (("damped_oscillator", 60), ("gas_containers", 80), ("gas_containers", 30)):
                print(json.dumps(residuals(name, TestFunctionSpec(width=width, degree=4))), flush=True)
            return
        fits = json.loads(path.read_text())["fits"] if path.exists() else {}
        # Seed by seed, so that a comparison exists as early as possible.
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for name in arguments.systems:
                for arm in arguments.arms:
                    key = f"{name}/{arm}/seed {seed}"
                    if key in fits:
                        continue
                    fits[key] = one_fit(systems.make(name), arm, seed)
                    print(key, json.dumps(fits[key]), flush=True)
                    result = {"device": jax.devices()[0].device_kind, "versions": versions(), "fits": fits}
                    path.write_text(json.dumps(result, indent=1) + "\n")
    for name in arguments.systems:
        print(summary(fits, name))


if __name__ == "__main__":
    main()
