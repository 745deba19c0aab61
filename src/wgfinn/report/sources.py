"""What a report is about: a run folder or a model file, its data and its training records."""

import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, final

import jax

from wgfinn._errors import ArtefactError, InputError
from wgfinn._spec import parse
from wgfinn.artefact import Model, load_model
from wgfinn.data import DataSpec, Trajectories, read
from wgfinn.evaluate import matching, read_for
from wgfinn.fitting import METRICS_FILE, MODEL_FILE, SETTINGS_FILE, hold_out

_AS_IN_THE_FIT = DataSpec()


@final
@dataclass(frozen=True, eq=False)
class Source:
    """A learnt model and the runs it is compared with."""

    run: Path
    data: Path
    model: Model
    trajectories: Trajectories
    records: tuple[Mapping[str, Any], ...]
    """The lines of metrics.jsonl; none for a bare model file."""

    @property
    def is_training_data(self) -> bool:
        return self.trajectories.digest() == self.model.manifest.data.digest

    @property
    def held_out(self) -> tuple[str, ...]:
        """Names of the runs that the fit to these data did not learn from, but was judged by."""
        settings = self.model.manifest.settings
        if settings.get("method") != "auto" or not self.is_training_data:
            return ()
        _, judged = hold_out(self.trajectories, settings["refine"]["held_out"])
        return () if judged is None else judged.run_names


def open_source(run: Path, data: Path | None = None, columns: DataSpec = _AS_IN_THE_FIT) -> Source:
    """The run folder or model file `run` with `data`, or with the data it was fitted to if they are still there.

    `columns` are the roles of the columns of `data`, as in the fit if not given.
    """
    folder = run if run.is_dir() else None
    with jax.enable_x64(True):
        model = load_model(run / MODEL_FILE if folder else run)
    if data is None:
        path, trajectories = _data_of_the_fit(run, folder)
    else:
        path, trajectories = data, read_for(model, data, columns).trajectories()
    return Source(
        run=run,
        data=path,
        model=model,
        trajectories=matching(trajectories, model, path),
        records=_read_records(folder / METRICS_FILE) if folder else (),
    )


def _data_of_the_fit(run: Path, folder: Path | None) -> tuple[Path, Trajectories]:
    remedy = f"Name the data: wgfinn report {shlex.quote(str(run))} DATA."
    if folder is None:
        raise InputError(f"{run}: a model file does not know where its data lie. {remedy}")
    settings = folder / SETTINGS_FILE
    if not settings.exists():
        raise InputError(f"{run}: {SETTINGS_FILE}, which says where the data lie, is missing. {remedy}")
    try:
        content = tomllib.loads(settings.read_text(encoding="utf-8"))
        source, digest = content["data"].get("source"), content["data"]["digest"]
        columns = content.get("fit", {}).get("data", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ArtefactError(f"{settings}: damaged ({error}).") from None
    if not isinstance(source, str):
        raise InputError(f"{settings}: does not say where the data lie. {remedy}")
    path = Path(source)
    if not path.exists():
        raise InputError(f"{run}: was fitted to {path}, but there is no such file now. {remedy}")
    trajectories = read(path, parse(DataSpec, columns, str(settings))).trajectories()
    if trajectories.digest() != digest:
        raise InputError(f"{run}: was fitted to {path}, but that file has changed since. {remedy}")
    return path, trajectories


def _read_records(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.exists():
        return ()
    # Only whole lines: a process killed while it wrote leaves a part of one.
    lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return tuple(_record(path, number, line) for number, line in enumerate(lines, start=1))


def _record(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not _is_record(record):
        raise ArtefactError(
            f"{path}: line {number} is not a training record. "
            "Remove that line, or the file: the report then goes without it."
        )
    return record


def _is_record(value: Any) -> TypeGuard[Mapping[str, Any]]:
    if not isinstance(value, dict) or not isinstance(value.get("step"), int) or "members" not in value:
        return False
    members = value["members"]
    return isinstance(members, list) and all(
        isinstance(m, dict) and {"name", "loss", "best_loss"} <= m.keys() for m in members
    )
