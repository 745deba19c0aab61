r"""Families of test functions on $u \in [-1, 1]$: values, slopes, and how they meet the ends.

One class a family. Where windows stand, how many there are and how they are sampled is the same for all of them and
lives in `test_functions`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float64

Values = Float64[np.ndarray, "*points"]


@dataclass(frozen=True)
class AbstractFamily(ABC):
    r"""A function $\phi$ on $[-1, 1]$ that is zero at both ends and outside.

    `degree` says how fast the envelope falls off around the centre, `mode` how often $\phi$ swings inside of it.
    """

    smallest_degree: ClassVar[int] = 2
    degree: int
    mode: int

    @abstractmethod
    def evaluate(self, u: Values) -> tuple[Values, Values]:
        r"""$\phi(u)$ and $\phi'(u)$; exactly zero outside $[-1, 1]$, and $\phi(\pm 1) = 0$ exactly."""

    @abstractmethod
    def half_width(self, height: float) -> float:
        """The $u$ in [0, 1] at which the envelope has fallen to `height`, from 0 to below 1."""

    @property
    @abstractmethod
    def vanishing_order(self) -> float:
        r"""The $k$ of $\phi \sim (1 - |u|)^k$ at the ends.

        By Euler-Maclaurin the trapezoidal rule for $\int (\phi x)'$ then errs by the step to the smallest even
        power that is at least $k$.
        """

    @property
    def swings(self) -> float:
        """Full oscillations of the carrier inside the window."""
        return 0.0

    @classmethod
    def allows_mode(cls, mode: int) -> str | None:
        """Why `mode` is refused, or None."""
        return None if mode == 0 else "this family has no modes; leave it 0, or choose family 'sine' or 'hartley'"


@final
class Polynomial(AbstractFamily):
    r"""The paper's $(1 - u^2)^p$ (section 2.2.1)."""

    def evaluate(self, u: Values) -> tuple[Values, Values]:
        inside = np.maximum(1 - u**2, 0.0)
        return inside**self.degree, -2 * self.degree * u * inside ** (self.degree - 1)

    def half_width(self, height: float) -> float:
        return math.sqrt(1 - height ** (1 / self.degree))

    @property
    def vanishing_order(self) -> float:
        return float(self.degree)


@final
class Bump(AbstractFamily):
    r"""$\exp(p - p / (1 - u^2))$: infinitely smooth, all derivatives vanish at the ends.

    Around the centre it is $1 - p u^2$, as the polynomial of the same degree, so `degree` is its shape parameter.
    """

    def evaluate(self, u: Values) -> tuple[Values, Values]:
        inside = 1 - u**2
        # Where the value underflows, its slope does too; dividing there would only make infinities.
        seen = inside > self.degree / 700
        safe = np.where(seen, inside, 1.0)
        value = np.where(seen, np.exp(self.degree - self.degree / safe), 0.0)
        return value, -2 * self.degree * u / safe**2 * value

    def half_width(self, height: float) -> float:
        return 1.0 if height == 0 else math.sqrt(1 - 1 / (1 - math.log(height) / self.degree))

    @property
    def vanishing_order(self) -> float:
        return math.inf


@final
class Sine(AbstractFamily):
    r"""$\cos^{p-1}(\tfrac{\pi}{2} u) \sin((m + 1) \tfrac{\pi}{2} (u + 1))$.

    Degree 1 gives the sine basis of the window, of which mode $m$ has $m$ zeros inside: the functions reach the ends
    with a slope, so that samples near the ends count. Degree 2, mode 0 is the raised cosine (Hann).
    """

    smallest_degree: ClassVar[int] = 1

    def evaluate(self, u: Values) -> tuple[Values, Values]:
        cosine, cosine_slope = _half_cosine(u)
        turns = (self.mode + 1) * np.pi / 2
        sine = np.where(np.abs(u) < 1, np.sin(turns * (u + 1)), 0.0)
        sine_slope = np.where(np.abs(u) <= 1, turns * np.cos(turns * (u + 1)), 0.0)
        envelope = cosine ** (self.degree - 1)
        envelope_slope = (self.degree - 1) * cosine ** max(self.degree - 2, 0) * cosine_slope
        return envelope * sine, envelope_slope * sine + envelope * sine_slope

    def half_width(self, height: float) -> float:
        return _cosine_half_width(height, self.degree)

    @property
    def vanishing_order(self) -> float:
        return float(self.degree)

    @property
    def swings(self) -> float:
        return (self.mode + 1) / 2

    @classmethod
    def allows_mode(cls, mode: int) -> str | None:
        return None if mode >= 0 else "the modes of sine test functions count from 0"


@final
class Hartley(AbstractFamily):
    r"""Hartley modulating functions $\sum_{j=0}^{n} (-1)^j \binom{n}{j} \mathrm{cas}((n + m - j) \theta)$.

    Here $\theta = \pi (u + 1)$, $\mathrm{cas} = \cos + \sin$, $n$ is the degree and $m$ the mode (Patra and Unbehauen,
    Int. J. Control 62, 1995). Up to sign and a factor $2^n$ that sum is
    $\cos^n(\tfrac{\pi}{2} u)\,\mathrm{cas}((m + \tfrac{n}{2}) \pi u)$, which is what is computed: no cancellation.
    """

    def evaluate(self, u: Values) -> tuple[Values, Values]:
        cosine, cosine_slope = _half_cosine(u)
        turns = (self.mode + self.degree / 2) * np.pi
        carrier = np.cos(turns * u) + np.sin(turns * u)
        carrier_slope = turns * (np.cos(turns * u) - np.sin(turns * u))
        envelope = cosine**self.degree
        envelope_slope = self.degree * cosine ** (self.degree - 1) * cosine_slope
        return envelope * carrier, envelope_slope * carrier + envelope * carrier_slope

    def half_width(self, height: float) -> float:
        return _cosine_half_width(height, self.degree)

    @property
    def vanishing_order(self) -> float:
        return float(self.degree)

    @property
    def swings(self) -> float:
        return abs(self.mode + self.degree / 2)

    @classmethod
    def allows_mode(cls, mode: int) -> str | None:
        return None


def _half_cosine(u: Values) -> tuple[Values, Values]:
    r"""$\cos(\pi u / 2)$ inside, exactly zero at the ends and outside, and its slope."""
    inside = np.abs(u) < 1
    return np.where(inside, np.cos(np.pi / 2 * u), 0.0), np.where(inside, -np.pi / 2 * np.sin(np.pi / 2 * u), 0.0)


def _cosine_half_width(height: float, degree: int) -> float:
    return 2 / math.pi * math.acos(height ** (1 / degree))


FAMILIES: MappingProxyType[str, type[AbstractFamily]] = MappingProxyType(
    {"polynomial": Polynomial, "bump": Bump, "sine": Sine, "hartley": Hartley}
)
