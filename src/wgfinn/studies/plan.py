"""From a recipe to what is to be done: rows, and the programs that train several of them at once.

Rows whose settings agree in everything but optimiser, attention, noise and seed train as members of one
compiled program, whichever arm they belong to.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wgfinn._errors import InputError
from wgfinn.fitting import FitSpec
from wgfinn.losses import AttentionSpec
from wgfinn.studies.arms import ARMS
from wgfinn.studies.recipes import DataSpec, Recipe, Scale, StrongRow, WeakRow
from wgfinn.training import OptimiserSpec, TrainingSpec

# What a training of one stage, on data of the study's own, never reads.
_WITHOUT_EFFECT = {"data": True, "refine": True, "training": {"starts", "members", "seed", "log_every"}}
# Part of every digest: raise it when a change of the code makes finished rows worthless.
_VERSION = 1


@dataclass(frozen=True)
class DataPlan:
    """Everything that settles the data of a study."""

    system: str
    parameters: dict[str, Any]
    spec: DataSpec


@dataclass(frozen=True)
class PlannedRow:
    """One row of a recipe with all its settings: a model file with one member a seed."""

    arm: str
    noise: float
    seeds: tuple[int, ...]
    fit: FitSpec
    data: DataPlan

    @property
    def key(self) -> str:
        """The row's name in files and messages."""
        return f"{self.arm}_{100 * self.noise:g}"

    @property
    def label(self) -> str:
        """The row's name for readers."""
        return f"{ARMS[self.arm].label} at {100 * self.noise:g} % noise"

    def settings(self) -> dict[str, Any]:
        """Every setting that changes a number of this row."""
        return {
            "version": _VERSION,
            "system": self.data.system,
            "parameters": self.data.parameters,
            "data": self.data.spec.model_dump(),
            "noise": self.noise,
            "seeds": list(self.seeds),
            "fit": self.fit.model_dump(mode="json", exclude=_WITHOUT_EFFECT),
        }

    def digest(self) -> str:
        """A hash of the settings: a finished row of the same digest need not be trained again."""
        return digest_of(self.settings())


@dataclass(frozen=True)
class Program:
    """Rows that train together. `fit` holds what they share."""

    fit: FitSpec
    rows: tuple[PlannedRow, ...]

    def digest(self) -> str:
        return digest_of([row.digest() for row in self.rows])


def plan_rows(recipe: Recipe, scale: Scale, seeds: int | None = None) -> list[PlannedRow]:
    """All rows of the recipe at a scale, arm by arm and by ascending noise."""
    chosen = recipe.scales[scale]
    count = chosen.seeds if seeds is None else seeds
    if count < 1:
        raise InputError(f"seeds={count} must be at least 1.")
    spec = recipe.data if chosen.trajectories is None else _with(recipe.data, trajectories=chosen.trajectories)
    data = DataPlan(recipe.system, {**recipe.parameters, **chosen.parameters}, spec)
    return [
        PlannedRow(arm, row.noise, tuple(range(count)), _fit_spec(recipe, scale, arm, row), data)
        for arm in ARMS
        for row in sorted(recipe.rows(arm), key=lambda row: row.noise)
    ]


def _fit_spec(recipe: Recipe, scale: Scale, arm: str, row: WeakRow | StrongRow) -> FitSpec:
    chosen, form = recipe.scales[scale], ARMS[arm].form
    batch = row.batch if form == "weak" or chosen.batch is None else chosen.batch
    return FitSpec(
        method=form,
        coordinates="physical",
        weights=row.weights,
        model=recipe.network_at(scale),
        test_functions=row.test_functions,
        attention=row.attention,
        optimiser=row.optimiser,
        training=TrainingSpec(
            steps=chosen.steps(form),
            batch="all" if batch is None else batch,
            check_every=chosen.check_every,
            dtype=recipe.dtype,
        ),
    )


def select_rows(
    rows: Sequence[PlannedRow], noise: Sequence[float] | None = None, method: Sequence[str] | None = None
) -> list[PlannedRow]:
    """The rows of the given noise levels and arms; None takes all. What no row has is an `InputError`."""
    levels = sorted({row.noise for row in rows})
    arms = list(dict.fromkeys(row.arm for row in rows))
    for level in noise or ():
        if level not in levels:
            raise InputError(f"noise={level:g} is in no row of this study; its levels are {_listed(levels)}.")
    for arm in method or ():
        if arm not in arms:
            raise InputError(f"method={arm!r} is in no row of this study; it has {', '.join(arms)}.")
    chosen = [row for row in rows if (noise is None or row.noise in noise) and (method is None or row.arm in method)]
    if not chosen:
        raise InputError("no row of this study has both a noise level and a method of those asked for.")
    return chosen


def group_rows(rows: Sequence[PlannedRow]) -> list[Program]:
    """The programs that train `rows`, in the order of their first row."""
    groups: dict[str, list[PlannedRow]] = {}
    for row in rows:
        groups.setdefault(digest_of([_shared(row).model_dump(mode="json"), row.seeds]), []).append(row)
    return [Program(_shared(group[0]), tuple(group)) for group in groups.values()]


def _shared(row: PlannedRow) -> FitSpec:
    """The settings a program has in common: members bring their own optimiser and attention."""
    return row.fit.model_copy(update={"optimiser": OptimiserSpec(), "attention": AttentionSpec()})


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _with(spec: DataSpec, **changes: Any) -> DataSpec:
    return DataSpec(**{**spec.model_dump(), **changes})


def _listed(levels: Sequence[float]) -> str:
    return ", ".join(f"{level:g}" for level in levels)
