r"""A learnt energy or entropy in the units of the true one, as far as that can be asked.

GENERIC fixes E and S up to an affine map: $\tilde S = cS + d$ with $\tilde M = M/c$ gives the same equations,
likewise for E with L (paper, appendix, "Calibration"). The maps here choose scale and offset by least squares.

They do not remove all freedom. Any monotone $E \to h(E)$ with $L \to L/h'(E)$, and $S \to h(S)$ with
$M \to M/h'(S)$, leaves the dynamics unchanged too, so that a scatter of learnt against true energy may be
curved for a perfect model: compare level sets. For an affine learnt entropy of a system whose entropy is
affine, the fit is exact.
"""

from typing import Any

import numpy as np

from wgfinn._errors import InputError

# A spread below this fraction of the largest value is rounding.
_CONSTANT = 1e-14


def calibrate(learnt: Any, truth: Any) -> tuple[float, float]:
    r"""`(scale, offset)` that minimise $\sum_k (a\,\tilde E_k + b - E_k)^2$, over values at the same states.

    The states should fill a reference domain, or at least belong to many runs: along one run the energy is
    constant, and its scale cannot be found there. A constant `learnt` has scale 0. Beside a and b any
    monotone map of E (or S) is free, which no affine fit removes: see this module's head.
    """
    learnt, truth = _pair(learnt, truth)
    return _fit(learnt, truth, np.mean(learnt), np.mean(truth))


def calibrate_anchored(learnt: Any, truth: Any) -> tuple[float, float]:
    r"""`(scale, offset)` with $c\,\tilde S_0 + d = S_0$ exactly and c by least squares over the other times.

    For the entropy along one trajectory: all models start from the same value (paper, appendix). The remark
    on monotone maps at this module's head holds here as well.
    """
    learnt, truth = _pair(learnt, truth)
    return _fit(learnt, truth, learnt[0], truth[0])


def _fit(learnt: np.ndarray, truth: np.ndarray, from_: float, to: float) -> tuple[float, float]:
    """The best map that sends `from_` to `to`."""
    rise = learnt - from_
    if np.max(np.abs(rise)) <= _CONSTANT * np.max(np.abs(learnt)):
        return 0.0, float(to)
    # The unit keeps the squares within the range of doubles.
    unit = np.max(np.abs(rise))
    scale = float(np.sum(rise / unit * (truth - to)) / np.sum((rise / unit) ** 2) / unit)
    return scale, float(to - scale * from_)


def _pair(learnt: Any, truth: Any) -> tuple[np.ndarray, np.ndarray]:
    learnt, truth = np.asarray(learnt, np.float64), np.asarray(truth, np.float64)
    if learnt.shape != truth.shape or learnt.ndim != 1 or learnt.size == 0:
        raise InputError(
            "learnt and true values must be one-dimensional and of one length, "
            f"but have shapes {learnt.shape} and {truth.shape}."
        )
    for name, values in (("learnt", learnt), ("true", truth)):
        if not np.all(np.isfinite(values)):
            k = int(np.argmin(np.isfinite(values)))
            raise InputError(f"the {name} values must be finite, but number {k} is {values[k]}.")
    return learnt, truth
