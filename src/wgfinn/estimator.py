"""`WGFINN` and `GFINN`: fit, predict, simulate, score, with numpy in and numpy out.

An entry point: double precision is switched on for the time of each call, and off again.
"""

import tomllib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn._types import Array
from wgfinn.artefact import Model, first_loss, load_model, save_model
from wgfinn.data import Trajectories, as_trajectories
from wgfinn.fitting import FitSpec, fit
from wgfinn.models import AbstractField
from wgfinn.training import Observer


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
) -> FitSpec:
    """A `FitSpec` from settings and the few options that everyone uses; an option given wins."""
    keys = read_settings(settings)
    training = {k: v for k, v in {"members": members, "steps": steps, "seed": seed}.items() if v is not None}
    section = keys.get("training", {})
    if training and isinstance(section, Mapping):  # anything else is left for `parse` to refuse
        keys["training"] = {**section, **training}
    if method is not None:
        keys["method"] = method
    source = "settings" if settings is None or isinstance(settings, Mapping) else str(settings)
    return parse(FitSpec, keys, source)


class _Estimator:
    """What both estimators share; they differ in the residual they make small."""

    _method: ClassVar[Literal["weak", "strong"]]

    def __init__(
        self,
        *,
        members: int | None = None,
        steps: int | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | str | Path | None = None,
    ):
        chosen = read_settings(settings).get("method", self._method)
        if chosen != self._method:
            raise InputError(
                f"settings: method = {chosen!r}, but {type(self).__name__} learns by the {self._method} form; "
                "take WGFINN for 'weak', GFINN for 'strong', or leave the key out."
            )
        self.spec = make_spec(settings, method=self._method, members=members, steps=steps, seed=seed)
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """The learnt ensemble; `fit` or `load` first."""
        if self._model is None:
            raise InputError(f"this {type(self).__name__} has not learnt anything yet; call fit(x, t) first.")
        return self._model

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
            self._model = fit(trajectories, self.spec, observe=observe, folder=None if folder is None else Path(folder))
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
        trajectory that leaves the finite range holds NaN from there on, and a warning says so.
        """
        start = self._states(x0, "x0")
        if start.ndim > 2:
            raise InputError(f"x0 has shape {start.shape}; give one start state (state,) or several (traj, state).")
        times = np.asarray(t, np.float64)
        if times.ndim != 1 or times.size < 2 or not (np.diff(times) > 0).all() or not np.isfinite(times).all():
            raise InputError("t must hold at least two finite, increasing times; its first is the time of x0.")
        x = self.model.simulate(np.atleast_2d(start), times, integrator=integrator, index=member)
        for trajectory, index in first_loss(x):
            warnings.warn(
                f"trajectory {trajectory} left the finite range at t = {times[index]:.6g}: the start state may lie far "
                "from the training data. Try integrator='accurate', a finer time grid or another start.",
                stacklevel=2,
            )
        return x[0] if start.ndim == 1 else x

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

    @classmethod
    def load(cls, path: str | Path):
        """An estimator from a model file; it predicts bit by bit what the saved one did."""
        with jax.enable_x64(True):
            model = load_model(Path(path))
        learnt = model.manifest.settings.get("method")
        if learnt != cls._method:
            other = {"weak": "WGFINN", "strong": "GFINN"}.get(str(learnt), str(learnt))
            raise InputError(f"{path}: this model was learnt by {other}; load it with {other}.load.")
        estimator = cls(settings=model.manifest.settings)
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


@eqx.filter_jit
def _at_once(part: Callable, states: Array) -> Array:
    return part(states)


@eqx.filter_jit
def _one_by_one(part: Callable, states: Array) -> Array:
    return jax.vmap(part)(states)


class WGFINN(_Estimator):
    """GENERIC dynamics by the weak form (the paper's WGFINNs): robust to noise.

    `members` models are trained side by side and the one of lowest training loss is served. `settings` takes
    everything else, as nested keys or the path of a TOML file (see `FitSpec`).
    """

    _method = "weak"


class GFINN(_Estimator):
    """GENERIC dynamics by one-step predictions (GFINNs), the strong form: for clean data, and for comparison."""

    _method = "strong"
