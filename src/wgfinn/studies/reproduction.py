"""The study of one system from its recipe: data, programs, rows, results, table and figures.

Everything is kept row by row under the output folder. A row that is finished with the same settings is not
trained again, an interrupted program goes on from its checkpoint, and a call that finds nothing left to train
draws tables and figures anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax

from wgfinn._errors import ArtefactError, InputError
from wgfinn.artefact import load_model, save_model
from wgfinn.data import atomic_write
from wgfinn.studies.arms import ARMS
from wgfinn.studies.figures import draw_study
from wgfinn.studies.plan import PlannedRow, Program, group_rows, plan_rows, select_rows
from wgfinn.studies.recipes import Recipe, Scale, as_scale, load_recipe, recipe_names
from wgfinn.studies.results import RowResult, StudyResult, read_json, write_json
from wgfinn.studies.run import StudyData, judge_row, make_data, row_models, train_program
from wgfinn.studies.tables import study_table, summary_table
from wgfinn.training import Record

RESULTS_FILE = "results.json"
TABLE_FILE = "table.md"
SUMMARY_FILE = "summary.md"

Stage = Literal["data", "training", "figures"]


@dataclass(frozen=True)
class Event:
    """What a study is doing: `done` of `total` runs, steps or figures, and what they are."""

    system: str
    stage: Stage
    done: int
    total: int
    message: str


Watcher = Callable[[Event], None]


@dataclass(frozen=True)
class _Folder:
    """Where a study keeps its files."""

    root: Path

    def row(self, key: str) -> Path:
        return self.root / "rows" / f"{key}.json"

    def model(self, key: str) -> Path:
        return self.root / "models" / f"{key}.wgfinn"

    def checkpoint(self, program: Program) -> Path:
        return self.root / "checkpoints" / f"{program.digest()[:16]}.npz"

    @property
    def results(self) -> Path:
        return self.root / RESULTS_FILE

    @property
    def figures(self) -> Path:
        return self.root / "figures"


def reproduce(
    name: str | Recipe,
    *,
    out: Path,
    scale: str = "short",
    noise: Sequence[float] | None = None,
    method: Sequence[str] | None = None,
    seeds: int | None = None,
    watch: Watcher | None = None,
) -> dict[str, Any]:
    """Run the study `name` (a system of the paper, a recipe file or a recipe) into a folder of that name in `out`.

    `noise` and `method` choose rows (all if None); `seeds` defaults to the scale's number. The table, the
    figures and `results.json` hold every row finished so far, also of earlier calls. Ctrl-C ends the training
    at a safe place; the same call goes on from there. Returns the content of `results.json`, whose `pending`
    names the rows that are still missing.
    """
    recipe = name if isinstance(name, Recipe) else load_recipe(name)
    scale = as_scale(scale)
    folder = _Folder(out / (recipe.system if isinstance(name, Recipe) else Path(name).stem))
    rows = plan_rows(recipe, scale, seeds)
    _refuse_other_study(folder, scale, len(rows[0].seeds))
    chosen = select_rows(rows, noise, method)
    report = _reporter(recipe.system, watch)
    # Trainings state their own precision; rollouts, operators and known systems need doubles.
    with jax.enable_x64(True):
        data = make_data(rows[0].data, recipe.levels, lambda done, total: report("data", done, total, "runs"))
        todo = group_rows([row for row in chosen if finished_row(folder, row) is None])
        for number, program in enumerate(todo):
            words = f"program {number + 1} of {len(todo)}: {', '.join(row.key for row in program.rows)}"
            if not _run_program(program, data, folder, words, report):
                break
        result = collect(recipe, scale, rows, data, folder)
        draw_study(
            recipe,
            result,
            {row.key: load_model(folder.model(row.key)) for row in result.rows},
            data,
            folder.figures,
            lambda done, total, what: report("figures", done, total, what),
        )
    return result.model_dump(mode="json")


def reproduce_all(
    *,
    out: Path,
    scale: str = "short",
    names: Sequence[str] | None = None,
    seeds: int | None = None,
    method: Sequence[str] | None = None,
    watch: Watcher | None = None,
) -> dict[str, dict[str, Any]]:
    """All systems of the paper, one after the other, and `summary.md` over those finished so far.

    Noise levels differ between the systems, so they are not chosen here. Stops after a system that was
    interrupted.
    """
    for arm in method or ():
        if arm not in ARMS:
            raise InputError(f"method={arm!r} is unknown; choose from {', '.join(ARMS)}.")
    found: dict[str, dict[str, Any]] = {}
    for name in recipe_names() if names is None else names:
        recipe = load_recipe(name)
        arms = None if method is None else [arm for arm in method if recipe.rows(arm)]
        if arms == []:
            continue
        wanted = {row.key for row in select_rows(plan_rows(recipe, as_scale(scale), seeds), None, arms)}
        found[name] = reproduce(recipe, out=out, scale=scale, seeds=seeds, method=arms, watch=watch)
        _write_text(out / SUMMARY_FILE, summary_table([StudyResult.model_validate(r) for r in found.values()]))
        if wanted & set(found[name]["pending"]):
            break
    return found


def collect(recipe: Recipe, scale: Scale, rows: Sequence[PlannedRow], data: StudyData, folder: _Folder) -> StudyResult:
    """All rows finished so far as one result, written to `results.json` and as a table."""
    done = {row.key: finished_row(folder, row) for row in rows}
    result = StudyResult(
        system=recipe.system,
        title=recipe.title,
        scale=scale,
        seeds=len(rows[0].seeds),
        train_runs=len(next(iter(data.train.values()))),
        test_runs=len(data.test),
        rows=tuple(row for row in done.values() if row is not None),
        pending=tuple(key for key, row in done.items() if row is None),
    )
    write_json(folder.results, result)
    _write_text(folder.root / TABLE_FILE, study_table(result))
    return result


def finished_row(folder: _Folder, row: PlannedRow) -> RowResult | None:
    """The result of this row if it is there, with the same settings and its model file."""
    path = folder.row(row.key)
    if not path.exists() or not folder.model(row.key).exists():
        return None
    try:
        result = read_json(path, RowResult)
    except ArtefactError:
        return None
    return result if result.digest == row.digest() else None


_Report = Callable[[Stage, int, int, str], None]


def _reporter(system: str, watch: Watcher | None) -> _Report:
    def report(stage: Stage, done: int, total: int, message: str) -> None:
        if watch is not None:
            watch(Event(system, stage, done, total, message))

    return report


def _run_program(program: Program, data: StudyData, folder: _Folder, words: str, report: _Report) -> bool:
    """Train and judge the rows of a program and keep each; whether it came to its end."""

    def observe(record: Record) -> None:
        report("training", record.step, record.steps, words)

    report("training", 0, program.fit.training.steps, words)
    checkpoint = folder.checkpoint(program)
    outcome = train_program(program, data, checkpoint, observe)
    if not outcome.finished:
        return False
    n_members = sum(len(row.seeds) for row in program.rows)
    for row, model in zip(program.rows, row_models(program, data, outcome.trained), strict=True):
        save_model(model, folder.model(row.key))
        # The row last: where it is, its model is.
        write_json(folder.row(row.key), judge_row(row, model, data, outcome, n_members))
    checkpoint.unlink(missing_ok=True)
    return True


def _refuse_other_study(folder: _Folder, scale: Scale, seeds: int) -> None:
    """A smoke test must not replace the results of a long run."""
    if not folder.results.exists():
        return
    try:
        found = read_json(folder.results, StudyResult)
    except ArtefactError:
        return
    if (found.scale, found.seeds) != (scale, seeds):
        raise InputError(
            f"{folder.root} holds the results of scale {found.scale!r} with {found.seeds} seeds, but scale "
            f"{scale!r} with {seeds} is asked for; choose another output folder."
        )


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
