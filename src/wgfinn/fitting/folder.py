"""The folder of a run: settings, metrics, checkpoints, model."""

import json
import math
from pathlib import Path
from typing import Any

import tomli_w

from wgfinn.data import Trajectories, atomic_write
from wgfinn.fitting.spec import FitSpec
from wgfinn.training import Observer, Record, checkpoint_step

MODEL_FILE = "model.wgfinn"
SETTINGS_FILE = "settings.toml"
METRICS_FILE = "metrics.jsonl"
CHECKPOINT_FILE = "checkpoint.npz"


def refinement_checkpoint(checkpoint: Path) -> Path:
    """The checkpoint of the second stage, beside that of the first."""
    return checkpoint.with_name(f"refine_{checkpoint.name}")


def steps_reached(folder: Path) -> int:
    """The step that the checkpoints in a run's folder have reached, over all stages."""
    checkpoint = folder / CHECKPOINT_FILE
    second = refinement_checkpoint(checkpoint)
    return checkpoint_step(checkpoint) + (checkpoint_step(second) if second.exists() else 0)


def write_settings(folder: Path, spec: FitSpec, trajectories: Trajectories, source: str | None) -> None:
    """Everything `resume` needs: the settings, and which data they were for."""
    content: dict[str, Any] = {
        "data": {"digest": trajectories.digest()},
        "fit": spec.model_dump(exclude_none=True),
    }
    if source is not None:
        content["data"]["source"] = source
    with atomic_write(folder / SETTINGS_FILE) as temporary:
        temporary.write_text(tomli_w.dumps(content))


def log_into(folder: Path, spec: FitSpec, observe: Observer | None, *, resume: bool) -> Observer:
    """An observer that appends each due record to the folder's metrics and passes every record on."""
    path = folder / METRICS_FILE
    done = _records_until_checkpoint(folder) if resume else []
    with atomic_write(path) as temporary:
        temporary.write_text("".join(json.dumps(r) + "\n" for r in done))
    last_logged = done[-1]["step"] if done else 0

    def log(record: Record) -> None:
        nonlocal last_logged
        passed = record.step // spec.training.log_every > last_logged // spec.training.log_every
        # The steps of the polish are not counted.
        due = passed or record.stage == "polish"
        if due or record.step == record.steps:
            with path.open("a") as file:
                file.write(json.dumps(finite(record.to_dict())) + "\n")
            last_logged = record.step
        if observe is not None:
            observe(record)

    return log


def _records_until_checkpoint(folder: Path) -> list[dict[str, Any]]:
    """The records already written that the checkpoint beside them has reached."""
    path = folder / METRICS_FILE
    if not path.exists():
        return []
    step, polished = steps_reached(folder), refinement_checkpoint(folder / CHECKPOINT_FILE).exists()
    # Only whole lines: a process killed while it wrote leaves a part of one, which lies behind the checkpoint.
    records = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [r for r in records if r["step"] <= step and (polished or r["stage"] != "polish")]


def finite(value: Any) -> Any:
    """JSON has no infinity: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
