"""The equations a field must fulfil on data, and by how much it misses them.

`weak_residual` and `strong_residual` are the formulas. `WeakEquations` and `StrongEquations` hold a data set
ready for training: training draws items (runs, or pairs of samples) and gets residuals, and never learns
which of the two it works for. The weak form here is for complete runs of equal steps; for all others it is in
`scattered`.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from wgfinn._device import platform
from wgfinn._errors import InputError
from wgfinn._types import Array, Field, Float
from wgfinn.data import Run, Trajectories
from wgfinn.integrate import step
from wgfinn.weak import TestFunctionSpec, WeakOperator

Items = jax.Array | None

_WORTH_HALVING = 16_384
_DIVIDED_BY = 256


def weak_residual(
    field: Field, record: Float[Array, "state *batch time"], dt: Array, operator: WeakOperator
) -> Float[Array, "state *batch test"]:
    r"""$\int \dot\phi_j\, x\,dt + \int \phi_j\, f(x)\,dt$ for every test function of every record.

    Zero, up to quadrature error, when the states solve $\dot x = f(x)$ (paper, eq. weak-form-loss).
    `dt` is one step for all records or one for each (`*batch 1`).
    """
    return operator.integrate_slope(record) + dt * operator.integrate(field(record))


def strong_residual(
    field: Field, before: Float[Array, "state *batch"], after: Float[Array, "state *batch"], dt: Array
) -> Float[Array, "state *batch"]:
    r"""$\hat x_k(y_{k-1}) - y_k$: one step of the three-stage scheme (paper, eq. strong-form-loss)."""
    return step(field, before, dt) - after


class AbstractEquations(eqx.Module):
    """A data set as equations for the field, one group of them per item."""

    n_items: eqx.AbstractVar[int]

    @abstractmethod
    def residual(self, field: Field, items: Items = None) -> Float[Array, "state *equation"]:
        """Residuals of the items drawn (indices), or of all."""

    @abstractmethod
    def mask(self, items: Items = None) -> Float[Array, "#state *equation"] | None:
        """One where an equation exists, zero where it is padding; for all states or each; None when all exist."""


class AbstractWeakEquations(AbstractEquations):
    """Equations of test functions, which can also be had one by one."""

    windows: eqx.AbstractVar[Int[Array, "window 2"]]
    """The item and the place in it of every test function that exists."""

    @abstractmethod
    def at_window(self, field: Field, window: Int[Array, " 2"]) -> Float[Array, " state"]:
        """The residuals of one test function."""


class WeakEquations(AbstractWeakEquations):
    """Weak residuals of complete, equally spaced runs: an item is a run; shorter ones are padded and masked."""

    states: Float[Array, "state traj time"]
    slopes: Float[Array, "state traj test"]
    steps: Float[Array, "1 traj 1"]
    exists: Float[Array, "1 traj test"] | None
    windows: Int[Array, "window 2"]
    operator: WeakOperator
    n_items: int = eqx.field(static=True)

    def __init__(self, trajectories: Trajectories, spec: TestFunctionSpec, dtype: str):
        runs = trajectories.runs
        for run in runs:
            require_room(run, spec)
        longest = max(len(run.t) for run in runs)
        # Padding repeats the last state, so the field is never asked about states that were not seen.
        # Samples behind the last window weigh nothing and are left out.
        seen = WeakOperator(spec, longest, dtype).length
        padded = np.stack([np.pad(run.x, ((0, longest - len(run.x)), (0, 0)), "edge") for run in runs])
        states = np.moveaxis(padded[:, :seen], -1, 0)
        self.n_items = len(runs)
        self.operator = WeakOperator(spec, longest, dtype)
        self.states = jnp.asarray(states, dtype)
        # In double precision: a long record's sums would otherwise lose what single precision keeps.
        with jax.enable_x64(True):
            in_double = WeakOperator(spec, longest, "float64")
            self.slopes = in_double.integrate_slope(jnp.asarray(states)).astype(dtype)
        self.steps = jnp.asarray([run.step for run in runs], dtype)[None, :, None]
        covered = np.stack([self.operator.covered(len(run.t)) for run in runs])
        self.exists = None if covered.all() else jnp.asarray(covered[None], dtype)
        self.windows = jnp.asarray(np.argwhere(covered), jnp.int32)

    def at_window(self, field: Field, window: Int[Array, " 2"]) -> Float[Array, " state"]:
        run, place = window
        start = (jnp.zeros_like(run), run, place * self.operator.stride)
        states = jax.lax.dynamic_slice(self.states, start, (len(self.states), 1, self.operator.width))[:, 0]
        return self.slopes[:, run, place] + self.steps[0, run, 0] * self.operator.integrate_one(field(states))

    def residual(self, field: Field, items: Items = None) -> Float[Array, "state traj test"]:
        states, slopes, steps = (draw(a, items) for a in (self.states, self.slopes, self.steps))
        return slopes + steps * self.operator.integrate(rates_at(field, states))

    def mask(self, items: Items = None) -> Float[Array, "1 traj test"] | None:
        return None if self.exists is None else draw(self.exists, items)


class StrongEquations(AbstractEquations):
    """Strong residuals: an item is a pair of neighbouring samples, k = 1..K of every run, both measured completely."""

    before: Float[Array, "state pair"]
    after: Float[Array, "state pair"]
    steps: Float[Array, "1 pair"]
    n_items: int = eqx.field(static=True)

    def __init__(self, trajectories: Trajectories, dtype: str):
        runs = trajectories.runs
        pairs = np.concatenate([run.complete[:-1] & run.complete[1:] for run in runs])
        if not pairs.any():
            raise InputError(
                "no two neighbouring samples were measured completely, so there is no step to learn from. "
                'Use the weak form (method = "weak"), which fills short gaps.'
            )
        self.before = jnp.asarray(np.concatenate([run.x[:-1] for run in runs])[pairs].T, dtype)
        self.after = jnp.asarray(np.concatenate([run.x[1:] for run in runs])[pairs].T, dtype)
        self.steps = jnp.asarray(np.concatenate([np.diff(run.t) for run in runs])[pairs][None], dtype)
        self.n_items = self.before.shape[1]

    def residual(self, field: Field, items: Items = None) -> Float[Array, "state pair"]:
        before, after, steps = (draw(a, items) for a in (self.before, self.after, self.steps))
        return strong_residual(lambda x: rates_at(field, x), before, after, steps)

    def mask(self, items: Items = None) -> None:
        return None


def rates_at(field: Field, states: Float[Array, "state *batch"]) -> Float[Array, "state *batch"]:
    """The field at each of many states, over one long batch axis: its small products then run over contiguous memory.

    On a CPU many states go in two halves, which do not wait for each other: while one core adds up a gradient of one
    half, another goes on with the other half. An accelerator fills itself with one, and adds up gradients in equal
    parts; where their number does not divide the states', it would copy every array once more to pad it.
    """
    flat = states.reshape(len(states), -1)
    n = flat.shape[1]
    if platform() == "cpu":
        rates = [field(part) for part in jnp.array_split(flat, 2 if n >= _WORTH_HALVING else 1, axis=1)]
        return jnp.concatenate(rates, axis=1).reshape(states.shape)
    padded = jnp.pad(flat, ((0, 0), (0, -n % _DIVIDED_BY)), mode="edge")
    return field(padded)[:, :n].reshape(states.shape)


def draw(array: Array, items: Items) -> Array:
    """The items drawn, of an array with items on its second axis."""
    return array if items is None else array[:, items]


def require_room(run: Run, spec: TestFunctionSpec) -> None:
    """`InputError` unless the run is complete, equally spaced and has room for a test function."""
    try:
        spec.count(len(run.t))
    except InputError as error:
        raise InputError(f"run {run.name!r}: {error}") from None
    if not run.is_complete:
        raise InputError(f"run {run.name!r}: some values were not measured; use `ScatteredWeakEquations`.")
    _ = run.step
