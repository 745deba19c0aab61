"""How good a model is, from the data alone, in words.

Whole runs are predicted with only their initial state fitted, and the misfit is counted in noise levels: the truth has
1. Where the noise comes from the data as well, a misfit near 1 means that nothing more can be learnt from these runs.
"""

import numpy as np
from jaxtyping import Float64

from wgfinn.artefact import Level, Verdict
from wgfinn.data import Trajectories
from wgfinn.models import EntropyForm
from wgfinn.refining import FEW_RUNS, Misfit, signal_level

# Measured on the paper's systems (docs/accuracy.md): fields below the first predict to a few per cent.
_GOOD, _FAIR = 1.15, 2.0
# Of what a model without dynamics misses.
_PART = 0.2
_STRAY = 2.0
_WEAK_STATE = 1.3
_FORMS = {
    "none": "learnt without an entropy: energy is conserved and nothing rubs.",
    "bath": "learnt as open: the energy of the states falls, and the heat goes into surroundings that are no states.",
}

_NOTHING_RUBS = (
    "if nothing rubs, learn without an entropy (model.entropy = 'none'): where M∇S is zero, L∇S = 0 conserves the "
    "entropy as well, a second conserved quantity that few motions have."
)
_UNMEASURED_HEAT = (
    "if something rubs and the heat was not measured: measure the state that takes it up as well (a temperature, an "
    "internal energy), or let it go into surroundings (model.entropy = 'bath')."
)


def judge(
    misfit: Misfit,
    runs: Trajectories,
    noise: Float64[np.ndarray, " state"],
    *,
    held_out: bool,
    chi_square: Float64[np.ndarray, " state"] | None = None,
    coverage: float | None = None,
    ended_at: int | None = None,
    entropy: EntropyForm = "neural",
    mended: float = 0.0,
) -> Verdict:
    """The verdict on a field whose predictions of `runs` have this misfit; all in the same coordinates.

    `chi_square` of the weak residuals by state, `coverage` of the members' bands, where they are known;
    `ended_at`: the step at which the training ended before its time; `entropy`: the form that the field has; `mended`:
    the part of all measurements that were put between their neighbours beforehand."""
    spread = signal_level(runs, noise)
    typical = misfit.typical
    level: Level = "good" if typical <= _GOOD else "fair" if typical <= max(_FAIR, _PART * spread) else "poor"
    if not typical < spread:
        level = "poor"
    count = len(runs)
    which = (
        f"{count} held-out run{'s' if count > 1 else ''}"
        if held_out
        else f"the {count} training runs"
        if count > 1
        else "the one training run"
    )
    headline = {
        "good": f"Good: {which} predicted to within the noise",
        "fair": f"Fair: {which} predicted, but not to within the noise",
        "poor": f"Poor: {which} not predicted",
    }[level] + f" (typical misfit {typical:.2f} noise levels; 1.0 is perfect)."
    lines = [
        f"each run was predicted as a whole, from an initial state fitted to it; its mean alone would miss by "
        f"{spread:.2g} noise levels."
    ]
    if not held_out:
        lines.append("fewer than five runs: nothing was held out, so the misfit is that of the data learnt from.")
    elif count <= FEW_RUNS:
        lines.append(
            f"{'one run is' if count == 1 else f'{count} runs are'} little to judge by, and the members were chosen by "
            "the same: runs that start elsewhere may be predicted worse. `wgfinn evaluate` on fresh runs tells."
        )
    stray = [run.name for run, m in zip(runs.runs, misfit.per_run, strict=False) if not m <= _STRAY * max(typical, 1)]
    if stray:
        shown = ", ".join(stray[:5]) + (f" and {len(stray) - 5} more" if len(stray) > 5 else "")
        lines.append(f"missed by far more than the others: run {shown}; more runs that start like these would help.")
    outliers = mended + misfit.outliers
    if outliers > 0:
        lines.append(
            f"outliers: {100 * outliers:.2g} % of the measurements stand alone, far from those beside them; they do "
            "not count."
        )
    weak = [n for n, m in zip(runs.names, misfit.per_state, strict=True) if not m <= _WEAK_STATE * max(1.0, typical)]
    if weak:
        lines.append(f"weakest state: {', '.join(weak)}.")
    if chi_square is not None:
        each = ", ".join(f"{name} {value:.2f}" for name, value in zip(runs.names, chi_square, strict=True))
        lines.append(f"chi-square of the weak residuals (1 is noise alone): {each}.")
    if coverage is not None:
        lines.append(
            f"{100 * coverage:.0f} % of the measurements lie within two standard deviations of members and noise "
            "(95 % expected)."
        )
    if ended_at is not None:
        lines.append(f"the training ended at step {ended_at} by itself: these runs were not predicted any better.")
    form = entropy if isinstance(entropy, str) else "known"
    if form in _FORMS:
        lines.append(_FORMS[form])
    if form == "neural" and level == "poor":
        lines.append(_NOTHING_RUBS)
    if (form == "none" and level != "good") or (form != "bath" and level == "poor"):
        lines.append(_UNMEASURED_HEAT)
    if level == "fair":
        lines.append("try more runs, what is known of the physics ([model]), or more starts (training.starts).")
    if level == "poor":
        lines.append(
            "try more starts (training.starts), more steps (refine.steps), or `wgfinn inspect` the data. A plain "
            "network (model.field = 'plain') tells whether the data are hard or the structure is."
        )
    return Verdict(level=level, headline=headline, lines=tuple(lines), ended_at=ended_at)
