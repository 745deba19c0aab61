"""A search for the optimiser of the fair strong-form rows: first rate and total decay, one program a batch size.

    python benchmarks/tune_strong.py SYSTEM --out DIR [--steps 15000] [--data-seed 100]

The strong form of the recipe's networks with every setting of a small grid (first rate x how far the rate falls over
the training, twelve stairs, the attention of the weak row of the same noise level), at every noise level of the recipe,
one seed, on data of another seed than the study's. The best setting of a level has the smallest error on the clean
validation runs: the truth, which a user would not have, is used in favour of the strong form. `DIR/SYSTEM.json` holds
every setting tried. The stairs of the study are those found here, stretched to its number of steps. Made for a GPU.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import jax

from wgfinn._device import on_cpu
from wgfinn.artefact import versions
from wgfinn.evaluate import trajectory_errors
from wgfinn.fitting import Member, train_members
from wgfinn.studies.plan import PlannedRow, plan_rows
from wgfinn.studies.recipes import load_recipe
from wgfinn.studies.results import finite, hardware
from wgfinn.studies.run import StudyData, make_data
from wgfinn.training import OptimiserSpec, Record, member

RATES = (1e-2, 3e-3, 1e-3, 3e-4)
TOTAL_DECAYS = (0.1, 1e-3)
STAIRS = 12


def optimisers(steps: int) -> list[OptimiserSpec]:
    return [
        OptimiserSpec(name="adamw", rate=rate, decay=total ** (1 / STAIRS), decay_every=steps // STAIRS)
        for rate in RATES
        for total in TOTAL_DECAYS
    ]


def search(rows: list[PlannedRow], data: StudyData, steps: int) -> list[dict]:
    """Every optimiser for every row, all as members of one program: the rows share their batch size."""
    tried = [(row, optimiser) for row in rows for optimiser in optimisers(steps)]
    members = [
        Member(f"{row.key} {optimiser.rate:g}", 0, data.train[row.noise], optimiser, row.fit.attention)
        for row, optimiser in tried
    ]
    fit = rows[0].fit
    spec = fit.model_copy(update={"training": fit.training.model_copy(update={"steps": steps, "check_every": 500})})
    trained = train_members(members, spec, observe=show)
    with on_cpu():
        fields = jax.device_get(trained.fields)
        errors = [trajectory_errors(member(fields, i), data.test) for i in range(len(members))]
    return [
        {
            "noise": row.noise,
            "batch": row.fit.training.batch,
            "rate": optimiser.rate,
            "decay": optimiser.decay,
            "decay_every": optimiser.decay_every,
            "error": finite(error.overall),
            "median_run": finite(error.median_run),
            "loss": finite(loss),
        }
        for (row, optimiser), error, loss in zip(tried, errors, trained.losses, strict=True)
    ]


def show(record: Record) -> None:
    if record.step % 2_500 == 0:
        print(f"{record.step:6d}  {record.seconds:6.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--data-seed", type=int, default=100)
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.system)
    rows = [row for row in plan_rows(recipe, "short") if row.arm == "strong_fair"]
    seed = arguments.data_seed
    plan = dataclasses.replace(rows[0].data, spec=recipe.data.model_copy(update={"seed": seed, "noise_seed": seed + 1}))
    with jax.enable_x64(True):
        data = make_data(plan, recipe.levels)
        found = []
        for batch in dict.fromkeys(row.fit.training.batch for row in rows):
            found += search([row for row in rows if row.fit.training.batch == batch], data, arguments.steps)
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {
        "system": recipe.system,
        "steps": arguments.steps,
        "data_seed": seed,
        "hardware": hardware(),
        "versions": versions(),
        "tried": found,
    }
    (arguments.out / f"{recipe.system}.json").write_text(json.dumps(result, indent=1) + "\n")
    for level in recipe.levels:
        best = min((t for t in found if t["noise"] == level), key=lambda t: t["error"] or float("inf"))
        print(level, best, flush=True)


if __name__ == "__main__":
    main()
