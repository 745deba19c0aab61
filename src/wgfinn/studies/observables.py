"""Quantities that figures show beside the states themselves, by the name a recipe gives them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wgfinn._errors import InputError

States = Mapping[str, np.ndarray]

OBSERVABLES: dict[str, Callable[[States], np.ndarray]] = {
    # The double pendulum: lengths of its springs, λ1 = |q1| and λ2 = |q2 - q1|, and S1 + S2 (paper, section 5.2).
    "spring length 1": lambda x: np.hypot(x["q1x"], x["q1y"]),
    "spring length 2": lambda x: np.hypot(x["q2x"] - x["q1x"], x["q2y"] - x["q1y"]),
    "total entropy": lambda x: x["S1"] + x["S2"],
}


def observe(panels: Sequence[str], names: Sequence[str], x: np.ndarray) -> np.ndarray:
    """The quantities named in `panels` along a run `(time, state)`, as `(time, panel)`.

    A panel is a state or a registered observable of these states.
    """
    states = dict(zip(names, x.T, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged run is drawn as far as it goes
        return np.stack([_quantity(panel, states) for panel in panels], axis=1)


def _quantity(panel: str, states: States) -> np.ndarray:
    if panel in states:
        return states[panel]
    if panel not in OBSERVABLES:
        known = ", ".join([*states, *OBSERVABLES])
        raise InputError(f"figures.panels: {panel!r} is neither a state nor an observable; known are {known}.")
    try:
        return OBSERVABLES[panel](states)
    except KeyError as missing:
        raise InputError(
            f"figures.panels: {panel!r} needs the state {missing}; this system has {', '.join(states)}."
        ) from None
