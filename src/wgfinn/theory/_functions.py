"""The elementary functions of section 4, written so that small and large arguments keep their digits."""

import math

import numpy as np
from jaxtyping import Float

Numbers = float | Float[np.ndarray, "..."]
"""One double or an array of them."""

_SERIES_BELOW = 1.0
_TERMS = 12  # (2 * 12 + 2)! is 4e26: for |z| <= 1 the first term left out is far below rounding


def _even_series(z: Numbers, first: int) -> Float[np.ndarray, "..."]:
    r"""$\sum_k z^{2k} / (2k + n)!$ with $n$ = `first`, for $|z| \le 1$."""
    square = np.minimum(np.abs(z), _SERIES_BELOW) ** 2
    coefficients = [1.0 / math.factorial(first + 2 * k) for k in range(_TERMS)]
    return np.asarray(np.polynomial.polynomial.polyval(square, coefficients))


def exp_excess(z: Numbers) -> Numbers:
    r"""$e^z - 1 - z$, without the cancellation at small $z$ (relative error of a few roundings)."""
    series = np.square(z) * (_even_series(z, 2) + np.asarray(z) * _even_series(z, 3))
    return np.where(np.abs(z) < _SERIES_BELOW, series, np.expm1(z) - z)[()]


def sinh_excess(z: Numbers) -> Numbers:
    r"""$\sinh z - z$, so that the paper's $e_\lambda(t)$ is `sinh_excess(rate * t)` (theorem 4.2)."""
    series = np.asarray(z) ** 3 * _even_series(z, 3)
    return np.where(np.abs(z) < _SERIES_BELOW, series, np.sinh(z) - z)[()]


def cosh_excess(z: Numbers) -> Numbers:
    r"""$\cosh z - 1$, so that $e'_\lambda(t)$ is `rate * cosh_excess(rate * t)` (theorem 4.2)."""
    return (2.0 * np.sinh(np.asarray(z) / 2.0) ** 2)[()]


def sinh_quotient(z: Numbers) -> Numbers:
    r"""$\sinh(z) / z$, which is 1 at $z = 0$."""
    tiny = np.asarray(z) == 0.0
    return np.where(tiny, 1.0, np.sinh(z) / np.where(tiny, 1.0, z))[()]


def excess_ratio(z: Numbers) -> Numbers:
    r"""$r(z) = \frac{1}{z} \frac{\sinh z - z}{\cosh z - 1}$, even, from $1/3$ at 0 down to 0 at infinity.

    It is twice the outer weight $\psi_1$ of theorem 4.3 and the bracket inside $V(z)$.
    """
    size = np.maximum(np.abs(z), _SERIES_BELOW)
    decay = np.exp(-size)  # both numerator and denominator are divided by e^|z| / 2: no overflow
    large = (1.0 - decay**2 - 2.0 * size * decay) / (size * (1.0 - decay) ** 2)
    small = _even_series(z, 3) / _even_series(z, 2)
    return np.where(np.abs(z) < _SERIES_BELOW, small, large)[()]
