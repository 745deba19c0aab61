"""What all commands share: the application, the consoles, common arguments."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wgfinn.fitting import finite

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learn thermodynamically consistent equations of motion, x' = L∇E + M∇S, from noisy trajectories.",
)
# Without emoji: rich would turn the ":a:" of a message into a picture.
output = Console(soft_wrap=True, highlight=False, emoji=False)
messages = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Trajectories: .csv, .tsv, .parquet, .npz, .h5, .mat, .nc, .zarr, or a folder with one file a run.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder made by `wgfinn fit`, or a model file.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, for machines.")]


def print_json(value: Any) -> None:
    """One JSON value on standard output; numbers that are not finite become null."""
    print(json.dumps(finite(value)))
