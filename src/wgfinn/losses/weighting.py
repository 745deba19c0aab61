r"""From residuals to one number: state weights $W$ and State-RBA multipliers $\lambda$ (paper, section 3.1)."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field as Key

from wgfinn._spec import Spec
from wgfinn._types import Array, Scalar, State

Weights = Literal["inverse_std", "inverse_variance", "none"]

_POWER: dict[str, int] = {"none": 0, "inverse_std": 1, "inverse_variance": 2}


class AttentionSpec(Spec):
    """State-RBA: `rate` is the paper's eta*, `decay` its gamma. The defaults switch it off."""

    rate: float = Key(default=0.0, ge=0, description="weight of the newest residual in the multiplier")
    decay: float = Key(default=1.0, gt=0, le=1, description="what is kept of the multiplier at each step")


def state_weights(std: Float[np.ndarray, " state"], kind: Weights) -> Float[np.ndarray, " state"]:
    r"""The diagonal of $W$: $1/\sigma$ as the paper prints it, $1/\sigma^2$, or ones.

    A state that never moves has no scale of its own and gets weight one.
    """
    return np.where(std > 0, std, 1.0) ** -_POWER[kind]


def mean_over_equations(
    values: Float[Array, "state *equation"], mask: Float[Array, "#state *equation"] | None
) -> Float[Array, " state"]:
    """The mean over all equations that exist, per state."""
    axes = tuple(range(1, values.ndim))
    if mask is None:
        return values.mean(axis=axes)
    return (values * mask).sum(axis=axes) / jnp.maximum(mask.sum(axis=axes), 1)


def weighted_loss(
    residual: Float[Array, "state *equation"], weights: State, mask: Float[Array, "#state *equation"] | None = None
) -> Scalar:
    r"""$\frac{1}{d} \sum_i w_i \langle r_i^2 \rangle$: the mean of $\|r\|_W^2 / d$ over all equations."""
    return (weights * mean_over_equations(residual**2, mask)).mean()


def attention(
    multiplier: State,
    residual: Float[Array, "state *equation"],
    weights: State,
    rate: float | Scalar,
    decay: float | Scalar,
    mask: Float[Array, "#state *equation"] | None = None,
) -> State:
    r"""$\lambda^k = \gamma \lambda^{k-1} + \eta^* \sqrt{W} e / \|\sqrt{W} e\|_\infty$, $e$ the mean of $|r|$."""
    size = jnp.sqrt(weights) * mean_over_equations(jnp.abs(residual), mask)
    return decay * multiplier + rate * size / jnp.maximum(size.max(), jnp.finfo(size.dtype).tiny)
