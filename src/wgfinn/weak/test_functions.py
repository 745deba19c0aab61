"""Test functions, and where their windows stand over equally spaced samples (other samples: `scattered`).

A family (`families`) gives its values and slopes on [-1, 1]; sampling and placement are the same for all of them.
"""

import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Float64
from pydantic import Field as Key
from pydantic import field_validator

from wgfinn._errors import InputError
from wgfinn._spec import Spec
from wgfinn.weak.families import FAMILIES, AbstractFamily

Family = Literal["polynomial", "bump", "sine", "hartley"]

SMALLEST_WIDTH = 4
"""With three points the only inner one is the centre, where the slope is zero: no derivative is seen."""

_SAMPLES_A_SWING = 4


class TestFunctionSpec(Spec):
    r"""Piecewise polynomials $\phi(t) = (1 - u^2)^p$, $u \in [-1, 1]$ across the window, or another family.

    `width` is the paper's $\ell$ (samples in the support, both ends included), `degree` its $p$,
    `overlap` its $s$: the height at which neighbours cross (paper, section 2.2.1). `docs/test_functions.md` compares
    the families.
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    family: Family = Key(default="polynomial", description="shape of the test functions; see docs/test_functions.md")
    width: int = Key(default=40, description="samples in the support of a test function")
    degree: int = Key(default=4, description="how steeply a test function falls off, 2 or more (sine: 1 or more)")
    overlap: float = Key(default=0.9, description="height at which neighbours cross, from 0 to below 1")
    mode: int = Key(default=0, validate_default=True, description="oscillations inside a window; sine and hartley only")

    @field_validator("width")
    @classmethod
    def _wide_enough(cls, width: int) -> int:
        if width < SMALLEST_WIDTH:
            raise ValueError(f"the smallest legal width is {SMALLEST_WIDTH} samples")
        return width

    @field_validator("degree")
    @classmethod
    def _smooth_enough(cls, degree: int, info: Any) -> int:
        smallest = FAMILIES[info.data.get("family", "polynomial")].smallest_degree
        if degree < smallest:
            reason = "the test function and its slope must vanish" if smallest == 2 else "the test function must vanish"
            raise ValueError(f"the smallest legal degree is {smallest}: {reason} at both ends")
        return degree

    @field_validator("overlap")
    @classmethod
    def _partial(cls, overlap: float) -> float:
        if not 0 <= overlap < 1:
            raise ValueError("the overlap lies in [0, 1); the smallest legal value is 0 (no overlap)")
        return overlap

    @field_validator("mode")
    @classmethod
    def _resolved(cls, mode: int, info: Any) -> int:
        settings = info.data
        if not {"family", "width", "degree"} <= settings.keys():
            return mode  # another key was refused, and says so
        family = FAMILIES[settings["family"]]
        if refusal := family.allows_mode(mode):
            raise ValueError(refusal)
        smallest = math.ceil(_SAMPLES_A_SWING * family(degree=settings["degree"], mode=mode).swings)
        if settings["width"] < smallest:
            raise ValueError(
                f"{settings['family']} test functions of degree {settings['degree']} and mode {mode} need a width of "
                f"at least {smallest} samples, {_SAMPLES_A_SWING} for each oscillation, but it is {settings['width']}"
            )
        return mode

    @property
    def shape(self) -> AbstractFamily:
        """The family with its parameters."""
        return FAMILIES[self.family](degree=self.degree, mode=self.mode)

    @property
    def shared(self) -> int:
        r"""Samples shared by neighbours, $\lfloor \ell (1 - u_s) \rfloor$ with $\phi(u_s) = s$; never all of them.

        For the polynomials $u_s = \sqrt{1 - s^{1/p}}$, the paper's formula; for the families with modes the envelope
        counts.
        """
        shared = math.floor(self.width * (1 - self.shape.half_width(self.overlap)))
        return min(shared, self.width - 1)

    @property
    def stride(self) -> int:
        """Samples from one window's start to the next."""
        return self.width - self.shared

    def count(self, n_times: int) -> int:
        r"""Windows in a record, $1 + \lfloor (n - \ell) / (\ell - \ell_{overlap}) \rfloor$."""
        if n_times < self.width:
            narrower = f"Choose a width of at most {n_times}, or leave" if n_times >= SMALLEST_WIDTH else "Leave"
            raise InputError(
                f"a record of {n_times} samples is shorter than the support of the test functions: with "
                f"width = {self.width} the smallest legal record has {self.width} samples. "
                f"{narrower} this run out."
            )
        return 1 + (n_times - self.width) // self.stride

    def evaluate(
        self, u: Float64[np.ndarray, "*points"]
    ) -> tuple[Float64[np.ndarray, "*points"], Float64[np.ndarray, "*points"]]:
        r"""$\phi(u)$ and $\phi'(u) = d\phi / du$ at any points; the support is $[-1, 1]$, outside both are zero.

        On a window from $a$ to $b$, $u = (2 t - a - b) / (b - a)$ and $\dot\phi = 2 \phi' / (b - a)$.
        """
        return self.shape.evaluate(u)

    def window(self) -> tuple[Float[np.ndarray, " width"], Float[np.ndarray, " width"]]:
        r"""$\phi$ and $\dot\phi$ on one window with unit time step, times the weights of the trapezoidal rule.

        $\dot\phi = \phi'(u) \cdot 2 / (b - a)$ with $b - a = \ell - 1$ steps. The rule halves both ends. That
        matters only where the slope does not vanish there (sine, degree 1): with full weights the boundary terms
        $\dot\phi x$ would leave an error of the order of the step instead of its square.
        """
        value, slope = self.evaluate(np.linspace(-1, 1, self.width))
        slope = slope * 2 / (self.width - 1)
        slope[[0, -1]] *= 0.5
        return value, slope
