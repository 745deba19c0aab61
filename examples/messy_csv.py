"""From a messy CSV to a model and a report, by the commands a user would type, and against the truth.

A swinging arm rubs on an insulated plate, which warms: angle q, angular momentum p and temperature T with

    E = p²/2 + 1 - cos q + C T,   S = C ln T,   q' = p,   p' = -sin q - γ p,   T' = γ p²/C,

which is GENERIC with the canonical L of (q, p) and M = γ T u uᵀ, u = (0, 1, -p/C), orthogonal to ∇E = (sin q, p, C).
The file has what laboratory files have: units in the headers, states whose scales differ by 10⁴, runs of three
lengths, uneven times, missing rows, a sensor that failed for a while, a column of text.

    python examples/messy_csv.py OUT            # the default training, minutes on two cores
    python examples/messy_csv.py OUT --quick    # about a minute, a rougher model
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import tomli_w
from scipy.integrate import solve_ivp

FRICTION, HEAT_CAPACITY = 0.2, 0.25
ARM, MOMENTUM, PLATE = STATES = "phi_arm [rad]", "J_arm [g mm2/s]", "T_plate [K]"
UNITS = np.array([1.0, 2e4, 1.0])
"""What 1 is in the file's units."""
DURATIONS, STEP = (6.0, 9.0, 12.0), 0.05
NOISE = 0.02
"""Of each state's standard deviation."""

KNOWN = {"model": {"poisson": {"canonical": [["phi_arm", "J_arm"]]}}}
"""An angle and its angular momentum are a canonical pair: nobody needs to learn that from data."""
QUICK = {
    "model": KNOWN["model"] | {"width": 16},
    "optimiser": {"decay_every": 120},
    "training": {"starts": 2, "steps": 1000},
    "polish": {"steps": 0},
    "refine": {"steps": 250},
}
"""Settings of a short training; everything else keeps its default."""


def rates(_: float, x: np.ndarray) -> list[float]:
    q, p, _ = x
    return [p, -np.sin(q) - FRICTION * p, FRICTION * p**2 / HEAT_CAPACITY]


def energy(x: np.ndarray) -> np.ndarray:
    """The true energy of states (..., state) in the file's units."""
    q, p, temperature = np.moveaxis(x / UNITS, -1, 0)
    return p**2 / 2 + 1 - np.cos(q) + HEAT_CAPACITY * temperature


def true_run(start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The states (time, state) in the file's units, to ten digits."""
    solution = solve_ivp(rates, (0.0, times[-1]), start, t_eval=times, method="DOP853", rtol=1e-10, atol=1e-10)
    return solution.y.T * UNITS


def make_runs(n_runs: int, rng: np.random.Generator, *, jitter: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Times and true states of runs of three lengths; the times stray by up to `jitter` of a step to either side."""
    runs = []
    for k in range(n_runs):
        times = np.arange(0.0, DURATIONS[k % len(DURATIONS)], STEP)
        times[1:] += jitter * STEP * rng.uniform(-1, 1, times.size - 1)
        start = rng.uniform([-1.8, -1.0, 290.0], [1.8, 1.0, 296.0])
        runs.append((times, true_run(start, times)))
    return runs


def as_table(runs: list[tuple[np.ndarray, np.ndarray]]) -> pd.DataFrame:
    tables = [
        pd.DataFrame({"experiment": f"arm-{k:02d}", "time [s]": t, **dict(zip(STATES, x.T, strict=True))})
        for k, (t, x) in enumerate(runs)
    ]
    return pd.concat(tables, ignore_index=True)


def messed_up(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Noise, 10 % of the rows gone, three seconds without a thermometer in one run, and remarks."""
    table = table.copy()
    noise = rng.normal(size=(len(table), len(STATES)))
    table[list(STATES)] += NOISE * table[list(STATES)].std().to_numpy() * noise
    failed = (table["experiment"] == "arm-02") & table["time [s]"].between(4.0, 7.0)
    table.loc[failed, PLATE] = np.nan
    table["remark"] = np.where(failed, "thermometer loose", rng.choice(["", "ok", "window open"], len(table)))
    return table[rng.uniform(size=len(table)) > 0.1]


def wgfinn(*arguments: str | Path) -> None:
    """Show a command, and run it."""
    print(f"\n$ wgfinn {shlex.join(map(str, arguments))}", flush=True)
    subprocess.run([sys.executable, "-m", "wgfinn", *map(str, arguments)], check=True)


def compare(predicted: pd.DataFrame, truth: pd.DataFrame) -> None:
    """How far predictions from the true first states alone lie from the truth, state by state and in energy."""
    print("\nagainst the truth, on runs the model has never seen:")
    x, true = predicted[list(STATES)].to_numpy(), truth[list(STATES)].to_numpy()
    misses = np.sqrt(((x - true) ** 2).mean(axis=0)) / true.std(axis=0)
    for name, missed in zip(STATES, misses, strict=True):
        print(f"  {name}: root mean square error {missed:.1%} of its spread")
    mechanical = energy(true) - HEAT_CAPACITY * true[:, 2]
    drift = np.abs(energy(x) - energy(true)).max() / np.ptp(mechanical)
    print(f"  the true energy of predicted states is off by {drift:.1%} at most of what the arm can lose")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="folder for data, model and report")
    parser.add_argument("--quick", action="store_true", help="a short training")
    parser.add_argument("--steps", type=int, help="optimiser steps of each stage, to try the script out")
    options = parser.parse_args()

    out: Path = options.out
    if (out / "run").exists():
        parser.error(f"{out} holds a run already; give another folder")
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    data, settings, clean, run = out / "arm.csv", out / "settings.toml", out / "clean.csv", out / "run"
    messed_up(as_table(make_runs(24, rng, jitter=0.2)), rng).to_csv(data, index=False)
    truth = as_table(make_runs(6, rng, jitter=0.0))
    truth.to_csv(clean, index=False)

    chosen = QUICK if options.quick else {}
    if options.steps is not None:
        stages = ("training", "polish", "refine")
        chosen = chosen | {stage: chosen.get(stage, {}) | {"steps": options.steps} for stage in stages}
    settings.write_text(tomli_w.dumps({"data": {"ignore": ["remark"]}, **KNOWN, **chosen}))

    wgfinn("inspect", data, "--ignore", "remark", "--figure", out / "arm.png")
    wgfinn("fit", data, "--config", settings, "--out", run)
    wgfinn("report", run)
    wgfinn("evaluate", run, clean)
    wgfinn("simulate", run, "--initial", clean, "--out", out / "predicted.csv")
    compare(pd.read_csv(out / "predicted.csv"), truth)


if __name__ == "__main__":
    main()
