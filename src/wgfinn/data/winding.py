"""Whether runs of two states go round: swing, circle or spiral, rather than relax.

The direction of motion turns by a whole turn or more. It is read off a path of steps that stand out from the noise.
"""

import numpy as np
from jaxtyping import Float64

from wgfinn.data.noise import state_std
from wgfinn.data.trajectories import Run, Trajectories

# Samples of noise are averaged over this part of a run; a step of the path is at least this part of the states' spread,
# or this many noise levels of the averages.
_AVERAGED, _STEP, _ABOVE_NOISE = 1 / 60, 0.25, 5.0


def goes_round(trajectories: Trajectories, noise: Float64[np.ndarray, " state"]) -> bool:
    """Whether most runs of two states turn by more than a whole turn; False for any other number of states."""
    spread = state_std(trajectories)
    if trajectories.n_states != 2 or not (spread > 0).all():
        return False
    turns = [_turns(run, spread, noise) for run in trajectories.runs]
    return bool(np.median(turns) > 1)


def _turns(run: Run, spread: Float64[np.ndarray, " state"], noise: Float64[np.ndarray, " state"]) -> float:
    """By how many whole turns the direction of a run changes, one way less the other."""
    complete = run.x[run.complete] / spread
    width = max(1, round(_AVERAGED * len(complete)))
    if len(complete) < 4 * width:
        return 0.0
    kernel = np.ones(width) / width
    smooth = np.stack([np.convolve(x, kernel, "valid") for x in complete.T], axis=1)
    far = max(_STEP, _ABOVE_NOISE * float(np.nanmax(noise / spread, initial=0)) / np.sqrt(width))
    path = [smooth[0]]
    for x in smooth:
        if np.linalg.norm(x - path[-1]) >= far:
            path.append(x)
    steps = np.diff(path, axis=0)
    directions = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    return abs(directions[-1] - directions[0]) / (2 * np.pi) if len(steps) > 1 else 0.0
