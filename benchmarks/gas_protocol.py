"""The paper's settings for the gas containers at 5 % and 10 % noise, weak and strong form, five seeds each.

    python benchmarks/gas_protocol.py --out DIR [--weak-steps 80000] [--strong-steps 60000] [--seeds 5] [--data-seed 0]

Both noise levels train as members of one program. Physical coordinates, GFINN's initialisation, W = 1/sigma, State-RBA
as printed. Writes `gas_protocol.json`: for each method and noise level the test error (paper, eq. test_rmse) of every
seed, and the seconds spent. Made for a GPU.
"""

import argparse
import json
import time
from pathlib import Path

import jax

from wgfinn import systems
from wgfinn.artefact import versions
from wgfinn.data import Trajectories, add_noise, split
from wgfinn.evaluate import trajectory_errors
from wgfinn.fitting import FitSpec, Member, train_members
from wgfinn.losses import AttentionSpec
from wgfinn.training import OptimiserSpec, Record, member

NOISE_LEVELS = (0.05, 0.10)

OPTIMISERS = {
    ("weak", 0.05): OptimiserSpec(rate=1e-3, decay=0.25, decay_every=15_000),
    ("weak", 0.10): OptimiserSpec(rate=1e-3, decay=0.1, decay_every=15_000),
    ("strong", 0.05): OptimiserSpec(rate=1e-3, decay=0.1, decay_every=5_000, weight_decay=1e-2),
    ("strong", 0.10): OptimiserSpec(rate=1e-3, decay=0.75, decay_every=10_000, weight_decay=1e-2),
}
ATTENTION = {
    ("weak", 0.05): AttentionSpec(rate=0.01, decay=0.99),
    ("weak", 0.10): AttentionSpec(rate=0.005, decay=0.995),
    ("strong", 0.05): AttentionSpec(rate=0.1, decay=0.9),
    ("strong", 0.10): AttentionSpec(rate=0.001, decay=0.999),
}


def spec(method: str, steps: int) -> FitSpec:
    return FitSpec.model_validate(
        {
            "method": method,
            "coordinates": "physical",
            "model": {"layers": 4, "width": 20, "entropy": "affine", "initialisation": "paper", "activation": "tanh"},
            "test_functions": {"width": 80, "degree": 4, "overlap": 0.9},
            "training": {"steps": steps, "batch": "all" if method == "weak" else 1000, "log_every": 5_000},
        }
    )


def run(method: str, steps: int, seeds: int, train: Trajectories, test: Trajectories) -> list[dict]:
    noisy = {level: add_noise(train, level, seed=1) for level in NOISE_LEVELS}
    members = [
        Member(f"{level:.0%} seed {seed}", seed, noisy[level], OPTIMISERS[method, level], ATTENTION[method, level])
        for level in NOISE_LEVELS
        for seed in range(seeds)
    ]
    started = time.monotonic()
    trained = train_members(members, spec(method, steps), observe=show)
    seconds = time.monotonic() - started
    errors = [trajectory_errors(member(trained.fields, i), test) for i in range(len(members))]
    return [
        {
            "method": method,
            "noise": level,
            "steps": steps,
            "error": [e.overall for e in errors[k * seeds : (k + 1) * seeds]],
            "median_run": [e.median_run for e in errors[k * seeds : (k + 1) * seeds]],
            "loss": list(trained.losses[k * seeds : (k + 1) * seeds]),
            "seconds_both_levels": seconds,
        }
        for k, level in enumerate(NOISE_LEVELS)
    ]


def show(record: Record) -> None:
    if record.step % 5_000 == 0:
        losses = " ".join(f"{m.best_loss:.2e}" for m in record.members)
        print(f"{record.step:6d}  {record.seconds:6.1f} s  {losses}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weak-steps", type=int, default=80_000)
    parser.add_argument("--strong-steps", type=int, default=60_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-seed", type=int, default=0)
    arguments = parser.parse_args()
    with jax.enable_x64(True):
        clean = systems.generate(systems.make("gas_containers"), seed=arguments.data_seed).clean
        train, test = split(clean, seed=arguments.data_seed)
        rows = []
        for method, steps in (("weak", arguments.weak_steps), ("strong", arguments.strong_steps)):
            rows += run(method, steps, arguments.seeds, train, test)
            for row in rows[-2:]:
                print(json.dumps(row), flush=True)
            result = {"device": jax.devices()[0].device_kind, "versions": versions(), "rows": rows}
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / "gas_protocol.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
