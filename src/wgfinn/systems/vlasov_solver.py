r"""A 1D-1V Vlasov-Poisson solver: WENO5 fluxes, classical RK4, Poisson in Fourier space (spec, section 4).

$f_t + v f_x + E f_v = 0$ on $x \in [0, 2\pi)$ periodic and $v \in [-7, 7)$ with f = 0 outside;
$E_x = \rho - \langle\rho\rangle$, $\rho = \int f\,dv$, $\langle E\rangle = 0$.

Densities have shape `(v, x, run)`: with the runs contiguous every stencil is a set of aligned, shifted
slices.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._types import Array, Float

VERSION = 1
"""Part of every cache key: raise it whenever a change below alters a number."""

_V_MAX = 7.0
_GHOSTS = 3
_EPS = 1e-6  # Jiang-Shu's guard, HyPar's default

Density = Float[Array, "v x run"]
FieldValues = Float[Array, "x run"]
Stencil = tuple[Array, Array, Array, Array, Array]


@dataclass(frozen=True)
class Grid:
    """`cells` points in each direction (right ends not included) and the time step."""

    cells: int = 64
    step: float = 0.005

    @property
    def dx(self) -> float:
        return 2 * np.pi / self.cells

    @property
    def dv(self) -> float:
        return 2 * _V_MAX / self.cells

    @property
    def x(self) -> np.ndarray:
        return np.arange(self.cells) * self.dx

    @property
    def v(self) -> np.ndarray:
        return np.arange(self.cells) * self.dv - _V_MAX


class TwoStream(NamedTuple):
    r"""Two counter-streaming beams, $f_0 = \frac{n}{2\sqrt{2\pi T}}(1 + a\cos kx)
    [e^{-(v-u)^2/2T} + e^{-(v+u)^2/2T}]$.

    For non-integer k the density jumps across the periodic boundary, as in the reference data.
    """

    density: float = 16.0
    amplitude: float = 0.1
    drift: float = 2.0

    def start(self, grid: Grid, temperature: np.ndarray, wavenumber: np.ndarray) -> np.ndarray:
        """Point values `(v, x, run)` at the nodes, one run for each pair (T, k)."""
        x, v = grid.x[None, :, None], grid.v[:, None, None]
        beams = sum(np.exp(-((v - u) ** 2) / (2 * temperature)) for u in (self.drift, -self.drift))
        height = self.density / (2 * np.sqrt(2 * np.pi * temperature))
        return height * (1 + self.amplitude * np.cos(wavenumber * x)) * beams


def poisson_matrix(cells: int) -> np.ndarray:
    r"""E = G ρ with $\hat E(m) = \hat\rho(m)/(im)$, $\hat E(0) = 0$, real part (no Nyquist mode).

    The Fourier solve written as one real circulant matrix: at this size a product is cheaper than a
    transform, and equal to it at rounding.
    """
    modes = np.fft.fftfreq(cells, 1 / cells)
    inverse = np.divide(1, 1j * modes, out=np.zeros(cells, complex), where=modes != 0)
    return np.fft.ifft(inverse[:, None] * np.fft.fft(np.eye(cells), axis=0), axis=0).real


def interpolation_matrix(cells: int, points: np.ndarray) -> np.ndarray:
    """Trigonometric interpolation `(point, x)` from the nodes to `points` (Nyquist mode as a cosine)."""
    modes = np.fft.fftfreq(cells, 1 / cells)
    waves = np.exp(1j * modes[None, :] * points[:, None])
    waves[:, cells // 2] = np.cos(cells // 2 * points)
    return (waves @ np.fft.fft(np.eye(cells), axis=0)).real / cells


def electric_field(f: Density, grid: Grid) -> FieldValues:
    r"""E at the nodes, with $\rho = \Delta v \sum_j f_j$."""
    return jnp.asarray(poisson_matrix(grid.cells), f.dtype) @ (grid.dv * jnp.sum(f, axis=0))


def _candidates(z: Stencil) -> tuple[Array, Array, Array]:
    a, b, c, d, e = z
    return (2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6, (2 * c + 5 * d - e) / 6


def _roughness(z: Stencil) -> tuple[Array, Array, Array]:
    a, b, c, d, e = z
    return (
        13 / 12 * (a - 2 * b + c) ** 2 + 1 / 4 * (a - 4 * b + 3 * c) ** 2,
        13 / 12 * (b - 2 * c + d) ** 2 + 1 / 4 * (b - d) ** 2,
        13 / 12 * (c - 2 * d + e) ** 2 + 1 / 4 * (3 * c - 4 * d + e) ** 2,
    )


def _blend(candidates: tuple[Array, Array, Array], roughness: tuple[Array, Array, Array]) -> Array:
    r"""Weights $d_k/(\epsilon + \beta_k)^2$, over a common denominator: one division, not four."""
    r0, r1, r2 = (_EPS + r for r in roughness)
    w0, w1, w2 = 0.1 * (r1 * r2) ** 2, 0.6 * (r0 * r2) ** 2, 0.3 * (r0 * r1) ** 2
    q0, q1, q2 = candidates
    return (w0 * q0 + w1 * q1 + w2 * q2) / (w0 + w1 + w2)


def weno5(z: Stencil) -> Array:
    """Jiang and Shu's fifth-order value at the face between the third and the fourth of five neighbours."""
    return _blend(_candidates(z), _roughness(z))


class _Faces(NamedTuple):
    """The five neighbours of every face seen from its left, and mirrored from its right."""

    left: Stencil
    right: Stencil


def _faces(padded: Array, axis: int) -> _Faces:
    count = padded.shape[axis] - 2 * _GHOSTS + 1
    s = [jax.lax.slice_in_dim(padded, k, k + count, axis=axis) for k in range(2 * _GHOSTS)]
    return _Faces((s[0], s[1], s[2], s[3], s[4]), (s[5], s[4], s[3], s[2], s[1]))


def _divergence(flux: Array, spacing: float, axis: int) -> Array:
    return jnp.diff(flux, axis=axis) / spacing


def _transport_in_x(f: Density, grid: Grid) -> Density:
    r"""$(v f)_x$. The sign of v is known, so all rows but those beside v = 0 need one side only."""
    v = grid.v
    fastest = np.maximum(np.maximum(np.abs(v - grid.dv), np.abs(v)), np.abs(v + grid.dv))
    first_mixed = int(np.sum(v + grid.dv < 0))
    first_positive = len(v) - int(np.sum(v - grid.dv > 0))
    column = jnp.asarray(v, f.dtype)[:, None, None]
    flux = _periodic(column * f)
    backward = weno5(_faces(flux[:first_mixed], axis=1).right)
    forward = weno5(_faces(flux[first_positive:], axis=1).left)
    mixed = slice(first_mixed, first_positive)
    values = _faces(_periodic(f[mixed]), axis=1)
    fluxes = _faces(flux[mixed], axis=1)
    jump = weno5(values.right) - weno5(values.left)
    speed = jnp.asarray(fastest[mixed], f.dtype)[:, None, None]
    central = 0.5 * (weno5(fluxes.left) + weno5(fluxes.right) - speed * jump)
    return _divergence(jnp.concatenate([backward, central, forward]), grid.dx, axis=1)


def _periodic(values: Array) -> Array:
    return jnp.concatenate([values[:, -_GHOSTS:], values, values[:, :_GHOSTS]], axis=1)


def _transport_in_v(f: Density, field: FieldValues, grid: Grid) -> Density:
    r"""$(E f)_v$, upwind where E keeps its sign over a column and its two neighbours in x.

    Neighbours outside the domain count as E = 0, not as the periodic ones (HyPar's serial ghost cells), so
    the first and the last column always take the Lax-Friedrichs flux. E is constant along v, hence
    the roughness of the flux is E² times that of f.
    """
    padded = jnp.pad(f, ((_GHOSTS, _GHOSTS), (0, 0), (0, 0)))
    faces = _faces(padded, axis=0)
    speed = field[None]

    def one_side(stencil: Stencil) -> tuple[Array, Array]:
        candidates, roughness = _candidates(stencil), _roughness(stencil)
        r0, r1, r2 = (speed**2 * r for r in roughness)
        return speed * _blend(candidates, (r0, r1, r2)), _blend(candidates, roughness)

    flux_left, f_left = one_side(faces.left)
    flux_right, f_right = one_side(faces.right)
    beside = jnp.pad(field, ((1, 1), (0, 0)))
    nearby = jnp.stack([beside[:-2], field, beside[2:]])
    fastest = jnp.max(jnp.abs(nearby), axis=0)[None]
    central = 0.5 * (flux_left + flux_right - fastest * (f_right - f_left))
    upwind = jnp.where(jnp.all(nearby < 0, axis=0)[None], flux_right, central)
    flux = jnp.where(jnp.all(nearby > 0, axis=0)[None], flux_left, upwind)
    return _divergence(flux, grid.dv, axis=0)


def tendency(f: Density, grid: Grid) -> Density:
    r"""$f_t = -(vf)_x - (Ef)_v$, with E of the same f."""
    return -_transport_in_x(f, grid) - _transport_in_v(f, electric_field(f, grid), grid)


def runge_kutta_step(f: Density, grid: Grid) -> Density:
    """One step of the classical fourth-order scheme; E is solved for at every stage."""
    h = grid.step
    k1 = tendency(f, grid)
    k2 = tendency(f + h / 2 * k1, grid)
    k3 = tendency(f + h / 2 * k2, grid)
    k4 = tendency(f + h * k3, grid)
    return f + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def _outputs(f: Density, intervals: Any, grid: Grid, observe: Any) -> Array:
    """`observe(f)` after each of the successive numbers of steps in `intervals` (which may be 0)."""

    def interval(f: Density, steps: Array) -> tuple[Density, Array]:
        f = jax.lax.fori_loop(0, steps, lambda _, g: runge_kutta_step(g, grid), f)
        return f, observe(f)

    _, seen = jax.lax.scan(interval, jnp.asarray(f), jnp.asarray(intervals))
    return seen


@partial(jax.jit, static_argnames="grid")
def field_history(f: Any, intervals: Any, grid: Grid) -> Float[Array, "time x run"]:
    """E at the nodes at each output."""
    return _outputs(f, intervals, grid, partial(electric_field, grid=grid))


@partial(jax.jit, static_argnames="grid")
def density_history(f: Any, intervals: Any, grid: Grid) -> Float[Array, "time v x run"]:
    """f at each output."""
    return _outputs(f, intervals, grid, lambda f: f)
