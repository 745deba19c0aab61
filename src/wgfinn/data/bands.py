"""What the members of an ensemble agree on: bands around a prediction, and how much of the data lies within.

Members differ in their random start, hence a band shows how far data and training leave the model open. It knows
nothing of measurement noise, nor of what all members get wrong together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from wgfinn._errors import InputError
from wgfinn.data.trajectories import Trajectories

SHARE = 0.9


@final
@dataclass(frozen=True, eq=False)
class Band:
    """Between `low` and `high` lies a share of the members, entry by entry."""

    low: Float64[np.ndarray, "time state"]
    high: Float64[np.ndarray, "time state"]


def band(members: Float64[np.ndarray, "member time state"], share: float = SHARE) -> Band:
    r"""The band of one run: quantiles $(1 \mp \text{share})/2$ over its members, each rounded outward to a member.

    Of n values in order, counted from 0, `low` is number $k = \lfloor (n-1)(1-\text{share})/2 \rfloor$ and `high`
    number $n-1-k$: the values of members, never in between. Up to 20 members a share of 0.9 is the whole range.
    Members that leave the finite range do not count; with fewer than two left, the band is NaN.
    """
    if not 0 < share <= 1:
        raise InputError(f"the share of members within a band must lie above 0 and up to 1, but is {share:g}.")
    if len(members) < 2:
        raise InputError(
            f"a band is the spread of two or more members, but there is {len(members)}; fit with members = 5, say."
        )
    finite = members[np.isfinite(members).all(axis=(1, 2))]
    if len(finite) < 2:
        nothing = np.full(members.shape[1:], np.nan)
        return Band(nothing, nothing)
    # A little more than the product, whose rounding must not cost a whole number.
    left_out = int((len(finite) - 1) * (1 - share) / 2 + 1e-9)
    ordered = np.sort(finite, axis=0)
    return Band(ordered[left_out], ordered[-1 - left_out])


def coverage(trajectories: Trajectories, bands: Sequence[Band]) -> dict[str, float]:
    """Share of the samples within the band of their run, by the name of the state.

    The first sample of a run does not count: every prediction starts there. A band that is not finite holds nothing.
    """
    inside = [
        (band.low[1:] <= run.x[1:]) & (run.x[1:] <= band.high[1:])
        for run, band in zip(trajectories.runs, bands, strict=True)
    ]
    return dict(zip(trajectories.names, np.concatenate(inside).mean(axis=0).tolist(), strict=True))
