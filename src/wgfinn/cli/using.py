"""`wgfinn simulate` and `wgfinn evaluate`: what a learnt model says."""

from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.table import Table

from wgfinn._errors import InputError
from wgfinn.artefact import Model, first_loss, load_model
from wgfinn.cli.app import Data, Json, RunFolder, app, messages, output, print_json
from wgfinn.data import Trajectories, load, load_start_states, save
from wgfinn.evaluate import prediction_errors, simulate_runs, thermodynamic_checks, trajectory_errors
from wgfinn.fitting import MODEL_FILE
from wgfinn.integrate import Integrator


def open_model(run: Path) -> Model:
    """The model of a run folder, or a model file itself."""
    with jax.enable_x64(True):
        return load_model(run / MODEL_FILE if run.is_dir() else run)


@app.command()
def simulate(
    run: RunFolder,
    initial: Annotated[Path, typer.Option(help="Start states: .csv with a column per state, or a data file.")],
    until: Annotated[float, typer.Option(help="Last time; the start states are at time 0.")],
    step: Annotated[float, typer.Option(help="Time between two rows of the output.")],
    out: Annotated[Path, typer.Option(help="Where to write the trajectories: .npz or .csv.")],
    integrator: Annotated[Integrator, typer.Option(help="The paper's fixed steps, or error control.")] = "rk23",
    member: Annotated[int | None, typer.Option(help="Member of the ensemble; the served one if not given.")] = None,
) -> None:
    """Trajectories of a learnt model from given start states.

    Example: wgfinn simulate runs/gas --initial starts.csv --until 4 --step 0.01 --out predicted.csv
    """
    model = open_model(run)
    if not (step > 0 and until >= step and np.isfinite(until)):
        raise InputError(
            f"--until {until} and --step {step}: both must be positive, and the step no longer than the end."
        )
    start, run_names = load_start_states(initial, model.names)
    # Never beyond the end, but up to it where the quotient is whole but for rounding.
    times = step * np.arange(int(until / step * (1 + 1e-9)) + 1)
    x = model.simulate(start, times, integrator=integrator, index=member)
    lost = first_loss(x)
    for trajectory, index in lost:
        messages.print(
            f"run {run_names[trajectory]!r} left the finite range at t = {times[index]:.6g} and was not written; "
            "its start may lie far from the training data. Try --integrator accurate or a smaller --step.",
            markup=False,
        )
    kept = [i for i in range(len(x)) if i not in dict(lost)]
    if not kept:
        raise InputError("no trajectory stayed finite; nothing was written.")
    predicted = Trajectories.from_arrays(
        x[kept], times, names=model.names, units=model.manifest.units, run_names=[run_names[i] for i in kept]
    )
    save(predicted, out)
    output.print(f"{out}: {len(predicted)} runs of {len(times)} samples", markup=False)


@app.command()
def evaluate(
    run: RunFolder,
    data: Data,
    integrator: Annotated[Integrator, typer.Option(help="The paper's fixed steps, or error control.")] = "rk23",
    as_json: Json = False,
) -> None:
    """Compare a model's rollouts with trajectories, and check its thermodynamics.

    Each run is predicted from its first complete state alone. The error is the paper's: relative l2 in time, mean over
    runs and states (give clean runs: from a noisy first state even a perfect model misses). Energy drift and entropy
    increments are in units of their natural variation over the data.
    """
    model = open_model(run)
    trajectories = _matching(load(data), model, data).from_complete_start()
    results = _evaluate(model, trajectories, integrator)
    if as_json:
        print_json(results)
    else:
        _show(results)


def _matching(trajectories: Trajectories, model: Model, path: Path) -> Trajectories:
    if trajectories.names != model.names:
        raise InputError(
            f"{path}: its states are {', '.join(trajectories.names)}, but the model's are {', '.join(model.names)}."
        )
    return trajectories


def _evaluate(model: Model, trajectories: Trajectories, integrator: str) -> dict[str, Any]:
    with jax.enable_x64(True):
        served = model.field()
        simulated = simulate_runs(served, trajectories, integrator)
        errors = prediction_errors(trajectories, simulated)
        members = [trajectory_errors(model.field(i), trajectories, integrator) for i in range(model.n_members)]
        checks = thermodynamic_checks(served, trajectories, integrator, simulated=simulated)
    return {
        "relative_l2": errors.overall,
        "relative_l2_median_run": errors.median_run,
        "relative_l2_members": [m.overall for m in members],
        "served": model.manifest.served,
        "per_state": errors.per_state,
        "per_run": errors.per_run,
        "diverged_runs": list(errors.diverged),
        "energy_drift": None if checks is None else checks.energy_drift,
        "min_entropy_increment": None if checks is None else checks.min_entropy_increment,
        "degeneracy": None if checks is None else checks.degeneracy,
    }


def _show(results: dict[str, Any]) -> None:
    table = Table("measure", "value")
    table.add_row("relative l2 error (served model)", f"{results['relative_l2']:.4g}")
    table.add_row("  median over runs", f"{results['relative_l2_median_run']:.4g}")
    for name, value in results["per_state"].items():
        table.add_row(f"  {name}", f"{value:.4g}")
    table.add_row("members", "  ".join(f"{e:.4g}" for e in results["relative_l2_members"]))
    if results["degeneracy"] is not None:
        table.add_row("energy drift", f"{results['energy_drift']:.2e}")
        table.add_row("least entropy increment", f"{results['min_entropy_increment']:.2e}")
        for name, value in results["degeneracy"].items():
            table.add_row(f"  {name}", f"{value:.1e}")
    output.print(table)
    for name in results["diverged_runs"]:
        messages.print(f"run {name!r}: the prediction left the finite range; its error is infinite.", markup=False)
