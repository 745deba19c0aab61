"""What the default makes of noise that is not the white Gaussian one it was built on.

    python benchmarks/noise_kinds.py --out DIR [--systems damped_oscillator] [--kinds NAME ...] [--seeds 1] [--first 0]

80 runs of a system of the paper, measured with noise of one standard deviation, 10 % of each state's spread, of
different kinds (`KINDS`). Each is fitted with the default settings; the error is the paper's, on 20 clean test runs. A
seed is that of data, noise, split and weights. Writes `DIR/noise_kinds.json` after every fit and goes on from it.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from scipy.signal import lfilter

from wgfinn import WGFINN
from wgfinn.data import Trajectories, split, state_std
from wgfinn.evaluate import trajectory_errors
from wgfinn.studies.recipes import load_recipe, recipe_names
from wgfinn.studies.results import finite, hardware
from wgfinn.systems import generate, make

LEVEL = 0.1
_KEPT = 0.9
_GROSS_PART, _GROSS_SIZE = 0.01, 20.0


def gaussian(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(x.shape)


def uniform(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-np.sqrt(3), np.sqrt(3), x.shape)


def student(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Heavy tails: three degrees of freedom."""
    return rng.standard_t(3, x.shape) / np.sqrt(3)


def gross(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One value in a hundred is off by twenty times the rest, which are Gaussian; these alone have the level."""
    off = np.where(rng.random(x.shape) < _GROSS_PART, _GROSS_SIZE, 1.0)
    return off * rng.standard_normal(x.shape)


def correlated(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each error keeps 0.9 of the one before (a sensor that drifts)."""
    fresh = np.sqrt(1 - _KEPT**2) * rng.standard_normal(x.shape)
    fresh[0] /= np.sqrt(1 - _KEPT**2)
    return np.asarray(lfilter([1.0], [1.0, -_KEPT], fresh, axis=0))


def proportional(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Errors grow with the distance from the run's mean."""
    size = np.abs(x - x.mean(axis=0))
    return size / np.sqrt(np.mean(size**2, axis=0)) * rng.standard_normal(x.shape)


KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    f.__name__: f for f in (gaussian, uniform, student, gross, correlated, proportional)
}


def data_of(system: str, kind: str, seed: int) -> tuple[Trajectories, Trajectories]:
    """Noisy training runs and clean test runs."""
    spec = load_recipe(system).data
    clean = generate(make(system), trajectories=spec.trajectories, seed=seed).clean
    train, test = split(clean, fraction=spec.train_fraction, seed=seed)
    rng, sigma = np.random.default_rng(seed + 1), state_std(train)
    return train.with_states([run.x + LEVEL * sigma * KINDS[kind](run.x, rng) for run in train.runs]), test


def one_fit(system: str, kind: str, seed: int) -> dict:
    train, test = data_of(system, kind, seed)
    before = time.monotonic()
    model = WGFINN(seed=seed).fit(train).model
    seconds = round(time.monotonic() - before, 1)
    errors = trajectory_errors(model.field(), test)
    return {
        "error": finite(errors.overall),
        "median_run": finite(errors.median_run),
        "misfit": model.manifest.members[model.manifest.served].misfit,
        "level": None if model.manifest.verdict is None else model.manifest.verdict.level,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--systems", nargs="+", default=["damped_oscillator"], choices=recipe_names())
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "noise_kinds.json"
    fits = json.loads(path.read_text())["fits"] if path.exists() else {}
    with jax.enable_x64(True):
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for system in arguments.systems:
                for kind in arguments.kinds:
                    key = f"{system}/{kind}/seed {seed}"
                    if key not in fits:
                        fits[key] = one_fit(system, kind, seed)
                        print(key, json.dumps(fits[key]), flush=True)
                        path.write_text(json.dumps({"hardware": hardware(), "fits": fits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
