"""Does a learnt field obey the two laws, along its rollouts and at the states of the data?"""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._errors import InputError
from wgfinn._types import Array, Float, Scalar, State
from wgfinn.data import Trajectories, state_std
from wgfinn.evaluate._double import in_double
from wgfinn.evaluate.metrics import simulate_runs
from wgfinn.models import AbstractField


@final
@dataclass(frozen=True)
class ThermodynamicChecks:
    r"""The laws as numbers that do not depend on the units of the states nor on the free affine map of E and S.

    Energy and entropy are measured in units of their natural variation over the data,
    $\sqrt{\langle \sum_i (\sigma_i\,\partial_i E)^2 \rangle}$: the change that one standard deviation
    $\sigma_i$ of each state would bring about, in root mean square over the data. (The standard deviation
    of E itself would do for many runs, but over a single run a conserved E hardly has one.)
    """

    energy_drift: float
    """Largest $|E(x_k) - E(x_0)|$ over all simulated runs: the integrator's error if the field is exactly
    GENERIC; infinite if a run diverged. For an open field, whose energy falls, the largest rise $E(x_k) - E(x_j)$ after
    some earlier time."""
    min_entropy_increment: float
    """Least $S(x_{k+1}) - S(x_k)$ over all simulated runs; minus infinity if a run diverged. For an open field the
    least fall of the energy."""
    degeneracy: dict[str, float]
    r"""The worst over the states of the data, each zero up to rounding for a GENERIC field, in Frobenius norms:

    - `poisson_degeneracy`: $|L\nabla S|/|L||\nabla S|$; `friction_degeneracy`: $|M\nabla E|/|M||\nabla E|$;
    - `skew`: $|L + L^\top|/|L|$; `symmetric`: $|M - M^\top|/|M|$;
    - `min_eigenvalue`: the least eigenvalue of the symmetric part of M over its largest in size.

    0/0 counts as 0; a value that is not finite counts as infinite (minus infinite for `min_eigenvalue`). The first two
    are not asked of an open field.
    """
    is_open: bool = False
    """Whether energy leaves for surroundings that are no states."""


def thermodynamic_checks(
    field: AbstractField,
    trajectories: Trajectories,
    integrator: str = "rk23",
    *,
    simulated: Any = None,
    max_states: int = 2000,
) -> ThermodynamicChecks | None:
    """Energy, entropy and brackets of a field in double precision; None for a field without them.

    `simulated` are the rollouts of `simulate_runs`, if the caller has them already. The conditions on the
    brackets are checked at no more than `max_states` states of the data, evenly chosen among those that are complete.
    """
    if not has_thermodynamics(field, trajectories.n_states):
        return None
    if simulated is None:
        simulated = simulate_runs(field, trajectories, integrator)
    paths = [np.asarray(x, np.float64) for x in simulated]
    states = _evenly(np.concatenate([run.x[run.complete] for run in trajectories.runs]), max_states)
    with jax.enable_x64(True):
        double = in_double(field)
        energies, entropies = (np.asarray(v) for v in _potentials(double, jnp.asarray(np.concatenate(paths).T)))
        residuals = jax.device_get(_residuals(double, jnp.asarray(states)))
    energy_unit, entropy_unit = natural_variations(field, trajectories, max_states=max_states)
    ends = np.cumsum([len(x) for x in paths])[:-1]
    drift_of = _rise if field.is_open else _drift
    drift = max(drift_of(energy) for energy in np.split(energies, ends))
    increment = min(_least_increment(entropy) for entropy in np.split(entropies, ends))
    if not all(np.all(np.isfinite(x)) for x in paths):
        # A saturated network gives a diverged state a finite energy.
        drift, increment = np.inf, -np.inf
    return ThermodynamicChecks(
        energy_drift=_in_units(drift, energy_unit),
        min_entropy_increment=_in_units(increment, entropy_unit),
        degeneracy={name: _worst(name, values) for name, values in residuals.items()},
        is_open=field.is_open,
    )


def natural_variations(
    field: AbstractField, trajectories: Trajectories, *, max_states: int = 2000
) -> tuple[float, float]:
    """The units of `ThermodynamicChecks`: what one standard deviation of each state does to E and to S."""
    states = _evenly(np.concatenate([run.x for run in trajectories.runs]), max_states)
    with jax.enable_x64(True):
        spread = jnp.asarray(state_std(trajectories))
        of_energy, of_entropy = _natural_variations(in_double(field), jnp.asarray(states.T), spread)
    return float(of_energy), float(of_entropy)


def has_thermodynamics(field: AbstractField, n_states: int) -> bool:
    """Whether a field has an energy, an entropy and brackets; a plain network has none."""
    try:
        eqx.filter_eval_shape(field.energy, jax.ShapeDtypeStruct((n_states,), jnp.float32))
    except InputError:
        return False
    return True


def _evenly(states: np.ndarray, at_most: int) -> np.ndarray:
    if len(states) <= at_most:
        return states
    return states[np.linspace(0, len(states) - 1, at_most).round().astype(int)]


@eqx.filter_jit
def _potentials(
    field: AbstractField, x: Float[Array, "state point"]
) -> tuple[Float[Array, " point"], Float[Array, " point"]]:
    return field.energy(x), field.entropy(x)


@eqx.filter_jit
def _natural_variations(field: AbstractField, x: Float[Array, "state point"], sigma: State) -> tuple[Scalar, Scalar]:
    def variation(gradient: Float[Array, "state point"]) -> Scalar:
        return jnp.sqrt(jnp.mean(jnp.sum((sigma[:, None] * gradient) ** 2, axis=0)))

    return variation(field.energy_gradient(x)), variation(field.entropy_gradient(x))


@eqx.filter_jit
def _residuals(field: AbstractField, x: Float[Array, "point state"]) -> dict[str, Float[Array, " point"]]:
    return jax.vmap(lambda state: _residuals_at(field, state))(x)


def _residuals_at(field: AbstractField, x: State) -> dict[str, Scalar]:
    poisson, friction = field.poisson(x), field.friction(x)
    of_energy, of_entropy = field.energy_gradient(x), field.entropy_gradient(x)
    eigenvalues = jnp.linalg.eigvalsh((friction + friction.T) / 2)
    degeneracy = {
        "poisson_degeneracy": _ratio(_norm(poisson @ of_entropy), _norm(poisson) * _norm(of_entropy)),
        "friction_degeneracy": _ratio(_norm(friction @ of_energy), _norm(friction) * _norm(of_energy)),
    }
    return {
        **({} if field.is_open else degeneracy),
        "skew": _ratio(_norm(poisson + poisson.T), _norm(poisson)),
        "symmetric": _ratio(_norm(friction - friction.T), _norm(friction)),
        "min_eigenvalue": _ratio(eigenvalues[0], jnp.max(jnp.abs(eigenvalues))),
    }


def _norm(a: Array) -> Scalar:
    return jnp.sqrt(jnp.sum(a**2))


def _ratio(value: Scalar, scale: Scalar) -> Scalar:
    """`value / scale` with 0/0 = 0; every value here vanishes with its scale."""
    return value / jnp.where(scale == 0, 1, scale)


def _worst(name: str, values: np.ndarray) -> float:
    if name == "min_eigenvalue":
        return float(np.min(values)) if np.all(np.isfinite(values)) else -np.inf
    return float(np.max(values)) if np.all(np.isfinite(values)) else np.inf


def _drift(energy: np.ndarray) -> float:
    return float(np.max(np.abs(energy - energy[0]))) if np.all(np.isfinite(energy)) else np.inf


def _rise(energy: np.ndarray) -> float:
    return float(np.max(energy - np.minimum.accumulate(energy))) if np.all(np.isfinite(energy)) else np.inf


def _least_increment(entropy: np.ndarray) -> float:
    return float(np.min(np.diff(entropy))) if np.all(np.isfinite(entropy)) else -np.inf


def _in_units(value: float, unit: float) -> float:
    """`value / unit` with 0/0 = 0 and anything else over nothing infinite, of its own sign."""
    if value == 0:
        return 0.0
    return value / unit if unit > 0 else float(np.copysign(np.inf, value))
