r"""Coordinates of order one: an affine change of each state and a unit of time.

GENERIC survives it: with $x = m + D z$, $L_x = D L_z D^\top$, $M_x = D M_z D^\top$ and energy and entropy
pulled back, both degeneracy conditions still hold exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Float64

from wgfinn._errors import InputError
from wgfinn.data._arrays import real_array
from wgfinn.data.noise import state_std
from wgfinn.data.trajectories import Trajectories


@final
@dataclass(frozen=True, eq=False, init=False)
class Scales:
    r"""$z = (x - m) / s$ for each state and $\tau = t / T$: `shift` = m, `scale` = s, `time` = T."""

    shift: Float64[np.ndarray, " state"]
    scale: Float64[np.ndarray, " state"]
    time: float

    def __init__(self, shift: Any, scale: Any, time: Any) -> None:
        shift = real_array(shift, "shift")
        scale = real_array(scale, "scale")
        time = real_array(time, "time")
        if shift.ndim != 1 or shift.size == 0 or scale.shape != shift.shape:
            raise InputError(
                f"shift and scale need one number for each state, but have shapes {shift.shape} and {scale.shape}."
            )
        if not np.all(np.isfinite(shift)):
            raise InputError(f"shift must be finite, but is {shift}.")
        if not np.all(np.isfinite(scale) & (scale > 0)):
            raise InputError(f"scale must be finite and above 0, but is {scale}.")
        if time.ndim != 0 or not (np.isfinite(time) and time > 0):
            raise InputError(f"the time scale must be one finite number above 0, but is {time}.")
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "time", float(time))

    @classmethod
    def identity(cls, n_states: int) -> "Scales":
        """Physical coordinates, as in the paper."""
        return cls(shift=np.zeros(n_states), scale=np.ones(n_states), time=1.0)

    @classmethod
    def standardise(cls, trajectories: Trajectories, *, time: float | int | None = None) -> "Scales":
        """Mean 0 and population standard deviation 1 for each state over all its measured values.

        A state that is constant up to rounding keeps scale 1. `time` defaults to a quarter of the median
        duration of a run: rates are then of order one over a record, and unlike a scale made from
        derivatives it does not feel the noise.
        """
        x = np.concatenate([run.x for run in trajectories.runs])
        spread = state_std(trajectories)
        if time is None:
            time = float(np.median([run.duration for run in trajectories.runs])) / 4
        return cls(shift=np.nanmean(x, axis=0), scale=np.where(spread > 0, spread, 1.0), time=float(time))

    def forward(self, x: Float[np.ndarray, "*batch state"]) -> Float[np.ndarray, "*batch state"]:
        """Physical to scaled: $z = (x - m) / s$."""
        self._check_last_axis(x)
        return (x - self.shift) / self.scale

    def backward(self, z: Float[np.ndarray, "*batch state"]) -> Float[np.ndarray, "*batch state"]:
        """Scaled to physical: $x = m + s z$."""
        self._check_last_axis(z)
        return self.shift + self.scale * z

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and floats, which JSON keeps bit-equal."""
        return {"shift": self.shift.tolist(), "scale": self.scale.tolist(), "time": self.time}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Scales":
        """The inverse of `to_dict`."""
        expected = {"shift", "scale", "time"}
        if set(content) != expected:
            raise InputError(f"scales need exactly the keys {sorted(expected)}, but received {sorted(content)}.")
        return cls(**content)

    def _check_last_axis(self, x: np.ndarray) -> None:
        # Broadcasting would accept a single column and blow it up to all states.
        if x.ndim == 0 or x.shape[-1] != self.shift.size:
            raise InputError(
                f"the last axis must hold the {self.shift.size} states, but the array has shape {x.shape}."
            )
