"""Long runs as several shorter ones."""

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data.trajectories import Trajectories


def cut(trajectories: Trajectories, length: int, *, shared: int) -> Trajectories:
    """Every run longer than `length` samples as segments of that length, of which neighbours share `shared` samples.

    The last segment ends with the run and may share more. A window of up to `shared` + 1 samples that lies in the run
    lies in a segment.
    """
    if not 0 <= shared < length:
        raise InputError(f"segments of {length} samples cannot share {shared}; share fewer samples than they have.")
    times, states, names = [], [], []
    for run in trajectories.runs:
        for start in _starts(len(run.t), length, length - shared):
            times.append(run.t[start : start + length])
            states.append(run.x[start : start + length])
            names.append(run.name if len(run.t) <= length else f"{run.name} from {start}")
    return Trajectories.from_arrays(states, times, names=trajectories.names, units=trajectories.units, run_names=names)


def _starts(n_times: int, length: int, stride: int) -> list[int]:
    if n_times <= length:
        return [0]
    last = n_times - length
    return [*np.arange(0, last, stride).tolist(), last]
