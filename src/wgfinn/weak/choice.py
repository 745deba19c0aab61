r"""Test functions chosen from the data: how wide a window should be for the noise and the dynamics there are.

A wider window averages more noise away: that of the slope term $\int \dot\phi\,y$ falls with the width $\ell$ as
$\ell^{-1/2}$ while its signal, the change of the state across the window, grows with $\ell$ as long as the window is
short against the dynamics. But wide windows are few, and what happens inside of one is averaged. Both are weighed by
the information in all slope terms of a record, taken as a Gaussian channel of signal-to-noise ratio $r_l(\ell)$,

$$ I(\ell) = \frac{1}{\ell} \sum_l \tfrac12 \log_2 (1 + r_l(\ell)^2). $$

It has one broad maximum, where the typical slope term stands a few times out of its noise. Without noise it falls with
the width: the narrowest window that the quadrature resolves is best. `docs/inspect.md` compares the choice with the
paper's widths and with the error of fields fitted at each width.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from wgfinn.data import Trajectories, evenly_spaced
from wgfinn.weak.test_functions import SMALLEST_WIDTH, TestFunctionSpec

_DEGREE, _OVERLAP = 4, 0.9

# The trapezoidal rule makes slow rates wrong by 0.13 % here, by 0.7 % with 8 samples. Without noise that is what
# remains, and degree 6 brings it down to 0.01 %.
_NARROWEST = 12
_DEGREE_FOR_CLEAN_DATA = 6
# Segments of a training hold four windows and at most some thousand samples.
_WIDEST = 800
_GROWTH = 1.12

# Of windows that tell nearly the same the widest: each of its equations then stands further out of the noise.
_NEARLY_ALL = 0.9
# Noise below this part of a state's spread is no worse than the quadrature.
_NEGLIGIBLE = 1e-3
# Samples per state looked at; a width does not get better known from more.
_ENOUGH = 200_000


@dataclass(frozen=True)
class _Curve:
    """For each candidate width: the information a sample, and each state's signal-to-noise ratio."""

    widths: tuple[int, ...]
    information: Float64[np.ndarray, " width"]
    ratios: Float64[np.ndarray, "width state"]


def choose_test_functions(
    trajectories: Trajectories, noise: Float64[np.ndarray, " state"]
) -> tuple[TestFunctionSpec, str]:
    """Test functions for these data, and a sentence that says why.

    `noise` is the standard deviation of each state's noise, as from `estimate_noise`. Of all widths that keep 90 % of
    the most information (see the module) the widest is taken: at least 12 samples, at most a quarter of the median
    run, 800 samples and the shortest run.
    """
    lengths = [run.t.size for run in trajectories.runs]
    shortest = min(lengths)
    widest = min(shortest, _WIDEST, max(_NARROWEST, int(np.median(lengths)) // 4))
    narrowest = min(widest, _NARROWEST)
    records = _records(trajectories)
    spread = _spread(np.concatenate(records))
    moving = spread > 0
    if narrowest == widest:
        return _spec(widest), (
            f"{max(widest, SMALLEST_WIDTH)} samples: the shortest run has {shortest}, which leaves no choice."
        )
    if not moving.any() or np.isnan(noise[moving]).all():
        width = min(widest, max(narrowest, shortest // 10))
        unknown = "no state moves" if not moving.any() else "the noise is not known"
        return _spec(width), f"{width} samples, a tenth of the shortest run: {unknown}, so there is nothing to weigh."
    floor = np.maximum(np.nan_to_num(noise), _NEGLIGIBLE * spread)
    names = [name for name, moves in zip(trajectories.names, moving, strict=True) if moves]
    curve = _curve([x[:, moving] for x in records], floor[moving], _candidates(narrowest, widest))
    kept = int(np.flatnonzero(curve.information >= _NEARLY_ALL * curve.information.max())[-1])
    clean = bool(np.all(np.nan_to_num(noise)[moving] <= _NEGLIGIBLE * spread[moving]))
    if clean:
        return _spec(curve.widths[kept], _DEGREE_FOR_CLEAN_DATA), (
            f"{curve.widths[kept]} samples: there is no noise to average, and narrow windows tell most about fast "
            "changes; the higher degree keeps the quadrature error small."
        )
    return _spec(curve.widths[kept]), _reason(curve, kept, names)


def _spread(x: Float64[np.ndarray, "time state"]) -> Float64[np.ndarray, " state"]:
    """Standard deviation of what was measured of each state; zero where that is nothing, or but rounding."""
    measured = ~np.isnan(x)
    count = np.maximum(np.sum(measured, axis=0), 1)
    centred = x - np.sum(x, axis=0, where=measured) / count
    spread = np.sqrt(np.sum(centred**2, axis=0, where=measured) / count)
    return np.where(spread > 1e-12 * np.max(np.abs(x), axis=0, where=measured, initial=0.0), spread, 0.0)


def _spec(width: int, degree: int = _DEGREE) -> TestFunctionSpec:
    return TestFunctionSpec(width=max(width, SMALLEST_WIDTH), degree=degree, overlap=_OVERLAP)


def _candidates(narrowest: int, widest: int) -> tuple[int, ...]:
    count = 1 + int(np.ceil(np.log(widest / narrowest) / np.log(_GROWTH)))
    return tuple(sorted({round(w) for w in np.geomspace(narrowest, widest, count)}))


def _records(trajectories: Trajectories) -> list[np.ndarray]:
    """Runs on their mean steps; of large data sets every so many-th run, and of those the first part."""
    total = sum(run.t.size for run in trajectories.runs)
    every = max(1, min(len(trajectories), total // _ENOUGH))
    return [evenly_spaced(run)[:_ENOUGH] for run in trajectories.runs[::every]]


def _curve(records: list[np.ndarray], noise: np.ndarray, widths: tuple[int, ...]) -> _Curve:
    ratios = np.stack([_ratios(records, noise, _spec(width)) for width in widths])
    information = np.sum(0.5 * np.log2(1 + ratios**2), axis=1) / np.array(widths)
    return _Curve(widths=widths, information=information, ratios=ratios)


def _ratios(records: list[np.ndarray], noise: np.ndarray, spec: TestFunctionSpec) -> Float64[np.ndarray, " state"]:
    r"""Root mean square of $\int \dot\phi\,x$ without its noise, over the standard deviation of that noise."""
    _, slope = spec.window()
    power, count = np.zeros(noise.size), np.zeros(noise.size)
    for x in records:
        if len(x) < spec.width:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(x, spec.width, axis=0)[:: spec.stride]
        terms = windows @ slope
        power += np.nansum(terms**2, axis=0)
        count += np.sum(~np.isnan(terms), axis=0)
    variance = noise**2 * np.sum(slope**2)
    count = np.maximum(count, 1)
    # Three standard errors of the noise's own mean square: less than that is no signal.
    chance = 3 * np.sqrt(2 / count)
    excess = power / count / variance - 1
    return np.sqrt(np.where(excess > chance, excess, 0.0))


def _reason(curve: _Curve, kept: int, names: list[str]) -> str:
    width = curve.widths[kept]
    weakest = int(np.argmin(curve.ratios[kept]))
    ratio = curve.ratios[kept][weakest]
    stands = (
        f"the change of {names[weakest]}, the faintest state, is {ratio:.2g} times its noise in a window"
        if ratio >= 1
        else f"even there the change of {names[weakest]}, the faintest state, does not stand out of its noise"
    )
    if width == curve.widths[-1]:
        return f"{width} samples, as wide as the lengths of the runs allow: the noise asks for wide windows; {stands}."
    if width == curve.widths[0]:
        return f"{width} samples, the narrowest that the quadrature resolves: the noise is small; {stands}."
    best = curve.widths[int(np.argmax(curve.information))]
    return (
        f"{width} samples: wide enough to average noise out, narrow enough to resolve the dynamics (windows of {best} "
        f"tell most, and those of up to {width} nearly as much); {stands}."
    )
