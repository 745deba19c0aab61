"""A random split of runs into a training and a test part. Runs stay whole."""

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data._random import generator
from wgfinn.data.trajectories import Trajectories


def split(
    trajectories: Trajectories, *, fraction: float | int = 0.8, seed: int | np.integer
) -> tuple[Trajectories, Trajectories]:
    r"""`(train, test)`: the first $\lfloor f n \rfloor$ runs of a random permutation, and the rest.

    `fraction` is $f$. The paper splits 100 runs into 80 and 20 (section 5).
    """
    if not 0 < fraction < 1:
        raise InputError(f"fraction must lie between 0 and 1, both excluded, but received {fraction}.")
    n_runs = len(trajectories)
    n_train = int(fraction * n_runs)
    if not 0 < n_train < n_runs:
        raise InputError(
            f"a training fraction of {fraction} leaves {n_train} of {n_runs} runs for training and "
            f"{n_runs - n_train} for testing; both need at least one. Change the fraction or add runs."
        )
    order = generator(seed).permutation(n_runs)
    return trajectories.subset(order[:n_train]), trajectories.subset(order[n_train:])
