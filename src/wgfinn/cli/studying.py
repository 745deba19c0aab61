"""`wgfinn demo`, `wgfinn reproduce` and `wgfinn theory`: whole studies from one command each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from wgfinn._errors import InputError
from wgfinn.cli.app import app, messages, output
from wgfinn.cli.progress import training_bar
from wgfinn.studies import Event, Scale, Watcher, recipe_names, reproduce, reproduce_all, reproduce_theory
from wgfinn.studies.demo import run_demo


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table and the figures.")] = Path("demo_output"),
    noise: Annotated[float, typer.Option(help="Noise level of the training data.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of data and members.")] = 0,
) -> None:
    """Weak against strong form on two noisy systems, side by side: a table and figures within minutes."""
    with jax.enable_x64(True):
        run_demo(
            out,
            noise=noise,
            seed=seed,
            bar=lambda title, steps: training_bar(messages, title, steps),
            show=output.print,
        )


@app.command(name="reproduce")
def reproduce_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(recipe_names())}, or all.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results, models, tables and figures.")],
    noise: Annotated[list[float] | None, typer.Option(help="Noise level; repeatable; all if not given.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Rows of the recipe: weak, strong, ...; repeatable.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds of each row; the scale's number if not given.")] = None,
    scale: Annotated[Scale, typer.Option(help="A minute a system, the committed results, or the paper's.")] = "short",
) -> None:
    """Run the paper's study of a system: data, trainings, results.json, a table and the figures.

    Finished rows are kept: the same command goes on where an earlier one stopped. `short` and `paper` want a GPU.
    """
    with _watching() as watch:
        if name == "all":
            if noise is not None:
                raise InputError("--noise goes with one system: their noise levels differ.")
            results = reproduce_all(out=out, scale=scale, seeds=seeds, method=method, watch=watch)
        else:
            one = reproduce(name, out=out, scale=scale, noise=noise, method=method, seeds=seeds, watch=watch)
            results = {one["system"]: one}
    table = out / "summary.md" if name == "all" else out / Path(name).stem / "table.md"
    output.print(table.read_text(encoding="utf-8"), markup=False)
    for system, result in results.items():
        if result["pending"]:
            missing = ", ".join(result["pending"])
            output.print(f"{system}: rows without a result yet: {missing}", markup=False)
    output.print(f"results, models and figures: {out.resolve()}", markup=False)


@app.command()
def theory(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the figure, the numbers and the table.")],
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
) -> None:
    """Section 4 of the paper: estimators of one rate, strong and weak, against the theorems (seconds)."""
    reproduce_theory(out, seed=seed)
    output.print((out / "theory.md").read_text(encoding="utf-8"), markup=False)
    output.print(f"figure and numbers: {out.resolve()}", markup=False)


@contextmanager
def _watching() -> Iterator[Watcher]:
    """A bar per stage of a study."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=messages,
    )
    tasks: dict[tuple[str, str, str], TaskID] = {}
    with bar:

        def watch(event: Event) -> None:
            key = (event.system, event.stage, event.message if event.stage == "training" else "")
            if key not in tasks:
                tasks[key] = bar.add_task(f"{event.system}: {event.message}", total=event.total)
            bar.update(tasks[key], completed=event.done, total=event.total)

        yield watch
