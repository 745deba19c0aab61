"""The door of this folder: scalar arguments that no formula of section 4 can use are refused here."""

import math

from wgfinn._errors import InputError


def require_rate(rate: float) -> None:
    """The theorems divide by lambda: zero, NaN and infinity are refused."""
    if not math.isfinite(rate) or rate == 0.0:
        raise InputError(
            f"rate must be a finite number other than zero, got {rate!r}. "
            "Section 4 studies x' = rate * x, and its relative errors divide by the rate."
        )


def require_sigma(sigma: float) -> None:
    """A standard deviation: finite and not negative."""
    if not math.isfinite(sigma) or sigma < 0.0:
        raise InputError(
            f"sigma must be finite and not negative, got {sigma!r}. "
            "It is the standard deviation of the noise; give 0.0 for clean data."
        )


def require_nonzero(name: str, value: float) -> None:
    """A state that scales the signal: with zero there is nothing to estimate."""
    if not math.isfinite(value) or value == 0.0:
        raise InputError(
            f"{name} must be a finite number other than zero, got {value!r}. "
            "A state at rest carries no information about the rate."
        )


def require_positive(name: str, value: float) -> None:
    """A length of time: finite and above zero."""
    if not math.isfinite(value) or value <= 0.0:
        raise InputError(f"{name} must be finite and positive, got {value!r}. Give it in units of time.")


def require_count(name: str, value: int) -> None:
    """A number of steps, runs or nodes: at least one."""
    if value < 1:
        raise InputError(f"{name} must be at least 1, got {value!r}. Give a whole number of {name}.")
