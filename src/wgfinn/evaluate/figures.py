"""Figures from numbers, written to files; nothing here computes a model.

Truth is black, measurements are grey dots, weak-form models blue and solid, strong-form models vermilion and
dashed, others from the rest of Okabe and Ito's palette, which survives print and colour blindness.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wgfinn._errors import InputError
from wgfinn.data import atomic_write, with_unit
from wgfinn.evaluate.calibration import calibrate_anchored

Path = str | os.PathLike[str]

_DPI = 150
# A model that follows the truth leaves a rim of it to be seen.
_TRUTH_WIDTH, _MODEL_WIDTH, _THIN = 2.5, 1.4, 0.6
_TRUTH, _DATA = "#000000", "#8c8c8c"
_WEAK, _STRONG = ("#0072B2", "-"), ("#D55E00", (0, (5, 1.5)))
_OTHERS = (
    ("#009E73", (0, (3, 1, 1, 1))),
    ("#CC79A7", "-"),
    ("#56B4E9", (0, (5, 1.5))),
    ("#E69F00", (0, (3, 1, 1, 1))),
)
_MEMBER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")

_Style = tuple[str, Any]


def trajectory_figure(
    path: Path,
    t: Any,
    truth: Any,
    predictions: Mapping[str, Any],
    *,
    noisy: Any = None,
    names: Sequence[str] | None = None,
    time_unit: str = "",
    title: str = "",
) -> None:
    """One panel a state: the truth, the measurements and what models predict.

    `t` is (time,); `truth`, `noisy` and each prediction are (time, state). A prediction may be a list of
    such arrays: the first is the model that is served, drawn thick, the others are further members of its
    ensemble, drawn thin. The vertical range is that of truth and measurements, so that a model that
    diverges leaves its panel instead of flattening the others; values that are not finite are not drawn.
    The suffix of `path` tells the format.
    """
    t = _times(t)
    truth = _states("truth", truth, t)
    noisy = None if noisy is None else _states("noisy", noisy, t, truth.shape[1])
    names = _state_names(names, truth.shape[1])
    models = {label: _members(label, given, t, truth.shape[1]) for label, given in predictions.items()}
    styles = _styles(models)

    columns = 2 if len(names) == 4 else min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(1.0 + 2.9 * columns, 1.1 + 2.05 * rows), dpi=_DPI, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for j, (axes, name) in enumerate(zip(grid.flat, names, strict=False)):
        _prepare(axes, name)
        shown = truth[:, j] if noisy is None else np.concatenate([truth[:, j], noisy[:, j]])
        low, high = _range(shown)
        axes.set_ylim(low, high)
        if noisy is not None:
            axes.plot(t, noisy[:, j], ".", color=_DATA, markersize=2.5, markeredgewidth=0, zorder=1)
        axes.plot(t, truth[:, j], color=_TRUTH, linewidth=_TRUTH_WIDTH, zorder=2)
        for label, (served, *others) in models.items():
            for member in others:
                _draw(axes, t, member[:, j], styles[label], _THIN, alpha=0.45, zorder=3)
            _draw(axes, t, served[:, j], styles[label], _MODEL_WIDTH, zorder=4)
    _finish_grid(grid, len(names), time_unit)
    _legend_below(figure, _legend(models, styles, noisy=noisy is not None))
    _write(figure, path, title)


def energy_entropy_figure(
    path: Path,
    t: Any,
    energies: Mapping[str, Any],
    entropies: Mapping[str, Any],
    *,
    truth_energy: Any = None,
    truth_entropy: Any = None,
    energy_calibration: Mapping[str, tuple[float, float]] | None = None,
    time_unit: str = "",
    title: str = "",
) -> None:
    """Learnt energy and entropy along one trajectory, all arrays (time,).

    Where the true entropy is given, each learnt one is calibrated against it, anchored at the first time
    (paper, appendix); otherwise it is shifted to start at 0. The energy is constant along a trajectory, so
    that its scale cannot be found there: `energy_calibration` holds the `(scale, offset)` of each model as
    `calibrate` finds them over many states. Without it the learnt energy keeps its own units and is shifted
    to the first true value, or to 0.
    """
    t = _times(t)
    learnt_energies = {label: _values(label, given, t) for label, given in energies.items()}
    learnt_entropies = {label: _values(label, given, t) for label, given in entropies.items()}
    true_energy = None if truth_energy is None else _values("truth_energy", truth_energy, t)
    true_entropy = None if truth_entropy is None else _values("truth_entropy", truth_entropy, t)
    styles = _styles(learnt_energies | learnt_entropies)
    known = {} if energy_calibration is None else energy_calibration

    figure = Figure(figsize=(8.6, 3.3), dpi=_DPI, layout="constrained")
    grid = figure.subplots(1, 2, squeeze=False)
    shown_energies = {
        label: _affine(values, *known[label]) if label in known else _shifted(values, true_energy)
        for label, values in learnt_energies.items()
    }
    shown_entropies = {label: _anchored(values, true_entropy) for label, values in learnt_entropies.items()}
    # A conserved energy, drawn to its own range, would be a picture of rounding.
    starts = [true_energy[:1]] if true_energy is not None else [v[:1] for v in learnt_energies.values()]
    # Beside the truth there must be room for models whose calibration is some per cent off.
    narrowest = (0.02 if true_energy is None else 0.2) * max(map(_largest, starts), default=0.0)
    own_units = true_energy is not None and not known.keys() >= learnt_energies.keys()
    name = "energy (learnt: own units)" if own_units else "energy"
    _draw_potential(grid[0, 0], t, shown_energies, true_energy, styles, name, narrowest)
    _draw_potential(grid[0, 1], t, shown_entropies, true_entropy, styles, "entropy", 0.0)
    _finish_grid(grid, 2, time_unit)
    has_truth = true_energy is not None or true_entropy is not None
    _legend_below(figure, _legend(learnt_energies | learnt_entropies, styles, noisy=False, truth=has_truth))
    _write(figure, path, title)


def training_figure(path: Path, records: Iterable[Mapping[str, Any]], *, title: str = "") -> None:
    """Loss against step: thin for the present weights, thick for the best so far.

    Of many members only the best losses are drawn, in grey, and the member that ends lowest in full.

    A record is a check: `{"step": ..., "members": [{"name", "loss", "best_loss"}, ...]}`. Losses that are not
    finite and positive are not drawn.
    """
    curves = _loss_curves(records)
    if not curves:
        raise InputError("there are no training records to draw; give at least one with a step and members.")
    figure = Figure(figsize=(6.6, 3.6), dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    _prepare(axes, "loss")
    axes.set_xlabel("step", fontsize=9)
    axes.set_yscale("log")
    draw = _draw_members if len(curves) <= len(_MEMBER_COLOURS) else _draw_crowd
    handles = draw(axes, curves)
    figure.legend(handles=handles, loc="outside right center", fontsize=8, frameon=False)
    _write(figure, path, title)


# ------------------------------------------------------------------------------------------- what was given


def _times(t: Any) -> np.ndarray:
    times = np.asarray(t, np.float64)
    if times.ndim != 1 or times.size < 2:
        raise InputError(f"t must be (time,) with at least 2 times, but has shape {times.shape}.")
    return times


def _states(what: str, given: Any, t: np.ndarray, n_states: int | None = None) -> np.ndarray:
    x = np.asarray(given, np.float64)
    if x.ndim != 2 or len(x) != t.size or x.shape[1] != (n_states or x.shape[1]):
        raise InputError(f"{what} must be ({t.size}, {n_states or 'state'}), but has shape {x.shape}.")
    return x


def _values(what: str, given: Any, t: np.ndarray) -> np.ndarray:
    values = np.asarray(given, np.float64)
    if values.shape != t.shape:
        raise InputError(f"{what} must be ({t.size},), one number a time, but has shape {values.shape}.")
    return values


def _members(label: str, given: Any, t: np.ndarray, n_states: int) -> list[np.ndarray]:
    arrays = list(given) if isinstance(given, list | tuple) or np.ndim(given) == 3 else [given]
    if not arrays:
        raise InputError(f"the prediction {label!r} is an empty list; give at least one (time, state) array.")
    return [_states(f"the prediction {label!r}", array, t, n_states) for array in arrays]


def _state_names(names: Sequence[str] | None, n_states: int) -> tuple[str, ...]:
    found = tuple(f"x{j + 1}" for j in range(n_states)) if names is None else tuple(names)
    if len(found) != n_states:
        raise InputError(f"received {len(found)} names for {n_states} states; give one for each.")
    return found


def _loss_curves(records: Iterable[Mapping[str, Any]]) -> dict[str, tuple[np.ndarray, ...]]:
    points: dict[str, list[tuple[float, float, float]]] = {}
    for record in records:
        for member in record.get("members", ()):
            point = (float(record["step"]), _loss(member["loss"]), _loss(member["best_loss"]))
            points.setdefault(str(member["name"]), []).append(point)
    return {name: tuple(np.array(rows).T) for name, rows in points.items()}


def _loss(value: Any) -> float:
    # None is what JSON makes of a loss that is not a number.
    return float(value) if value is not None and np.isfinite(value) and value > 0 else np.nan


# ------------------------------------------------------------------------------------------ what it becomes


def _shifted(values: np.ndarray, truth: np.ndarray | None) -> np.ndarray:
    return _affine(values, 1.0, (0.0 if truth is None else truth[0]) - values[0])


def _anchored(values: np.ndarray, truth: np.ndarray | None) -> np.ndarray:
    """Calibrated over the times at which both are finite; shifted where there is no truth."""
    if truth is None:
        return _shifted(values, None)
    finite = np.isfinite(values) & np.isfinite(truth)
    if not finite[0]:
        return np.full_like(values, np.nan)
    scale, offset = calibrate_anchored(values[finite], truth[finite])
    return _affine(values, scale, offset)


def _affine(values: np.ndarray, scale: float, offset: float) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return scale * values + offset


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))  # 0 for none


def _range(values: np.ndarray, at_least: float = 0.0) -> tuple[float, float]:
    """Vertical limits around the finite values, with a margin, and no narrower than `at_least`."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return -1.0, 1.0
    low, high = float(np.min(finite)), float(np.max(finite))
    # A constant at rounding level is drawn as a constant.
    span = max(high - low, at_least, 1e-9 * max(abs(low), abs(high)))
    span = span if span > 0 else 1.0
    middle = low / 2 + high / 2
    return middle - 0.58 * span, middle + 0.58 * span


def _draw_potential(
    axes: Axes,
    t: np.ndarray,
    learnt: Mapping[str, np.ndarray],
    truth: np.ndarray | None,
    styles: Mapping[str, _Style],
    what: str,
    narrowest: float,
) -> None:
    _prepare(axes, what if truth is not None else f"{what}, from its start")
    if truth is not None:
        axes.plot(t, truth, color=_TRUTH, linewidth=_TRUTH_WIDTH, zorder=2)
        # A model may widen the panel up to three times the range of the truth, and leaves it beyond.
        low, high = _range(truth, narrowest)
        low, high = 2 * low - high, 2 * high - low
        decisive = [truth]
    else:
        # All start at 0; one that goes five times as far as the calmest leaves the panel.
        calmest = min((_largest(values) for values in learnt.values()), default=0.0)
        high = 5 * max(calmest, narrowest)
        low, decisive = -high, [np.zeros(1)]
    decisive += [np.clip(values, low, high) for values in learnt.values()]
    axes.set_ylim(*_range(np.concatenate(decisive), narrowest))
    for label, values in learnt.items():
        _draw(axes, t, values, styles[label], _MODEL_WIDTH, zorder=4)


def _draw(axes: Axes, t: np.ndarray, values: np.ndarray, style: _Style, width: float, **how: Any) -> None:
    """A line that leaves the panel where its values do, with gaps where they are not finite."""
    low, high = axes.get_ylim()
    # Far outside, the exact place does not matter, but the renderer overflows.
    inside = np.clip(values, low - 5 * (high - low), high + 5 * (high - low))
    colour, dashes = style
    axes.plot(t, np.where(np.isfinite(values), inside, np.nan), color=colour, linestyle=dashes, linewidth=width, **how)


_Curves = dict[str, tuple[np.ndarray, ...]]


def _draw_member(axes: Axes, name: str, curve: tuple[np.ndarray, ...], colour: str) -> Line2D:
    steps, losses, bests = curve
    mark = "." if len(steps) < 20 else ""
    axes.plot(steps, losses, mark + "-", color=colour, linewidth=0.7, markersize=4, alpha=0.5, zorder=3)
    axes.plot(steps, bests, color=colour, linewidth=1.7, zorder=4)
    return Line2D([], [], color=colour, linewidth=1.7, label=_plain(name))


def _draw_members(axes: Axes, curves: _Curves) -> list[Line2D]:
    coloured = zip(_MEMBER_COLOURS, curves.items(), strict=False)
    return [
        *(_draw_member(axes, name, curve, colour) for colour, (name, curve) in coloured),
        Line2D([], [], color=_DATA, linewidth=0.7, label="present"),
        Line2D([], [], color=_DATA, linewidth=1.7, label="best so far"),
    ]


def _draw_crowd(axes: Axes, curves: _Curves) -> list[Line2D]:
    lowest = min(curves, key=lambda name: np.min(np.nan_to_num(curves[name][2], nan=np.inf)))
    for name, (steps, _, bests) in curves.items():
        if name != lowest:
            axes.plot(steps, bests, color=_DATA, linewidth=0.8, alpha=0.7, zorder=2)
    return [
        _draw_member(axes, f"{lowest}, best so far", curves[lowest], _WEAK[0]),
        Line2D([], [], color=_WEAK[0], linewidth=0.7, alpha=0.5, label=_plain(f"{lowest}, present")),
        Line2D([], [], color=_DATA, linewidth=0.8, label=f"{len(curves) - 1} other members"),
    ]


# ------------------------------------------------------------------------------------------------- dressing


def _styles(labels: Iterable[str]) -> dict[str, _Style]:
    """A colour and a line for each model; names that speak of the weak or strong form get theirs."""
    others = cycle(_OTHERS)
    taken: set[str] = set()
    styles: dict[str, _Style] = {}
    for label in labels:
        style = _form(label)
        if style is None or style[0] in taken:
            style = next(others)
        taken.add(style[0])
        styles[label] = style
    return styles


def _form(label: str) -> _Style | None:
    lower = label.lower()
    if "weak" in lower or "wgfinn" in lower:
        return _WEAK
    if "strong" in lower or "gfinn" in lower:
        return _STRONG
    return None


def _legend(
    labels: Mapping[str, Any], styles: Mapping[str, _Style], *, noisy: bool, truth: bool = True
) -> list[Line2D]:
    handles = [Line2D([], [], color=_TRUTH, linewidth=_TRUTH_WIDTH, label="ground truth")] if truth else []
    if noisy:
        handles.append(Line2D([], [], color=_DATA, marker=".", linestyle="", label="noisy data"))
    for label, given in labels.items():
        served = given[0] if isinstance(given, list) else given
        text = _plain(label) + ("" if np.all(np.isfinite(served)) else " (diverges)")
        colour, dashes = styles[label]
        handles.append(Line2D([], [], color=colour, linestyle=dashes, linewidth=_MODEL_WIDTH, label=text))
    if any(isinstance(given, list) and len(given) > 1 for given in labels.values()):
        handles.append(Line2D([], [], color=_DATA, linewidth=_THIN, label="members"))
    return handles


def _legend_below(figure: Figure, handles: list[Line2D]) -> None:
    """A legend under the panels, in as many rows as the width of the figure asks for."""
    columns = max(2, int(figure.get_figwidth() / 1.7))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def _plain(text: str) -> str:
    """Text as it stands: a dollar sign in a name is no formula, a leading underscore no reason to hide it."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _prepare(axes: Axes, name: str) -> None:
    axes.set_ylabel(_plain(name), fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.4, alpha=0.35)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _finish_grid(grid: np.ndarray, used: int, time_unit: str) -> None:
    """Hide the panels without a state and name the time under the last row."""
    rows, columns = grid.shape
    short = used % columns > 0
    for k, axes in enumerate(grid.flat):
        last = k >= (rows - 1) * columns
        axes.set_visible(k < used)
        # Numbers at every panel where the last row is short: all rows keep one height and distance.
        axes.tick_params(labelbottom=last or short)
        if last:
            axes.set_xlabel(_plain(with_unit("time", time_unit)), fontsize=9)


def _write(figure: Figure, path: Path, title: str) -> None:
    if title:
        figure.suptitle(_plain(title), fontsize=10)
    canvas = FigureCanvasAgg(figure)
    suffix = os.path.splitext(os.fspath(path))[1].lower().lstrip(".")
    if suffix not in canvas.get_supported_filetypes():
        allowed = ", ".join(sorted(canvas.get_supported_filetypes()))
        raise InputError(f"{path}: cannot draw a figure with suffix {suffix!r}; known are {allowed}.")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=suffix, dpi=_DPI)
