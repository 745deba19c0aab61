"""Test functions, and where their windows stand over equally spaced samples (other samples: `scattered`).

A family gives its values and slopes on one window; placement is the same for all windows.
"""

import math

import numpy as np
from jaxtyping import Float
from pydantic import Field as Key
from pydantic import field_validator

from wgfinn._errors import InputError
from wgfinn._spec import Spec

SMALLEST_WIDTH = 4
"""With three points the only inner one is the centre, where the slope is zero: no derivative is seen."""


class TestFunctionSpec(Spec):
    r"""Piecewise polynomials $\phi(t) = (1 - \tau^2)^p$, $\tau \in [-1, 1]$ across the window.

    `width` is the paper's $\ell$ (samples in the support, both ends included), `degree` its $p$,
    `overlap` its $s$: the height at which neighbours cross (paper, section 2.2.1).
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    width: int = Key(default=40, description="samples in the support of a test function")
    degree: int = Key(default=4, description="polynomial degree, 2 or more")
    overlap: float = Key(default=0.9, description="height at which neighbours cross, from 0 to below 1")

    @field_validator("width")
    @classmethod
    def _wide_enough(cls, width: int) -> int:
        if width < SMALLEST_WIDTH:
            raise ValueError(f"the smallest legal width is {SMALLEST_WIDTH} samples")
        return width

    @field_validator("degree")
    @classmethod
    def _smooth_enough(cls, degree: int) -> int:
        if degree < 2:
            raise ValueError("the smallest legal degree is 2: the test function and its slope must vanish at both ends")
        return degree

    @field_validator("overlap")
    @classmethod
    def _partial(cls, overlap: float) -> float:
        if not 0 <= overlap < 1:
            raise ValueError("the overlap lies in [0, 1); the smallest legal value is 0 (no overlap)")
        return overlap

    @property
    def shared(self) -> int:
        r"""Samples shared by neighbours, $\lfloor \ell (1 - \sqrt{1 - s^{1/p}}) \rfloor$; never all of them."""
        shared = math.floor(self.width * (1 - math.sqrt(1 - self.overlap ** (1 / self.degree))))
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

    def window(self) -> tuple[Float[np.ndarray, " width"], Float[np.ndarray, " width"]]:
        r"""$\phi$ and $\dot\phi$ on one window with unit time step.

        $\dot\phi = -2 p \tau (1 - \tau^2)^{p-1} \cdot 2 / (b - a)$ with $b - a = \ell - 1$ steps.
        """
        values, slopes = self.at(np.linspace(-1, 1, self.width))
        return values, slopes * 2 / (self.width - 1)

    def at(self, tau: Float[np.ndarray, "*place"]) -> tuple[Float[np.ndarray, "*place"], Float[np.ndarray, "*place"]]:
        r"""$\phi$ and $d\phi / d\tau$ at places $\tau \in [-1, 1]$ of the window."""
        inside = 1 - tau**2
        return inside**self.degree, -2 * self.degree * tau * inside ** (self.degree - 1)
