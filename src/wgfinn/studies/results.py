"""What a study found, as values and as files. A number that is not finite (a diverged rollout) is None."""

import json
import math
import os
import platform
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import pydantic

from wgfinn._errors import ArtefactError
from wgfinn._spec import Spec, SpecType
from wgfinn.data import atomic_write

FORMAT = 1


class MemberResult(Spec):
    """One seed of a row, judged on the clean test runs."""

    seed: int
    error: float | None
    """Mean relative l2 error over runs and states (paper, eq. test_rmse); None if a rollout diverged."""
    median_run: float | None
    """Median over runs of their mean error over states; a few diverged runs leave it finite."""
    per_state: dict[str, float | None]
    diverged_runs: tuple[str, ...]
    loss: float | None
    """Smallest training loss over all data, without attention."""
    diverged_at: int | None
    energy_drift: float | None
    min_entropy_increment: float | None
    degeneracy: dict[str, float | None]


class RowResult(Spec):
    """A finished row: its settings, what it cost, and its members."""

    key: str
    arm: str
    noise: float
    digest: str
    settings: dict[str, Any]
    data_digest: str
    """Of the training runs as the models saw them."""
    steps: int
    program_seconds: float
    """Wall-clock time of the program that trained this row, compilation included."""
    program_members: int
    """Members in that program, those of other rows included."""
    hardware: dict[str, str]
    versions: dict[str, str]
    members: tuple[MemberResult, ...]

    @property
    def errors(self) -> list[float]:
        """The error of each seed; infinite where it diverged."""
        return [math.inf if m.error is None else m.error for m in self.members]

    @property
    def seconds(self) -> float:
        """This row's share of its program's time."""
        return self.program_seconds * len(self.members) / self.program_members


class StudyResult(Spec):
    """All finished rows of one system, and the keys of those still to do."""

    format: int = FORMAT
    system: str
    title: str
    scale: str
    seeds: int
    train_runs: int
    test_runs: int
    rows: tuple[RowResult, ...]
    pending: tuple[str, ...]

    def row(self, arm: str, noise: float) -> RowResult | None:
        return next((row for row in self.rows if row.arm == arm and row.noise == noise), None)

    @property
    def levels(self) -> tuple[float, ...]:
        return tuple(sorted({row.noise for row in self.rows}))

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.arm for row in self.rows))


class Spread(Spec):
    """Errors over the seeds of a row; None is a diverged one."""

    mean: float | None
    median: float | None
    best: float | None
    worst: float | None

    @classmethod
    def of(cls, row: RowResult) -> "Spread":
        errors = row.errors
        return cls(
            mean=finite(statistics.fmean(errors)),
            median=finite(statistics.median(errors)),
            best=finite(min(errors)),
            worst=finite(max(errors)),
        )


def finite(value: float) -> float | None:
    """JSON has no infinity: None stands for every number that is not finite."""
    return float(value) if math.isfinite(value) else None


def finite_values(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in values.items()}


def write_json(path: Path, value: Spec) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(value.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_json(path: Path, kind: type[SpecType]) -> SpecType:
    """The value at `path`; an `ArtefactError` where the file is damaged or of another version."""
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, pydantic.ValidationError) as error:
        first = str(error).splitlines()[0]
        raise ArtefactError(f"{path}: not a result of this version ({first}); remove it to train again.") from None


def hardware() -> dict[str, str]:
    """What the computation runs on."""
    device = jax.devices()[0]
    return {
        "platform": device.platform,
        "device": device.device_kind,
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
    }
