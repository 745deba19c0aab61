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
from wgfinn.cli.data_options import load_data, say, with_column_options
from wgfinn.data import (
    SHARE,
    Band,
    DataSpec,
    Trajectories,
    band,
    check_writable,
    coverage,
    load_start_states,
    read,
    save,
    state_std,
)
from wgfinn.evaluate import as_learnt, matching, prediction_errors, simulate_runs, spread_errors, thermodynamic_checks
from wgfinn.fitting import MODEL_FILE
from wgfinn.integrate import Integrator


def open_model(run: Path) -> Model:
    """The model of a run folder, or a model file itself."""
    with jax.enable_x64(True):
        return load_model(run / MODEL_FILE if run.is_dir() else run)


@app.command()
@with_column_options
def simulate(
    run: RunFolder,
    columns: DataSpec,
    initial: Annotated[Path, typer.Option(help="Start states: .csv with a column per state, or any data.")],
    out: Annotated[Path, typer.Option(help="Where to write the trajectories: the suffix tells the format.")],
    until: Annotated[
        float | None, typer.Option("--until", "--duration", help="Last time; the start states are at time 0.")
    ] = None,
    step: Annotated[float | None, typer.Option(help="Time between two rows of the output.")] = None,
    times: Annotated[
        str | None, typer.Option(metavar="T0,T1,...", help="The times themselves; the first is that of the start.")
    ] = None,
    integrator: Annotated[Integrator, typer.Option(help="The paper's fixed steps, or error control.")] = "rk23",
    member: Annotated[int | None, typer.Option(help="One member of the ensemble; the served one if not given.")] = None,
    bands: Annotated[bool, typer.Option(help="Columns q_low, q_high: the spread of the members about q.")] = True,
    share: Annotated[float, typer.Option(help="Share of the members within the bands.")] = SHARE,
) -> None:
    """Trajectories of a learnt model from given start states, with the spread of its ensemble as bands.

    Without --until and --step, or --times, a data file given as --initial also gives the times: those of its runs.

    Example: wgfinn simulate runs/gas --initial starts.csv --until 4 --step 0.01 --out predicted.csv
    """
    model = open_model(run)
    chosen = _output_times(until, step, times)
    check_writable(out)
    start, run_names = load_start_states(initial, model.names, columns=columns, say=say)
    grids = _times_of(initial, columns) if chosen is None else [chosen] * len(start)
    with_bands = bands and member is None and _has_spread(model)
    tables: dict[int, np.ndarray] = {}
    for runs in _on_one_grid(grids):
        t, x0 = grids[runs[0]], start[runs]
        served = model.simulate(x0, t, integrator=integrator, index=member)
        members = model.simulate_members(x0, t, integrator=integrator) if with_bands else None
        for k, begin in model.first_outside(served, member):
            messages.print(
                f"run {run_names[runs[k]]!r} leaves the region of the training data at t = {t[begin]:.6g}: "
                "beyond it learnt brackets fade, and what follows says little of the system.",
                markup=False,
            )
        for k, index in enumerate(runs):
            around = None if members is None else band(members[:, k], share)
            if _is_sound(run_names[index], t, served[k], around):
                tables[index] = served[k] if around is None else _beside(served[k], around)
    if not tables:
        raise InputError("no trajectory stayed finite; nothing was written.")
    kept = sorted(tables)
    predicted = Trajectories.from_arrays(
        [tables[k] for k in kept],
        [grids[k] for k in kept],
        names=[column for name in model.names for column in _columns(name, with_bands)],
        units=[unit for unit in model.manifest.units for _ in _columns("", with_bands)],
        run_names=[run_names[k] for k in kept],
        time_unit=model.manifest.time_unit,
    )
    save(predicted, out)
    output.print(f"{out}: {_described(predicted)}", markup=False)


def _output_times(until: float | None, step: float | None, times: str | None) -> np.ndarray | None:
    """The times the options ask for; None if they ask for none."""
    if times is not None:
        if until is not None or step is not None:
            raise InputError("--times already says when: leave --until and --step out.")
        return _listed_times(times)
    if until is None and step is None:
        return None
    if until is None or step is None:
        raise InputError("--until and --step belong together: give both, or the --times themselves.")
    if not (step > 0 and until >= step and np.isfinite(until)):
        raise InputError(
            f"--until {until} and --step {step}: both must be positive, and the step no longer than the end."
        )
    # Never beyond the end, but up to it where the quotient is whole but for rounding.
    return step * np.arange(int(until / step * (1 + 1e-9)) + 1)


def _listed_times(times: str) -> np.ndarray:
    try:
        listed = np.array([float(part) for part in times.split(",")])
    except ValueError:
        listed = np.array([])
    if len(listed) < 2 or not np.isfinite(listed).all() or not (np.diff(listed) > 0).all():
        raise InputError(f"--times {times!r}: give two or more increasing numbers with commas, such as 0,0.5,2.")
    return listed


def _times_of(initial: Path, columns: DataSpec) -> list[np.ndarray]:
    try:
        return list(read(initial, columns).trajectories().times())
    except InputError:  # its start states could be read, so what is missing are the times
        raise InputError(f"{initial} holds no times: say when, by --until and --step or by --times.") from None


def _on_one_grid(grids: list[np.ndarray]) -> list[list[int]]:
    """Indices of runs with the same times, which are simulated together."""
    groups: dict[bytes, list[int]] = {}
    for k, t in enumerate(grids):
        groups.setdefault(t.tobytes(), []).append(k)
    return list(groups.values())


def _has_spread(model: Model) -> bool:
    sound = len(model.sound_members)
    if sound < 2:
        messages.print(
            f"no bands: they are the spread of two or more members, but this model has {sound}. "
            "Fit with --members 5, say, or leave them out with --no-bands.",
            markup=False,
        )
    return sound >= 2


def _is_sound(run: str, t: np.ndarray, x: np.ndarray, around: Band | None) -> bool:
    """Whether a trajectory and its band are finite throughout; if not, the user is told."""
    lost = first_loss(x[None])
    if lost:
        messages.print(
            f"run {run!r} left the finite range at t = {t[lost[0][1]]:.6g} and was not written; "
            "its start may lie far from the training data. Try --integrator accurate or a smaller --step.",
            markup=False,
        )
        return False
    if around is not None and not np.isfinite(around.low).all():
        messages.print(
            f"run {run!r}: fewer than two members stayed finite, so that it has no band and was not written; "
            "--no-bands writes the served member alone.",
            markup=False,
        )
        return False
    return True


def _columns(name: str, with_bands: bool) -> tuple[str, ...]:
    return (name, f"{name}_low", f"{name}_high") if with_bands else (name,)


def _beside(x: np.ndarray, around: Band) -> np.ndarray:
    """Each state followed by its two bounds."""
    return np.stack([x, around.low, around.high], axis=2).reshape(len(x), -1)


def _described(predicted: Trajectories) -> str:
    lengths = {len(run.t) for run in predicted.runs}
    samples = f"{min(lengths)}" if len(lengths) == 1 else f"{min(lengths)} to {max(lengths)}"
    return f"{len(predicted)} runs of {samples} samples"


@app.command()
@with_column_options
def evaluate(
    run: RunFolder,
    data: Data,
    columns: DataSpec,
    integrator: Annotated[Integrator, typer.Option(help="The paper's fixed steps, or error control.")] = "rk23",
    as_json: Json = False,
) -> None:
    """Compare a model's rollouts with trajectories, and check its thermodynamics.

    Each run is predicted from its first complete state alone. The error is the paper's: relative l2 in time, mean
    over runs and states (give clean runs: from a noisy first state even a perfect model misses). Energy drift and
    entropy increments are in units of their natural variation over the data. With several members, the share of
    samples within their band is given for each state; the band knows nothing of measurement noise, so noisy samples
    fall outside of it even where the model is right. Of an open model (model.entropy = 'bath'), whose energy falls, the
    drift is its largest rise.
    """
    model = open_model(run)
    trajectories = as_learnt(matching(load_data(data, columns, model), model, data).from_complete_start(), model)
    results = _evaluate(model, trajectories, integrator)
    if as_json:
        print_json(results)
    else:
        _show(results)


def _evaluate(model: Model, trajectories: Trajectories, integrator: str) -> dict[str, Any]:
    with jax.enable_x64(True):
        served = model.field()
        rollouts = [simulate_runs(model.field(i), trajectories, integrator) for i in range(model.n_members)]
        simulated = rollouts[model.manifest.served]
        errors = prediction_errors(trajectories, simulated)
        checks = thermodynamic_checks(served, trajectories, integrator, simulated=simulated)
    return {
        "relative_l2": errors.overall,
        "relative_l2_median_run": errors.median_run,
        "relative_l2_members": [prediction_errors(trajectories, x).overall for x in rollouts],
        "served": model.manifest.served,
        "per_state": errors.per_state,
        "per_state_of_spread": _errors_of_spread(trajectories, simulated),
        "per_run": errors.per_run,
        "diverged_runs": list(errors.diverged),
        "band_share": SHARE,
        "band_coverage": _band_coverage(trajectories, [rollouts[i] for i in model.sound_members]),
        "open": served.is_open,
        "energy_drift": None if checks is None else checks.energy_drift,
        "min_entropy_increment": None if checks is None else checks.min_entropy_increment,
        "degeneracy": None if checks is None else checks.degeneracy,
    }


def _errors_of_spread(trajectories: Trajectories, simulated: list[np.ndarray]) -> dict[str, float]:
    """Mean over runs, by the name of the state: an offset, such as that of a temperature, makes no difference."""
    errors = spread_errors([run.x for run in trajectories.runs], simulated, state_std(trajectories))
    return dict(zip(trajectories.names, np.nanmean(errors, axis=0).tolist(), strict=True))


def _band_coverage(trajectories: Trajectories, rollouts: list[list[np.ndarray]]) -> dict[str, float] | None:
    """None where there are no two members to make a band."""
    if len(rollouts) < 2:
        return None
    return coverage(trajectories, [band(np.stack(members)) for members in zip(*rollouts, strict=True)])


def _show(results: dict[str, Any]) -> None:
    table = Table("measure", "value")
    table.add_row("relative l2 error (served model)", f"{results['relative_l2']:.4g}")
    table.add_row("  median over runs", f"{results['relative_l2_median_run']:.4g}")
    for name, value in results["per_state"].items():
        table.add_row(f"  {name}", f"{value:.4g}")
    table.add_row("error over the state's spread", "")
    for name, value in results["per_state_of_spread"].items():
        table.add_row(f"  {name}", f"{value:.4g}")
    table.add_row("relative l2 error of each member", "  ".join(f"{e:.4g}" for e in results["relative_l2_members"]))
    if results["band_coverage"] is not None:
        table.add_row(f"samples within the members' {results['band_share']:.0%} band", "")
        for name, value in results["band_coverage"].items():
            table.add_row(f"  {name}", f"{value:.0%}")
    if results["degeneracy"] is not None:
        table.add_row("largest rise of energy" if results["open"] else "energy drift", f"{results['energy_drift']:.2e}")
        table.add_row("least entropy increment", f"{results['min_entropy_increment']:.2e}")
        for name, value in results["degeneracy"].items():
            table.add_row(f"  {name}", f"{value:.1e}")
    output.print(table)
    if results["band_coverage"] is not None:
        output.print(
            "A band is the spread of the members, without measurement noise: noisy samples fall outside of it."
        )
    for name in results["diverged_runs"]:
        messages.print(f"run {name!r}: the prediction left the finite range; its error is infinite.", markup=False)
