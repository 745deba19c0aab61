"""A numpy generator from the caller's seed; there is no global seed anywhere."""

from typing import Any

import numpy as np

from wgfinn._errors import InputError


def generator(seed: Any) -> np.random.Generator:
    """Return the generator of `seed`, a non-negative integer."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a non-negative integer, but received {seed!r}.")
    return np.random.default_rng(int(seed))
