r"""The strong-form estimator of a scalar rate and theorem 4.1.

The model is $\dot x = \lambda x$ on $[0, T]$, sampled at $k \Delta t$, $k = 0..K$, with
$y_k = x_k + \varepsilon_k$ and independent noise of standard deviation $\sigma$. In this folder
`rate` is $\lambda$, `start` is $x(0)$, `steps` is $K$, `horizon` is $T = K \Delta t$, and `noise` is
always the standardised noise $\varepsilon / \sigma$.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

from wgfinn._errors import InputError
from wgfinn.theory._checks import (
    require_count,
    require_nonzero,
    require_positive,
    require_rate,
    require_sigma,
)
from wgfinn.theory._functions import Numbers, exp_excess


class StrongError(NamedTuple):
    r"""The two parts of $\theta^*_{strong} - \lambda$ (appendix A, proof of theorem 4.1)."""

    integration: float
    noise: Float[np.ndarray, "*runs"]

    @property
    def total(self) -> Float[np.ndarray, "*runs"]:
        """The whole error of the estimator."""
        return np.asarray(self.integration + self.noise)


def decay_samples(
    noise: Float[np.ndarray, "*runs samples"], rate: float, *, sigma: float, dt: float, start: float = 1.0
) -> Float[np.ndarray, "*runs samples"]:
    r"""Noisy samples $y_k = x_0 e^{\lambda k \Delta t} + \sigma E_k$ from standardised noise $E$."""
    require_rate(rate)
    require_sigma(sigma)
    require_positive("dt", dt)
    require_nonzero("start", start)
    return start * np.exp(rate * dt * np.arange(noise.shape[-1])) + sigma * noise


def strong_estimate(samples: Float[np.ndarray, "*runs samples"], dt: float) -> Float[np.ndarray, "*runs"]:
    r"""The least-squares rate of the forward Euler step, one per run (minimiser of eq. 4.1).

    $$\theta^*_{strong} = \frac{\sum_{k=1}^K y_{k-1} (y_k - y_{k-1})}{\Delta t \sum_{k=1}^K y_{k-1}^2}$$
    """
    require_positive("dt", dt)
    require_count("steps", samples.shape[-1] - 1)
    before = samples[..., :-1]
    energy = _dot(before, before)
    if not np.all(energy > 0.0):
        raise InputError(
            "samples: every state before the last is zero (or not a number) in at least one run, "
            "so no rate fits better than another. Remove that run."
        )
    return np.asarray(_dot(before, np.diff(samples, axis=-1)) / (dt * energy))


def euler_error(rate: float, dt: Numbers) -> Numbers:
    r"""Integration error $\mathcal E_{\lambda, \Delta t} = (e^{\lambda \Delta t} - 1) / \Delta t - \lambda$.

    What the strong estimator misses by on clean data; it is positive and close to
    $\lambda^2 \Delta t / 2$ (appendix A, below eq. A.1).
    """
    require_rate(rate)
    require_positive("dt", float(np.min(dt)))
    return exp_excess(rate * dt) / dt


def strong_error(
    noise: Float[np.ndarray, "*runs samples"], rate: float, *, sigma: float, dt: float, start: float = 1.0
) -> StrongError:
    r"""Exact error of the strong estimator for given standardised noise (appendix A, theorem 4.1).

    $$\theta^*_{strong} - \lambda = \mathcal E_{\lambda, \Delta t}
      + \frac{\sigma}{\Delta t} \frac{G}{\lVert Y \rVert^2}, \qquad
      G = \langle Y, E_1 - e^{\lambda \Delta t} E_0 \rangle$$

    $Y$ holds the samples $0..K-1$, $E_0$ and $E_1$ the standardised noise at $0..K-1$ and $1..K$.
    """
    gain, energy = noise_gain(noise, rate, sigma=sigma, dt=dt, start=start)
    return StrongError(integration=float(euler_error(rate, dt)), noise=np.asarray(sigma / dt * gain / energy))


def noise_gain(
    noise: Float[np.ndarray, "*runs samples"], rate: float, *, sigma: float, dt: float, start: float = 1.0
) -> tuple[Float[np.ndarray, "*runs"], Float[np.ndarray, "*runs"]]:
    r"""The pair $(G, \lVert Y \rVert^2)$ of the decomposition in `strong_error`."""
    require_count("steps", noise.shape[-1] - 1)
    before = decay_samples(noise, rate, sigma=sigma, dt=dt, start=start)[..., :-1]
    mismatch = noise[..., 1:] - math.exp(rate * dt) * noise[..., :-1]
    return _dot(before, mismatch), _dot(before, before)


def strong_limit(rate: float, sigma: float, *, start: float = 1.0, horizon: float = 1.0) -> float:
    r"""Theorem 4.1: the almost sure limit of $\Delta t (\theta^*_{strong} - \lambda)$ as $\Delta t \to 0$.

    $$-\frac{\sigma^2}{x_0^2 \, \frac{e^{2 \lambda T} - 1}{2 \lambda T} + \sigma^2}$$

    The theorem prints $e^{\lambda T}$. The mean of $x^2$ over $[0, T]$ needs $e^{2 \lambda T}$, as the
    paper's own proof has it (for $T = 1$) and as simulation confirms; see `strong_limit_as_printed`.
    """
    return _limit(rate, sigma, start, horizon, exponent=2.0)


def strong_limit_as_printed(rate: float, sigma: float, *, start: float = 1.0, horizon: float = 1.0) -> float:
    r"""The limit as theorem 4.1 prints it, with $e^{\lambda T}$: a misprint, kept for comparison only."""
    return _limit(rate, sigma, start, horizon, exponent=1.0)


def _limit(rate: float, sigma: float, start: float, horizon: float, *, exponent: float) -> float:
    _require_setting(rate, sigma, start, horizon)
    square = start**2 * math.expm1(exponent * rate * horizon) / (2.0 * rate * horizon)
    return -(sigma**2) / (square + sigma**2)


def strong_expected_error(
    rate: float, sigma: float, dt: Numbers, *, start: float = 1.0, horizon: float = 1.0
) -> Numbers:
    r"""The error with both noise averages replaced by their means: its trend at finite $\Delta t$.

    $$\mathcal E_{\lambda, \Delta t}
      - \frac{\sigma^2}{\Delta t} \frac{e^{\lambda \Delta t}}{\overline{x^2} + \sigma^2}, \qquad
      \overline{x^2} = x_0^2 \, \frac{\Delta t}{T} \, \frac{e^{2 \lambda T} - 1}{e^{2 \lambda \Delta t} - 1}$$

    In the decomposition of appendix A the means are $\mathbb E\, G = -K \sigma e^{\lambda \Delta t}$ and
    $\mathbb E \lVert Y \rVert^2 = K (\overline{x^2} + \sigma^2)$; the ratio of means is the mean of the
    ratio up to $O(1/K)$. Times $\Delta t$ it tends to `strong_limit`.
    """
    _require_setting(rate, sigma, start, horizon)
    require_positive("dt", float(np.min(dt)))
    growth = np.expm1(2.0 * rate * horizon) / np.expm1(2.0 * rate * np.asarray(dt))
    square = start**2 * dt / horizon * growth
    return (euler_error(rate, dt) - sigma**2 / dt * np.exp(rate * dt) / (square + sigma**2))[()]


def recovery_step(rate: float, sigma: float, *, start: float = 1.0, horizon: float = 1.0) -> float:
    r"""The step at which `strong_expected_error` changes sign: the "peculiar" step of theorem 4.1.

    Integration error (positive) and noise bias (negative) cancel there, to leading order at
    $\Delta t = \sqrt 2\, \sigma / (|\lambda| \sqrt{\overline{x^2} + \sigma^2})$. NaN where none of the steps
    from $10^{-9} T$ to $T$ sees the change, that is, where one of the two wins throughout.
    """
    _require_setting(rate, sigma, start, horizon)
    require_positive("sigma", sigma)

    def scaled(dt: Numbers) -> Numbers:
        return dt * strong_expected_error(rate, sigma, dt, start=start, horizon=horizon)

    grid = horizon * np.geomspace(1e-9, 1.0, 400)
    positive = np.flatnonzero(scaled(grid) > 0.0)
    if positive.size == 0 or positive[0] == 0:
        return math.nan
    lower, upper = (float(dt) for dt in grid[positive[0] - 1 : positive[0] + 1])
    return root_scalar(lambda dt: float(scaled(dt)), bracket=(lower, upper), xtol=1e-15, rtol=1e-12).root


def sign_changes(dt: Float[np.ndarray, " step"], error: Float[np.ndarray, " step"]) -> Float[np.ndarray, " root"]:
    r"""Steps at which the error, interpolated linearly between increasing `dt`, passes through zero.

    Theorem 4.1 promises an exact recovery for a continuous extension of the error, with fresh noise at
    every $K$; at the sampled steps themselves only the change of sign can be seen.
    """
    if np.any(np.diff(dt) <= 0.0):
        raise InputError("dt must increase from entry to entry. Sort the steps and their errors together.")
    left, right = error[:-1], error[1:]
    crosses = np.flatnonzero((left < 0.0) != (right < 0.0))
    share = left[crosses] / (left[crosses] - right[crosses])
    return dt[crosses] + share * (dt[crosses + 1] - dt[crosses])


def extended_error(
    dt: Float[np.ndarray, " query"],
    *,
    node_dt: Float[np.ndarray, " node"],
    gain: Float[np.ndarray, " node"],
    energy: Float[np.ndarray, " node"],
    rate: float,
    sigma: float,
) -> Float[np.ndarray, " query"]:
    r"""The continuous extension $e(t) = \mathcal E_{\lambda, t} + \sigma g(t) / (t\, y(t))$ of appendix A.

    $g$ and $y$ interpolate `gain` ($G$) and `energy` ($\lVert Y \rVert^2$) linearly in $t$ between the
    increasing nodes $T / K$. At a node it is the error of the estimator; between two nodes of opposite
    sign it has a zero, which is the exact recovery of theorem 4.1.
    """
    require_sigma(sigma)
    if np.any(np.diff(node_dt) <= 0.0):
        raise InputError("node_dt must increase from entry to entry. Sort the nodes and their values together.")
    if np.min(dt) < node_dt[0] or np.max(dt) > node_dt[-1]:
        raise InputError(
            f"dt must lie between the first and the last node, {node_dt[0]:.6g} and {node_dt[-1]:.6g}, "
            f"got values from {np.min(dt):.6g} to {np.max(dt):.6g}. Add nodes or shorten the query."
        )
    ratio = np.interp(dt, node_dt, gain) / np.interp(dt, node_dt, energy)
    return np.asarray(euler_error(rate, dt) + sigma * ratio / dt)


def _dot(x: Float[np.ndarray, "*runs samples"], y: Float[np.ndarray, "*runs samples"]) -> Float[np.ndarray, "*runs"]:
    """Inner product over the last axis; an array also for a single run."""
    return np.asarray(np.vecdot(x, y))


def _require_setting(rate: float, sigma: float, start: float, horizon: float) -> None:
    require_rate(rate)
    require_sigma(sigma)
    require_nonzero("start", start)
    require_positive("horizon", horizon)
