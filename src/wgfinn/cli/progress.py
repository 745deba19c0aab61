"""What a person sees while a training runs, and the words for what came out of it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from wgfinn.artefact import Model
from wgfinn.training import Observer, Record


@contextmanager
def training_bar(console: Console, title: str, steps: int, done: int = 0) -> Iterator[Observer]:
    """A live bar with loss, speed and time left; it shows at once, while the program still compiles."""
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
        first: Record | None = None

        def observe(record: Record) -> None:
            nonlocal first
            speed = ""
            if first is not None and record.seconds > first.seconds:
                rate = (record.step - first.step) / (record.seconds - first.seconds)
                speed = f"  {rate:,.0f} steps/s"
            first = first or record
            best = min((m.best_loss for m in record.members), default=math.nan)
            bar.update(task, completed=record.step, state=f"loss {best:.3e}{speed}")

        yield observe


def fit_summary(model: Model, steps: int) -> list[str]:
    """What came of a training, in words: who is served, who diverged, whether it was cut short."""
    manifest = model.manifest
    served = manifest.members[manifest.served]
    lines = [f"served: {served.name}, training loss {_number(served.loss)}"]
    lines += [
        f"{m.name} diverged at step {m.diverged_at} (loss not finite); its best model until then is kept. "
        "Try a smaller learning rate."
        for m in manifest.members
        if m.diverged_at is not None
    ]
    if manifest.steps_done < steps:
        lines.append(f"stopped after {manifest.steps_done:,} of {steps:,} steps; `wgfinn resume` goes on from there.")
    return lines


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"
