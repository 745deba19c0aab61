"""Draws docs/figures/<system>.png, one figure a system: `python docs/figures_systems.py`."""

from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from wgfinn import systems

FOLDER = Path(__file__).parent / "figures"
COLOURS = ("#1b6ca8", "#d1495b", "#3c887e", "#e0a030", "#6b4e9b")

plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})


def save(figure: plt.Figure, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.png", dpi=130)
    plt.close(figure)


def gas_containers() -> None:
    system = systems.make("gas_containers")
    t, x = systems.generate(system, trajectories=5, seed=0).clean.stacked()
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), layout="constrained")
    for run, colour in zip(x, COLOURS, strict=True):
        axes[0].plot(t, run[:, 0], color=colour, lw=1.2)
        axes[1].plot(t, run[:, 1], color=colour, lw=1.2)
        axes[2].plot(t, run[:, 2], color=colour, lw=1.2)
        axes[2].plot(t, run[:, 3], color=colour, lw=1.2, ls="--")
        axes[3].plot(t, run[:, 2] + run[:, 3], color=colour, lw=1.2)
    titles = (
        "wall position q",
        "wall momentum p",
        "S1 (solid) and S2 (dashed)",
        "total entropy S1 + S2",
    )
    for axis, title in zip(axes, titles, strict=True):
        axis.set(title=title, xlabel="time")
    save(figure, "gas_containers")


def double_pendulum() -> None:
    system = systems.make("double_pendulum")
    nominal = (np.asarray(system.start_low) + np.asarray(system.start_high)) / 2
    t = system.times()
    x = system.simulate(nominal, t)
    with jax.enable_x64(True):
        lengths = np.asarray(jax.vmap(system.spring_lengths)(x))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for first, label, colour in ((0, "mass 1", COLOURS[0]), (2, "mass 2", COLOURS[1])):
        axes[0].plot(x[:, first], x[:, first + 1], color=colour, lw=1.2, label=label)
    for moment, offset in ((0, (5, 4)), (160, (5, 4)), (400, (-38, 4))):
        axes[0].plot([0, *x[moment, 0:4:2]], [0, *x[moment, 1:4:2]], "o-", color="0.55", lw=0.8, ms=3, zorder=0)
        place = {"xytext": offset, "textcoords": "offset points", "color": "0.35", "fontsize": 8}
        axes[0].annotate(f"t = {t[moment]:g}", x[moment, 2:4], **place)
    axes[0].margins(0.12)
    axes[0].set(title="paths in the plane, springs in grey", xlabel="x", ylabel="y", aspect="equal")
    axes[1].plot(t, lengths[:, 0], color=COLOURS[0], label="λ1")
    axes[1].plot(t, lengths[:, 1], color=COLOURS[1], label="λ2")
    axes[1].set(title="spring lengths", xlabel="time")
    axes[2].plot(t, x[:, 8], color=COLOURS[0], label="S1")
    axes[2].plot(t, x[:, 9], color=COLOURS[1], label="S2")
    axes[2].plot(t, x[:, 8] + x[:, 9], color="0.2", label="S1 + S2")
    axes[2].set(title="entropies", xlabel="time")
    for axis in axes:
        axis.legend()
    save(figure, "double_pendulum")


def damped_oscillator() -> None:
    system = systems.make("damped_oscillator")
    data = systems.generate(system, trajectories=3, noise=0.05, seed=0)
    (t, clean), (_, noisy) = data.clean.stacked(), data.noisy.stacked()
    figure, axes = plt.subplots(1, 3, figsize=(11, 2.9), layout="constrained")
    for run, measured, colour in zip(clean, noisy, COLOURS, strict=False):
        axes[0].plot(run[:, 0], run[:, 1], color=colour, lw=1.2)
        axes[1].plot(t, run[:, 0], color=colour, lw=1.2)
        axes[2].plot(t, run[:, 2], color=colour, lw=1.2)
        axes[1].plot(t[::4], measured[::4, 0], ".", color=colour, ms=2.5, alpha=0.6)
        axes[2].plot(t[::4], measured[::4, 2], ".", color=colour, ms=2.5, alpha=0.6)
    axes[0].set(title="phase plane", xlabel="q", ylabel="p", aspect="equal")
    axes[1].set(title="position q; dots: 5 % noise", xlabel="time")
    axes[2].set(title="entropy S of the bath; dots: 5 % noise", xlabel="time")
    save(figure, "damped_oscillator")


def vlasov_poisson() -> None:
    system = systems.make("vlasov_poisson")
    moments = (0.0, 4.0, 8.0, 10.0)
    density = system.simulate_density(1.0, 1.0, moments)
    times = np.arange(501) * 0.02
    field = system.electric_field([1.0], [1.0], times)[0]
    states = system.simulate_states([1.0], [1.0])[0]
    figure = plt.figure(figsize=(11, 5.4), layout="constrained")
    top, bottom = figure.subfigures(2, 1)
    axes = top.subplots(1, 4, sharey=True)
    image = None
    for axis, f, moment in zip(axes, density, moments, strict=True):
        image = axis.pcolormesh(
            system.x,
            system.v,
            f.T,
            cmap="magma",
            vmin=0,
            vmax=density.max(),
            shading="nearest",
        )
        axis.set(title=f"f(x, v) at t = {moment:g}", xlabel="x", ylim=(-6, 6))
    axes[0].set_ylabel("v")
    top.colorbar(image, ax=list(axes), pad=0.01)
    left, right = bottom.subplots(1, 2, width_ratios=(1.25, 1))
    limit = np.abs(field).max()
    shown = left.pcolormesh(times, system.x, field.T, cmap="RdBu_r", vmin=-limit, vmax=limit, shading="nearest")
    left.axvspan(8, 10, fill=False, ls="--", color="0.2")
    left.set(title="E(x, t); data window dashed", xlabel="time", ylabel="x")
    bottom.colorbar(shown, ax=left, pad=0.01)
    for state, name, colour in zip(states.T, system.state_names, plt.cm.viridis(np.linspace(0, 0.9, 8)), strict=True):
        right.plot(system.times(), state, color=colour, label=name)
    right.set(title="the eight states, T = 1, k = 1", xlabel="time")
    right.legend(ncol=1, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    save(figure, "vlasov_poisson")


if __name__ == "__main__":
    for draw in (gas_containers, double_pendulum, damped_oscillator, vlasov_poisson):
        draw()
