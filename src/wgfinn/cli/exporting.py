"""`wgfinn export`: a learnt model for use without this package."""

from pathlib import Path
from typing import Annotated

import typer

from wgfinn.cli.app import RunFolder, app, output
from wgfinn.cli.using import open_model
from wgfinn.export import DType, Format, export_model


@app.command()
def export(
    run: RunFolder,
    format: Annotated[Format, typer.Option(help="Plain arrays, a compiled function, or a graph for many runtimes.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    member: Annotated[int | None, typer.Option(help="Member of the ensemble; the served one if not given.")] = None,
    dtype: Annotated[
        DType | None, typer.Option(help="Arithmetic; if not given, float32 for onnx, else float64.")
    ] = None,
) -> None:
    """Write a learnt model for use without this package: f, energy and entropy of physical states.

    docs/export.md says how to read each format back.

    Example: wgfinn export runs/gas --format onnx --out gas.onnx
    """
    model = open_model(run)
    export_model(model, out, format, member=member, dtype=dtype)
    chosen = model.manifest.served if member is None else member
    output.print(f"{out}: {format}, member {chosen}, states {', '.join(model.names)}", markup=False)
