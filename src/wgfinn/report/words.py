"""The facts of a report as sentences and table entries, for where no verdict was written."""

import math
from collections.abc import Sequence

from wgfinn.evaluate import ThermodynamicChecks
from wgfinn.report.numbers import ReportData, StateErrors

# Rounding and the integrator's error leave this much, in units of the natural variation.
_NEGLIGIBLE = 1e-3


def headline(data: ReportData) -> str:
    """The error in one sentence."""
    which = "run" if data.n_runs == 1 else "median run"
    if not math.isfinite(data.median_error):
        return f"The prediction of {'the run' if data.n_runs == 1 else 'half the runs or more'} left the finite range."
    return f"The {which} is predicted with an error of {percent(data.median_error)} of the states' spread."


def fact_lines(data: ReportData, *, is_training_data: bool) -> list[str]:
    """What a reader must know beside the error itself."""
    lines = []
    if is_training_data:
        lines.append("These are the data the model was trained on: on runs it has not seen it may do worse.")
    lines.append(_states_line(data.states))
    if data.n_runs > 1 and math.isfinite(data.worst_error):
        lines.append(f"The worst run is {data.worst_run}, with an error of {percent(data.worst_error)}.")
    if data.diverged:
        lines.append(
            f"{_count(len(data.diverged), 'prediction')} left the finite range: {_listed(data.diverged)}. "
            "Such a run starts too far from the training data, or the training has not converged."
        )
    if data.unpredicted:
        lines.append(
            f"{_count(len(data.unpredicted), 'run')} could not be predicted, because no sample has all states "
            f"measured: {_listed(data.unpredicted)}."
        )
    if data.left_out_members:
        verb = "is" if data.left_out_members == 1 else "are"
        lines.append(
            f"{_count(data.left_out_members, 'member')} of the ensemble {verb} left out of the bands: without a finite "
            "loss, or far worse than the served one."
        )
    noise = _noise_line(data.states)
    return [*lines, *([noise] if noise else []), *_law_lines(data.checks)]


def percent(value: float) -> str:
    """A fraction as per cent with two significant digits."""
    if not math.isfinite(value):
        return "without bound" if math.isinf(value) else "–"
    if value == 0:
        return "0 %"
    digits = max(0, 1 - math.floor(math.log10(100 * value)))
    return f"{100 * value:.{digits}f} %" if value < 10 and digits <= 4 else f"{power(100 * value)} %"


def number(value: float) -> str:
    """Three significant digits; a dash where there is no number."""
    if math.isnan(value):
        return "–"
    return f"{value:.3g}" if math.isfinite(value) else "∞" if value > 0 else "−∞"


def factor(value: float) -> str:
    """Two significant digits, without an exponent."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def power(value: float) -> str:
    """Two digits and a power of ten."""
    if value == 0 or not math.isfinite(value):
        return number(value)
    digits, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits.replace('-', '−')} × 10{raised}"


def noise_ratio(state: StateErrors) -> float:
    """Residual over noise; NaN where no noise was found."""
    return state.residual / state.noise if state.is_noisy else math.nan


def _states_line(states: Sequence[StateErrors]) -> str:
    known = [s for s in states if not math.isnan(s.median)]
    if len(known) < 2:
        return "Each run is predicted from its first sample alone."
    best, worst = min(known, key=lambda s: s.median), max(known, key=lambda s: s.median)
    return (
        f"Each run is predicted from its first sample alone. {best.name} is met best ({percent(best.median)} in the "
        f"median), {worst.name} least ({percent(worst.median)})."
    )


def _noise_line(states: Sequence[StateErrors]) -> str | None:
    ratios = {s.name: noise_ratio(s) for s in states if math.isfinite(noise_ratio(s))}
    if not ratios:
        return None
    name = max(ratios, key=lambda key: ratios[key])
    if ratios[name] < 1.5:
        return "The residuals are no larger than the noise in the data: a better fit could not be seen in them."
    return (
        f"Residuals are up to {factor(ratios[name])} times the estimated measurement noise ({name}). "
        "A noisy first sample alone brings some of that about."
    )


def _law_lines(checks: ThermodynamicChecks | None) -> list[str]:
    if checks is None:
        return ["The model is a plain network without energy and entropy: nothing makes it obey thermodynamics."]
    drift, fall = checks.energy_drift, max(0.0, -checks.min_entropy_increment)
    if not (math.isfinite(drift) and math.isfinite(fall)):
        return ["Energy and entropy cannot be judged where a prediction left the finite range."]
    if checks.is_open:
        return [
            "The model is open: heat goes into surroundings that are no states. "
            + (
                "Energy never rises."
                if drift == 0
                else f"Energy rises by {power(drift)} of its natural variation at most"
                + (", which is rounding and step error." if drift < _NEGLIGIBLE else ".")
            )
        ]
    kept = (
        f"Energy is conserved: it drifts by {power(drift)} of its natural variation at most."
        if drift < _NEGLIGIBLE
        else f"With these time steps the energy drifts by {power(drift)} of its natural variation; "
        "`--integrator accurate` shows how much of that is the steps."
    )
    grown = (
        "Entropy never decreases."
        if fall == 0
        else f"Entropy falls by {power(fall)} at most from one sample to the next"
        + (", which is rounding and step error." if fall < _NEGLIGIBLE else ".")
    )
    return [f"{kept} {grown}"]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
