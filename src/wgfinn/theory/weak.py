r"""The weak-form estimator of a scalar rate and theorems 4.2 and 4.3.

One test function, $2m + 1$ nodes $t^* + i h$, $i = -m..m$, and the products $\psi_i = w_i \phi_i$ and
$\psi'_i = w_i \phi'_i$ of a symmetric quadrature rule. Two readings of the paper are fixed here:
`spacing` is $h$ wherever the theorems print $\Delta t$, and `centre` is $x(t^*)$ where they print $x_0$.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from wgfinn._errors import InputError
from wgfinn.theory._checks import (
    require_count,
    require_nonzero,
    require_positive,
    require_rate,
    require_sigma,
)
from wgfinn.theory._functions import Numbers, cosh_excess, excess_ratio, sinh_excess, sinh_quotient

_CONDITION_TOLERANCE = 1e-10


@dataclass(frozen=True)
class WeakWeights:
    r"""Quadrature weights of one test function: `value` is $\psi$, `slope` is $\psi'$, `spacing` is $h$.

    They need not come from a smooth function of compact support: with $m = 1$ the outer nodes are the
    ends of the support, where such a function and its derivative vanish, yet theorem 4.3 gives both a
    value there. So $\psi$ and $\psi'$ are free numbers here.
    """

    value: Float[np.ndarray, " node"]
    slope: Float[np.ndarray, " node"]
    spacing: float

    def __post_init__(self) -> None:
        require_positive("spacing", self.spacing)
        if self.value.size % 2 == 0 or self.value.size < 3:
            raise InputError(
                f"value has {self.value.size} nodes; a symmetric rule needs an odd number, at least 3. "
                "Give the nodes -m..m."
            )

    @property
    def half(self) -> int:
        """$m$, the number of nodes on each side of the centre."""
        return self.value.size // 2

    @property
    def support(self) -> float:
        """$S = 2 m h$, the length of the support."""
        return 2.0 * self.half * self.spacing


class Conditions(NamedTuple):
    """By how much weights miss each of the five conditions of theorem 4.2 (zero: fulfilled)."""

    symmetric_value: float
    asymmetric_slope: float
    unit_mass: float
    unit_slope: float
    exactness: float


def weak_weights(
    quadrature: Float[np.ndarray, " node"],
    phi: Float[np.ndarray, " node"],
    phi_slope: Float[np.ndarray, " node"],
    *,
    spacing: float,
) -> WeakWeights:
    r"""$\psi_i = w_i \phi_i$ and $\psi'_i = w_i \phi'_i$ (below eq. 4.3)."""
    return WeakWeights(value=quadrature * phi, slope=quadrature * phi_slope, spacing=spacing)


def window_samples(
    noise: Float[np.ndarray, "*runs node"], rate: float, *, sigma: float, spacing: float, centre: float = 1.0
) -> Float[np.ndarray, "*runs node"]:
    r"""Noisy samples $x(t^*) e^{\lambda i h} + \sigma E_i$, $i = -m..m$, from standardised noise $E$."""
    require_rate(rate)
    require_sigma(sigma)
    require_positive("spacing", spacing)
    require_nonzero("centre", centre)
    offset = np.arange(noise.shape[-1]) - noise.shape[-1] // 2
    return centre * np.exp(rate * spacing * offset) + sigma * noise


def weak_estimate(samples: Float[np.ndarray, "*runs node"], weights: WeakWeights) -> Float[np.ndarray, "*runs"]:
    r"""The rate that makes the weak residual zero, one per run (minimiser of eq. 4.3).

    $$\theta^*_{weak} = -\frac{\sum_i \tilde y_i \psi'_i}{\sum_i \tilde y_i \psi_i}$$
    """
    return np.asarray(-(samples @ weights.slope) / (samples @ weights.value))


def weak_conditions(weights: WeakWeights, rate: float) -> Conditions:
    r"""Defects of the five conditions of theorem 4.2, with $h$ for the printed $\Delta t$ in the fourth.

    1. $\psi_i = \psi_{-i}$
    2. $\psi'_i = -\psi'_{-i}$, hence $\psi'_0 = 0$
    3. $\sum_i \psi_i = 1$
    4. $\sum_{i=1}^m 2 i h \psi'_i = -1$
    5. $\sum_{i=1}^m (\psi'_i e_\lambda(ih) + \psi_i e'_\lambda(ih)) = 0$
    """
    require_rate(rate)
    m = weights.half
    time, excess, excess_slope = _excesses(rate, weights.spacing, m)
    value, slope = weights.value[m + 1 :], weights.slope[m + 1 :]
    return Conditions(
        symmetric_value=float(np.max(np.abs(weights.value - weights.value[::-1]))),
        asymmetric_slope=float(np.max(np.abs(weights.slope + weights.slope[::-1]))),
        unit_mass=abs(float(np.sum(weights.value)) - 1.0),
        unit_slope=abs(2.0 * float(time @ slope) + 1.0),
        exactness=abs(float(slope @ excess + value @ excess_slope)),
    )


def weak_relative_error(
    noise: Float[np.ndarray, "*runs node"],
    weights: WeakWeights,
    rate: float,
    *,
    sigma: float,
    centre: float = 1.0,
) -> Float[np.ndarray, "*runs"]:
    r"""Theorem 4.2: the exact relative error of the weak estimator for given standardised noise $E$.

    $$\frac{\theta^*_{weak} - \lambda}{\lambda} = \frac{-\sigma \langle E, \Psi_{1, 1/\lambda} \rangle}
      {x(t^*) \left(1 + \frac{2}{\lambda} \sum_{k=1}^m \psi_k e'_\lambda(kh)\right)
       + \sigma \langle E, \Psi_{1, 0} \rangle}, \qquad \Psi_{a,b} = a \psi + b \psi'$$

    The theorem prints the last term of the denominator without $\sigma$; the proof has it. The error is
    therefore linear in $\sigma$ to first order only.
    """
    require_sigma(sigma)
    require_nonzero("centre", centre)
    _require_conditions(weights, rate)
    m = weights.half
    _, _, excess_slope = _excesses(rate, weights.spacing, m)
    signal = centre * (1.0 + 2.0 / rate * float(weights.value[m + 1 :] @ excess_slope))
    above = -sigma * (noise @ (weights.value + weights.slope / rate))
    return np.asarray(above / (signal + sigma * (noise @ weights.value)))


def admissible_weights(rate: float, *, spacing: float, half: int, rng: np.random.Generator) -> WeakWeights:
    r"""A random test function that fulfils the five conditions of theorem 4.2.

    Normal draws for $\psi_1..\psi_m$ and $\psi'_1..\psi'_m$ are moved by the shortest way onto conditions
    4 and 5; symmetry gives the other side and condition 3 gives $\psi_0$. For $m = 1$ nothing is left to
    chance and the result is `three_point_weights`.
    """
    require_rate(rate)
    require_positive("spacing", spacing)
    require_count("half", half)
    time, excess, excess_slope = _excesses(rate, spacing, half)
    rows = np.stack([np.concatenate([np.zeros(half), 2.0 * time]), np.concatenate([excess_slope, excess])])
    draw = rng.standard_normal(2 * half)
    # The second step removes what rounding left of the first.
    for _ in range(2):
        draw = draw - np.linalg.lstsq(rows, rows @ draw - np.array([-1.0, 0.0]))[0]
    return _mirror(value=draw[:half], slope=draw[half:], spacing=spacing)


def three_point_weights(rate: float, support: float) -> WeakWeights:
    r"""Theorem 4.3: the test function of $m = 1$, $h = S / 2$, that is exact on clean data.

    $$\psi_1 = \frac{e_\lambda(h)}{S e'_\lambda(h)}, \quad \psi_0 = 1 - 2 \psi_1, \quad
      \psi'_1 = -\frac{1}{S}, \quad \psi'_0 = 0$$
    """
    require_rate(rate)
    require_positive("support", support)
    outer = np.array([float(excess_ratio(rate * support / 2.0)) / 2.0])
    return _mirror(value=outer, slope=np.array([-1.0 / support]), spacing=support / 2.0)


def three_point_variance(z: Numbers) -> Numbers:
    r"""$V(z) = (1 - r)^2 + r^2 / 2$ of theorem 4.3's proof, $r = \frac1z \frac{\sinh z - z}{\cosh z - 1}$.

    The variance of $Y = \langle E, \Psi_{1,0} \rangle$ at $z = \lambda h$: 1/2 at zero, 1 at infinity,
    rising in between. That of $X = \langle E, \Psi_{1,1/\lambda} \rangle$ is $V(z) + 1 / (2 z^2)$.
    """
    ratio = excess_ratio(z)
    return (1.0 - ratio) ** 2 + 0.5 * ratio**2


def three_point_spread(rate: float, support: float, sigma: float, *, centre: float = 1.0) -> float:
    r"""Standard deviation of the relative error of theorem 4.3 to first order in the noise.

    $$\frac{\sigma}{|x(t^*)|} \sqrt{V(z) + \frac{1}{2 z^2}} \, \frac{z}{\sinh z}, \qquad z = \lambda S / 2$$

    With $x(t^*)$ fixed it grows like $1/S$ as $S \to 0$ and vanishes as $S \to \infty$. With $x(0)$ fixed
    and $t^* = S / 2$ the centre itself decays for $\lambda < 0$, and convergence is lost.
    """
    require_rate(rate)
    require_positive("support", support)
    require_sigma(sigma)
    require_nonzero("centre", centre)
    z = rate * support / 2.0
    variance = float(three_point_variance(z)) + 0.5 / z**2
    return sigma / abs(centre) * math.sqrt(variance) / float(sinh_quotient(z))


def _excesses(
    rate: float, spacing: float, half: int
) -> tuple[Float[np.ndarray, " half"], Float[np.ndarray, " half"], Float[np.ndarray, " half"]]:
    r"""$(kh, e_\lambda(kh), e'_\lambda(kh))$ for $k = 1..m$."""
    time = spacing * np.arange(1, half + 1)
    return time, np.asarray(sinh_excess(rate * time)), rate * np.asarray(cosh_excess(rate * time))


def _mirror(*, value: Float[np.ndarray, " half"], slope: Float[np.ndarray, " half"], spacing: float) -> WeakWeights:
    """Both sides and the centre from the weights right of the centre."""
    middle = np.array([1.0 - 2.0 * np.sum(value)])
    return WeakWeights(
        value=np.concatenate([value[::-1], middle, value]),
        slope=np.concatenate([-slope[::-1], np.zeros(1), slope]),
        spacing=spacing,
    )


def _require_conditions(weights: WeakWeights, rate: float) -> None:
    m = weights.half
    _, excess, excess_slope = _excesses(rate, weights.spacing, m)
    largest = np.max(np.abs(weights.slope[m + 1 :] * excess) + np.abs(weights.value[m + 1 :] * excess_slope))
    scale = 1.0 + float(np.max(np.abs(weights.value))) + float(largest)
    for name, defect in weak_conditions(weights, rate)._asdict().items():
        if not defect <= _CONDITION_TOLERANCE * scale:
            raise InputError(
                f"weights miss the condition {name!r} of theorem 4.2 by {defect:.3g}, so its error formula "
                "does not hold. Take them from admissible_weights or three_point_weights, or compare with "
                "weak_estimate directly."
            )
