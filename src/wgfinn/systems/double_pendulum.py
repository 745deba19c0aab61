"""A double pendulum of two thermoelastic springs in the plane (paper, section 5.2; spec, section 2)."""

from typing import ClassVar, NamedTuple, final

import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float, Matrix, Scalar, State
from wgfinn.systems.base import System, canonical_poisson, check_parameters, entropy_block


class _Springs(NamedTuple):
    """Both springs: unit directions, lengths λ, temperatures θ."""

    directions: Float[Array, "2 2"]
    lengths: Float[Array, "2"]
    temperatures: Float[Array, "2"]


@final
class DoublePendulum(System):
    r"""State (q1, q2, p1, p2, S1, S2), positions and momenta in the plane; no gravity.

    With lengths $\lambda_1 = |q_1|$, $\lambda_2 = |q_2 - q_1|$:

    $e_i = \tfrac12\ln^2\lambda_i + \ln\lambda_i + e^{S_i}/\lambda_i - 1$, $\theta_i = e^{S_i}/\lambda_i$,
    $E = |p_1|^2/2m_1 + |p_2|^2/2m_2 + e_1 + e_2$, $S = S_1 + S_2$.

    Doubts: no source at hand states the conductivity κ (0.5 and 1 are both in use, and the choice is visible
    in the trajectories); the masses 1 and the spring energy, Romero's with every constant 1, are inferred
    with high confidence.
    """

    kappa: float = 0.5
    """Heat conductivity κ between the springs (inferred, uncertain)."""
    mass1: float = 1.0
    """Mass m1 (inferred)."""
    mass2: float = 1.0
    """Mass m2 (inferred)."""

    description: ClassVar[str] = "thermoelastic double pendulum in the plane"
    state_names: ClassVar[tuple[str, ...]] = (
        *("q1x", "q1y", "q2x", "q2y"),
        *("p1x", "p1y", "p2x", "p2y"),
        *("S1", "S2"),
    )
    start_low: ClassVar[tuple[float, ...]] = (0.9, -0.1, 2.1, -0.1, -0.1, 1.9, 0.9, -0.1, 0.9, 0.1)
    start_high: ClassVar[tuple[float, ...]] = (1.1, 0.1, 2.3, 0.1, 0.1, 2.1, 1.1, 0.1, 1.1, 0.3)
    t_end: ClassVar[float] = 10.0
    dt: ClassVar[float] = 0.025

    def __check_init__(self) -> None:
        check_parameters(self, "positive", mass1=self.mass1, mass2=self.mass2)
        check_parameters(self, "non-negative", kappa=self.kappa)

    def _springs(self, x: State) -> _Springs:
        vectors = jnp.stack([x[:2], x[2:4] - x[:2]])
        lengths = jnp.sqrt(jnp.sum(vectors**2, axis=1))
        return _Springs(vectors / lengths[:, None], lengths, jnp.exp(x[8:]) / lengths)

    def _velocities(self, x: State) -> Float[Array, "4"]:
        return jnp.concatenate([x[4:6] / self.mass1, x[6:8] / self.mass2])

    def _position_gradient(self, springs: _Springs) -> Float[Array, "4"]:
        r"""$\nabla_q E$ from tensions $\partial_\lambda e_i = (\ln\lambda_i + 1 - \theta_i)/\lambda_i$."""
        tensions = (jnp.log(springs.lengths) + 1 - springs.temperatures) / springs.lengths
        pulls = tensions[:, None] * springs.directions
        return jnp.concatenate([pulls[0] - pulls[1], pulls[1]])

    def energy(self, x: State) -> Scalar:
        springs = self._springs(x)
        stretch = jnp.log(springs.lengths)
        kinetic = jnp.sum(x[4:6] ** 2) / (2 * self.mass1) + jnp.sum(x[6:8] ** 2) / (2 * self.mass2)
        return kinetic + jnp.sum(stretch**2 / 2 + stretch + springs.temperatures - 1)

    def entropy(self, x: State) -> Scalar:
        return x[8] + x[9]

    def energy_gradient(self, x: State) -> State:
        springs = self._springs(x)
        return jnp.concatenate([self._position_gradient(springs), self._velocities(x), springs.temperatures])

    def entropy_gradient(self, x: State) -> State:
        return jnp.concatenate([jnp.zeros_like(x[:8]), jnp.ones_like(x[8:])])

    def poisson(self, x: State) -> Matrix:
        return canonical_poisson(4, 2, x.dtype)

    def friction(self, x: State) -> Matrix:
        r"""$\kappa\,((\theta_2/\theta_1, -1), (-1, \theta_1/\theta_2))$ on (S1, S2): rank one."""
        theta1, theta2 = self._springs(x).temperatures
        ratio = theta2 / theta1
        one = jnp.ones_like(ratio)
        block = jnp.stack([jnp.stack([ratio, -one]), jnp.stack([-one, 1 / ratio])])
        return entropy_block(10, self.kappa * block)

    def rhs(self, x: State) -> State:
        springs = self._springs(x)
        ratio = springs.temperatures[1] / springs.temperatures[0]
        heating = self.kappa * jnp.stack([ratio - 1, 1 / ratio - 1])
        return jnp.concatenate([self._velocities(x), -self._position_gradient(springs), heating])

    def spring_lengths(self, x: State) -> Float[Array, "2"]:
        r"""$(\lambda_1, \lambda_2)$, the lengths the paper plots."""
        return self._springs(x).lengths

    def outside_domain(self, x: np.ndarray) -> np.ndarray:
        collapsed_first = (x[:, :2] == 0).all(axis=1)
        collapsed_second = (x[:, 2:4] == x[:, :2]).all(axis=1)
        return collapsed_first | collapsed_second

    def domain(self) -> str:
        return "springs of non-zero length"
