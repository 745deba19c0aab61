"""What the default makes of few runs: small data sets of systems that are not the paper's.

    python benchmarks/few_runs.py --out DIR [--systems pendulum ...] [--runs 8] [--seeds 3] [--first 0] [--arms ...]

Each data set has a few runs of 200 samples with 3 % noise. `default` is `WGFINN().fit(noisy runs)`; the other keys of
`SETTINGS` are the same with a part taken out. The error is the paper's, on 20 clean runs that start in the same box. A
seed is that of starts, noise and weights. Writes `DIR/few_runs.json` after every fit and goes on from it.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.integrate import solve_ivp

from wgfinn import WGFINN
from wgfinn.data import Trajectories, add_noise
from wgfinn.evaluate import trajectory_errors
from wgfinn.studies.results import finite, hardware

NOISE, SAMPLES, TEST_RUNS = 0.03, 200, 20
SETTINGS = {
    "default": {},
    "no decay": {"training": {"decays": [0.0]}},
    "not confined": {"model": {"confined": False}},
    "with an entropy": {"model": {"entropy": "neural"}},
    "without an entropy": {"model": {"entropy": "none"}},
    "with a bath": {"model": {"entropy": "bath"}},
}


class Case(NamedTuple):
    """A right-hand side, the box that runs start in, and how long they last."""

    velocity: Callable
    box: list[tuple[float, float]]
    duration: float


def pendulum(t, z, friction=0.25):
    q, p, _ = z
    return [p, -np.sin(q) - friction * p, friction * p**2]


def double_well(t, z, friction=0.15):
    q, p, _ = z
    return [p, q - q**3 - friction * p, friction * p**2]


def swing(t, z, friction=0.2):
    """A pendulum whose heat was not measured."""
    q, p = z
    return [p, -np.sin(q) - friction * p]


def masses(t, z, friction=0.2):
    """Two masses on springs that harden, with friction whose heat was not measured."""
    q, r, p, s = z
    return [p, s, -q - (q - r) - 0.3 * q**3 - friction * p, -r - (r - q) - friction * s]


def valley(t, z):
    """Two springs coupled in the way of Hénon and Heiles: nothing rubs."""
    q, r, p, s = z
    return [p, s, -q - 2 * q * r, -r - q**2 + r**2]


def heat(t, z, conductivity=0.5):
    warm, cold = np.exp(z)
    return [conductivity * (cold / warm - 1), conductivity * (warm / cold - 1)]


def chain(t, z, friction=0.2):
    q, r, p, s, _ = z
    drag, spring = friction * (p - s), q - r
    return [p, s, -q - spring - drag - 0.1 * q**3, -r + spring + drag, drag * (p - s)]


def predators(t, z):
    prey, hunters = z
    return [prey * (1 - hunters), 0.7 * hunters * (prey - 1)]


CASES = {
    "pendulum": Case(pendulum, [(-2, 2), (-1, 1), (0, 0.2)], 10.0),
    "double_well": Case(double_well, [(-1.5, 1.5), (-1, 1), (0, 0.2)], 12.0),
    "swing": Case(swing, [(-2, 2), (-1, 1)], 10.0),
    "masses": Case(masses, [(-1, 1)] * 4, 10.0),
    "valley": Case(valley, [(-0.3, 0.3)] * 4, 12.0),
    "heat": Case(heat, [(-0.5, 0.8)] * 2, 4.0),
    "predators": Case(predators, [(0.5, 2)] * 2, 20.0),
    "chain": Case(chain, [(-1, 1)] * 4 + [(0, 0.2)], 10.0),
}


def clean_runs(case: Case, n_runs: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    low, high = np.array(case.box).T
    t = np.linspace(0, case.duration, SAMPLES)
    starts = rng.uniform(low, high, (n_runs, len(low)))
    x = [solve_ivp(case.velocity, (0, t[-1]), s, t_eval=t, rtol=1e-9, atol=1e-10).y.T for s in starts]
    return Trajectories.from_arrays(x, t)


def one_fit(case: Case, n_runs: int, seed: int, settings: dict) -> dict:
    noisy = add_noise(clean_runs(case, n_runs, seed), NOISE, seed=seed + 1)
    test = clean_runs(case, TEST_RUNS, seed + 1000)
    before = time.monotonic()
    model = WGFINN(seed=seed, settings=settings).fit(noisy).model
    seconds = round(time.monotonic() - before, 1)
    errors = trajectory_errors(model.field(), test)
    return {
        "error": finite(errors.overall),
        "median_run": finite(errors.median_run),
        "misfit": model.manifest.members[model.manifest.served].misfit,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--systems", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--arms", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "few_runs.json"
    fits = json.loads(path.read_text())["fits"] if path.exists() else {}
    with jax.enable_x64(True):
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for name in arguments.systems:
                for arm in arguments.arms:
                    key = f"{name}/{arguments.runs} runs/{arm}/seed {seed}"
                    if key not in fits:
                        fits[key] = one_fit(CASES[name], arguments.runs, seed, SETTINGS[arm])
                        print(key, json.dumps(fits[key]), flush=True)
                        path.write_text(json.dumps({"hardware": hardware(), "fits": fits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
