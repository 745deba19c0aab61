"""The default method against the paper's protocol, on fresh data and fresh starts.

    python benchmarks/accuracy.py --out DIR [--systems NAME ...] [--noise 0.1 ...] [--seeds 10] [--first 2000]
        [--arms default protocol ...]

A seed is that of data, noise, split and initial weights, from 2000 on: no data that anything was tuned on. `default` is
`WGFINN().fit(noisy runs)`; the other keys of `SETTINGS` are the same with a part taken out or replaced; `protocol` is
the weak row of the paper's table at scale `short` (60,000 steps, Vlasov-Poisson 40,000), all seeds as members of one
program, which wants a GPU. The error is the paper's, on clean test runs. Each finished seed is a file in `DIR/rows`:
the same command goes on where an earlier one stopped. Writes `DIR/table.md` and `DIR/accuracy.png` from all rows there;
`--reproduction results/reproduction` adds the weak rows of that study as `protocol`, and `--seeds 0` does nothing else.
"""

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np

from wgfinn import WGFINN
from wgfinn._device import on_cpu
from wgfinn.artefact import Model, versions
from wgfinn.data import Trajectories, add_noise, band, coverage, split
from wgfinn.evaluate import simulate_runs, trajectory_errors
from wgfinn.fitting import Member, train_members
from wgfinn.models import AbstractField
from wgfinn.studies.plan import plan_rows
from wgfinn.studies.recipes import load_recipe, recipe_names
from wgfinn.studies.results import finite, hardware
from wgfinn.systems import generate, make
from wgfinn.training import Record, member

FIRST_SEED = 2000
SETTINGS = {
    "default": {},
    "without_polish": {"polish": {"steps": 0}},
    "without_refinement": {"refine": {"steps": 0}},
    "weak_stage": {"polish": {"steps": 0}, "refine": {"steps": 0}},
    "one_start": {"training": {"starts": 1, "members": 1}},
    "adamw": {"optimiser": {"name": "adamw"}, "refine": {"optimiser": {"name": "adamw"}}},
    "tanh": {"model": {"activation": "tanh"}},
    "paper_windows": {"test_functions": {"width": 80, "degree": 4, "overlap": 0.9}},
}
ARMS = (*SETTINGS, "protocol")
COLOURS = {"default": "#0072B2", "protocol": "#D55E00"}
"""The arms that are drawn."""


def data_of(system: str, noise: float, seed: int) -> tuple[Trajectories, Trajectories]:
    """Noisy training runs and clean test runs."""
    spec = load_recipe(system).data
    clean = generate(make(system), trajectories=spec.trajectories, seed=seed).clean
    train, test = split(clean, fraction=spec.train_fraction, seed=seed)
    return add_noise(train, noise, seed=seed + 1), test


def judged(field: AbstractField, test: Trajectories) -> dict:
    with on_cpu():
        errors = trajectory_errors(jax.device_get(field), test)
    return {"error": finite(errors.overall), "median_run": finite(errors.median_run)}


def run_default(
    system: str, noise: float, seeds: Sequence[int], keep: Callable[[int, dict], None], settings: dict
) -> None:
    for seed in seeds:
        train, test = data_of(system, noise, seed)
        started = time.monotonic()
        model = WGFINN(seed=seed, settings=settings).fit(train, observe=show).model
        seconds = time.monotonic() - started
        served = model.manifest.members[model.manifest.served]
        keep(
            seed,
            {
                **judged(model.field(), test),
                "misfit": served.misfit,
                "coverage": covered(model, test),
                "seconds": seconds,
            },
        )


def covered(model: Model, test: Trajectories) -> float | None:
    """Share of the clean samples inside the members' band: what the band says of the model's error."""
    with on_cpu():
        rollouts = [simulate_runs(jax.device_get(model.field(i)), test) for i in model.sound_members]
    if len(rollouts) < 2:
        return None
    bands = [band(np.stack(members)) for members in zip(*rollouts, strict=True)]
    return float(np.mean(list(coverage(test, bands).values())))


def run_protocol(system: str, noise: float, seeds: Sequence[int], keep: Callable[[int, dict], None]) -> None:
    (row,) = [r for r in plan_rows(load_recipe(system), "short") if r.arm == "weak" and r.noise == noise]
    data = [data_of(system, noise, seed) for seed in seeds]
    members = [
        Member(f"seed {seed}", seed, train, row.fit.optimiser, row.fit.attention)
        for seed, (train, _) in zip(seeds, data, strict=True)
    ]
    started = time.monotonic()
    trained = train_members(members, row.fit, observe=show)
    seconds = (time.monotonic() - started) / len(seeds)
    for i, (seed, (_, test)) in enumerate(zip(seeds, data, strict=True)):
        keep(seed, {**judged(member(trained.fields, i), test), "seconds": seconds})


RUNNERS = {arm: functools.partial(run_default, settings=settings) for arm, settings in SETTINGS.items()}
RUNNERS["protocol"] = run_protocol


def show(record: Record) -> None:
    if record.step % 500 == 0:
        print(f"{record.stage} {record.step} of {record.steps}, {record.seconds:.0f} s", flush=True)


def row_file(out: Path, arm: str, system: str, noise: float, seed: int) -> Path:
    return out / "rows" / f"{arm}_{system}_{100 * noise:g}_{seed}.json"


def run_all(
    out: Path, systems: Sequence[str], levels: Sequence[float] | None, seeds: Sequence[int], arms: Sequence[str]
) -> None:
    (out / "rows").mkdir(parents=True, exist_ok=True)
    for system in systems:
        for noise in load_recipe(system).levels:
            if levels is not None and noise not in levels:
                continue
            for arm in arms:
                missing = [s for s in seeds if not row_file(out, arm, system, noise, s).exists()]

                def keep(seed: int, result: dict, arm=arm, system=system, noise=noise) -> None:
                    row = {"arm": arm, "system": system, "noise": noise, "seed": seed, **result}
                    row |= {"hardware": hardware(), "versions": versions()}
                    row_file(out, arm, system, noise, seed).write_text(json.dumps(row, indent=1) + "\n")
                    print(arm, system, noise, seed, result, flush=True)

                if missing:
                    RUNNERS[arm](system, noise, missing, keep)


def rows_of_study(folder: Path) -> list[dict]:
    """The weak rows of the paper's study (`wgfinn reproduce`), a row for each member."""
    return [
        {
            "arm": "protocol",
            "system": study["system"],
            "noise": row["noise"],
            "error": member["error"],
            "seconds": row["program_seconds"] / row["program_members"],
        }
        for study in (json.loads(path.read_text()) for path in sorted(folder.glob("*.json")))
        for row in study["rows"]
        if row["arm"] == "weak"
        for member in row["members"]
    ]


def summarise(out: Path, reproduction: Path | None) -> None:
    rows = [json.loads(path.read_text()) for path in sorted((out / "rows").glob("*.json"))]
    rows += [] if reproduction is None else rows_of_study(reproduction)
    lines = ["| system | noise | arm | seeds | best | median | worst | seconds a fit |", "|---" * 8 + "|"]
    for (system, noise, arm), group in sorted(_groups(rows).items()):
        errors = [float("inf") if r["error"] is None else r["error"] for r in group]
        seconds = statistics.median(r["seconds"] for r in group)
        lines.append(
            f"| {system} | {100 * noise:g} % | {arm} | {len(group)} | {min(errors):.3g} "
            f"| {statistics.median(errors):.3g} | {max(errors):.3g} | {seconds:.0f} |"
        )
    (out / "table.md").write_text("\n".join(lines) + "\n")
    _draw(rows, out / "accuracy.png")


def _groups(rows: list[dict]) -> dict[tuple[str, float, str], list[dict]]:
    groups: dict[tuple[str, float, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["system"], row["noise"], row["arm"]), []).append(row)
    return groups


def _draw(rows: list[dict], path: Path) -> None:
    systems = sorted({row["system"] for row in rows})
    size = {"figsize": (2.6 * len(systems), 3.2), "layout": "constrained"}
    figure, axes = plt.subplots(1, len(systems), squeeze=False, sharey=True, **size)
    for axis, system in zip(axes[0], systems, strict=True):
        for (name, noise, arm), group in _groups(rows).items():
            if name == system and arm in COLOURS:
                shift = 0.15 * (list(COLOURS).index(arm) - 0.5)
                errors = [r["error"] for r in group if r["error"] is not None]
                axis.plot([100 * noise + shift] * len(errors), errors, "o", ms=4, alpha=0.6, color=COLOURS[arm])
        axis.set(title=system.replace("_", " "), xlabel="noise, %", yscale="log")
        axis.grid(axis="y", lw=0.4, alpha=0.5)
    axes[0, 0].set_ylabel("relative l2 error")
    figure.legend(
        handles=[plt.Line2D([], [], marker="o", ls="", color=COLOURS[arm], label=arm) for arm in COLOURS],
        loc="outside lower center", ncols=2,
    )  # fmt: skip
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--systems", nargs="+", default=list(recipe_names()), choices=recipe_names())
    parser.add_argument("--noise", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--arms", nargs="+", default=list(COLOURS), choices=ARMS)
    parser.add_argument("--reproduction", type=Path)
    arguments = parser.parse_args()
    with jax.enable_x64(True):
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        run_all(arguments.out, arguments.systems, arguments.noise, seeds, arguments.arms)
    summarise(arguments.out, arguments.reproduction)


if __name__ == "__main__":
    main()
