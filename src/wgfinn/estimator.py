"""`WGFINN` and `GFINN`: fit, predict, simulate, score, with numpy in and numpy out.

An entry point: double precision is switched on for the time of each call, and off again.
"""

import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn._types import Array
from wgfinn.artefact import Model, Verdict, first_loss, load_model, save_model
from wgfinn.data import SHARE, Trajectories, as_trajectories, band
from wgfinn.export import DType, Format, export_model
from wgfinn.fitting import PAPER, FitSpec, fit
from wgfinn.models import AbstractField, KnownFunctions, read_known
from wgfinn.training import Observer

# A known piece: a function of one state, a matrix, or a form as in the settings (docs/known_physics.md).
Known = Callable[[Any], Any] | ArrayLike | Mapping[str, Any] | None
Function = Callable[[Any], Any] | None


def read_settings(settings: Mapping[str, Any] | str | Path | None) -> dict[str, Any]:
    """Settings as nested keys, from a mapping or a TOML file."""
    if settings is None:
        return {}
    if isinstance(settings, Mapping):
        return dict(settings)
    path = Path(settings)
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: no such settings file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file: {error}.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None


def make_spec(
    settings: Mapping[str, Any] | str | Path | None,
    *,
    method: str | None = None,
    members: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    model: Mapping[str, Any] | None = None,
) -> FitSpec:
    """A `FitSpec` from settings and the few options that everyone uses; an option given wins."""
    keys = read_settings(settings)
    if (method or keys.get("method")) == "paper":
        keys, method = _over(PAPER, {k: v for k, v in keys.items() if k != "method"}), None
    training = {k: v for k, v in {"members": members, "steps": steps, "seed": seed}.items() if v is not None}
    for name, options in (("training", training), ("model", model)):
        section = keys.get(name, {})
        if options and isinstance(section, Mapping):  # anything else is left for `parse` to refuse
            keys[name] = {**section, **options}
    if method is not None:
        keys["method"] = method
    source = "settings" if settings is None or isinstance(settings, Mapping) else str(settings)
    return parse(FitSpec, keys, source)


def _over(base: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `keys` laid over it, section by section."""
    both = {k: v for k, v in keys.items() if isinstance(v, Mapping) and isinstance(base.get(k), Mapping)}
    return {**base, **keys, **{k: {**base[k], **v} for k, v in both.items()}}


@dataclass(frozen=True, eq=False)
class EnsembleTrajectory:
    """A simulated trajectory and what the other members of the ensemble make of it."""

    x: np.ndarray
    """The served member, as from `simulate`."""
    low: np.ndarray
    high: np.ndarray
    """Between `low` and `high` lies a share of the members, entry by entry; NaN where fewer than two stayed finite."""
    members: np.ndarray
    """All members, along a new first axis."""


class _Estimator:
    """What both estimators share; they differ in the residual they make small."""

    _methods: ClassVar[tuple[str, ...]]
    """The methods of `FitSpec` that this estimator learns by, its default first."""

    def __init__(
        self,
        *,
        method: str | None = None,
        members: int | None = None,
        steps: int | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | str | Path | None = None,
        energy: Known = None,
        entropy: Known = None,
        poisson: Known = None,
        friction: Known = None,
    ):
        chosen = method or read_settings(settings).get("method", self._methods[0])
        if chosen not in self._methods:
            raise InputError(
                f"method = {chosen!r}, but {type(self).__name__} learns by {' or '.join(map(repr, self._methods))}; "
                "take WGFINN for 'auto', 'weak' and 'paper', GFINN for 'strong', or leave the key out."
            )
        known, self._functions = read_known(energy=energy, entropy=entropy, poisson=poisson, friction=friction)
        self.spec = make_spec(settings, method=chosen, members=members, steps=steps, seed=seed, model=known)
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """The learnt ensemble; `fit` or `load` first."""
        if self._model is None:
            raise InputError(f"this {type(self).__name__} has not learnt anything yet; call fit(x, t) first.")
        return self._model

    @property
    def verdict(self) -> Verdict | None:
        """How good the model is, from the data it was fitted to alone: `level`, `headline` and `lines`, or `print` it.

        None where nothing judged it: method "weak", "paper" or "strong", or a file from before there were verdicts.
        """
        return self.model.manifest.verdict

    def fit(
        self,
        x: ArrayLike | list[Any] | Trajectories,
        t: ArrayLike | list[Any] | None = None,
        *,
        names: list[str] | None = None,
        observe: Observer | None = None,
        folder: str | Path | None = None,
    ):
        """Learn from trajectories: `x` is (time, state), (traj, time, state), a list of (time, state) arrays of any
        lengths, or `Trajectories`; `t` holds the times, shared or one array a run. Steps may differ, and NaN in `x`
        means "not measured". Returns the estimator.

        `observe(record)` is called as the training goes on; with a `folder`, settings, metrics, checkpoints and the
        model file go there.
        """
        trajectories = as_trajectories(x, t, names)
        with jax.enable_x64(True):
            self._model = fit(
                trajectories,
                self.spec,
                functions=self._functions,
                observe=observe,
                folder=None if folder is None else Path(folder),
            )
        return self

    def predict(self, x: ArrayLike, *, member: int | None = None) -> np.ndarray:
        """The right-hand side x' at states of shape (..., state)."""
        return self._at_states(lambda field: field, x, member)

    def energy(self, x: ArrayLike, *, member: int | None = None) -> np.ndarray:
        """The learnt energy at states of shape (..., state), determined up to an affine map."""
        return self._at_states(lambda field: field.energy, x, member)

    def entropy(self, x: ArrayLike, *, member: int | None = None) -> np.ndarray:
        """The learnt entropy at states of shape (..., state), determined up to an affine map."""
        return self._at_states(lambda field: field.entropy, x, member)

    def poisson(self, x: ArrayLike, *, member: int | None = None) -> np.ndarray:
        """The Poisson matrix L at states of shape (..., state): (..., state, state)."""
        return self._matrices(lambda field: field.poisson, x, member)

    def friction(self, x: ArrayLike, *, member: int | None = None) -> np.ndarray:
        """The friction matrix M at states of shape (..., state): (..., state, state)."""
        return self._matrices(lambda field: field.friction, x, member)

    def simulate(
        self, x0: ArrayLike, t: ArrayLike, *, integrator: str = "rk23", member: int | None = None
    ) -> np.ndarray:
        """The trajectory from `x0` (state,) at the times `t`: (time, state); from (traj, state): (traj, time, state).

        "rk23" is the paper's scheme with steps no longer than the data's own; "accurate" controls its error. A
        trajectory that leaves the finite range holds NaN from there on; a warning says so, and another one tells of a
        trajectory that leaves the region of the training data.
        """
        start, times = self._start_states(x0), _increasing_times(t)
        x = self.model.simulate(np.atleast_2d(start), times, integrator=integrator, index=member)
        _warn_of_losses(x, times, "trajectory")
        for trajectory, index in self.model.first_outside(x, member):
            warnings.warn(
                f"trajectory {trajectory} leaves the region of the training data at t = {times[index]:.6g}: "
                "beyond it learnt brackets fade, and what follows says little of the system.",
                stacklevel=2,
            )
        return x[0] if start.ndim == 1 else x

    def simulate_ensemble(
        self, x0: ArrayLike, t: ArrayLike, *, integrator: str = "rk23", share: float = SHARE
    ) -> EnsembleTrajectory:
        """As `simulate`, with the band that holds a `share` of the members at each time (see docs/using.md).

        The band is the spread of the members: it does not hold the noise of measurements, nor what all members get
        wrong together. Members whose training failed do not count, nor do those that leave the finite range; two or
        more are needed.
        """
        start, times = self._start_states(x0), _increasing_times(t)
        members = self.model.simulate_members(np.atleast_2d(start), times, integrator=integrator)
        bands = [band(members[:, k], share) for k in range(members.shape[1])]
        x = self.model.simulate(np.atleast_2d(start), times, integrator=integrator)
        for index, of_member in zip(self.model.sound_members, members, strict=True):
            _warn_of_losses(of_member, times, f"member {index}, trajectory")
        if start.ndim == 1:
            return EnsembleTrajectory(x[0], bands[0].low, bands[0].high, members[:, 0])
        return EnsembleTrajectory(x, np.stack([b.low for b in bands]), np.stack([b.high for b in bands]), members)

    def _start_states(self, x0: ArrayLike) -> np.ndarray:
        start = self._states(x0, "x0")
        if start.ndim > 2:
            raise InputError(f"x0 has shape {start.shape}; give one start state (state,) or several (traj, state).")
        return start

    def score(self, x: ArrayLike | list[Any] | Trajectories, t: ArrayLike | list[Any] | None = None) -> float:
        """R² of the predicted x' against finite differences of the data, averaged over the states (PySINDy's meaning).

        On noisy data the differences are dominated by noise and the score is low for any model: compare simulated
        trajectories (`wgfinn evaluate`) instead.
        """
        trajectories = as_trajectories(x, t)
        measured = np.concatenate([np.gradient(run.x, run.t, axis=0) for run in trajectories.runs])
        predicted = self.predict(np.concatenate([run.x for run in trajectories.runs]))
        # A difference needs its neighbours, a prediction all states of its time.
        sound = np.isfinite(measured).all(axis=1) & np.isfinite(predicted).all(axis=1)
        if not sound.any():
            raise InputError("no time and its neighbours were measured completely: x' has nothing to be compared with.")
        measured, predicted = measured[sound], predicted[sound]
        missed = ((measured - predicted) ** 2).sum(axis=0)
        varied = ((measured - measured.mean(axis=0)) ** 2).sum(axis=0)
        perfect = (missed == 0).astype(float)
        return float(np.mean(1 - np.divide(missed, varied, out=1 - perfect, where=varied > 0)))

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        save_model(self.model, Path(path))

    def export(
        self, path: str | Path, *, format: Format, member: int | None = None, dtype: DType | None = None
    ) -> None:
        """Write one member for use without this package: "numpy", "stablehlo" or "onnx" (docs/export.md)."""
        export_model(self.model, path, format, member=member, dtype=dtype)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        energy: Function = None,
        entropy: Function = None,
        poisson: Function = None,
        friction: Function = None,
    ):
        """An estimator from a model file; it predicts bit by bit what the saved one did.

        Pieces that were known as Python functions are in no file: give the same functions again.
        """
        with jax.enable_x64(True):
            model = load_model(Path(path), KnownFunctions(energy, entropy, poisson, friction))
        learnt = model.manifest.settings.get("method")
        if learnt not in cls._methods:
            other = "GFINN" if learnt == "strong" else "WGFINN"
            raise InputError(f"{path}: this model was learnt by {other}; load it with {other}.load.")
        estimator = cls(
            settings=model.manifest.settings, energy=energy, entropy=entropy, poisson=poisson, friction=friction
        )
        estimator._model = model
        return estimator

    def _states(self, x: ArrayLike, name: str = "x") -> np.ndarray:
        try:
            states = np.asarray(x, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} must be an array of numbers, but: {error}.") from None
        n_states = len(self.model.names)
        if states.ndim == 0 or states.shape[-1] != n_states:
            raise InputError(
                f"{name} has shape {states.shape}, but the model has {n_states} states "
                f"({', '.join(self.model.names)}): the last axis must hold them."
            )
        return states

    def _at_states(self, part: Callable[[AbstractField], Callable], x: ArrayLike, member: int | None) -> np.ndarray:
        states = self._states(x)
        with jax.enable_x64(True):
            flat = jnp.asarray(states.reshape(-1, states.shape[-1]).T)
            values = np.asarray(_at_once(part(self.model.field(member)), flat))
        return values.T.reshape(states.shape if values.ndim == 2 else states.shape[:-1])

    def _matrices(self, part: Callable[[AbstractField], Callable], x: ArrayLike, member: int | None) -> np.ndarray:
        states = self._states(x)
        with jax.enable_x64(True):
            flat = jnp.asarray(states.reshape(-1, states.shape[-1]))
            matrices = np.asarray(_one_by_one(part(self.model.field(member)), flat))
        return matrices.reshape(*states.shape, states.shape[-1])


def _increasing_times(t: ArrayLike) -> np.ndarray:
    times = np.asarray(t, np.float64)
    if times.ndim != 1 or times.size < 2 or not (np.diff(times) > 0).all() or not np.isfinite(times).all():
        raise InputError("t must hold at least two finite, increasing times; its first is the time of x0.")
    return times


def _warn_of_losses(x: np.ndarray, times: np.ndarray, what: str) -> None:
    for trajectory, index in first_loss(x):
        warnings.warn(
            f"{what} {trajectory} left the finite range at t = {times[index]:.6g}: the start state may lie far "
            "from the training data. Try integrator='accurate', a finer time grid or another start.",
            stacklevel=3,
        )


@eqx.filter_jit
def _at_once(part: Callable, states: Array) -> Array:
    return part(states)


@eqx.filter_jit
def _one_by_one(part: Callable, states: Array) -> Array:
    return jax.vmap(part)(states)


class WGFINN(_Estimator):
    """GENERIC dynamics by the weak form (the paper's WGFINNs): robust to noise.

    `method`: "auto" (default) learns by the weak form from several starts, refines the best on whole trajectories and
    judges them on runs held out; "weak" is the weak form alone; "paper" the weak form with the paper's coordinates,
    initialisation and optimiser. `members` models are kept and the best of them is served. `energy`, `entropy`,
    `poisson` and `friction` are what is known already (docs/known_physics.md). `settings` takes everything else, as
    nested keys or the path of a TOML file (see `FitSpec`).
    """

    _methods = ("auto", "weak", "paper")


class GFINN(_Estimator):
    """GENERIC dynamics by one-step predictions (GFINNs), the strong form: for clean data, and for comparison."""

    _methods = ("strong",)
