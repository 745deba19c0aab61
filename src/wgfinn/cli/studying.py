"""`wgfinn demo`: the method at work in a few minutes."""

from pathlib import Path
from typing import Annotated

import jax
import typer

from wgfinn.cli.app import app, messages, output
from wgfinn.cli.progress import training_bar
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
