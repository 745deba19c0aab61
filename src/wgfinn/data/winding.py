"""How runs of two states move: whether they go round, as all that swings does, and whether the turns grow smaller.

The direction of motion turns by a whole turn or more. It is read off a path of steps that stand out from the noise.
"""

import math
from typing import Literal

import numpy as np
from jaxtyping import Float64

from wgfinn.data.noise import state_std
from wgfinn.data.trajectories import Trajectories

Winding = Literal["circling", "dying down", "other"]

# A step of the path, as a part of the states' spread: as a rule, and at most where noise asks for longer ones. It must
# be this many noise levels of averages.
_STEP, _LONGEST_STEP, _NOISE_LEVELS = 0.25, 0.5, 5.0
# More averages of a run, and more runs, would tell no more.
_MOST_AVERAGES, _MOST_RUNS = 20_000, 20
# What the last turn encloses, as a part of what the first one does, where motion dies down: at most in half of the
# runs, and in all but a few.
_SMALLER, _NO_LARGER, _NEARLY_ALL = 0.85, 1.0, 0.8


def winding(trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> Winding:
    """`circling` if most runs of two states turn by more than a whole turn, `dying down` if their last turns are also
    smaller than their first; `other` for any other number of states."""
    spread = state_std(trajectories)
    if trajectories.n_states != 2 or not (spread > 0).all():
        return "other"
    clear_of_noise = _NOISE_LEVELS * float(np.nanmax(noise / spread, initial=0))
    averaged = max(1, math.ceil((clear_of_noise / _LONGEST_STEP) ** 2))
    step = max(_STEP, clear_of_noise / math.sqrt(averaged))
    runs = trajectories.runs[:: -(-len(trajectories) // _MOST_RUNS)]
    turns, parts = np.array([_turns(run.x[run.complete] / spread, averaged, step) for run in runs]).T
    if np.median(turns) <= 1:
        return "other"
    parts = parts[turns > 1]
    smaller = np.median(parts) < _SMALLER and np.quantile(parts, _NEARLY_ALL) < _NO_LARGER
    return "dying down" if smaller else "circling"


def _turns(x: Float64[np.ndarray, "time state"], averaged: int, step: float) -> tuple[float, float]:
    """By how many whole turns the direction of a run changes, one way less the other, and what its last whole turn
    encloses, as a part of what its first one does; 1 where it has none."""
    width = max(averaged, len(x) // _MOST_AVERAGES)
    count = len(x) // width
    averages = x[: count * width].reshape(count, width, 2).mean(axis=1)
    path = [0] if count else []
    for i, state in enumerate(averages):
        if np.linalg.norm(state - averages[path[-1]]) >= step:
            path.append(i)
    if len(path) < 3:
        return 0.0, 1.0
    steps = np.diff(averages[path], axis=0)
    directions = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    turned = np.abs(directions - directions[0]) / (2 * np.pi)
    if turned[-1] < 1:
        return turned[-1], 1.0
    first_ends = path[np.argmax(turned >= 1)]
    last_begins = path[len(turned) - np.argmax(turned[-1] - turned[::-1] >= 1)]
    first, last = averages[: first_ends + 1], averages[last_begins : path[-1] + 1]
    return turned[-1], _enclosed(last) / _enclosed(first)


def _enclosed(polygon: Float64[np.ndarray, "corner 2"]) -> float:
    """The area inside."""
    x, y = (polygon - polygon[0]).T
    return 0.5 * abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))))
