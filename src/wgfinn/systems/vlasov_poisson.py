r"""The electric field of a two-stream instability at eight points (paper, section 5.4; spec, section 4).

The state is $E_i(t) = E(t, 2\pi i/9)$, $i = 1..8$, of the 1D-1V Vlasov-Poisson equation. It has no closed
energy, entropy or brackets of its own: eight samples of the field do not determine the density.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NoReturn, final

import jax
import numpy as np

from wgfinn._errors import InputError
from wgfinn.systems.base import Progress, Runs, Sign, check_parameters, check_times
from wgfinn.systems.cache import cache_path, forget_cached, load_cached, save_cached
from wgfinn.systems.vlasov_solver import (
    VERSION,
    Grid,
    TwoStream,
    density_history,
    field_history,
    interpolation_matrix,
)

POINTS = ("interpolated", "nodes")
_STATES = 8
_NODE_STRIDE = 7
# On a CPU a run costs about the same in chunks of 8 to 32, so 16 loses little when interrupted; a GPU
# computes all 440 in less time than their program takes to compile.
_CHUNK = {"cpu": 16}
_CHUNK_ELSEWHERE = 512


@final
@dataclasses.dataclass(frozen=True)
class VlasovPoisson:
    r"""Runs over a grid of beam temperature T and wavenumber k, T varying fastest; the state sees neither.

    The data are those of a 64 x 64 WENO5/RK4 solution, which is not a converged one (about 15 % from the
    partial differential equation): a finer or spectral solver would make other data.

    Doubts: the paper states neither the resolution (inferred from printed statistics of the code it cites),
    nor which of 441 grid points is missing from its 440 runs (`drop_last`), nor whether the eight points are
    interpolated (its text, our default) or nodes 7i of the grid (`points="nodes"`, 5 % away).
    """

    temperature_range: tuple[float, ...] = (0.9, 1.1)
    """Smallest and largest beam temperature T."""
    wavenumber_range: tuple[float, ...] = (1.0, 1.2)
    """Smallest and largest wavenumber k of the perturbation."""
    temperature_count: int = 21
    """Grid points in T."""
    wavenumber_count: int = 21
    """Grid points in k."""
    drop_last: int = 1
    """How many grid points to leave out at the end (inferred: 441 - 1 = 440)."""
    points: str = "interpolated"
    """`interpolated`: at 2πi/9 by trigonometric interpolation; `nodes`: at node 7i of the 64."""
    t_start: float = 8.0
    """First time of the data."""
    t_end: float = 10.0
    """Last time of the data."""
    dt: float = 0.02
    """Time between samples."""
    solver_step: float = 0.005
    """Time step of the solver."""
    cells: int = 64
    """Nodes in x and in v (inferred)."""
    density: float = 16.0
    """Mean density, the square of the plasma frequency."""
    amplitude: float = 0.1
    """Relative amplitude of the perturbation."""
    drift: float = 2.0
    """Speed of the two beams."""

    description: ClassVar[str] = "electric field of a Vlasov-Poisson two-stream instability at eight points"
    state_names: ClassVar[tuple[str, ...]] = tuple(f"E{i}" for i in range(1, _STATES + 1))
    units: ClassVar[tuple[str, ...]] = ()
    train_fraction: ClassVar[float] = 0.975

    def __post_init__(self) -> None:
        check_parameters(
            self,
            "positive",
            dt=self.dt,
            solver_step=self.solver_step,
            density=self.density,
            temperature_count=self.temperature_count,
            wavenumber_count=self.wavenumber_count,
        )
        check_parameters(
            self,
            "non-negative",
            t_start=self.t_start,
            amplitude=self.amplitude,
            drift=self.drift,
            drop_last=self.drop_last,
        )
        self._check_range("temperature_range", "positive")
        self._check_range("wavenumber_range", "non-negative")
        if self.points not in POINTS:
            raise InputError(f"points={self.points!r} is unknown; choose {' or '.join(POINTS)}.")
        if self.cells < 16 or self.cells % 2:
            raise InputError(f"cells={self.cells} must be an even number of at least 16.")
        if self.points == "nodes" and self.cells != _NODE_STRIDE * (_STATES + 1) + 1:
            raise InputError(f"points='nodes' means node 7i of 64, but cells={self.cells}; use 'interpolated'.")
        if self.drop_last >= self.temperature_count * self.wavenumber_count:
            raise InputError(f"drop_last={self.drop_last} leaves none of the grid's runs.")
        if self.t_end <= self.t_start:
            raise InputError(f"t_end={self.t_end:g} must be later than t_start={self.t_start:g}.")
        self._intervals(self.times())

    def _check_range(self, name: str, sign: Sign) -> None:
        bounds = getattr(self, name)
        if not isinstance(bounds, tuple) or len(bounds) != 2:
            raise InputError(f"{name}={bounds!r} must be a pair (smallest, largest).")
        check_parameters(self, sign, **{f"{name}[0]": bounds[0], f"{name}[1]": bounds[1]})
        if bounds[0] > bounds[1]:
            raise InputError(f"{name}={bounds!r}: the smallest value must come first.")

    @property
    def dimension(self) -> int:
        return _STATES

    @property
    def grid(self) -> Grid:
        return Grid(self.cells, self.solver_step)

    @property
    def x(self) -> np.ndarray:
        """Nodes in x, [0, 2π)."""
        return self.grid.x

    @property
    def v(self) -> np.ndarray:
        """Nodes in v, [-7, 7)."""
        return self.grid.v

    def times(self) -> np.ndarray:
        """The sampling times t_start, t_start + dt, ..., t_end."""
        return self.t_start + np.arange(round((self.t_end - self.t_start) / self.dt) + 1) * self.dt

    def parameters(self) -> np.ndarray:
        """All pairs (T, k) of the data set, `(run, 2)`, T varying fastest."""
        (coolest, hottest), (longest, shortest) = self.temperature_range, self.wavenumber_range
        temperature = np.linspace(coolest, hottest, self.temperature_count)
        wavenumber = np.linspace(longest, shortest, self.wavenumber_count)
        pairs = np.stack([a.ravel() for a in np.meshgrid(temperature, wavenumber)], axis=1)
        # Rounded so that 0.9 + 3 (0.2/20) is 0.93 on every machine, in the cache key too.
        return np.round(pairs[: len(pairs) - self.drop_last], 12)

    def default_trajectories(self) -> int:
        return len(self.parameters())

    def runs(self, count: int, *, seed: int = 0, integrator: str = "rk23", progress: Progress | None = None) -> Runs:
        """`count` runs spread evenly over the grid; the seed does not enter, for nothing here is random.

        The scheme that made the data belongs to their definition (`integrator="rk23"` stands for it, as for
        the other systems). Finished chunks are kept in the cache: an interrupted call goes on from there.
        """
        if integrator != "rk23":
            raise InputError(
                f"integrator={integrator!r}: the Vlasov-Poisson data are defined by their own solver "
                "(WENO5, RK4); leave the integrator at its default."
            )
        available = self.parameters()
        if not 1 <= count <= len(available):
            raise InputError(
                f"trajectories={count}: the grid of (T, k) has {len(available)} runs. Choose 1 to "
                f"{len(available)}, or a finer grid (temperature_count, wavenumber_count)."
            )
        pairs = available[np.round(np.linspace(0, len(available) - 1, count)).astype(int)]
        labels = tuple(f"T{t:.6g}_k{k:.6g}" for t, k in pairs)
        return Runs(self._cached_states(pairs, progress), self.times(), labels)

    def simulate_states(self, temperature: Any, wavenumber: Any) -> np.ndarray:
        """The eight-point states `(run, time, state)` for given T and k, `(run,)` each; not cached."""
        field = self.electric_field(temperature, wavenumber, self.times())
        return np.einsum("px,rtx->rtp", self._observation(), field)

    def electric_field(self, temperature: Any, wavenumber: Any, times: Any) -> np.ndarray:
        """E at the nodes, `(run, time, x)`, at multiples of the solver's step."""
        start, intervals = self._start(temperature, wavenumber), self._intervals(times)
        with jax.enable_x64(True):
            field = np.asarray(field_history(start, intervals, self.grid))
        _check_finite(field)
        return np.moveaxis(field, -1, 0)

    def simulate_density(self, temperature: float | int, wavenumber: float | int, times: Any) -> np.ndarray:
        """The density f, `(time, x, v)`, of one run at multiples of the solver's step."""
        start, intervals = self._start([temperature], [wavenumber]), self._intervals(times)
        with jax.enable_x64(True):
            density = np.asarray(density_history(start, intervals, self.grid))
        _check_finite(density)
        return np.swapaxes(density[..., 0], 1, 2)

    def energy(self, x: object) -> NoReturn:
        self._no_closed_form("energy")

    def entropy(self, x: object) -> NoReturn:
        self._no_closed_form("entropy")

    def poisson(self, x: object) -> NoReturn:
        self._no_closed_form("Poisson matrix")

    def friction(self, x: object) -> NoReturn:
        self._no_closed_form("friction matrix")

    def rhs(self, x: object) -> NoReturn:
        self._no_closed_form("rate of change")

    def simulate(self, x0: object, t: object, integrator: str = "rk23") -> NoReturn:
        self._no_closed_form("solution")

    def _no_closed_form(self, what: str) -> NoReturn:
        raise InputError(
            f"vlasov_poisson has no {what} in terms of its eight field values: they do not determine "
            "the density. Only a learnt model has one; use the other systems to compare with known physics."
        )

    def _start(self, temperature: Any, wavenumber: Any) -> np.ndarray:
        t, k = np.broadcast_arrays(np.atleast_1d(temperature), np.atleast_1d(wavenumber))
        if t.ndim != 1 or not (np.isfinite(t) & (t > 0)).all() or not (np.isfinite(k) & (k >= 0)).all():
            raise InputError("temperature must be positive and wavenumber non-negative, one of each a run.")
        return TwoStream(self.density, self.amplitude, self.drift).start(self.grid, t, k)

    def _intervals(self, times: Any) -> np.ndarray:
        """Solver steps from 0 to the first time, then between the times."""
        wanted = check_times(times, at_least=1)
        steps = np.round(wanted / self.solver_step)
        off = np.abs(steps * self.solver_step - wanted) > 1e-9 * max(1.0, float(wanted[-1]))
        if (wanted < 0).any() or off.any():
            first = wanted[(wanted < 0) | off][0]
            raise InputError(f"time {first:.6g} is not a multiple of the solver's step {self.solver_step:g}.")
        return np.diff(steps.astype(np.int64), prepend=0)

    def _observation(self) -> np.ndarray:
        """The matrix `(point, x)` from the field at the nodes to the eight states."""
        numbers = np.arange(1, _STATES + 1)
        if self.points == "nodes":
            return np.eye(self.cells)[_NODE_STRIDE * numbers]
        return interpolation_matrix(self.cells, 2 * np.pi * numbers / (_STATES + 1))

    def _cached_states(self, pairs: np.ndarray, progress: Progress | None) -> np.ndarray:
        whole = self._cache_path("set", pairs)
        states = load_cached(whole, self._shape(pairs))
        if states is None:
            chunks = list(_chunks(pairs))
            states = np.concatenate([s for s in self._chunk_states(chunks, progress)])
            save_cached(whole, states)
            for chunk in chunks:
                forget_cached(self._cache_path("chunk", chunk))
        elif progress is not None:
            progress(len(pairs), len(pairs))
        return states

    def _chunk_states(self, chunks: list[np.ndarray], progress: Progress | None) -> Iterator[np.ndarray]:
        total, done = sum(map(len, chunks)), 0
        for chunk in chunks:
            path = self._cache_path("chunk", chunk)
            states = load_cached(path, self._shape(chunk))
            if states is None:
                states = self.simulate_states(chunk[:, 0], chunk[:, 1])
                save_cached(path, states)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
            yield states

    def _shape(self, pairs: np.ndarray) -> tuple[int, int, int]:
        return len(pairs), len(self.times()), _STATES

    def _cache_path(self, part: str, pairs: np.ndarray) -> Path:
        settings = {
            "version": VERSION,
            "part": part,
            "pairs": pairs.tolist(),
            "times": [self.t_start, self.t_end, self.dt],
            "solver": [self.cells, self.solver_step],
            "start": [self.density, self.amplitude, self.drift],
            "points": self.points,
        }
        return cache_path("vlasov_poisson", settings)


def _chunks(pairs: np.ndarray) -> Iterator[np.ndarray]:
    size = _CHUNK.get(jax.default_backend(), _CHUNK_ELSEWHERE)
    return (pairs[first : first + size] for first in range(0, len(pairs), size))


def _check_finite(values: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(values).all(axis=tuple(range(values.ndim - 1))))
    if bad.size:
        raise InputError(
            f"the Vlasov-Poisson solution of run {bad[0]} grew without bound: choose a smaller solver_step."
        )
