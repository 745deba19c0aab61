"""A linearly damped oscillator with a heat bath (paper, section 5.3; spec, section 3)."""

from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np

from wgfinn._types import Matrix, Scalar, State
from wgfinn.systems.base import System, canonical_poisson, check_parameters, entropy_block


@final
class DampedOscillator(System):
    r"""State (q, p, S): position, momentum, entropy of the bath.

    $E = p^2/2m + k q^2/2 + T_e S$, $S(x) = S$; $q' = p/m$, $p' = -kq - \gamma p/m$,
    $S' = \gamma p^2/(m^2 T_e)$.

    Doubt: the paper prints no damping; γ = 0.01 is the value of the code it cites (Shang and Öttinger) and
    fits its remark that S is small.
    """

    mass: float = 1.0
    """Mass m."""
    stiffness: float = 1.0
    """Spring constant k."""
    gamma: float = 0.01
    """Friction coefficient γ (inferred, see above)."""
    temperature: float = 1.0
    """Bath temperature T_e, with Boltzmann's constant 1."""

    description: ClassVar[str] = "linearly damped oscillator with a heat bath"
    state_names: ClassVar[tuple[str, ...]] = ("q", "p", "S")
    start_low: ClassVar[tuple[float, ...]] = (1.5, -0.2, 0.0)
    start_high: ClassVar[tuple[float, ...]] = (2.5, 0.2, 0.0)
    t_end: ClassVar[float] = 4.0
    dt: ClassVar[float] = 0.01

    def __check_init__(self) -> None:
        check_parameters(self, "positive", mass=self.mass, stiffness=self.stiffness, temperature=self.temperature)
        check_parameters(self, "non-negative", gamma=self.gamma)

    def energy(self, x: State) -> Scalar:
        return x[1] ** 2 / (2 * self.mass) + self.stiffness * x[0] ** 2 / 2 + self.temperature * x[2]

    def entropy(self, x: State) -> Scalar:
        return x[2]

    def energy_gradient(self, x: State) -> State:
        return jnp.stack([self.stiffness * x[0], x[1] / self.mass, jnp.full_like(x[0], self.temperature)])

    def entropy_gradient(self, x: State) -> State:
        return jnp.asarray([0, 0, 1], x.dtype)

    def poisson(self, x: State) -> Matrix:
        return canonical_poisson(1, 1, x.dtype)

    def friction(self, x: State) -> Matrix:
        r"""$\gamma T_e\, u u^\top$ with $u = (1, -p/(m T_e))$ on (p, S): rank one."""
        direction = jnp.stack([jnp.ones_like(x[1]), -x[1] / (self.mass * self.temperature)])
        return entropy_block(3, self.gamma * self.temperature * jnp.outer(direction, direction))

    def rhs(self, x: State) -> State:
        velocity = x[1] / self.mass
        force = -self.stiffness * x[0] - self.gamma * velocity
        return jnp.stack([velocity, force, self.gamma * velocity**2 / self.temperature])

    def exact(self, x0: Any, t: Any) -> np.ndarray:
        r"""The closed solution `(time, state)` of the underdamped oscillator.

        With $\beta = \gamma/2m$ and $\omega^2 = k/m - \beta^2$:
        $q = e^{-\beta t}(q_0\cos\omega t + (p_0/m + \beta q_0)\sin\omega t/\omega)$, $p = mq'$;
        S takes up the energy lost.
        """
        q0, p0, s0 = np.asarray(x0, np.float64)
        t = np.asarray(t, np.float64)
        beta = self.gamma / (2 * self.mass)
        omega = np.sqrt(self.stiffness / self.mass - beta**2)
        fade, cosine, sine = np.exp(-beta * t), np.cos(omega * t), np.sin(omega * t) / omega
        q = fade * (q0 * cosine + (p0 / self.mass + beta * q0) * sine)
        p = fade * (p0 * cosine - (self.stiffness * q0 + beta * p0) * sine)
        kept = (p**2 - p0**2) / (2 * self.mass) + self.stiffness * (q**2 - q0**2) / 2
        return np.stack([q, p, s0 - kept / self.temperature], axis=1)
