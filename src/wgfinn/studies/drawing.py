"""How a study's figures look. Numbers in, one PNG out; nothing here computes a model.

One colour and line an arm in every figure (Okabe and Ito's palette): truth black, WGFINN blue and solid, GFINN
as printed vermilion and dashed, GFINN with the fair schedule green, losses without weights in the lighter
tone of their method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from wgfinn.data import atomic_write
from wgfinn.studies.arms import ARMS

_DPI = 160
_TRUTH = "#000000"
_TRUTH_WIDTH, _MODEL_WIDTH = 2.6, 1.4


@dataclass(frozen=True)
class _Style:
    colour: str
    dashes: Any
    mark: str


_STYLES: dict[str, _Style] = {
    "weak": _Style("#0072B2", "-", "o"),
    "strong": _Style("#D55E00", (0, (5, 1.5)), "s"),
    "strong_fair": _Style("#009E73", (0, (3, 1, 1, 1)), "D"),
    "weak_unweighted": _Style("#56B4E9", (0, (5, 1.5)), "o"),
    "strong_unweighted": _Style("#E69F00", (0, (3, 1, 1, 1)), "s"),
}

_HIGHEST_ERROR = 10.0
"""Errors above this (1,000 %) and diverged members are marked at the upper edge."""

_BELOW: dict[str, Any] = {"loc": "outside lower center", "handlelength": 3.2, "fontsize": 8.5, "frameon": False}


# ------------------------------------------------------------------------------------- error against noise


def draw_errors(path: Path, errors: Mapping[str, Mapping[float, Sequence[float]]], *, title: str) -> None:
    """`errors[arm][noise]` holds one error a seed: a mark each, and a line through the means."""
    levels = sorted({level for of_arm in errors.values() for level in of_arm})
    finite = [e for of_arm in errors.values() for seeds in of_arm.values() for e in seeds if e < _HIGHEST_ERROR]
    top, bottom = (max(finite, default=1.0) * 2.2, min(finite, default=0.1) / 2)
    lost = any(e >= _HIGHEST_ERROR for of_arm in errors.values() for seeds in of_arm.values() for e in seeds)
    figure = Figure(figsize=(5.2, 4.0), dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    _prepare(axes, "relative $\\ell_2$ error on clean test runs")
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    # Plain numbers, and between the decades only 2 and 5.
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))
    axes.tick_params(which="minor", labelsize=7)
    axes.set_xlabel("noise in the training data", fontsize=9)
    axes.set_xticks(range(len(levels)), [f"{100 * level:g} %" for level in levels])
    axes.set_xlim(-0.5, len(levels) - 0.5)
    for k, (arm, of_arm) in enumerate(errors.items()):
        # Side by side, so that no arm hides another.
        offset = 0.13 * (k - (len(errors) - 1) / 2)
        _draw_arm_errors(axes, _STYLES[arm], [of_arm.get(level, ()) for level in levels], offset, top)
    handles = [_model_handle(arm, mark=_STYLES[arm].mark) for arm in errors]
    handles.append(Line2D([], [], color="0.4", marker="o", markersize=4, linestyle="", alpha=0.45, label="one seed"))
    handles.append(Line2D([], [], color="0.4", linewidth=1.6, label="mean over seeds"))
    if lost:
        name = f"diverged, or above {_HIGHEST_ERROR:g}"
        handles.append(Line2D([], [], color="0.4", marker="^", linestyle="", label=name))
    figure.legend(handles=handles, ncols=3, **_BELOW)
    _write(figure, path, title)


def _draw_arm_errors(axes: Axes, style: _Style, by_level: Sequence[Sequence[float]], offset: float, top: float) -> None:
    for position, seeds in enumerate(by_level):
        values = np.asarray(seeds, np.float64)
        sound = values < _HIGHEST_ERROR
        x = np.full(values.shape, position + offset)
        axes.plot(x[sound], values[sound], style.mark, color=style.colour, markersize=5, alpha=0.45, markeredgewidth=0)
        if not sound.all():
            edge = top / 1.12
            axes.plot(position + offset, edge, "^", color=style.colour, markersize=6, markeredgewidth=0)
            count = {"xytext": (5, -4), "textcoords": "offset points", "fontsize": 7.5, "color": style.colour}
            axes.annotate(str(int((~sound).sum())), (position + offset, edge), **count)
    # A diverged member makes the mean infinite; the line has a gap there.
    means = np.array([np.mean(seeds) if len(seeds) else np.nan for seeds in by_level])
    means = np.where(means < _HIGHEST_ERROR, means, np.nan)
    x = np.arange(len(by_level)) + offset
    axes.plot(x, means, linestyle=style.dashes, color=style.colour, linewidth=1.6)
    axes.plot(x, means, "_", color=style.colour, markersize=11, markeredgewidth=1.8)


# -------------------------------------------------------------------------------------------- trajectories


def draw_trajectories(
    path: Path,
    t: np.ndarray,
    truth: np.ndarray,
    predictions: Mapping[str, Mapping[str, np.ndarray]],
    panels: Sequence[str],
    *,
    title: str,
) -> None:
    """A row of panels for each entry of `predictions` (by its name), a column for each quantity.

    `truth` and each prediction are `(time, panel)`. The vertical range is that of the truth, with room for a
    model that is off; one that is far off leaves its panel.
    """
    rows, columns = len(predictions), len(panels)
    figure = Figure(figsize=(0.7 + 2.75 * columns, 0.9 + 1.95 * rows), dpi=_DPI, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for row, (name, of_arms) in zip(grid, predictions.items(), strict=True):
        for j, (axes, panel) in enumerate(zip(row, panels, strict=True)):
            _prepare(axes, panel)
            if name:
                axes.set_title(name, fontsize=8.5, loc="left")
            _draw_curves(axes, t, truth[:, j], {arm: x[:, j] for arm, x in of_arms.items()})
    for axes in grid[-1]:
        axes.set_xlabel("time", fontsize=9)
    figure.legend(handles=_curve_handles(predictions.values()), ncols=5, **_BELOW)
    _write(figure, path, title)


def _draw_curves(axes: Axes, t: np.ndarray, truth: np.ndarray, models: Mapping[str, np.ndarray]) -> None:
    low, high = _range_with_room(truth, models.values())
    axes.set_ylim(low, high)
    axes.plot(t, truth, color=_TRUTH, linewidth=_TRUTH_WIDTH, zorder=2)
    for arm, values in models.items():
        style = _STYLES[arm]
        # Far outside, the exact place does not matter, but the renderer overflows.
        inside = np.clip(values, low - 5 * (high - low), high + 5 * (high - low))
        shown = np.where(np.isfinite(values), inside, np.nan)
        axes.plot(t, shown, color=style.colour, linestyle=style.dashes, linewidth=_MODEL_WIDTH, zorder=3)


def _range_with_room(truth: np.ndarray, models: Any) -> tuple[float, float]:
    """Limits around the truth that a model may widen by one range of the truth on either side."""
    low, high = float(np.min(truth)), float(np.max(truth))
    span = high - low if high > low else max(abs(high), 1.0)
    everything = np.concatenate([truth, *(np.clip(x[np.isfinite(x)], low - span, high + span) for x in models)])
    low, high = float(np.min(everything)), float(np.max(everything))
    margin = 0.06 * max(high - low, span)
    return low - margin, high + margin


# ---------------------------------------------------------------------------------------------- potentials


@dataclass(frozen=True)
class ContourPanel:
    """A potential on a plane: the truth, and what each arm learnt at each noise level, calibrated."""

    title: str
    x_label: str
    y_label: str
    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    learnt: Mapping[float, Mapping[str, np.ndarray]]


def draw_potentials(
    path: Path,
    planes: Sequence[ContourPanel],
    t: np.ndarray,
    true_entropy: np.ndarray,
    along: Mapping[float, Mapping[str, np.ndarray]],
    *,
    title: str,
) -> None:
    """A column a noise level: contours on each plane, and below the entropy along a rollout."""
    levels = list(along)
    rows = len(planes) + 1
    figure = Figure(figsize=(1.0 + 2.9 * len(levels), 0.9 + 2.45 * rows), dpi=_DPI, layout="constrained")
    grid = figure.subplots(rows, len(levels), squeeze=False)
    for row, panel in zip(grid, planes, strict=False):
        for axes, level in zip(row, levels, strict=True):
            _draw_contours(axes, panel, panel.learnt[level])
            axes.set_title(f"{panel.title}\n{100 * level:g} % noise", fontsize=8.5, loc="left")
    for axes, level in zip(grid[-1], levels, strict=True):
        _prepare(axes, "entropy")
        axes.set_xlabel("time", fontsize=9)
        axes.set_title(f"entropy along a rollout\n{100 * level:g} % noise", fontsize=8.5, loc="left")
        _draw_curves(axes, t, true_entropy, along[level])
    figure.legend(handles=_curve_handles(along.values()), ncols=5, **_BELOW)
    _write(figure, path, title)


def _draw_contours(axes: Axes, panel: ContourPanel, learnt: Mapping[str, np.ndarray]) -> None:
    """The same levels for the truth and every model; the levels are those of the truth."""
    _prepare(axes, panel.y_label)
    axes.set_xlabel(panel.x_label, fontsize=9)
    # Quantiles: equal steps in value would crowd where the energy is steep and leave the rest empty.
    levels = np.unique(np.quantile(panel.truth, np.linspace(0.08, 0.92, 6)))
    found = axes.contour(panel.x, panel.y, panel.truth, levels, colors=_TRUTH, linewidths=1.8, linestyles="-")
    axes.clabel(found, fontsize=6.5, fmt="%.3g")
    for arm, values in learnt.items():
        style = _STYLES[arm]
        # No line at a level that the model never reaches on this plane.
        reached = levels[(levels > np.min(values)) & (levels < np.max(values))]
        if np.all(np.isfinite(values)) and reached.size:
            how = {"colors": style.colour, "linewidths": 1.2, "linestyles": [style.dashes]}
            axes.contour(panel.x, panel.y, values, reached, **how)


# ------------------------------------------------------------------------------------------------ dressing


def _curve_handles(groups: Any) -> list[Line2D]:
    arms = [arm for arm in ARMS if any(arm in group for group in groups)]
    truth = Line2D([], [], color=_TRUTH, linewidth=_TRUTH_WIDTH, label="ground truth")
    return [truth, *(_model_handle(arm) for arm in arms)]


def _model_handle(arm: str, mark: str = "") -> Line2D:
    style = _STYLES[arm]
    return Line2D(
        [],
        [],
        color=style.colour,
        linestyle=style.dashes,
        linewidth=_MODEL_WIDTH,
        marker=mark,
        markersize=5,
        markeredgewidth=0,
        label=ARMS[arm].label,
    )


def _prepare(axes: Axes, name: str) -> None:
    axes.set_ylabel(name, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.4, alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _write(figure: Figure, path: Path, title: str) -> None:
    figure.suptitle(title, fontsize=9.5)
    FigureCanvasAgg(figure)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=_DPI)
