"""A system of your own: give energy, entropy and the two brackets, check them, make data.

A damped pendulum warms a bath of finite heat capacity. Run it with `python examples/custom_system.py`.
"""

from typing import ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from wgfinn import systems


@final
class WarmingPendulum(systems.System):
    r"""State (angle, momentum, S): $E = p^2/2 + 1 - \cos\theta + C e^{S/C}$, a bath of $T = e^{S/C}$."""

    damping: float = 0.3
    heat_capacity: float = 2.0

    description: ClassVar[str] = "damped pendulum warming a bath"
    state_names: ClassVar[tuple[str, ...]] = ("angle", "momentum", "S")
    start_low: ClassVar[tuple[float, ...]] = (-2.0, -0.5, 0.0)
    start_high: ClassVar[tuple[float, ...]] = (2.0, 0.5, 0.5)
    t_end: ClassVar[float] = 10.0
    dt: ClassVar[float] = 0.02

    def energy(self, x):
        bath = self.heat_capacity * jnp.exp(x[2] / self.heat_capacity)
        return x[1] ** 2 / 2 + 1 - jnp.cos(x[0]) + bath

    def entropy(self, x):
        return x[2]

    def poisson(self, x):
        return jnp.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0]], x.dtype)

    def friction(self, x):
        # u is orthogonal to the energy gradient (sin θ, p, T), so what the pendulum loses the bath gains.
        temperature = jnp.exp(x[2] / self.heat_capacity)
        u = jnp.stack([jnp.zeros_like(x[0]), jnp.ones_like(x[1]), -x[1] / temperature])
        return self.damping * temperature * jnp.outer(u, u)


def main() -> None:
    system = WarmingPendulum()

    states = system.sample(200, jax.random.key(1))
    print("GENERIC conditions, worst relative residual over 200 states:")
    for name, residual in systems.check_generic(system, states).items():
        print(f"  {name:20s} {residual: .1e}")

    data = systems.generate(system, trajectories=5, noise=0.05, seed=0, integrator="accurate")
    print(f"\nclean: {data.clean}\nnoisy: {data.noisy}")

    _, x = data.clean.stacked()
    with jax.enable_x64(True):
        energy = np.asarray(jax.vmap(jax.vmap(system.energy))(jnp.asarray(x)))
    drift = np.max(np.abs(energy / energy[:, :1] - 1))
    gain = x[:, -1, 2] - x[:, 0, 2]
    print(f"\nenergy drift: {drift:.1e} relative; entropy gained: {gain.min():.3f} to {gain.max():.3f}")


if __name__ == "__main__":
    main()
