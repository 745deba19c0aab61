"""`inspect`: everything that is said about a data set, as values."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wgfinn.data import Trajectories, estimate_noise, mended
from wgfinn.inspection.findings import Facts, Finding, find
from wgfinn.inspection.gaps import GAP, gap_indices
from wgfinn.inspection.spectrum import Spectrum, power_spectrum, time_scales
from wgfinn.weak import TestFunctionSpec, choose_test_functions

# A spread below this fraction of the largest value is rounding, not motion.
_CONSTANT = 1e-12


@dataclass(frozen=True)
class RunsReport:
    """How many runs there are, and how long: in samples and in time."""

    count: int
    samples: int
    shortest: int
    median: int
    longest: int
    shortest_duration: float
    longest_duration: float


@dataclass(frozen=True)
class StepsReport:
    """Steps of all runs. `jitter` is the standard deviation of the steps over their median, gaps left out."""

    min: float
    median: float
    max: float
    jitter: float
    gaps: int
    uniform: bool


@dataclass(frozen=True)
class StateReport:
    """One state: its range, noise and time scales.

    `noise` is a standard deviation, `noise_percent` that in per cent of `std`. `signal_to_noise` compares the
    standard deviations of signal and noise. `period` has the most power (None: a whole run or longer), `fastest_period`
    has 95 % of the power of the rates at longer ones. None stands for what cannot be told.
    """

    name: str
    unit: str
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    missing: int
    noise: float | None
    noise_percent: float | None
    signal_to_noise: float | None
    period: float | None
    fastest_period: float | None
    samples_per_period: float | None


@dataclass(frozen=True)
class Inspection:
    """What can be said about a data set before anything is learnt from it."""

    runs: RunsReport
    steps: StepsReport
    states: tuple[StateReport, ...]
    test_functions: TestFunctionSpec
    reason: str
    windows: int
    findings: tuple[Finding, ...]
    spectrum: Spectrum
    time_unit: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences that want action."""
        return tuple(finding.message for finding in self.findings if finding.level == "warning")

    def to_dict(self) -> dict[str, Any]:
        """Plain values with the keys of `docs/inspect.md`; the spectrum is left out."""
        chosen = self.test_functions.model_dump()
        duration = (chosen["width"] - 1) * self.steps.median
        return {
            "runs": asdict(self.runs),
            "steps": asdict(self.steps),
            "states": [asdict(state) for state in self.states],
            "test_functions": chosen | {"duration": duration, "windows": self.windows, "reason": self.reason},
            "findings": [asdict(finding) for finding in self.findings],
            "time_unit": self.time_unit,
        }


def inspect(trajectories: Trajectories) -> Inspection:
    """Lengths, steps, ranges, noise, time scales, suitable test functions, and what looks wrong.

    Nothing is changed. The noise is that of `estimate_noise`, the test functions those of `choose_test_functions`,
    which a fit uses where none are given. As in a fit, outliers are `mended` first, so that they do not fill the
    ranges.
    """
    measured, trajectories = trajectories, mended(trajectories, estimate_noise(trajectories))
    runs = trajectories.runs
    step = float(np.median(np.concatenate([np.diff(run.t) for run in runs])))
    noise = estimate_noise(trajectories)
    spectrum = power_spectrum(trajectories, np.nan_to_num(noise), step)
    columns = [_column(trajectories, k) for k in range(trajectories.n_states)]
    spread = np.array([_spread(x) for x in columns])
    states = tuple(
        _state(trajectories, k, columns[k], spread[k], noise[k], spectrum, step) for k in range(len(columns))
    )
    spec, reason = choose_test_functions(trajectories, noise)
    facts = Facts(
        measured=measured,
        trajectories=trajectories,
        step=step,
        noise=noise,
        spread=spread,
        constant=spread == 0,
        samples_per_period=tuple(state.samples_per_period for state in states),
    )
    return Inspection(
        runs=_runs(trajectories),
        steps=_steps(trajectories, step),
        states=states,
        test_functions=spec,
        reason=reason,
        windows=sum(spec.count(run.t.size) for run in runs if run.t.size >= spec.width),
        findings=find(facts),
        spectrum=spectrum,
        time_unit=trajectories.time_unit,
    )


def _column(trajectories: Trajectories, state: int) -> np.ndarray:
    x = np.concatenate([run.x[:, state] for run in trajectories.runs])
    return x[~np.isnan(x)]


def _spread(x: np.ndarray) -> float:
    if x.size == 0:
        return 0.0
    spread = float(np.std(x))
    return spread if spread > _CONSTANT * float(np.max(np.abs(x))) else 0.0


def _runs(trajectories: Trajectories) -> RunsReport:
    lengths = [run.t.size for run in trajectories.runs]
    durations = [run.duration for run in trajectories.runs]
    return RunsReport(
        count=len(lengths),
        samples=sum(lengths),
        shortest=min(lengths),
        median=int(np.median(lengths)),
        longest=max(lengths),
        shortest_duration=min(durations),
        longest_duration=max(durations),
    )


def _steps(trajectories: Trajectories, usual: float) -> StepsReport:
    runs = trajectories.runs
    # Each run against its own median: different steps in different runs are no jitter.
    relative = np.concatenate([np.diff(run.t) / np.median(np.diff(run.t)) for run in runs])
    return StepsReport(
        min=float(min(np.min(np.diff(run.t)) for run in runs)),
        median=usual,
        max=float(max(np.max(np.diff(run.t)) for run in runs)),
        jitter=0.0 if all(run.is_uniform for run in runs) else float(np.std(relative[relative <= GAP])),
        gaps=sum(gap_indices(run).size for run in runs),
        uniform=all(run.is_uniform for run in runs),
    )


def _state(
    trajectories: Trajectories, k: int, x: np.ndarray, spread: float, noise: float, spectrum: Spectrum, step: float
) -> StateReport:
    total = sum(run.t.size for run in trajectories.runs)
    known = bool(np.isfinite(noise)) and spread > 0
    signal = float(np.sqrt(max(spread**2 - noise**2, 0.0))) if known else 0.0
    scales = time_scales(spectrum, k) if spread > 0 else None
    fastest = None if scales is None else scales.fastest
    return StateReport(
        name=trajectories.names[k],
        unit=trajectories.units[k],
        min=float(x.min()) if x.size else None,
        max=float(x.max()) if x.size else None,
        mean=float(x.mean()) if x.size else None,
        std=spread if x.size else None,
        missing=total - x.size,
        noise=float(noise) if np.isfinite(noise) else None,
        noise_percent=float(100 * noise / spread) if known else None,
        signal_to_noise=signal / float(noise) if known and noise > 0 else None,
        period=None if scales is None else scales.dominant,
        fastest_period=fastest,
        samples_per_period=None if fastest is None else fastest / step,
    )
