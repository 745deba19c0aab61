"""Section 4's four panels as one figure, drawn from the numbers of `experiments` and from nothing else."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# One colour per noise level in both panels that vary it, dark to light so that print keeps the order.
_LEVEL_COLOURS = ("#440154", "#31688e", "#1f9e89", "#e08a00")
_LEVEL_MARKS = ("o", "s", "D", "^")
_ABOVE, _BELOW = "#c1272d", "#0b57a4"
_STRONG, _WEAK = "#b35900", "#00796b"
_REFERENCE = "#333333"


def draw_panels(panels: dict[str, Any]) -> Figure:
    """The paper's strong-form figure above, its weak-form figure below."""
    figure = Figure(figsize=(7.4, 6.8), layout="constrained")
    grid = figure.subplots(2, 2)
    _draw_strong_by_step(grid[0, 0], panels["strong_by_step"])
    _draw_sign_by_step(grid[0, 1], panels["sign_by_step"])
    _draw_weak_by_support(grid[1, 0], panels["weak_by_support"])
    _draw_both_by_noise(grid[1, 1], panels["both_by_noise"])
    rate = panels["strong_by_step"]["rate"]
    note = rf"$\lambda = {rate:g}$. Marks: ten simulations at each setting. Solid lines: mean of 1,000."
    figure.supxlabel(note, fontsize=8)
    return figure


def _prepare(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """Logarithmic axes and the words around them."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title, fontsize=8.5, loc="left")
    axes.set_xlabel(x_label, fontsize=8)
    axes.set_ylabel(y_label, fontsize=8)
    axes.tick_params(labelsize=7.5)
    axes.grid(visible=True, which="major", linewidth=0.4, alpha=0.35)
    axes.set_axisbelow(True)


def _draw_levels(axes: Axes, x: list[float], panel: dict[str, Any]) -> None:
    """Scattered runs and the mean, one colour and mark per noise level."""
    for i, sigma in enumerate(panel["sigma"]):
        colour = _LEVEL_COLOURS[i]
        shown = np.asarray(panel["shown"][i])
        axes.plot(
            np.repeat(x, shown.shape[1]),
            shown.ravel(),
            _LEVEL_MARKS[i],
            color=colour,
            markersize=2.2,
            alpha=0.35,
            markeredgewidth=0,
        )
        label = rf"$\sigma = 10^{{{round(np.log10(sigma))}}}$"
        axes.plot(x, panel["mean"][i], color=colour, linewidth=1.4, label=label)


def _draw_strong_by_step(axes: Axes, panel: dict[str, Any]) -> None:
    _prepare(
        axes,
        "(a) strong form, error against step",
        r"step $\Delta t$",
        r"relative error $|\theta^*_{\mathrm{strong}} - \lambda|\,/\,|\lambda|$",
    )
    _draw_levels(axes, panel["dt"], panel)
    axes.plot(panel["dt"], panel["integration"], "--", color=_REFERENCE, linewidth=1.1, label="integration error")
    axes.set_ylim(1e-5, 3e4)
    axes.legend(fontsize=7, loc="upper right", ncols=2, framealpha=0.9)


def _draw_sign_by_step(axes: Axes, panel: dict[str, Any]) -> None:
    _prepare(
        axes,
        r"(b) strong form, sign of the error, $\sigma = 10^{-2}$",
        r"step $\Delta t$",
        r"$\Delta t\,|\theta^*_{\mathrm{strong}} - \lambda|$",
    )
    shown = np.asarray(panel["shown"])
    dt = np.repeat(panel["dt"], shown.shape[1]).reshape(shown.shape)
    above = shown > 0.0
    for chosen, colour, mark, label in (
        (above, _ABOVE, "^", r"$\theta^* > \lambda$"),
        (~above, _BELOW, "v", r"$\theta^* < \lambda$"),
    ):
        axes.plot(
            dt[chosen],
            np.abs(shown[chosen]),
            mark,
            color=colour,
            markersize=3,
            alpha=0.6,
            markeredgewidth=0,
            label=label,
        )
    axes.plot(panel["dt"], panel["mean"], color="#777777", linewidth=1.4, label="mean")
    axes.axhline(abs(panel["limit"]), color=_REFERENCE, linestyle="--", linewidth=1.1, label="limit, theorem 4.1")
    axes.axvline(panel["recovery_step"], color=_REFERENCE, linestyle=":", linewidth=1.1, label="expected sign change")
    axes.legend(fontsize=7, loc="upper left", framealpha=0.9)


def _draw_weak_by_support(axes: Axes, panel: dict[str, Any]) -> None:
    _prepare(
        axes,
        r"(c) weak form, error against support, $x(t^*) = 1$",
        "support $S$",
        r"relative error $|\theta^*_{\mathrm{weak}} - \lambda|\,/\,|\lambda|$",
    )
    _draw_levels(axes, panel["support"], panel)
    for i, curve in enumerate(panel["first_order"]):
        label = "first order in $\\sigma$" if i == 0 else None
        axes.plot(panel["support"], curve, "--", color=_REFERENCE, linewidth=0.8, label=label)
    axes.legend(fontsize=7, loc="lower left", framealpha=0.9)


def _draw_both_by_noise(axes: Axes, panel: dict[str, Any]) -> None:
    _prepare(
        axes,
        rf"(d) both forms, $\Delta t = {panel['dt']:g}$, $S = {panel['support']:g}$",
        r"noise level $\sigma$",
        r"relative error $|\theta^* - \lambda|\,/\,|\lambda|$",
    )
    for name, colour, mark in (("strong", _STRONG, "s"), ("weak", _WEAK, "o")):
        shown = np.asarray(panel[f"{name}_shown"])
        axes.plot(
            np.repeat(panel["sigma"], shown.shape[1]),
            shown.ravel(),
            mark,
            color=colour,
            markersize=2.4,
            alpha=0.35,
            markeredgewidth=0,
        )
        axes.plot(panel["sigma"], panel[f"{name}_mean"], color=colour, linewidth=1.4, label=f"{name} form")
    axes.axhline(panel["integration"], color=_REFERENCE, linestyle="--", linewidth=1.1, label="integration error")
    axes.legend(fontsize=7, loc="upper left", framealpha=0.9)
