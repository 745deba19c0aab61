r"""Trajectories against measurements: multiple shooting with free initial states.

Runs are divided into short windows. Each window starts from a state of its own, free to move, is integrated to its end,
and must meet the measurements on its way and the next window's start at its end:

$$ \frac{x_w(t_k) - y_k}{\sigma_k} \quad\text{and}\quad \sqrt{\rho}\, \frac{x_w(t_{\rm end}) - x_{w+1,0}}{\sigma}. $$

With a large continuity $\rho$ the windows of a run join to one trajectory, and what is minimised is its likelihood
under Gaussian noise; with free starts it is well behaved even from a poor field, and all windows run side by side.
No noisy state enters the field, unlike in the weak and strong form.

A poor field may still throw a window out of the data within a few samples. There it stays, and no miss counts more than
a bound: otherwise one such window, infinitely far, would be the end of the training.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float64
from jaxtyping import Float as Real

from wgfinn._types import Array, Field, Float, States
from wgfinn.data import Run, Trajectories, cut
from wgfinn.integrate import looped_step
from wgfinn.losses import onchip
from wgfinn.losses.residuals import AbstractEquations, Items
from wgfinn.models import AbstractField

# A gap is crossed by steps no longer than this many median steps of its run.
_LONGEST_STEP = 1.5
# Samples on either side of a window's start that its first guess is smoothed over.
_SMOOTHED_OVER = 7
# Starts are counted in this many noise levels: their steps are then larger than those of the weights.
_START_UNIT = 30.0
# No miss counts more than this many noise levels, or than this part of a state's range where that is more.
_LARGE_MISS, _LARGE_PART = 30.0, 0.1
# How far beside a run, in noise levels, the runs start that tell its slopes.
_PROBE = 2.0**-6
# A miss of more than five noise levels, three times those beside it, half of which the data show by themselves.
_OUTLIER, _ALONE, _SEEN = 5.0, 3.0, 0.5


class FieldAndStarts(eqx.Module):
    """What shooting learns: the field, and the displacement of every window's start."""

    field: AbstractField
    starts: Float[Array, "state traj window"]

    def __call__(self, x: States) -> States:
        return self.field(x)


class Shots(eqx.Module):
    """Runs in windows, padded: a step of length zero stays where it is, a weight of zero counts nothing."""

    measured: Float[Array, "time state traj window"]
    weight: Float[Array, "time state traj window"]
    """One over the noise level; zero where nothing was measured."""
    steps: Float[Array, "step traj window"]
    first: Float[Array, "state traj window"]
    """A smoothed guess of every window's first state."""
    noise: Float[Array, "state 1 1"]
    joined: Float[Array, "traj border"]
    """One where a window has a successor in its run."""
    limits: Float[Array, "2 state"]
    """The least and the largest states measured, and as far beyond as they are apart: windows that get there stay."""

    @property
    def n_runs(self) -> int:
        return self.first.shape[1]

    def bounded(self, missed: Float[Array, "equation state traj window"]) -> Float[Array, "equation state traj window"]:
        r"""$r / \sqrt{1 + r^2/c^2}$: misses, in noise levels, count as what they are while they are small, and never
        more than c, which is thirty, or a tenth of the range of what was measured where that is more."""
        measured = (self.limits[1] - self.limits[0])[:, None, None] / 3
        bound = jnp.maximum(_LARGE_MISS, _LARGE_PART * measured / self.noise)[None]
        return missed * jax.lax.rsqrt(1 + (missed / bound) ** 2)


def make_shots(
    trajectories: Trajectories, noise: Float64[np.ndarray, " state"], *, window: int | None, longest: int, dtype: str
) -> Shots:
    """Windows of `window` steps (whole runs if None) of runs cut into parts of at most `longest` samples."""
    runs = [_with_gaps_divided(run) for run in cut(trajectories, longest, shared=1).runs]
    longest = max(len(run[0]) for run in runs)
    length = longest - 1 if window is None else min(window, longest - 1)
    n_windows = -(-(longest - 1) // length)
    d = trajectories.n_states
    measured = np.zeros((length + 1, d, len(runs), n_windows))
    weight = np.zeros_like(measured)
    steps = np.zeros((length, len(runs), n_windows))
    first = np.zeros((d, len(runs), n_windows))
    joined = np.zeros((len(runs), n_windows - 1))
    for r, (t, x, sigma) in enumerate(runs):
        inverse = np.where(np.isnan(x), 0.0, 1 / (noise if sigma is None else np.fmax(sigma, 0.1 * noise)))
        filled = np.where(np.isnan(x), 0.0, x)
        for w in range(n_windows):
            begin, end = min(w * length, len(t) - 1), min((w + 1) * length, len(t) - 1)
            n = end - begin
            measured[: n + 1, :, r, w], weight[: n + 1, :, r, w] = filled[begin : end + 1], inverse[begin : end + 1]
            steps[:n, r, w] = np.diff(t[begin : end + 1])
            first[:, r, w] = _smoothed(t, x, begin)
            if w > 0:
                # The sample that two windows share counts once, at the end of the earlier one.
                weight[0, :, r, w] = 0.0
                weight[1:, :, r, w] *= n > 0
                joined[r, w - 1] = n > 0
    arrays = (measured, weight, steps, first, noise[:, None, None], joined, _limits([x for _, x, _ in runs]))
    return Shots(*(jnp.asarray(a, dtype) for a in arrays))


def _limits(states: list[Float64[np.ndarray, "_ state"]]) -> Float64[np.ndarray, "2 state"]:
    together = np.concatenate(states)
    least, most = np.nanmin(together, axis=0), np.nanmax(together, axis=0)
    beyond = np.where(most > least, most - least, 1.0)
    return np.stack([least - beyond, most + beyond])


def shoot(
    field: Field,
    first: Float[Array, "state *batch"],
    steps: Float[Array, "step *batch"],
    limits: Float[Array, "2 state"] | None = None,
) -> Float[Array, "time state *batch"]:
    """The states at all times of all windows: one step of the scheme per sample. A window that reaches one of the
    `limits` stays there."""
    start, durations = first.reshape(len(first), -1), steps.reshape(len(steps), -1)
    if limits is None:
        limits = jnp.tile(jnp.array([[-jnp.inf], [jnp.inf]], first.dtype), (1, len(first)))
    go = onchip.shoot if onchip.serves(field) else _step_by_step
    later = go(field, start, durations, limits)
    return jnp.concatenate([first[None], later.reshape(-1, *first.shape)])


def _step_by_step(
    field: Field,
    first: Float[Array, "state window"],
    steps: Float[Array, "step window"],
    limits: Float[Array, "2 state"],
) -> Float[Array, "step state window"]:
    # The way back computes the networks' inner values again, which is faster than to keep them all in memory.
    recomputed = jax.checkpoint(lambda y: field(y), prevent_cse=False)
    low, high = limits[0][:, None], limits[1][:, None]

    def advance(x: Array, dt: Array) -> tuple[Array, Array]:
        inside = jnp.all((x > low) & (x < high), axis=0, keepdims=True)
        moved = looped_step(recomputed, x, dt[None], lambda u: jnp.clip(u, low, high))
        x = jnp.where(inside, moved, x)
        return x, x

    return jax.lax.scan(advance, first, steps)[1]


class ShootingEquations(AbstractEquations):
    """Residuals of multiple shooting, in noise levels: an item is a run with all its windows."""

    shots: Shots
    continuity: Float[Array, ""]
    n_items: int = eqx.field(static=True)

    def __init__(self, shots: Shots, continuity: float):
        self.shots = shots
        self.continuity = jnp.asarray(continuity, shots.first.dtype)
        self.n_items = shots.n_runs

    def residual(self, field: Field, items: Items = None) -> Float[Array, "state traj window equation"]:
        """The samples of each window, and last the gap to the next window. `field` is a `FieldAndStarts`."""
        assert isinstance(field, FieldAndStarts)
        shots = self.shots

        def of_items(array: Array, axis: int) -> Array:
            return array if items is None else jnp.take(array, items, axis=axis)

        first = of_items(_first_states(field, shots), 1)
        x = shoot(field.field, first, of_items(shots.steps, 1), shots.limits)
        missed = (x - of_items(shots.measured, 2)) * of_items(shots.weight, 2)
        gap = (x[-1, :, :, :-1] - first[:, :, 1:]) / shots.noise * of_items(shots.joined, 0)[None]
        gap = jnp.sqrt(self.continuity) * jnp.pad(gap, ((0, 0), (0, 0), (0, 1)))
        return jnp.moveaxis(shots.bounded(jnp.concatenate([missed, gap[None]])), 0, -1)

    def mask(self, items: Items = None) -> Float[Array, "state traj window equation"]:
        """Which samples were measured, per state; every window has its gap, of size zero for the last."""
        exists = (self.shots.weight > 0).astype(self.shots.weight.dtype)
        exists = jnp.moveaxis(exists, 0, -1)
        exists = jnp.concatenate([exists, jnp.ones_like(exists[..., :1])], axis=-1)
        return exists if items is None else exists[:, items]


def _first_states(learnt: FieldAndStarts, shots: Shots) -> Float[Array, "state traj window"]:
    return shots.first + _START_UNIT * shots.noise * learnt.starts


def part_that_leaves(field: Field, shots: Shots) -> Float[Array, ""]:
    """Which part of the windows ends at a limit: the field loses the data before their end."""
    last = shoot(field, shots.first, shots.steps, shots.limits)[-1]
    low, high = (limit[:, None, None] for limit in shots.limits)
    return jnp.mean(jnp.any((last <= low) | (last >= high), axis=0).astype(last.dtype))


def fresh_starts(shots: Shots) -> Float[Array, "state traj window"]:
    """No displacement yet."""
    return jnp.zeros_like(shots.first)


def starts_along(learnt: FieldAndStarts, shots: Shots, others: Shots) -> Float[Array, "state traj window"]:
    """Starts of the windows of `others` on the trajectories that were learnt in those of `shots`, of the same runs."""
    x = shoot(learnt.field, _first_states(learnt, shots), shots.steps, shots.limits)
    length, n_windows = len(shots.steps), shots.steps.shape[2]
    n_steps = jnp.sum(shots.steps > 0, axis=(0, 2))[:, None]
    begin = jnp.minimum(len(others.steps) * jnp.arange(others.steps.shape[2])[None], n_steps)
    window = jnp.minimum(begin // length, n_windows - 1)
    first = x[begin - window * length, :, jnp.arange(len(begin))[:, None], window]
    return (jnp.moveaxis(first, -1, 0) - others.first) / (_START_UNIT * others.noise)


def run_misfits(
    field: Field, shots: Shots, iterations: int | Array = 8
) -> tuple[Float[Array, "state traj"], Float[Array, "time state traj"], Bool[Array, "time state traj"]]:
    r"""For each run and state the mean of $((x(t_k) - y_k) / \sigma_k)^2$ with the best initial state for the run:
    about 1 for a perfect field, whatever the noise; NaN where a run never measured a state. Also the predictions x, and
    which measurements are outliers (`_outliers`), which do not count. `shots` hold whole runs.

    Levenberg-Marquardt on each initial state alone, with slopes from runs that start beside it; the field stays as it
    is.
    """
    measured, weight, noise = shots.measured[..., 0], shots.weight[..., 0], shots.noise[..., 0]
    d = len(noise)
    # The run itself, and one beside it for each state.
    beside = _PROBE * noise[..., None] * jnp.eye(d, d + 1, 1, dtype=noise.dtype)[:, None]
    steps = jnp.broadcast_to(shots.steps, (*shots.steps.shape[:2], d + 1))

    def bundle(first: Array) -> tuple[Array, Array]:
        x = shoot(field, first[..., None] + beside, steps)
        cost = (((x[..., 0] - measured) * weight) ** 2).sum(axis=(0, 1))
        return x, jnp.where(jnp.isfinite(cost), cost, jnp.inf)

    def improve(_, state):
        first, damping, x, best = state
        missed = (x[..., 0] - measured) * weight
        slopes = (x[..., 1:] - x[..., :1]) / _PROBE * weight[..., None]
        normal = jnp.einsum("tsri,tsrj->rij", slopes, slopes)
        force = jnp.einsum("tsri,tsr->ri", slopes, missed)
        scale = 1 + jnp.einsum("rii->ri", normal)
        damped = normal + (damping[:, None] * scale)[:, :, None] * jnp.eye(d, dtype=first.dtype)[None]
        trial = first - noise * _solved(damped, force).T
        trial = jnp.where(jnp.isfinite(trial), trial, first)
        there, after = bundle(trial)
        better = after < best
        return (
            jnp.where(better, trial, first),
            jnp.where(better, damping / 4, damping * 8),
            jnp.where(better[:, None], there, x),
            jnp.where(better, after, best),
        )

    first = shots.first[..., 0]
    start = (first, jnp.full(first.shape[1], 1e-2, first.dtype), *bundle(first))
    predicted = jax.lax.fori_loop(0, iterations, improve, start)[2][..., 0]
    missed = (predicted - measured) * weight
    outliers = _outliers(missed, measured * weight, weight > 0)
    counts = (weight > 0) & ~outliers
    squares = jnp.where(counts, missed**2, 0.0).sum(axis=0) / counts.sum(axis=0)
    return jnp.where(jnp.isinf(squares), jnp.inf, squares), predicted, outliers


def _outliers(
    missed: Float[Array, "time state traj"],
    measured: Float[Array, "time state traj"],
    exists: Bool[Array, "time state traj"],
) -> Bool[Array, "time state traj"]:
    """Measurements that stand alone: far from a prediction that meets the samples before and after, and far from these
    samples too, so that it is not the prediction that moves. What a field gets wrong lasts longer than a sample.

    `missed` and `measured` in noise levels."""
    here, before, after = slice(1, -1), slice(None, -2), slice(2, None)
    size = jnp.abs(missed)
    beside = jnp.maximum(size[before], size[after])
    up, down = measured[here] - measured[before], measured[here] - measured[after]
    seen = (up * down > 0) & (jnp.minimum(jnp.abs(up), jnp.abs(down)) > _SEEN * size[here])
    alone = (size[here] > _OUTLIER) & (size[here] > _ALONE * beside) & seen
    found = alone & exists[here] & exists[before] & exists[after]
    return jnp.zeros_like(exists).at[here].set(found)


def _solved(matrix: Float[Array, "run i j"], vector: Float[Array, "run i"]) -> Float[Array, "run i"]:
    """The solutions for symmetric positive definite matrices, by elimination.

    A library's batch is shared among the threads of a pool, where several members' batches may wait for each other for
    ever (seen with jaxlib 0.10.2); runs are few and their states too.
    """

    def eliminate(k: Array, rows: Array) -> Array:
        pivot = rows[:, k] / rows[:, k, k][:, None]
        return (rows - rows[:, :, k][:, :, None] * pivot[:, None]).at[:, k].set(pivot)

    together = jnp.concatenate([matrix, vector[..., None]], axis=2)
    return jax.lax.fori_loop(0, matrix.shape[1], eliminate, together)[..., -1]


def _with_gaps_divided(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Times, states and noise levels, with times without measurements added inside long steps."""
    steps = np.diff(run.t)
    parts = np.maximum(1, np.ceil(steps / (_LONGEST_STEP * np.median(steps)))).astype(int)
    if (parts == 1).all():
        return run.t, run.x, run.sigma
    inside = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(run.t, run.t[1:], parts, strict=False)]
    t = np.concatenate([*inside, run.t[-1:]])
    rows = np.concatenate([[0], np.cumsum(parts)])
    x = np.full((len(t), run.x.shape[1]), np.nan)
    x[rows] = run.x
    sigma = None
    if run.sigma is not None:
        sigma = np.full_like(x, np.nan)
        sigma[rows] = run.sigma
    return t, x, sigma


def _smoothed(t: Real[np.ndarray, " time"], x: Real[np.ndarray, "time state"], index: int) -> np.ndarray:
    """A local parabola through the measured samples about `index`, its value there; for each state."""
    values = np.zeros(x.shape[1])
    for state in range(x.shape[1]):
        reach = _SMOOTHED_OVER
        while True:
            near = np.arange(max(0, index - reach), min(len(t), index + reach + 1))
            near = near[~np.isnan(x[near, state])]
            if near.size >= 4 or reach >= len(t):
                break
            reach *= 2
        if near.size:
            degree = min(2, near.size - 1)
            span = max(np.abs(t[near] - t[index]).max(), np.finfo(float).tiny)
            values[state] = np.polynomial.polynomial.polyfit((t[near] - t[index]) / span, x[near, state], degree)[0]
    return values
