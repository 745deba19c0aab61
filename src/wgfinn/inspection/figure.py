"""One picture of a data set: runs, spectra and noise of each state."""

import os

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from wgfinn._errors import InputError
from wgfinn.data import Run, Trajectories, atomic_write, rate_unit, with_unit
from wgfinn.inspection.report import Inspection

_MOST_STATES, _MOST_RUNS = 12, 20
_DPI = 150
# Okabe and Ito's palette, which survives print and colour blindness.
_RUN, _POWER, _NOISE, _WINDOW = "#0072B2", "#000000", "#D55E00", "#009E73"
_FORMATS = (".png", ".pdf", ".svg")


def inspection_figure(path: str | os.PathLike[str], trajectories: Trajectories, inspection: Inspection) -> None:
    """Draw up to 20 runs and the spectrum of each state (up to 12), and the noise of all of them, into `path`.

    The suffix tells the format: .png, .pdf or .svg.
    """
    if not str(path).lower().endswith(_FORMATS):
        raise InputError(f"{path}: a figure is written as {', '.join(_FORMATS)}; give one of these suffixes.")
    count = min(_MOST_STATES, trajectories.n_states)
    figure = Figure(figsize=(9.0, 1.5 + 1.55 * count), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(count + 1, 2, width_ratios=(1.7, 1), height_ratios=(*[1.0] * count, 0.8))
    for k in range(count):
        runs, spectrum = figure.add_subplot(grid[k, 0]), figure.add_subplot(grid[k, 1])
        _draw_runs(runs, trajectories, k, last=k == count - 1)
        _draw_spectrum(spectrum, inspection, k, last=k == count - 1)
    _draw_noise(figure.add_subplot(grid[count, :]), inspection)
    omitted = "" if count == trajectories.n_states else f"; the first {count} of {trajectories.n_states} states"
    figure.suptitle(f"{len(_shown(trajectories))} of {len(trajectories)} runs{omitted}", fontsize=10)
    with atomic_write(path) as temporary:
        figure.savefig(temporary)


def _shown(trajectories: Trajectories) -> list[Run]:
    """The runs to draw, evenly chosen where there are too many."""
    count = len(trajectories)
    chosen = np.linspace(0, count - 1, min(count, _MOST_RUNS)).round().astype(int)
    return [trajectories.runs[k] for k in chosen]


def _draw_runs(axes: Axes, trajectories: Trajectories, k: int, *, last: bool) -> None:
    _prepare(axes)
    for run in _shown(trajectories):
        # More points than the picture has columns show nothing more.
        thin = -(-run.t.size // 4000)
        axes.plot(run.t[::thin], run.x[::thin, k], color=_RUN, linewidth=0.6, alpha=0.6)
    axes.set_ylabel(_label(trajectories.names[k], trajectories.units[k]), fontsize=9)
    if last:
        axes.set_xlabel(_label("time", trajectories.time_unit), fontsize=9)


def _draw_spectrum(axes: Axes, inspection: Inspection, k: int, *, last: bool) -> None:
    _prepare(axes)
    spectrum = inspection.spectrum
    frequency, power = spectrum.frequency[1:], spectrum.power[1:, k]
    if power.size and power.max() > 0:
        axes.loglog(frequency, np.maximum(power, power.max() * 1e-16), color=_POWER, linewidth=1.0, label="power")
        floor = spectrum.floor[k]
        if floor > power.max() * 1e-16:
            axes.axhline(floor, color=_NOISE, linewidth=1.2, linestyle="--", label="noise")
        fastest = inspection.states[k].fastest_period
        if fastest is not None:
            axes.axvline(1 / fastest, color=_WINDOW, linewidth=1.2, linestyle=":", label="fastest period")
    if k == 0 and axes.lines:  # a state that never moves has no spectrum
        axes.legend(fontsize=7, frameon=False, loc="upper right")
    if k == 0:
        axes.set_title("power spectrum", fontsize=9)
    if last:
        axes.set_xlabel(_label("frequency", rate_unit(inspection.time_unit)), fontsize=9)


def _draw_noise(axes: Axes, inspection: Inspection) -> None:
    _prepare(axes)
    values = [0.0 if s.noise_percent is None else s.noise_percent for s in inspection.states]
    bars = axes.bar(range(len(values)), values, color=_NOISE, width=0.6)
    if len(values) <= 2 * _MOST_STATES:
        axes.bar_label(bars, [f"{v:.2g} %" for v in values], fontsize=7, padding=1)
        axes.set_xticks(range(len(values)), [s.name for s in inspection.states], fontsize=8)
    axes.set_ylabel("noise\n[% of std]", fontsize=9)
    axes.margins(y=0.25)
    axes.set_ylim(bottom=0)


def _label(name: str, unit: str) -> str:
    """Text as it stands: a dollar sign is no formula."""
    return with_unit(name, unit).replace("$", r"\$")


def _prepare(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
