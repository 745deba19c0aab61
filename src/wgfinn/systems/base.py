r"""What a known system is: energy, entropy and brackets of the GENERIC form, a start box and a time grid.

$\dot x = L(x)\nabla E(x) + M(x)\nabla S(x)$ with $L$ skew, $M$ symmetric and positive semidefinite,
$L\nabla S = 0$ and $M\nabla E = 0$ (paper, section 2). One file a system; nothing here knows any of them.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._errors import InputError
from wgfinn._types import Array, Float, Matrix, PRNGKeyArray, Scalar, State
from wgfinn.integrate import INTEGRATORS, rollout

Progress = Callable[[int, int], object]
"""Called with (done, total) whenever a piece of the work is finished."""


class Runs(NamedTuple):
    """Clean solutions on one time grid, with a name a run."""

    x: np.ndarray
    t: np.ndarray
    names: tuple[str, ...]


@runtime_checkable
class Source(Protocol):
    """What `generate` asks of a system: labels, and clean solutions for a seed."""

    description: ClassVar[str]
    state_names: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[str, ...]]
    train_fraction: ClassVar[float]

    def default_trajectories(self) -> int:
        """The number of runs in the paper's data set."""
        ...

    def runs(self, count: int, *, seed: int = 0, integrator: str = "rk23", progress: Progress | None = None) -> Runs:
        """`count` clean solutions on the system's own time grid; the seed settles the start states."""
        ...


class System(eqx.Module):
    r"""A system in GENERIC form: subclass it and give `energy`, `entropy`, `poisson` and `friction`.

    Every method takes one state in any floating precision and can be batched by `jax.vmap`. The gradients
    and `rhs` follow by automatic differentiation; a system with closed forms may give those instead.
    Parameters are fields with defaults; labels, start box and time grid are class attributes.
    """

    description: ClassVar[str] = ""
    state_names: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[str, ...]] = ()
    start_low: ClassVar[tuple[float, ...]]
    start_high: ClassVar[tuple[float, ...]]
    t_end: ClassVar[float]
    dt: ClassVar[float]
    n_trajectories: ClassVar[int] = 100
    train_fraction: ClassVar[float] = 0.8

    @abc.abstractmethod
    def energy(self, x: State) -> Scalar:
        """E(x), conserved along every solution."""

    @abc.abstractmethod
    def entropy(self, x: State) -> Scalar:
        """S(x), never decreasing along a solution."""

    @abc.abstractmethod
    def poisson(self, x: State) -> Matrix:
        """L(x): skew, with L∇S = 0."""

    @abc.abstractmethod
    def friction(self, x: State) -> Matrix:
        """M(x): symmetric positive semidefinite, with M∇E = 0."""

    def energy_gradient(self, x: State) -> State:
        """∇E(x)."""
        return jax.grad(self.energy)(x)

    def entropy_gradient(self, x: State) -> State:
        """∇S(x)."""
        return jax.grad(self.entropy)(x)

    def rhs(self, x: State) -> State:
        r"""$\dot x = L\nabla E + M\nabla S$."""
        return self.poisson(x) @ self.energy_gradient(x) + self.friction(x) @ self.entropy_gradient(x)

    def outside_domain(self, x: np.ndarray) -> np.ndarray:
        """Which of the states `(n, state)` are physically impossible; by default none."""
        return np.zeros(x.shape[0], bool)

    def domain(self) -> str:
        """The physical domain in words, for messages."""
        return "finite numbers"

    @property
    def dimension(self) -> int:
        return len(self.state_names)

    def times(self) -> np.ndarray:
        """The time grid 0, dt, ..., t_end."""
        return np.arange(round(self.t_end / self.dt) + 1) * self.dt

    def default_trajectories(self) -> int:
        return self.n_trajectories

    def sample(self, count: int, key: PRNGKeyArray) -> np.ndarray:
        """`count` start states, uniform in the start box; double precision whatever the caller's setting."""
        if count < 1:
            raise InputError(f"trajectories={count}: at least 1 start state is needed.")
        low, high = np.asarray(self.start_low), np.asarray(self.start_high)
        with jax.enable_x64(True):
            unit = np.asarray(jax.random.uniform(key, (count, self.dimension), jnp.float64))
        return np.asarray(low + (high - low) * unit, np.float64)

    def check_domain(self, x: Any) -> np.ndarray:
        """The states `(state,)` or `(n, state)` as doubles; `InputError` for one the physics excludes."""
        states = _as_float64("x", x)
        if states.ndim not in (1, 2) or states.shape[-1] != self.dimension:
            raise InputError(
                f"x has shape {states.shape}, but a state of {type(self).__name__} holds {self.dimension} "
                f"numbers ({', '.join(self.state_names)}): give ({self.dimension},) or (n, {self.dimension})."
            )
        rows = np.atleast_2d(states)
        finite = np.all(np.isfinite(rows), axis=1)
        impossible = np.ones(len(rows), bool)
        impossible[finite] = self.outside_domain(rows[finite])
        if impossible.any():
            first = int(np.argmax(impossible))
            values = ", ".join(f"{n}={v:.6g}" for n, v in zip(self.state_names, rows[first], strict=True))
            raise InputError(
                f"state {first} ({values}) is outside the domain of {type(self).__name__}, which needs "
                f"{self.domain()}. Choose a start state inside it."
            )
        return states

    def simulate(self, x0: Any, t: Any, integrator: str = "rk23") -> np.ndarray:
        """Solutions from `x0` at the times `t`: `(state,)` gives `(time, state)`, `(n, state)` gives
        `(n, time, state)`.

        "rk23" takes one step of the paper's scheme per sample, "accurate" controls its error. Computed in
        double precision whatever the caller's setting.
        """
        if integrator not in INTEGRATORS:
            raise InputError(f"integrator={integrator!r} is unknown; choose one of {', '.join(INTEGRATORS)}.")
        start = self.check_domain(x0)
        times = check_times(t)
        with jax.enable_x64(True):
            solutions = np.asarray(_solve(self, np.atleast_2d(start), times, integrator))
        self._check_solutions(solutions, times, integrator)
        return solutions[0] if start.ndim == 1 else solutions

    def runs(self, count: int, *, seed: int = 0, integrator: str = "rk23", progress: Progress | None = None) -> Runs:
        start = self.sample(count, jax.random.key(seed))
        t = self.times()
        x = self.simulate(start, t, integrator)
        if progress is not None:
            progress(count, count)
        return Runs(x, t, tuple(f"run{i:03d}" for i in range(count)))

    def _check_solutions(self, solutions: np.ndarray, times: np.ndarray, integrator: str) -> None:
        sound = np.all(np.isfinite(solutions), axis=2)
        left = np.flatnonzero(~np.all(sound, axis=1))
        if left.size:
            when = times[int(np.argmin(sound[left[0]]))]
            shown = ", ".join(map(str, left[:5])) + (", ..." if left.size > 5 else "")
            raise InputError(
                f"{left.size} of {len(solutions)} trajectories left the domain of {type(self).__name__} "
                f"({self.domain()}) with integrator={integrator!r}: trajectory {shown}; the first is lost at "
                f"t = {when:.6g}. Try a finer time grid, integrator='accurate' or another start state."
            )


@eqx.filter_jit
def _solve(
    system: System, start: Float[Any, "traj state"], t: Float[Any, " time"], integrator: str
) -> Float[Array, "traj time state"]:
    start, t = jnp.asarray(start), jnp.asarray(t)
    return jax.vmap(lambda x0: rollout(system.rhs, x0, t, integrator))(start)


def _as_float64(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers, but: {error}.") from error


def check_times(t: Any, at_least: int = 2) -> np.ndarray:
    """The times as doubles; `InputError` unless there are enough of them and they increase."""
    times = _as_float64("t", t)
    if times.ndim != 1 or times.size < at_least or not np.isfinite(times).all():
        raise InputError(f"t must be a list of at least {at_least} finite times, but has shape {times.shape}.")
    steps = np.diff(times)
    if (steps <= 0).any():
        k = int(np.argmax(steps <= 0))
        raise InputError(f"t must increase, but t[{k + 1}] = {times[k + 1]:.6g} follows t[{k}] = {times[k]:.6g}.")
    return times


Sign = Literal["positive", "non-negative"]


def check_parameters(system: object, sign: Sign, **values: Any) -> None:
    """`InputError` unless every value is a finite number of the given sign."""
    for name, value in values.items():
        number = isinstance(value, (int, float, np.number)) and np.isfinite(value)
        if not number or value < 0 or (sign == "positive" and value == 0):
            raise InputError(f"{type(system).__name__}: {name}={value!r} must be a finite {sign} number.")


def canonical_poisson(pairs: int, extra: int, dtype: Any) -> Matrix:
    r"""$L = \begin{pmatrix}0&I\\-I&0\end{pmatrix}$ on `pairs` positions and momenta, zero elsewhere."""
    identity = jnp.eye(pairs, dtype=dtype)
    zero = jnp.zeros((pairs, pairs), dtype)
    return jnp.pad(jnp.block([[zero, identity], [-identity, zero]]), ((0, extra), (0, extra)))


def entropy_block(dimension: int, block: Float[Array, "two two"]) -> Matrix:
    """A 2 x 2 block on the last two states, zero elsewhere."""
    return jnp.pad(block, ((dimension - 2, 0), (dimension - 2, 0)))
