"""`wgfinn generate`: data of known systems."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from wgfinn import systems
from wgfinn._errors import InputError
from wgfinn.cli.app import Json, app, messages, output, print_json
from wgfinn.data import Trajectories, add_noise, check_writable, save, split
from wgfinn.integrate import Integrator


@app.command()
def generate(
    system: Annotated[str | None, typer.Argument(metavar="SYSTEM", help="Name of the system; see --list.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write: .npz, .csv, .parquet, .h5, .mat, .nc, ...")] = None,
    trajectories: Annotated[int | None, typer.Option(help="Number of runs; the paper's if not given.")] = None,
    noise: Annotated[float, typer.Option(help="0.1 adds noise of 10 % of each state's standard deviation.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the start states, the split and the noise.")] = 0,
    integrator: Annotated[Integrator, typer.Option(help="The paper's fixed steps, or error control.")] = "rk23",
    param: Annotated[list[str] | None, typer.Option(help="Parameter of the system, name=value; repeatable.")] = None,
    in_parts: Annotated[
        bool, typer.Option("--split", help="Write OUT.train (noisy) and OUT.test (clean) instead of OUT.")
    ] = False,
    list_systems: Annotated[bool, typer.Option("--list", help="Show the systems, states and parameters.")] = False,
    as_json: Json = False,
) -> None:
    """Make trajectories of a known system, clean or noisy.

    Noise is y = x + R sigma N(0, 1) with sigma the standard deviation of each state over the clean runs (with --split,
    over the clean training runs alone; the test runs then stay clean).

    Example: wgfinn generate gas_containers --trajectories 80 --noise 0.1 --seed 1 --out gas.npz
    """
    if list_systems:
        _show_systems(as_json)
        return
    if system is None or out is None:
        raise InputError("give a SYSTEM and --out FILE; `wgfinn generate --list` shows the systems.")
    check_writable(out)
    source = systems.make(system, **dict(_parameter(text) for text in param or []))
    written = _write(source, out, trajectories, noise, seed, integrator, in_parts)
    if as_json:
        print_json({str(path): {"runs": len(d), "samples": sum(len(r.t) for r in d.runs)} for path, d in written})
    for path, data in () if as_json else written:
        output.print(f"{path}: {len(data)} runs of {len(data.runs[0].t)} samples, states {', '.join(data.names)}")


def _write(
    source: Any, out: Path, count: int | None, noise: float, seed: int, integrator: str, in_parts: bool
) -> list[tuple[Path, Trajectories]]:
    bar = Progress(
        TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True), console=messages
    )
    with bar:
        task = bar.add_task("", total=None)
        data = systems.generate(
            source,
            trajectories=count,
            noise=noise,
            seed=seed,
            integrator=integrator,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if not in_parts:
        parts = {out: data.noisy}
    else:
        train, test = split(data.clean, fraction=source.train_fraction, seed=seed)
        parts = {
            out.with_suffix(f".train{out.suffix}"): add_noise(train, noise, seed=seed),
            out.with_suffix(f".test{out.suffix}"): test,
        }
    for path, part in parts.items():
        save(part, path)
    return list(parts.items())


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--param {text!r} must have the form name=value.")
    return name.strip(), _value(value.strip())


def _value(text: str) -> Any:
    """A whole number, a number, several numbers separated by commas, or the text itself."""
    if "," in text:
        return [_value(part.strip()) for part in text.split(",")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _show_systems(as_json: bool) -> None:
    rows = {name: _describe(systems.make(name)) for name in systems.names()}
    if as_json:
        print_json(rows)
        return
    for name, row in rows.items():
        first, last, step = row["times"]
        states = [f"{s} in [{r[0]:g}, {r[1]:g}]" for s, r in row["starts"].items()] or row["states"]
        parameters = ", ".join(f"{k}={v}" for k, v in row["parameters"].items())
        table = Table.grid(padding=(0, 2))
        table.add_row("states", ", ".join(states) + (" at the start" if row["starts"] else ""))
        table.add_row("times", f"{first:g} to {last:g}, step {step:g}")
        table.add_row("runs", str(row["trajectories"]))
        table.add_row("parameters", parameters)
        output.print(f"[bold]{name}[/bold]: {row['description']}")
        output.print(table)


def _start_ranges(system: Any) -> dict[str, list[float]]:
    """The box of start states, for systems that have one."""
    if not isinstance(system, systems.System):
        return {}
    return {n: list(r) for n, *r in zip(system.state_names, system.start_low, system.start_high, strict=True)}


def _describe(system: Any) -> dict[str, Any]:
    return {
        "description": system.description,
        "states": list(system.state_names),
        "trajectories": system.default_trajectories(),
        "starts": _start_ranges(system),
        "times": [getattr(system, "t_start", 0.0), system.t_end, system.dt],
        "parameters": {f.name: getattr(system, f.name) for f in dataclasses.fields(system)},
    }
