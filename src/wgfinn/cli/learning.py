"""`wgfinn fit` and `wgfinn resume`."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import jax
import typer

from wgfinn._errors import ArtefactError, InputError
from wgfinn._spec import parse
from wgfinn.artefact import Model
from wgfinn.cli.app import Data, Json, app, messages, output, print_json
from wgfinn.cli.data_options import load_data, merged, with_column_options
from wgfinn.cli.progress import fit_summary, training_bar
from wgfinn.data import DataSpec, Trajectories
from wgfinn.estimator import make_spec
from wgfinn.fitting import CHECKPOINT_FILE, MODEL_FILE, SETTINGS_FILE, FitSpec, fit, steps_reached


class Method(StrEnum):
    auto = "auto"
    weak = "weak"
    paper = "paper"
    strong = "strong"


@app.command(name="fit")
@with_column_options
def fit_command(
    data: Data,
    columns: DataSpec,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for model, settings, metrics and checkpoints.")],
    method: Annotated[
        Method | None,
        typer.Option(
            help="Weak form, then trajectories (auto); the weak form alone; the paper's; one-step predictions."
        ),
    ] = None,
    members: Annotated[int | None, typer.Option(help="Models in the ensemble, trained side by side.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the first member.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="All other settings.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Learn a GENERIC model, x' = L∇E + M∇S, from trajectories.

    Ctrl-C stops early and leaves a usable model; `wgfinn resume RUN` then goes on to the same end as an uninterrupted
    training. An option given here wins over the same key of --config, whose table [data] tells the roles of columns.

    Example: wgfinn fit gas.npz --out runs/gas --members 5
    """
    spec = make_spec(config, method=None if method is None else method.value, members=members, steps=steps, seed=seed)
    spec = spec.model_copy(update={"data": merged(spec.data, columns)})
    trajectories = load_data(data, spec.data)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: a file of this name exists; give a folder.")
    if (out / MODEL_FILE).exists() or (out / CHECKPOINT_FILE).exists():
        raise InputError(
            f"--out {out}: this folder holds a run already; `wgfinn resume {out}` goes on with it, or choose another."
        )
    _fit(trajectories, spec, out, str(data.resolve()), checkpoint_seconds, as_json, resume=False)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder made by `wgfinn fit`.")],
    data: Annotated[Path | None, typer.Option(help="Where the data lie now, if they were moved.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Go on with an interrupted training, to the same numbers as if it had not been interrupted."""
    settings = run / SETTINGS_FILE
    if not settings.exists() or not (run / CHECKPOINT_FILE).exists():
        raise ArtefactError(f"{run}: no interrupted run here ({SETTINGS_FILE} and {CHECKPOINT_FILE} are missing).")
    try:
        content = tomllib.loads(settings.read_text())
        origin = content["data"]
        source, digest = origin.get("source"), origin["digest"]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(f"{settings}: damaged ({error}).") from None
    if data is None and source is None:
        raise InputError(f"{run}: the run does not know where its data lie; name them with --data.")
    path = Path(source) if data is None else data
    spec = parse(FitSpec, content.get("fit", {}), str(settings))
    trajectories = load_data(path, spec.data)
    if trajectories.digest() != digest:
        raise InputError(f"{path}: not the data this run began with; restore them, or name them with --data.")
    _fit(trajectories, spec, run, str(path), checkpoint_seconds, as_json, resume=True)


def _fit(
    trajectories: Trajectories,
    spec: FitSpec,
    folder: Path,
    source: str,
    checkpoint_seconds: float,
    as_json: bool,
    *,
    resume: bool,
) -> None:
    done = steps_reached(folder) if resume else 0
    title = f"{spec.method}, {spec.training.members} member{'s' if spec.training.members > 1 else ''}"
    with jax.enable_x64(True), training_bar(messages, title, spec.total_steps, done) as observe:
        model = fit(
            trajectories,
            spec,
            folder=folder,
            source=source,
            observe=observe,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
        )
    _report(model, spec, folder, as_json)


def _report(model: Model, spec: FitSpec, folder: Path, as_json: bool) -> None:
    manifest, verdict = model.manifest, model.manifest.verdict
    ended = verdict is not None and verdict.ended_at is not None
    lines = fit_summary(model, manifest.steps_done if ended else spec.total_steps)
    if as_json:
        print_json(
            {
                "model": str(folder / MODEL_FILE),
                "served": manifest.served,
                "steps_done": manifest.steps_done,
                "members": [m.model_dump() for m in manifest.members],
                "verdict": None if verdict is None else verdict.model_dump(mode="json"),
            }
        )
        return
    if verdict is not None:
        lines = [verdict.headline, *verdict.lines, *lines]
    for line in lines:
        output.print(line, markup=False)
    output.print(f"model: {folder / MODEL_FILE}", markup=False)
