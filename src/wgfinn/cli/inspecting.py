"""`wgfinn inspect`: what can be said about data before a fit."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from wgfinn.cli.app import Data, Json, app, output, print_json
from wgfinn.cli.data_options import load_data, with_column_options
from wgfinn.data import DataSpec, amount, duration_unit
from wgfinn.inspection import Inspection, inspect, inspection_figure

_WIDEST = 1000


@app.command(name="inspect")
@with_column_options
def inspect_command(
    data: Data,
    columns: DataSpec,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw runs, spectra and noise into this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at data before learning from them: noise, time scales, test functions, and what looks wrong.

    The noise is estimated from the data alone. Warnings do not change the exit code.

    Example: wgfinn inspect gas.npz --figure gas.png
    """
    trajectories = load_data(data, columns)
    inspection = inspect(trajectories)
    if figure is not None:
        inspection_figure(figure, trajectories, inspection)
    if as_json:
        print_json(inspection.to_dict())
    else:
        _show(inspection)


def _show(inspection: Inspection) -> None:
    runs, steps, unit = inspection.runs, inspection.steps, _time_unit(inspection)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("runs", f"{runs.count} of {_span(runs.shortest, runs.longest)} samples, {runs.samples} in all")
    facts.add_row("duration", amount(_span(f"{runs.shortest_duration:.4g}", f"{runs.longest_duration:.4g}"), unit))
    jitter = "equal" if steps.uniform else f"{steps.min:.4g} to {steps.max:.4g}, jitter {100 * steps.jitter:.2g} %"
    facts.add_row("steps", f"{amount(f'{steps.median:.4g}', unit)} ({jitter})")
    if steps.gaps:
        facts.add_row("gaps", str(steps.gaps))
    if any(state.missing for state in inspection.states):
        missing = (f"{state.name} {state.missing}" for state in inspection.states if state.missing)
        facts.add_row("not measured", ", ".join(missing))
    output.print(facts)
    for table in (_ranges(inspection), _time_scales(inspection)):
        # As wide as its numbers: a narrow console, or none, must not cut them.
        table.width = output.measure(table, options=output.options.update(max_width=_WIDEST)).maximum
        output.print(table)
    chosen = inspection.test_functions
    output.print(
        f"test functions: width {chosen.width}, degree {chosen.degree}, overlap {chosen.overlap:g}, "
        f"{inspection.windows} windows in all",
        markup=False,
    )
    output.print(f"  {inspection.reason}", markup=False)
    for finding in inspection.findings:
        output.print(f"[bold]{finding.level}:[/bold] ", end="")
        output.print(finding.message, markup=False)


def _ranges(inspection: Inspection) -> Table:
    table = _table("state", "from", "to", "std", "noise", "% of std", "signal/noise")
    for state in inspection.states:
        table.add_row(
            state.name + (f" ({state.unit})" if state.unit else ""),
            *(_number(value) for value in (state.min, state.max, state.std, state.noise)),
            _number(state.noise_percent, 2),
            _number(state.signal_to_noise, 3),
        )
    return table


def _time_scales(inspection: Inspection) -> Table:
    unit = _time_unit(inspection)
    periods = (amount(name, unit and f"({unit})") for name in ("main period", "fastest period"))
    table = _table("state", *periods, "samples in the fastest")
    for state in inspection.states:
        slow = state.period is None and state.fastest_period is not None
        table.add_row(
            state.name,
            # No more digits than a spectrum of a few periods has.
            "a run or longer" if slow else _number(state.period, 2),
            _number(state.fastest_period, 2),
            _number(state.samples_per_period, 2),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _time_unit(inspection: Inspection) -> str:
    """The unit of durations, brackets and all: rich would take them for markup."""
    return escape(duration_unit(inspection.time_unit))


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _span(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low} to {high}"
