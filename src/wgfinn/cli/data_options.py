"""How commands read data: the options for the roles of columns, the bar while a large file is read, what was guessed.

A command that reads data takes `columns: DataSpec` and is decorated:

    @app.command()
    @with_column_options
    def evaluate(data: Data, columns: DataSpec) -> None:
        trajectories = load_data(data, columns)
"""

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.artefact import Model
from wgfinn.cli.app import messages
from wgfinn.data import DataSpec, Recording, Trajectories, read
from wgfinn.evaluate import read_for

_OPTIONS = {
    "run": ("COLUMN", "Column of the data that tells the runs apart; guessed by name if not given."),
    "time": ("COLUMN", "Column of the time; guessed by name if not given."),
    "states": ("A,B,...", "Columns of the states, in this order; all others if not given."),
    "ignore": ("X,Y,...", "Columns to leave out."),
    "sigma": ("A,B,...", "Columns of noise levels, in the order of the states."),
    "separator": (
        "MARK",
        "What stands between the cells of a CSV: ',' ';' tab or space; as the suffix says if not given.",
    ),
    "decimal": ("MARK", "Decimal mark of a CSV, ',' or '.'; a point if not given."),
}
_LISTS = ("states", "ignore", "sigma")
_PARAMETER = "columns"
_LINE_SECONDS = 10.0


def with_column_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with the options of `_OPTIONS` in place of its argument `columns`."""
    signature = inspect.signature(command)

    @functools.wraps(command)
    def with_options(**arguments: Any) -> None:
        given = {role: arguments.pop(f"{_PARAMETER}_{role}") for role in _OPTIONS}
        command(**arguments, columns=_spec(given))

    options = [
        inspect.Parameter(
            f"{_PARAMETER}_{role}",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(f"--{role}", metavar=metavar, help=text)],
        )
        for role, (metavar, text) in _OPTIONS.items()
    ]
    kept = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, p in signature.parameters.items() if name != _PARAMETER
    ]
    # Typer reads both.
    with_options.__signature__ = signature.replace(parameters=[*kept, *options])  # pyright: ignore[reportAttributeAccessIssue]
    with_options.__annotations__ = {p.name: p.annotation for p in (*kept, *options)}
    return with_options


def _spec(given: dict[str, str | None]) -> DataSpec:
    return parse(
        DataSpec, {role: _split(role, text) if role in _LISTS else text for role, text in given.items()}, "options"
    )


def _split(role: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InputError(f"--{role} {text!r}: give names of columns with commas between them, as in a,b,c.")
    return names


def merged(file: DataSpec, options: DataSpec) -> DataSpec:
    """The roles of a settings file, where an option given wins."""
    return file.model_copy(update=options.model_dump(exclude_none=True))


def load_data(path: Path, columns: DataSpec, model: Model | None = None) -> Trajectories:
    """The trajectories of `path`, to compare a `model` with where one is given; what was guessed is said on standard
    error."""
    with reading_bar(messages, f"reading {path.name}") as progress:
        if model is None:
            recording = read(path, columns, progress=progress)
        else:
            recording = read_for(model, path, columns, progress)
        trajectories = recording.trajectories()
    say(recording)
    return trajectories


def say(recording: Recording) -> None:
    """A line on standard error about what was read, and one about what was guessed, if anything was."""
    messages.print(f"{recording.source}: {recording.summary()}", markup=False)
    if recording.said:
        guesses = "; ".join(recording.said)
        messages.print(f"guessed: {guesses} (--run, --time, --states, --ignore decide otherwise)", markup=False)


@contextmanager
def reading_bar(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that shows from the second part of a file on, so that small files show none.

    Where nobody can watch a bar (a log file), a line every ten seconds instead.
    """
    if not console.is_terminal:
        yield _line_printer(console, title)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
    )
    task = bar.add_task(title, total=None)

    def advance(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if done < total:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


def _line_printer(console: Console, title: str) -> Callable[[int, int], None]:
    due = time.monotonic() + _LINE_SECONDS

    def advance(done: int, total: int) -> None:
        nonlocal due
        if done < total and time.monotonic() >= due:
            console.print(f"{title}: {done / total:.0%}", markup=False)
            due = time.monotonic() + _LINE_SECONDS

    return advance
