"""`wgfinn report`: a page to look at."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from wgfinn.cli.app import RunFolder, app, output
from wgfinn.cli.data_options import with_column_options
from wgfinn.data import DataSpec
from wgfinn.integrate import Integrator
from wgfinn.report import MAX_RUNS, open_source, report_data, write_page


@app.command()
@with_column_options
def report(
    run: RunFolder,
    columns: DataSpec,
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="Trajectories to compare with; those of the fit if absent.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write; RUN/report.html if absent.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Most runs to choose from in the plots.")] = MAX_RUNS,
    integrator: Annotated[Integrator, typer.Option(help="The paper's fixed steps, or error control.")] = "rk23",
) -> None:
    """One HTML file about a learnt model, which works offline.

    Errors, predicted against measured runs, phase portraits, energy and entropy, L and M, residuals, training curves,
    and what is needed to repeat the fit. The columns of DATA are read as in the fit, unless the options say otherwise.

    Example: wgfinn report runs/gas test.npz
    """
    source = open_source(run, data, columns)
    path = out if out is not None else (run / "report.html" if run.is_dir() else run.with_suffix(".html"))
    numbers = report_data(source.model, source.trajectories, integrator=integrator, max_runs=runs)
    write_page(path, numbers, source, created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    output.print(str(path), markup=False)
