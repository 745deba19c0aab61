"""The model file: the fields of an ensemble, the scales they were learnt in, and where they come from.

One zip archive with `manifest.json` and one `.npy` per array. Nothing in it is executable; reading builds the
field from the manifest's settings and fills in the numbers, bit by bit as they were saved.
"""

import io
import json
import math
import platform
import zipfile
import zlib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from pydantic import Field as Key

from wgfinn._errors import ArtefactError, InputError
from wgfinn._spec import Spec
from wgfinn._types import Array
from wgfinn._version import __version__
from wgfinn.data import Scales, Trajectories, atomic_write
from wgfinn.integrate import rollout
from wgfinn.models import (
    NO_FUNCTIONS,
    AbstractField,
    Box,
    KnownFunctions,
    ModelSpec,
    RescaledField,
    build,
    fading,
    know,
    named_arrays,
    with_named_arrays,
)
from wgfinn.training import member

Level = Literal["good", "fair", "poor"]

FORMAT = 1
_MANY_TIMES = 10.0
# What is left of brackets that have begun to fade.
_FADED = 0.9


class MemberManifest(Spec):
    """How one member of the ensemble ended."""

    name: str
    seed: int
    loss: float | None
    """Best training loss over all data; None if it never was finite."""
    diverged_at: int | None = None
    misfit: float | None = None
    """On runs held out, in noise levels (1 is perfect, 1000 is lost); None if not judged."""


class Verdict(Spec):
    """How good a model is, from the data alone: a level, one sentence, and the reasons (`verdict.judge`)."""

    level: Level
    headline: str
    lines: tuple[str, ...] = ()
    ended_at: int | None = None
    """The step at which the training ended by itself, before its time."""

    def __str__(self) -> str:
        return "\n".join((self.headline, *self.lines))


class DataManifest(Spec):
    """Which data the model was learnt from."""

    digest: str
    runs: int
    samples: int
    step: float
    """The median time step, the longest that `simulate` takes."""


class Manifest(Spec):
    """Everything about a model but its numbers."""

    format: int = FORMAT
    model: ModelSpec
    names: tuple[str, ...]
    units: tuple[str, ...]
    time_unit: str = ""
    scales: dict[str, Any]
    dtype: Literal["float32", "float64"]
    members: tuple[MemberManifest, ...] = Key(min_length=1)
    served: int
    steps_done: int
    verdict: Verdict | None = None
    """None where the method does not judge by runs held out."""
    settings: dict[str, Any]
    data: DataManifest
    versions: dict[str, str]

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> "Manifest":
        if not 0 <= self.served < len(self.members):
            raise ValueError(f"served = {self.served}, but there are {len(self.members)} members")
        if Scales.from_dict(self.scales).shift.size != len(self.names):
            raise ValueError(f"the scales are not for the {len(self.names)} states {', '.join(self.names)}")
        return self


@dataclass(frozen=True)
class Model:
    """A learnt ensemble. `fields` holds all members, stacked, in the coordinates of the training."""

    fields: AbstractField
    manifest: Manifest

    @property
    def n_members(self) -> int:
        return len(self.manifest.members)

    @property
    def names(self) -> tuple[str, ...]:
        return self.manifest.names

    def field(self, index: int | None = None) -> AbstractField:
        """One member in physical coordinates and double precision; the served one if no index is given.

        The served member is the one of lowest misfit on held-out runs (`refining.best_member`), or of lowest training
        loss where none were: printed, plotted and simulated alike.
        """
        index = self.manifest.served if index is None else index
        if not 0 <= index < self.n_members:
            raise InputError(f"member {index} does not exist; members are numbered 0 to {self.n_members - 1}.")
        scales = Scales.from_dict(self.manifest.scales)
        inner = jax.tree.map(lambda leaf: jnp.asarray(leaf, "float64"), member(self.fields, index))
        return RescaledField(inner, *(jnp.asarray(v, "float64") for v in (scales.shift, scales.scale, scales.time)))

    def simulate(
        self, x0: np.ndarray, t: np.ndarray, *, integrator: str = "rk23", index: int | None = None
    ) -> np.ndarray:
        """Trajectories `(traj, time, state)` from `x0` `(traj, state)` at the times `t`, in double precision.

        "rk23" takes steps no longer than the data's own, however far apart the times are.
        """
        substeps = max(1, math.ceil(float(np.diff(t).max()) / self.manifest.data.step * (1 - 1e-6)))
        with jax.enable_x64(True):
            return np.asarray(_rollouts(self.field(index), jnp.asarray(x0), jnp.asarray(t), integrator, substeps))

    def first_outside(self, trajectories: np.ndarray, index: int | None = None) -> list[tuple[int, int]]:
        """Which trajectories `(traj, time, state)` get so far from the training data that the model's brackets have
        begun to fade, and at which time index: (trajectory, index) pairs."""
        with jax.enable_x64(True):
            left = np.asarray(fading(self.field(index), jnp.asarray(np.moveaxis(trajectories, -1, 0))))
        faded = left < _FADED
        return [(int(i), int(np.argmax(faded[i]))) for i in np.flatnonzero(faded.any(axis=-1))]

    @property
    def sound_members(self) -> tuple[int, ...]:
        """The members an ensemble consists of: whose training gave a finite loss, and who do not miss the runs held out
        by many times as much as the best one. Others tell nothing of how uncertain that one is."""
        members = self.manifest.members
        most = _MANY_TIMES * min((m.misfit for m in members if m.misfit is not None), default=math.inf)
        return tuple(i for i, m in enumerate(members) if m.loss is not None and (m.misfit is None or m.misfit <= most))

    def simulate_members(self, x0: np.ndarray, t: np.ndarray, *, integrator: str = "rk23") -> np.ndarray:
        """Trajectories of every sound member, `(member, traj, time, state)`, as from `simulate`."""
        return np.stack([self.simulate(x0, t, integrator=integrator, index=i) for i in self.sound_members])


@eqx.filter_jit
def _rollouts(field: AbstractField, x0: Array, t: Array, integrator: str, substeps: int) -> Array:
    return jax.vmap(lambda start: rollout(field, start, t, integrator, substeps=substeps))(x0)


def first_loss(trajectories: np.ndarray) -> list[tuple[int, int]]:
    """Which trajectories left the finite range, and at which time index: (trajectory, index) pairs."""
    sound = np.all(np.isfinite(trajectories), axis=-1)
    return [(int(i), int(np.argmin(sound[i]))) for i in np.flatnonzero(~sound.all(axis=-1))]


def serve_index(losses: list[float]) -> int:
    """The member of lowest loss; members that are not finite come last."""
    return int(np.argmin([loss if math.isfinite(loss) else math.inf for loss in losses]))


def describe_data(trajectories: Trajectories) -> DataManifest:
    return DataManifest(
        digest=trajectories.digest(),
        runs=len(trajectories),
        samples=sum(len(run.t) for run in trajectories.runs),
        step=float(np.median(np.concatenate([np.diff(run.t) for run in trajectories.runs]))),
    )


def versions() -> dict[str, str]:
    packages = ("jax", "jaxlib", "equinox", "optax", "diffrax", "numpy")
    return {"wgfinn": __version__, "python": platform.python_version()} | {p: metadata.version(p) for p in packages}


def save_model(model: Model, path: Path) -> None:
    """Write `model` to one file, whole or not at all."""
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, "manifest.json", model.manifest.model_dump_json(indent=2).encode())
        for name, array in named_arrays(model.fields).items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            _write(archive, f"weights/{name}.npy", buffer.getvalue())


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # A fixed date: the same model gives the same bytes.
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def load_model(path: Path, functions: KnownFunctions = NO_FUNCTIONS) -> Model:
    """Read a model file; `functions` are the known pieces it was learnt with, for no file holds a function."""
    if not path.exists():
        raise ArtefactError(f"{path}: no such model file.")
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _read_manifest(path, archive)
            arrays = {
                Path(name).name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.startswith("weights/") and name.endswith(".npy")
            }
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError, KeyError, NotImplementedError) as error:
        raise ArtefactError(f"{path}: not a wgfinn model file, or a damaged one ({error}).") from None
    try:
        return Model(with_named_arrays(_template(manifest, functions), arrays), manifest)
    except (ArtefactError, InputError) as error:
        raise type(error)(f"{path}: {error}") from None


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    content = json.loads(archive.read("manifest.json"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ArtefactError(
            f"{path}: model format {found!r}, but this version of wgfinn reads format {FORMAT}; "
            "fit the model again, or use the version that wrote it."
        )
    if isinstance(content.get("model"), dict):
        # Files from before there was a choice.
        content["model"].setdefault("activation", "tanh")
        content["model"].setdefault("confined", False)
    try:
        return Manifest.model_validate(content)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "(whole)"
        raise ArtefactError(f"{path}: manifest.json: {place}: {first['msg']}; the file is damaged.") from None


def _template(manifest: Manifest, functions: KnownFunctions) -> AbstractField:
    """The stacked fields as shapes and types, without computing any weights."""
    physics = know(manifest.model, manifest.names, Scales.from_dict(manifest.scales), functions)

    def fresh() -> AbstractField:
        n_states = len(manifest.names)
        box = Box.everywhere(n_states) if manifest.model.confined else None
        one = build(manifest.model, n_states, key=jax.random.key(0), physics=physics, box=box)
        copies = len(manifest.members)
        return jax.tree.map(lambda leaf: jnp.zeros((copies, *leaf.shape), manifest.dtype), one)

    return jax.eval_shape(fresh)
