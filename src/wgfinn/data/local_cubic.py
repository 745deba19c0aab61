r"""The cubic through four neighbouring samples: values between samples, and integrals over them.

Between two neighbouring samples $t_k$ and $t_{k+1}$, a distance $H$ apart, stands the cubic through these two and one
further sample on either side, the first that is at least $H / 2$ away: samples close together beside a wide gap would
multiply their noise. Where one side has none, the other side gives two. The error is $O(H^4)$ for values and $O(H^5)$
for the integral of one cell. Numpy only: this is done once, when data are made ready.
"""

import numpy as np
from jaxtyping import Float64, Int

Stencils = Int[np.ndarray, "cell four"]


def stencils(t: Float64[np.ndarray, " time"]) -> Stencils | None:
    """For each cell between neighbouring samples the four samples of its cubic; None if there are not enough."""
    left, right = np.arange(len(t) - 1), np.arange(1, len(t))
    apart = (t[right] - t[left]) / 2

    def outwards(of: np.ndarray, side: int) -> np.ndarray:
        """The sample next to `of` on that side, at least `apart` away; outside the record if there is none."""
        found = np.full(len(of), -1 if side < 0 else len(t))
        inside = (of >= 0) & (of < len(t))
        target = t[of[inside]] + side * apart[inside]
        found[inside] = (
            np.searchsorted(t, target, side="right") - 1 if side < 0 else np.searchsorted(t, target, side="left")
        )
        return found

    before, behind = outwards(left, -1), outwards(right, 1)
    further_before, further_behind = outwards(before, -1), outwards(behind, 1)
    outer_left = np.where(before < 0, further_behind, before)
    outer_right = np.where(behind >= len(t), further_before, behind)
    chosen = np.stack([outer_left, left, right, outer_right], axis=1)
    return chosen if np.all((chosen >= 0) & (chosen < len(t))) else None


def lagrange(
    nodes: Float64[np.ndarray, "cell four"], at: Float64[np.ndarray, " cell"]
) -> Float64[np.ndarray, "cell four"]:
    """The weight of each node's value in the value of the cubic at one place of its cell."""
    weights = np.ones_like(nodes)
    for i in range(4):
        for k in range(4):
            if k != i:
                weights[:, i] *= (at - nodes[:, k]) / (nodes[:, i] - nodes[:, k])
    return weights


def fill(
    t: Float64[np.ndarray, " time"],
    x: Float64[np.ndarray, " time"],
    sigma: Float64[np.ndarray, " time"] | None,
    limit: float,
) -> None:
    """Fill the gaps (NaN) of one state that are no longer than `limit`, in place, by the cubic through four measured
    values about them; nothing is extrapolated. The noise level of what is filled in follows from those it was made of,
    as if their errors were independent."""
    measured = np.flatnonzero(~np.isnan(x))
    for known in np.split(measured, np.flatnonzero(np.diff(t[measured]) > limit) + 1):
        if known.size < 4:
            continue
        missing = np.setdiff1d(np.arange(known[0], known[-1]), known, assume_unique=True)
        four = stencils(t[known])
        if missing.size == 0 or four is None:
            continue
        nodes = known[four[np.searchsorted(t[known], t[missing]) - 1]]
        weights = lagrange(t[nodes], t[missing])
        x[missing] = np.sum(weights * x[nodes], axis=1)
        if sigma is not None:
            sigma[missing] = np.sqrt(np.sum((weights * sigma[nodes]) ** 2, axis=1))


def quadrature_weights(t: Float64[np.ndarray, " time"]) -> Float64[np.ndarray, " time"]:
    r"""$w_k$ with $\sum_k w_k g(t_k) \approx \int g\,dt$ for a function that vanishes outside the record.

    Each cell contributes the exact integral of its cubic. Where the samples are equally spaced this is the trapezoidal
    rule, $w_k = h$. Zeros at the mirrored times continue the record, as the function does, so its ends are no
    exception.
    """
    before, behind = 2 * t[0] - t[:0:-1], 2 * t[-1] - t[-2::-1]
    extended = np.concatenate([before, t, behind])
    chosen = stencils(extended)
    assert chosen is not None, "quadrature needs at least four samples"
    # The outermost cells, far from the record, have no cubic about them.
    chosen = chosen[(chosen[:, 0] < chosen[:, 1]) & (chosen[:, 2] < chosen[:, 3])]
    nodes = extended[chosen]
    middle, half = (nodes[:, 1] + nodes[:, 2]) / 2, (nodes[:, 2] - nodes[:, 1]) / 2
    # Gauss's rule of two points integrates a cubic exactly.
    of_cell = sum(half[:, None] * lagrange(nodes, middle + sign * half / np.sqrt(3)) for sign in (-1, 1))
    total = np.bincount(chosen.ravel(), weights=np.ravel(of_cell), minlength=len(extended))
    return total[len(before) : len(before) + len(t)]
