"""What a person sees while a training runs, and the words for what came out of it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from wgfinn.artefact import Model
from wgfinn.training import Observer, Record

_LINE_SECONDS = 10.0
_DOING = {"polish": "polishing", "refine": "refining"}
# The misfit of a member none of whose predictions stayed finite.
_LOST = 1e3


@contextmanager
def training_bar(console: Console, title: str, steps: int, done: int = 0) -> Iterator[Observer]:
    """A live bar with loss, speed and time left; it shows at once, while the program still compiles.

    Where nobody can watch a bar (a log file), a line every ten seconds instead.
    """
    if not console.is_terminal:
        yield _line_printer(console, title)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(compact=True),
        console=console,
        speed_estimate_period=10,
    )
    with bar:
        task = bar.add_task(title, total=steps, completed=done, state="compiling")
        speed = _Speed()

        def observe(record: Record) -> None:
            rate = speed(record)
            state = _loss(record) + (f"  {rate:,.0f} steps/s" if rate > 0 else "")
            bar.update(task, completed=record.step, state=state)

        yield observe


def _line_printer(console: Console, title: str) -> Observer:
    speed = _Speed()
    due = 0.0

    def observe(record: Record) -> None:
        nonlocal due
        rate = speed(record)
        if record.seconds < due and record.step < record.steps:
            return
        pace = f", {rate:,.0f} steps/s, {(record.steps - record.step) / rate:.0f} s left" if rate > 0 else ""
        console.print(f"{title}: step {record.step:,} of {record.steps:,}, {_loss(record)}{pace}", markup=False)
        due = record.seconds + _LINE_SECONDS

    return observe


def _loss(record: Record) -> str:
    """The refinement has a loss of its own: mean squared misfits in noise units."""
    loss = f"loss {_best_loss(record):.3e}"
    if record.stage not in _DOING:
        return loss
    within = "" if record.within is None else " {} of {}".format(*record.within)
    return f"{_DOING[record.stage]}{within}, {loss}"


class _Speed:
    """Steps a second since the first record of a stage, which came when its program was compiled."""

    def __init__(self) -> None:
        self._first: Record | None = None

    def __call__(self, record: Record) -> float:
        if self._first is None or self._first.stage != record.stage:
            self._first = record
        first = self._first
        seconds = record.seconds - first.seconds
        return (record.step - first.step) / seconds if seconds > 0 else 0.0


def _best_loss(record: Record) -> float:
    return min((m.best_loss for m in record.members), default=math.nan)


def fit_summary(model: Model, steps: int) -> list[str]:
    """What came of a training, in words: who is served, who diverged, whether it was cut short."""
    manifest = model.manifest
    served = manifest.members[manifest.served]
    others = [m for m in manifest.members if m is not served]
    judged = [f"{m.name} {_misfit(m.misfit)}" for m in others if m.misfit is not None]
    quality = f"training loss {_number(served.loss)}" if served.misfit is None else f"misfit {_misfit(served.misfit)}"
    lines = [f"served: {served.name}, {quality}" + (f" (others: {', '.join(judged)})" if judged else "")]
    lines += [
        f"{m.name} diverged at step {m.diverged_at} (loss not finite); its best model until then is kept. "
        "Try a smaller learning rate."
        for m in manifest.members
        if m.diverged_at is not None
    ]
    if manifest.steps_done < steps:
        lines.append(f"stopped after {manifest.steps_done:,} of {steps:,} steps; `wgfinn resume` goes on from there.")
    return lines


def _misfit(value: float) -> str:
    return "lost" if value >= _LOST else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"
