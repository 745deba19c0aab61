r"""Power spectra of all runs together, and the time scales read from them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from wgfinn.data import Trajectories, evenly_spaced
from wgfinn.inspection.gaps import GAP, pieces

_LONGEST_SEGMENT = 4096
_MOST_VALUES = 4_000_000

# Runs with steps longer than so many usual ones would be all interpolation.
_SLOWEST = 2 * GAP

# Bins over which a spectrum is averaged before it is compared with the noise floor: a single run's is ragged.
_SMOOTHING = 5
# Signal is what stands so many times out of the noise floor, and by so many of its standard deviations.
_CLEAR_OF_NOISE, _DEVIATIONS = 2.0, 5.0
# Half-overlapping Hann segments and neighbouring bins are not independent: so much of their number counts.
_INDEPENDENT = 0.6
# Part of the power of the rates, f^2 P(f), that lies at periods longer than the fastest one.
_MOST_OF_THE_RATES = 0.95


@dataclass(frozen=True)
class Spectrum:
    """One-sided power spectral density of each state, mean over `segments` of all runs, and that of its noise alone.

    `main_frequency` is that of most power in whole runs; NaN where that is the lowest.
    """

    frequency: Float64[np.ndarray, " bin"]
    power: Float64[np.ndarray, "bin state"]
    floor: Float64[np.ndarray, " state"]
    main_frequency: Float64[np.ndarray, " state"]
    segments: int


@dataclass(frozen=True)
class TimeScales:
    """Periods of one state; None where there is none, or none that a run resolves."""

    dominant: float | None
    fastest: float | None


def power_spectrum(trajectories: Trajectories, noise: Float64[np.ndarray, " state"], step: float) -> Spectrum:
    r"""Welch's estimate: Hann-weighted segments, half overlapping, on times `step` apart; noise has $2 \sigma^2 h$.

    Runs are cut at their gaps and continued by odd reflection at both ends, which keeps value and slope, so that a
    transient at the start counts in full. Segments are as long as a shorter run (lower quartile); runs that are shorter
    still, or sampled far more slowly than the others, are left out. A state that no run measures has no power.
    """
    parts = [piece for run in trajectories.runs for piece in pieces(run)]
    records = [evenly_spaced(run, step) for run in parts if run.duration <= _SLOWEST * step * run.t.size]
    lengths = sorted(len(x) for x in records)
    length = min(_LONGEST_SEGMENT, lengths[len(lengths) // 4])
    segments = _segments([_continued(x, length // 2) for x in records if len(x) >= length], length)
    weight = np.hanning(length + 2)[1:-1]
    return Spectrum(
        frequency=np.fft.rfftfreq(length, step),
        power=2 * step * _mean_square(segments, weight) / np.sum(weight**2),
        floor=2 * step * noise**2,
        main_frequency=_main_frequency(records, step),
        segments=len(segments),
    )


def _main_frequency(records: list[np.ndarray], step: float) -> Float64[np.ndarray, " state"]:
    """From runs as they are, without window or reflection, which turns an oscillation that starts at its crest into a
    step twice as high. Of a longer run (upper quartile): a short one may end before it has swung once."""
    lengths = sorted(len(x) for x in records)
    length = min(_MOST_VALUES // records[0].shape[1], lengths[3 * len(lengths) // 4])
    segments = _segments([x for x in records if len(x) >= length], length)
    # The lowest bin holds what the mean took off.
    power = _mean_square(segments, np.ones(length))[1:]
    if len(power) == 0:
        return np.full(segments.shape[2], np.nan)
    peak = np.argmax(power, axis=0)
    return np.where(peak == 0, np.nan, np.fft.rfftfreq(length, step)[1:][peak])


def _continued(x: np.ndarray, count: int) -> np.ndarray:
    """A record with `count` samples more at both ends, by odd reflection."""
    return np.concatenate([2 * x[0] - x[count:0:-1], x, 2 * x[-1] - x[-2 : -count - 2 : -1]])


def _segments(records: list[np.ndarray], length: int) -> Float64[np.ndarray, "segment time state"]:
    """Half-overlapping parts of `records`, evenly chosen where they are too many."""
    cut = [x[start : start + length] for x in records for start in range(0, len(x) - length + 1, max(length // 2, 1))]
    every = -(-len(cut) * cut[0].size // _MOST_VALUES)
    return np.stack(cut[::every])


def _mean_square(
    segments: Float64[np.ndarray, "segment time state"], weight: Float64[np.ndarray, " time"]
) -> Float64[np.ndarray, "bin state"]:
    """Squared amplitudes of centred, weighted segments, mean over those that are measured throughout."""
    centred = segments - np.mean(segments, axis=1, keepdims=True)
    squares = np.abs(np.fft.rfft(centred * weight[:, None], axis=1)) ** 2
    measured = ~np.isnan(squares)
    return np.sum(squares, axis=0, where=measured) / np.maximum(np.sum(measured, axis=0), 1)


def time_scales(spectrum: Spectrum, state: int) -> TimeScales:
    r"""The period of most power, and the one below which only 5 % of the power of the rates, $f^2 P$, remains.

    Only what stands out of the noise floor counts. There is no dominant period where most power lies at the lowest
    frequency: the state takes a whole run or longer for its changes.
    """
    # The lowest bin holds what the mean took off.
    frequency, power = spectrum.frequency[1:], spectrum.power[1:, state]
    largest = float(np.max(power, initial=0.0))
    if largest == 0:
        return TimeScales(None, None)
    # Rounding is no signal either.
    floor = max(float(np.nan_to_num(spectrum.floor[state])), 1e-24 * largest)
    chance = 1 / (_INDEPENDENT * np.sqrt(spectrum.segments * _SMOOTHING))
    clear = _smoothed(power) > max(_CLEAR_OF_NOISE, 1 + _DEVIATIONS * chance) * floor
    signal = np.where(clear, np.maximum(power - floor, 0.0), 0.0)
    rates = np.cumsum(frequency**2 * signal)
    if rates[-1] == 0:
        return TimeScales(None, None)
    fastest = frequency[int(np.searchsorted(rates, _MOST_OF_THE_RATES * rates[-1]))]
    main = float(spectrum.main_frequency[state])
    return TimeScales(dominant=None if np.isnan(main) else 1 / main, fastest=float(1 / fastest))


def _smoothed(power: np.ndarray) -> np.ndarray:
    """Geometric means over neighbouring bins: spectra fall over decades, and a sum would carry them further out."""
    logarithm = np.log(np.maximum(power, np.finfo(float).tiny))
    box = np.ones(_SMOOTHING)
    # "same" is as long as the longer of the two.
    shown = slice(max(0, (_SMOOTHING - power.size) // 2), None)
    total, count = (np.convolve(v, box, "same")[shown][: power.size] for v in (logarithm, np.ones(power.size)))
    return np.exp(total / count)
