"""Whether runs of two states go round: swing, circle or spiral, rather than relax.

The direction of motion turns by a whole turn or more. It is read off a path of steps that stand out from the noise.
"""

import math

import numpy as np
from jaxtyping import Float64

from wgfinn.data.noise import state_std
from wgfinn.data.trajectories import Trajectories

# A step of the path, as a part of the states' spread: as a rule, and at most where noise asks for longer ones. It must
# be this many noise levels of averages.
_STEP, _LONGEST_STEP, _NOISE_LEVELS = 0.25, 0.5, 5.0
# More averages of a run, and more runs, would tell no more.
_MOST_AVERAGES, _MOST_RUNS = 20_000, 20


def goes_round(trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> bool:
    """Whether most runs of two states turn by more than a whole turn; False for any other number of states."""
    spread = state_std(trajectories)
    if trajectories.n_states != 2 or not (spread > 0).all():
        return False
    clear_of_noise = _NOISE_LEVELS * float(np.nanmax(noise / spread, initial=0))
    averaged = max(1, math.ceil((clear_of_noise / _LONGEST_STEP) ** 2))
    step = max(_STEP, clear_of_noise / math.sqrt(averaged))
    runs = trajectories.runs[:: -(-len(trajectories) // _MOST_RUNS)]
    return bool(np.median([_turns(run.x[run.complete] / spread, averaged, step) for run in runs]) > 1)


def _turns(x: Float64[np.ndarray, "time state"], averaged: int, step: float) -> float:
    """By how many whole turns the direction of a run changes, one way less the other."""
    width = max(averaged, len(x) // _MOST_AVERAGES)
    count = len(x) // width
    averages = x[: count * width].reshape(count, width, 2).mean(axis=1)
    path = list(averages[:1])
    for state in averages:
        if np.linalg.norm(state - path[-1]) >= step:
            path.append(state)
    if len(path) < 3:
        return 0.0
    steps = np.diff(path, axis=0)
    directions = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    return abs(directions[-1] - directions[0]) / (2 * np.pi)
