"""The simulations behind section 4's two figures, and the study that writes them.

Numbers only; drawing is in `drawing`. The estimators see noisy samples and nothing else, the theorems'
formulas see the noise: the two meet only where they are compared.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from wgfinn._errors import InputError
from wgfinn.theory._checks import require_count
from wgfinn.theory.strong import (
    decay_samples,
    euler_error,
    recovery_step,
    sign_changes,
    strong_error,
    strong_estimate,
    strong_expected_error,
    strong_limit,
    strong_limit_as_printed,
)
from wgfinn.theory.weak import (
    three_point_spread,
    three_point_weights,
    weak_estimate,
    weak_relative_error,
    window_samples,
)

RATE = -2.0
"""The rate of the strong-form figure's caption; the weak-form caption states none and gets the same."""
NOISE_LEVELS = (1e-4, 1e-3, 1e-2, 1e-1)
RUNS = 1000
SHOWN = 10
LIMIT_SETTINGS = (
    {"rate": -2.0, "start": 1.0, "sigma": 0.5, "horizon": 1.0},
    {"rate": 1.0, "start": 1.0, "sigma": 0.5, "horizon": 2.0},
    {"rate": -1.0, "start": 2.0, "sigma": 1.0, "horizon": 3.0},
)
"""Three settings in which the printed and the corrected limit of theorem 4.1 are far apart."""

_BATCH = 2_000_000  # noise values drawn at once: 16 MB
_HALF_NORMAL = math.sqrt(2.0 / math.pi)  # mean of |Z| for a standard normal Z


def simulated_strong(
    rate: float,
    *,
    sigma: float,
    steps: int,
    runs: int,
    rng: np.random.Generator,
    start: float = 1.0,
    horizon: float = 1.0,
) -> Float[np.ndarray, " runs"]:
    """Errors of the strong estimator in `runs` independent simulations with Gaussian noise."""
    require_count("steps", steps)
    require_count("runs", runs)
    dt = horizon / steps
    size = max(1, _BATCH // (steps + 1))
    errors = []
    for first in range(0, runs, size):
        noise = rng.standard_normal((min(size, runs - first), steps + 1))
        errors.append(strong_estimate(decay_samples(noise, rate, sigma=sigma, dt=dt, start=start), dt) - rate)
    return np.concatenate(errors)


def simulated_limit(setting: dict[str, float], *, steps: int, runs: int, rng: np.random.Generator) -> dict[str, float]:
    r"""Mean and standard error of $\Delta t (\theta^*_{strong} - \lambda)$ beside theorem 4.1's limit."""
    require_count("runs", runs)
    if runs < 2:
        raise InputError("runs must be at least 2: a standard error needs more than one simulation.")
    rate, sigma, start, horizon = (setting[name] for name in ("rate", "sigma", "start", "horizon"))
    errors = simulated_strong(rate, sigma=sigma, steps=steps, runs=runs, rng=rng, start=start, horizon=horizon)
    scaled = horizon / steps * errors
    return {
        **setting,
        "steps": steps,
        "runs": runs,
        "simulated": float(np.mean(scaled)),
        "standard_error": float(np.std(scaled, ddof=1) / math.sqrt(runs)),
        "formula": strong_limit(rate, sigma, start=start, horizon=horizon),
        "as_printed": strong_limit_as_printed(rate, sigma, start=start, horizon=horizon),
    }


def strong_by_step(*, rng: np.random.Generator, runs: int = RUNS) -> dict[str, Any]:
    """Panel 1: relative errors of the strong form against the step, for several noise levels."""
    steps = _step_counts(16)
    dt = 1.0 / steps
    errors = np.stack(
        [
            [np.abs(simulated_strong(RATE, sigma=s, steps=int(k), runs=runs, rng=rng) / RATE) for k in steps]
            for s in NOISE_LEVELS
        ]
    )
    return {
        "rate": RATE,
        "sigma": list(NOISE_LEVELS),
        "dt": dt.tolist(),
        "mean": np.mean(errors, axis=-1).tolist(),
        "shown": errors[..., :SHOWN].tolist(),
        "integration": np.abs(euler_error(RATE, dt) / RATE).tolist(),
    }


def sign_by_step(*, sigma: float = 1e-2, rng: np.random.Generator, runs: int = RUNS) -> dict[str, Any]:
    """Panel 2: step times error, with its sign, and the limit of theorem 4.1."""
    steps = _step_counts(28)
    dt = 1.0 / steps
    scaled = np.stack(
        [
            h * simulated_strong(RATE, sigma=sigma, steps=int(k), runs=runs, rng=rng)
            for h, k in zip(dt, steps, strict=True)
        ]
    )
    return {
        "rate": RATE,
        "sigma": sigma,
        "dt": dt.tolist(),
        "mean": np.mean(np.abs(scaled), axis=-1).tolist(),
        "signed_mean": np.mean(scaled, axis=-1).tolist(),
        "shown": scaled[:, :SHOWN].tolist(),
        "expected": np.asarray(dt * strong_expected_error(RATE, sigma, dt)).tolist(),
        "limit": strong_limit(RATE, sigma),
        "recovery_step": recovery_step(RATE, sigma),
        "recovery_step_simulated": float(sign_changes(dt, np.mean(scaled, axis=-1))[-1]),
    }


def weak_by_support(*, rng: np.random.Generator, runs: int = RUNS) -> dict[str, Any]:
    """Panel 3: relative errors of theorem 4.3's estimator against the support, x(t*) = 1 held fixed."""
    supports = np.geomspace(0.02, 20.0, 25)
    errors = np.empty((len(NOISE_LEVELS), supports.size, runs))
    for j, support in enumerate(supports):
        weights = three_point_weights(RATE, float(support))
        for i, sigma in enumerate(NOISE_LEVELS):
            samples = window_samples(rng.standard_normal((runs, 3)), RATE, sigma=sigma, spacing=weights.spacing)
            errors[i, j] = np.abs(weak_estimate(samples, weights) / RATE - 1.0)
    return {
        "rate": RATE,
        "centre": 1.0,
        "sigma": list(NOISE_LEVELS),
        "support": supports.tolist(),
        "mean": np.mean(errors, axis=-1).tolist(),
        "shown": errors[..., :SHOWN].tolist(),
        "first_order": [
            [_HALF_NORMAL * three_point_spread(RATE, float(s), sigma) for s in supports] for sigma in NOISE_LEVELS
        ],
    }


def both_by_noise(*, rng: np.random.Generator, runs: int = RUNS) -> dict[str, Any]:
    """Panel 4: strong and weak form on the same records, against the noise level.

    dt = 0.01 as in the paper. The record is [0, 1] with x(1/2) = 1; the weak form takes its two ends and
    its middle (S = 1, h = 50 dt), the strong form all 101 samples. The paper states neither length.
    """
    dt, steps = 0.01, 100
    sigmas = np.geomspace(1e-5, 10**-0.5, 19)
    weights = three_point_weights(RATE, steps * dt)
    start = math.exp(-RATE * steps * dt / 2.0)
    strong, weak = [], []
    for sigma in sigmas:
        noise = rng.standard_normal((runs, steps + 1))
        samples = decay_samples(noise, RATE, sigma=float(sigma), dt=dt, start=start)
        strong.append(strong_estimate(samples, dt) / RATE - 1.0)
        weak.append(weak_estimate(samples[:, :: steps // 2], weights) / RATE - 1.0)
    return {
        "rate": RATE,
        "centre": 1.0,
        "dt": dt,
        "support": weights.support,
        "sigma": sigmas.tolist(),
        "strong_mean": np.mean(np.abs(strong), axis=-1).tolist(),
        "strong_spread": np.std(strong, axis=-1).tolist(),
        "strong_shown": np.abs(strong)[:, :SHOWN].tolist(),
        "weak_mean": np.mean(np.abs(weak), axis=-1).tolist(),
        "weak_spread": np.std(weak, axis=-1).tolist(),
        "weak_shown": np.abs(weak)[:, :SHOWN].tolist(),
        "integration": abs(float(euler_error(RATE, dt)) / RATE),
    }


def formula_deviation(*, rng: np.random.Generator, runs: int = 20) -> dict[str, float]:
    """Largest gap between estimators and theorems, as a share of 1 + |relative error|."""
    strong, weak = 0.0, 0.0
    for sigma in NOISE_LEVELS:
        for steps in (10, 100, 1000, 10_000):
            noise, dt = rng.standard_normal((runs, steps + 1)), 1.0 / steps
            measured = strong_estimate(decay_samples(noise, RATE, sigma=sigma, dt=dt), dt) / RATE - 1.0
            strong = max(strong, _gap(measured, strong_error(noise, RATE, sigma=sigma, dt=dt).total / RATE))
        for support in (0.02, 0.2, 2.0, 20.0):
            noise, weights = rng.standard_normal((runs, 3)), three_point_weights(RATE, support)
            samples = window_samples(noise, RATE, sigma=sigma, spacing=weights.spacing)
            measured = weak_estimate(samples, weights) / RATE - 1.0
            weak = max(weak, _gap(measured, weak_relative_error(noise, weights, RATE, sigma=sigma)))
    return {"strong": strong, "weak": weak}


def study(out: Path, *, seed: int = 0) -> dict[str, Any]:
    """Run section 4's four panels and the checks of its theorems; a few seconds.

    Writes `theory.png` and `theory.json` (every number of the figure) into `out`, which is made when
    missing, and returns the measured values: the limit of theorem 4.1 simulated and by formula, the
    largest deviation of each estimator from its closed form, the step of the sign change, the slope of
    the weak error against the noise level, and the spread of both relative errors per unit of noise.
    """
    from wgfinn.theory.drawing import draw_panels  # matplotlib is loaded only when something is drawn

    if seed < 0:
        raise InputError(f"seed must not be negative, got {seed!r}.")
    if out.exists() and not out.is_dir():
        raise InputError(f"out={str(out)!r} is a file; give a folder, which is made when missing.")
    # One stream per part: a change in one panel leaves the numbers of the others alone.
    streams = iter(np.random.default_rng(seed).spawn(6))
    panels = {
        "strong_by_step": strong_by_step(rng=next(streams)),
        "sign_by_step": sign_by_step(rng=next(streams)),
        "weak_by_support": weak_by_support(rng=next(streams)),
        "both_by_noise": both_by_noise(rng=next(streams)),
    }
    limit_rng = next(streams)
    signs, noise = panels["sign_by_step"], panels["both_by_noise"]
    small = slice(0, 10)  # sigma below 2e-3, where the error is linear in it
    measured = {
        "limit": [simulated_limit(s, steps=200_000, runs=40, rng=limit_rng) for s in LIMIT_SETTINGS],
        "deviation": formula_deviation(rng=next(streams)),
        "recovery_step": {
            "expected": signs["recovery_step"],
            "simulated": signs["recovery_step_simulated"],
        },
        "weak_slope": float(np.polyfit(np.log(noise["sigma"][small]), np.log(noise["weak_mean"][small]), 1)[0]),
        "spread_per_sigma": {
            name: float(np.mean(np.divide(noise[f"{name}_spread"], noise["sigma"])[small]))
            for name in ("strong", "weak")
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    record = {"seed": seed, "runs": RUNS, "measured": measured, "panels": panels}
    (out / "theory.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draw_panels(panels).savefig(out / "theory.png", dpi=200)
    return measured


def _step_counts(number: int) -> np.ndarray:
    """Numbers of steps on [0, 1] from 10,000 down to 4, evenly spread in the logarithm: dt increases."""
    return np.unique(np.round(np.geomspace(4, 10_000, number)).astype(int))[::-1]


def _gap(measured: Float[np.ndarray, "..."], formula: Float[np.ndarray, "..."]) -> float:
    return float(np.max(np.abs(measured - formula) / (1.0 + np.abs(formula))))
