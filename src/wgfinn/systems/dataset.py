"""From a known system to a data set: clean trajectories, and the same ones with measurement noise."""

from dataclasses import dataclass

import numpy as np

from wgfinn._errors import InputError
from wgfinn.data import Trajectories, add_noise
from wgfinn.systems.base import Progress, Source


@dataclass(frozen=True)
class Dataset:
    """The clean trajectories and their noisy copies (equal where `noise` is 0)."""

    clean: Trajectories
    noisy: Trajectories
    noise: float
    seed: int


def generate(
    system: Source,
    *,
    trajectories: int | None = None,
    noise: float | int = 0.0,
    seed: int = 0,
    integrator: str = "rk23",
    progress: Progress | None = None,
) -> Dataset:
    r"""Trajectories of the system from random start states, clean and as measured:
    $y = x + \rho\,\sigma_l\,\xi$ (paper, section 5).

    `noise` is ρ, σ_l the standard deviation of state l over the clean trajectories. Start states and noise
    come from independent streams of one seed, so the clean part is the same for every noise level. To take
    σ from the training part alone, as the paper does, generate without noise, `split`, then `add_noise`.
    `trajectories` defaults to the number in the paper; `progress(done, total)` is called as runs finish.
    """
    count = system.default_trajectories() if trajectories is None else trajectories
    _check(count, noise, seed)
    runs = system.runs(count, seed=seed, integrator=integrator, progress=progress)
    units = system.units or None
    clean = Trajectories.from_arrays(runs.x, runs.t, names=system.state_names, units=units, run_names=runs.names)
    # numpy's generator inside add_noise and jax's threefry for the start states share nothing but the seed.
    return Dataset(clean, add_noise(clean, noise, seed=seed), float(noise), int(seed))


def _check(count: int, noise: float, seed: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"trajectories={count!r} must be a whole number of at least 1.")
    if not np.isfinite(noise) or noise < 0:
        raise InputError(f"noise={noise!r} must be a finite number of at least 0; 0.05 is 5 % noise.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed={seed!r} must be a non-negative whole number.")
