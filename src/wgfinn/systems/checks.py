"""Does a system keep the promises of the GENERIC form? Residuals, relative to the size of their factors."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Scalar, State
from wgfinn.systems.base import System


def check_generic(system: System, states: Any) -> dict[str, float]:
    r"""The worst residual of each condition over `states`, `(state,)` or `(n, state)`, in double precision.

    - `skew`: $|L + L^\top|/|L|$; `symmetric`: $|M - M^\top|/|M|$;
    - `min_eigenvalue`: the smallest eigenvalue of M over $|M|$ (should not fall below rounding);
    - `poisson_degeneracy`: $|L\nabla S|/|L||\nabla S|$; `friction_degeneracy`: $|M\nabla E|/|M||\nabla E|$;
    - `rhs`: $|f - L\nabla E - M\nabla S|$ over $|L||\nabla E| + |M||\nabla S|$;
    - `energy_gradient`, `entropy_gradient`: given gradients against automatic differentiation.
    """
    rows = np.atleast_2d(system.check_domain(states))
    with jax.enable_x64(True):
        residuals = jax.device_get(_residuals(system, rows))
    return {name: float(np.min(r) if name == "min_eigenvalue" else np.max(r)) for name, r in residuals.items()}


@eqx.filter_jit
def _residuals(system: System, states: Any) -> dict[str, Array]:
    return jax.vmap(lambda x: _residuals_at(system, x))(jnp.asarray(states))


def _residuals_at(system: System, x: State) -> dict[str, Scalar]:
    poisson, friction = system.poisson(x), system.friction(x)
    energy, entropy = system.energy_gradient(x), system.entropy_gradient(x)
    rhs_scale = _norm(poisson) * _norm(energy) + _norm(friction) * _norm(entropy)
    differentiated_energy, differentiated_entropy = jax.grad(system.energy)(x), jax.grad(system.entropy)(x)
    return {
        "skew": _relative(poisson + poisson.T, _norm(poisson)),
        "symmetric": _relative(friction - friction.T, _norm(friction)),
        "min_eigenvalue": _divide(jnp.linalg.eigvalsh((friction + friction.T) / 2)[0], _norm(friction)),
        "poisson_degeneracy": _relative(poisson @ entropy, _norm(poisson) * _norm(entropy)),
        "friction_degeneracy": _relative(friction @ energy, _norm(friction) * _norm(energy)),
        "rhs": _relative(system.rhs(x) - poisson @ energy - friction @ entropy, rhs_scale),
        "energy_gradient": _relative(energy - differentiated_energy, _norm(differentiated_energy)),
        "entropy_gradient": _relative(entropy - differentiated_entropy, _norm(differentiated_entropy)),
    }


def _norm(a: Array) -> Scalar:
    return jnp.sqrt(jnp.sum(a**2))


def _relative(difference: Array, scale: Scalar) -> Scalar:
    return _divide(_norm(difference), scale)


def _divide(value: Scalar, scale: Scalar) -> Scalar:
    """`value / scale`, and `value` itself where the scale is zero (a vanishing bracket)."""
    return value / jnp.where(scale > 0, scale, 1)
