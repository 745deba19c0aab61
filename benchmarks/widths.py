"""Widths of test functions: the choice from the data, and the error of polynomial fields fitted at each width.

`python benchmarks/widths.py [SYSTEM ...]` prints the numbers of docs/inspect.md.
"""

import sys
from itertools import combinations_with_replacement

import numpy as np
from scipy.interpolate import CubicSpline

from wgfinn import systems
from wgfinn.data import Trajectories, add_noise, estimate_noise
from wgfinn.weak import TestFunctionSpec, choose_test_functions

# Degree of the field in the standardised states, and runs.
CASES = {
    "gas_containers": (4, 100),
    "double_pendulum": (2, 100),
    "damped_oscillator": (3, 100),
    "vlasov_poisson": (1, 30),
}
LEVELS = (0.0, 0.01, 0.05, 0.1, 0.2)
WIDTHS = (10, 15, 20, 30, 40, 60, 80, 100)
FITTED_RUNS, SEEDS = 80, 3


def monomials(z: np.ndarray, degree: int) -> np.ndarray:
    indices = [list(c) for k in range(degree + 1) for c in combinations_with_replacement(range(z.shape[-1]), k)]
    return np.stack([np.prod(z[..., c], axis=-1) for c in indices], axis=-1)


def field_error(z: np.ndarray, t: np.ndarray, noise: float, degree: int, width: int, seed: int) -> float:
    """Least squares on the weak equations of noisy states; relative error of the rates on the clean ones."""
    spec = TestFunctionSpec(width=width)
    noisy = z + noise * np.random.default_rng(seed).standard_normal(z.shape)
    values, slopes = spec.window()
    starts = spec.stride * np.arange(spec.count(t.size))

    def integrals(record: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([np.einsum("rwk,w->rk", record[:, s : s + width], weights) for s in starts])

    left = (t[1] - t[0]) * integrals(monomials(noisy, degree), values)
    coefficients = np.linalg.lstsq(left, -integrals(noisy, slopes), rcond=1e-10)[0]
    truth = CubicSpline(t, z, axis=1)(t, 1)
    missed = monomials(z, degree) @ coefficients - truth
    return float(np.mean(np.sqrt(np.mean(missed**2, axis=(0, 1)) / np.mean(truth**2, axis=(0, 1)))))


def main(names: list[str]) -> None:
    for name in names or CASES:
        degree, count = CASES[name]
        clean: Trajectories = systems.generate(systems.make(name), trajectories=count, seed=0).clean
        for level in LEVELS:
            runs = add_noise(clean, level, seed=0)
            print(name, f"{level:4.0%}", choose_test_functions(runs, estimate_noise(runs))[1])
        t, x = clean.stacked()
        z = ((x - x.mean((0, 1))) / x.std((0, 1)))[:FITTED_RUNS]
        for level in (0.05, 0.1):
            errors = {
                w: np.mean([field_error(z, t, level, degree, w, seed) for seed in range(SEEDS)])
                for w in WIDTHS
                if w <= 0.6 * t.size
            }
            print(name, f"{level:4.0%}", "  ".join(f"{w}: {error:.3f}" for w, error in errors.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
