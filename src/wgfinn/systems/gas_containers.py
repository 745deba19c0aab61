"""Two gas containers exchanging heat and volume through a moving wall (paper, sec. 5.1; spec, section 1)."""

from typing import ClassVar, final

import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float, Matrix, Scalar, State
from wgfinn.systems.base import System, canonical_poisson, check_parameters, entropy_block


@final
class GasContainers(System):
    r"""State (q, p, S1, S2): wall position and momentum, entropies of the two gases.

    With volumes $V_1 = q$, $V_2 = \ell - q$:

    $E_i = c\,(e^{S_i}/V_i)^{2/3}$, $T_i = \tfrac23 E_i$, $E = p^2/2m + E_1 + E_2$, $S = S_1 + S_2$
    ($N k_B = 1$).

    The constants are those of the public GFINN code, which the paper names as the source of its data. (The
    older C code of Shang and Öttinger has `alpha` 0.5 and another c; the start box fits c = 1 only.)
    """

    mass: float = 1.0
    """Mass m of the wall."""
    alpha: float = 10.0
    """Heat exchange coefficient α."""
    length: float = 2.0
    """Total length ℓ, so that 0 < q < ℓ."""
    energy_scale: float = 1.0
    """Constant c of the gas energy."""

    description: ClassVar[str] = "two gas containers exchanging heat and volume"
    state_names: ClassVar[tuple[str, ...]] = ("q", "p", "S1", "S2")
    start_low: ClassVar[tuple[float, ...]] = (0.2, -1.0, 1.0, 1.0)
    start_high: ClassVar[tuple[float, ...]] = (1.8, 1.0, 3.0, 3.0)
    t_end: ClassVar[float] = 4.0
    dt: ClassVar[float] = 0.01

    def __check_init__(self) -> None:
        check_parameters(self, "positive", mass=self.mass, length=self.length, energy_scale=self.energy_scale)
        check_parameters(self, "non-negative", alpha=self.alpha)

    def _volumes(self, x: State) -> Float[Array, "2"]:
        return jnp.stack([x[0], self.length - x[0]])

    def _gas_energies(self, x: State) -> Float[Array, "2"]:
        return self.energy_scale * jnp.exp((2 / 3) * (x[2:] - jnp.log(self._volumes(x))))

    def _temperatures(self, x: State) -> Float[Array, "2"]:
        return (2 / 3) * self._gas_energies(x)

    def energy(self, x: State) -> Scalar:
        return x[1] ** 2 / (2 * self.mass) + jnp.sum(self._gas_energies(x))

    def entropy(self, x: State) -> Scalar:
        return x[2] + x[3]

    def energy_gradient(self, x: State) -> State:
        temperatures = self._temperatures(x)
        pressures = temperatures / self._volumes(x)
        mechanical = jnp.stack([pressures[1] - pressures[0], x[1] / self.mass])
        return jnp.concatenate([mechanical, temperatures])

    def entropy_gradient(self, x: State) -> State:
        return jnp.asarray([0, 0, 1, 1], x.dtype)

    def poisson(self, x: State) -> Matrix:
        return canonical_poisson(1, 2, x.dtype)

    def friction(self, x: State) -> Matrix:
        r"""$\alpha\, u u^\top$ with $u = (1/T_1, -1/T_2)$ on (S1, S2): rank one."""
        direction = jnp.asarray([1, -1], x.dtype) / self._temperatures(x)
        return entropy_block(4, self.alpha * jnp.outer(direction, direction))

    def rhs(self, x: State) -> State:
        t1, t2 = self._temperatures(x)
        v1, v2 = self._volumes(x)
        heat = self.alpha * (1 / t1 - 1 / t2)
        return jnp.stack([x[1] / self.mass, t1 / v1 - t2 / v2, heat / t1, -heat / t2])

    def outside_domain(self, x: np.ndarray) -> np.ndarray:
        return (x[:, 0] <= 0) | (x[:, 0] >= self.length)

    def domain(self) -> str:
        return f"the wall between the ends, 0 < q < {self.length:g}"
