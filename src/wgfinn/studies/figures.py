"""The paper's figures from finished rows: which figures a study has, and the numbers each of them shows.

How they look is in `drawing`. Nothing here trains; a figure whose rows are not finished is left out.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wgfinn._device import on_cpu
from wgfinn.artefact import Model
from wgfinn.evaluate import simulate_runs
from wgfinn.models import AbstractField
from wgfinn.studies import drawing
from wgfinn.studies.arms import ARMS
from wgfinn.studies.observables import observe
from wgfinn.studies.potentials import calibrated, calibrated_along, learnt_values, plane, true_values
from wgfinn.studies.recipes import ContourSpec, Recipe
from wgfinn.studies.results import RowResult, StudyResult
from wgfinn.studies.run import INTEGRATOR, StudyData
from wgfinn.systems import System

COMPARED = ("weak", "strong", "strong_fair")
"""The arms that are compared over all noise levels."""
_PAPER_ARMS = ("weak", "strong")

Report = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Shown:
    """The member of a row that figures show, and its rollout of the test run they show."""

    field: AbstractField
    rollout: np.ndarray


@dataclass(frozen=True)
class Gallery:
    """Everything a figure may draw from."""

    recipe: Recipe
    result: StudyResult
    data: StudyData
    shown: Mapping[tuple[str, float], Shown]
    """By arm and noise level."""

    @property
    def times(self) -> np.ndarray:
        return self.data.test.runs[0].t

    @property
    def truth(self) -> np.ndarray:
        return self.data.test.runs[0].x

    def panels(self, x: np.ndarray) -> np.ndarray:
        return observe(self.recipe.figures.panels, self.data.test.names, x)

    def has(self, arms: Sequence[str], levels: Sequence[float]) -> bool:
        return all((arm, level) in self.shown for arm in arms for level in levels)


def shown_index(row: RowResult, which: str) -> int:
    """The member of smallest or of median training loss; those that never had a finite one come last."""
    losses = [np.inf if member.loss is None else member.loss for member in row.members]
    wanted = {"smallest": min, "median": statistics.median_low}[which](losses)
    return losses.index(wanted)


def draw_study(
    recipe: Recipe,
    result: StudyResult,
    models: Mapping[str, Model],
    data: StudyData,
    folder: Path,
    report: Report = lambda done, total, what: None,
) -> list[Path]:
    """Draw every figure whose rows are finished; the paths of those drawn."""
    if not result.rows:
        return []
    gallery = Gallery(recipe, result, data, dict(_choose(recipe, result, models, data)))
    figures = [(name, draw) for name, has, draw in _FIGURES if has(gallery)]
    paths = []
    for number, (name, draw) in enumerate(figures):
        paths.append(folder / f"{name}.png")
        draw(gallery, paths[-1])
        report(number + 1, len(figures), name)
    return paths


def _choose(
    recipe: Recipe, result: StudyResult, models: Mapping[str, Model], data: StudyData
) -> Iterator[tuple[tuple[str, float], Shown]]:
    run = data.test.subset([0])
    for row in result.rows:
        with on_cpu():
            field = models[row.key].field(shown_index(row, recipe.figures.shown_member))
            (rollout,) = simulate_runs(field, run, INTEGRATOR)
        yield (row.arm, row.noise), Shown(field, rollout)


# ---------------------------------------------------------------------------------------------- the figures


def _errors(gallery: Gallery, path: Path) -> None:
    """Error against noise: every seed and the mean (paper, the first figure of each system)."""
    result = gallery.result
    errors = {
        arm: {row.noise: row.errors for row in result.rows if row.arm == arm} for arm in COMPARED if arm in result.arms
    }
    drawing.draw_errors(path, errors, title=_title(gallery))


def _trajectories(gallery: Gallery, path: Path) -> None:
    """One test run at every noise level: truth and the chosen member of each arm."""
    levels = gallery.result.levels
    predictions = {
        level: {
            arm: gallery.panels(gallery.shown[arm, level].rollout) for arm in COMPARED if gallery.has([arm], [level])
        }
        for level in levels
    }
    drawing.draw_trajectories(
        path,
        gallery.times,
        gallery.panels(gallery.truth),
        {f"{100 * level:g} % noise": shown for level, shown in predictions.items() if shown},
        gallery.recipe.figures.panels,
        title=f"{_title(gallery)}\n{_chosen(gallery)}",
    )


def _spotlight(gallery: Gallery, path: Path) -> None:
    """One noise level by itself (paper, section 3: GFINN against WGFINN at 5 %)."""
    level = gallery.recipe.figures.spotlight
    assert level is not None
    arms = [arm for arm in COMPARED if gallery.has([arm], [level])]
    drawing.draw_trajectories(
        path,
        gallery.times,
        gallery.panels(gallery.truth),
        {"": {arm: gallery.panels(gallery.shown[arm, level].rollout) for arm in arms}},
        gallery.recipe.figures.panels,
        title=f"{_title(gallery)}, {100 * level:g} % noise\n{_chosen(gallery)}",
    )


def _weighting(gallery: Gallery, path: Path) -> None:
    """Weighted against unweighted losses at 0 % noise (paper, section 3)."""
    pairs = {
        ARMS[arm].label: {a: gallery.panels(gallery.shown[a, 0.0].rollout) for a in (arm, f"{arm}_unweighted")}
        for arm in _PAPER_ARMS
    }
    drawing.draw_trajectories(
        path,
        gallery.times,
        gallery.panels(gallery.truth),
        pairs,
        gallery.recipe.figures.panels,
        title=f"{_title(gallery)}, noise-free, with and without state weights\n{_chosen(gallery)}",
    )


def _potentials(gallery: Gallery, path: Path) -> None:
    """Calibrated contours on planes, and the calibrated entropy along a rollout (paper, gas containers)."""
    system = gallery.data.system
    assert isinstance(system, System)
    levels = [level for level in gallery.result.levels if gallery.has(_PAPER_ARMS, [level])]
    planes = [_contour_panel(gallery, system, contour, levels) for contour in gallery.recipe.figures.contours]
    true_entropy = true_values(system.entropy, gallery.truth)
    along = {
        level: {arm: _entropy_along(gallery.shown[arm, level], true_entropy) for arm in _PAPER_ARMS} for level in levels
    }
    drawing.draw_potentials(
        path, planes, gallery.times, true_entropy, along, title=f"{_title(gallery)}\n{_chosen(gallery)}"
    )


def _contour_panel(
    gallery: Gallery, system: System, contour: ContourSpec, levels: Sequence[float]
) -> drawing.ContourPanel:
    x, y, states = plane(contour, gallery.data.test.names)
    truth = true_values(getattr(system, contour.of), states)

    def learnt(arm: str, level: float) -> np.ndarray:
        return calibrated(learnt_values(getattr(gallery.shown[arm, level].field, contour.of), states), truth)

    fixed = ", ".join(f"{name} = {value:g}" for name, value in contour.fixed.items())
    return drawing.ContourPanel(
        title=f"{contour.of} at {fixed}",
        x_label=contour.x,
        y_label=contour.y,
        x=x,
        y=y,
        truth=truth,
        learnt={level: {arm: learnt(arm, level) for arm in _PAPER_ARMS} for level in levels},
    )


def _entropy_along(shown: Shown, truth: np.ndarray) -> np.ndarray:
    return calibrated_along(learnt_values(shown.field.entropy, shown.rollout), truth)


def _title(gallery: Gallery) -> str:
    return gallery.recipe.title


def _chosen(gallery: Gallery) -> str:
    which = f"{gallery.recipe.figures.shown_member} training loss of {gallery.result.seeds} seeds"
    return f"test run {gallery.data.test.run_names[0]}; the member of {which}"


def _has_spotlight(gallery: Gallery) -> bool:
    level = gallery.recipe.figures.spotlight
    return level is not None and gallery.has(_PAPER_ARMS, [level])


def _has_weighting(gallery: Gallery) -> bool:
    return gallery.has([*_PAPER_ARMS, *(f"{arm}_unweighted" for arm in _PAPER_ARMS)], [0.0])


def _has_potentials(gallery: Gallery) -> bool:
    some_level = any(gallery.has(_PAPER_ARMS, [level]) for level in gallery.result.levels)
    return bool(gallery.recipe.figures.contours) and some_level


def _has_compared(gallery: Gallery) -> bool:
    return any(arm in COMPARED for arm in gallery.result.arms)


_FIGURES: tuple[tuple[str, Callable[[Gallery], bool], Callable[[Gallery, Path], None]], ...] = (
    ("errors", _has_compared, _errors),
    ("trajectories", _has_compared, _trajectories),
    ("spotlight", _has_spotlight, _spotlight),
    ("weighting", _has_weighting, _weighting),
    ("potentials", _has_potentials, _potentials),
)
"""File name, whether a study has the figure, and how it is drawn."""
