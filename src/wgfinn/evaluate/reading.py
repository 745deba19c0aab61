"""Data that a model is compared with: read as those of its fit were, and brought to its states."""

from collections.abc import Callable
from pathlib import Path

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.artefact import Model
from wgfinn.data import DataSpec, Recording, Run, Trajectories, estimate_noise, mended, read


def read_for(
    model: Model, path: Path, columns: DataSpec, progress: Callable[[int, int], None] | None = None
) -> Recording:
    """What is at `path`, with the roles of `columns`; where none is given, with those of the fit.

    So the data of the fit are recognised as such. Where its roles do not suit, the names of the model's states do:
    other columns are left aside, whatever they hold. A separator and a decimal mark that are given hold throughout.
    """
    if columns.roles:
        return read(path, columns, progress=progress)
    written = {k: v for k in ("separator", "decimal") if (v := getattr(columns, k)) is not None}
    of_the_fit = parse(DataSpec, {**model.manifest.settings.get("data", {}), **written})
    by_name = DataSpec(states=model.names, **written)
    try:
        found = read(path, of_the_fit, progress=progress)
    except InputError:
        return read(path, by_name, progress=progress)
    if set(model.names) <= set(found.names):
        return found
    try:
        return read(path, by_name, progress=progress)
    except InputError:
        return found


def as_learnt(trajectories: Trajectories, model: Model) -> Trajectories:
    """With outliers where their neighbours are, if the model learnt from its own data so."""
    mends = model.manifest.settings.get("outliers") == "mend"
    return mended(trajectories, estimate_noise(trajectories)) if mends else trajectories


def matching(trajectories: Trajectories, model: Model, path: Path) -> Trajectories:
    """The model's states, in its order, out of those of the data."""
    if trajectories.names == model.names:
        return trajectories
    if not set(model.names) <= set(trajectories.names):
        raise InputError(
            f"{path}: its states are {', '.join(trajectories.names)}, but the model's are {', '.join(model.names)}."
        )
    columns = [trajectories.names.index(name) for name in model.names]
    return Trajectories(
        runs=tuple(
            Run(t=run.t, x=run.x[:, columns], name=run.name, sigma=None if run.sigma is None else run.sigma[:, columns])
            for run in trajectories.runs
        ),
        names=model.names,
        units=tuple(trajectories.units[k] for k in columns),
        time_unit=trajectories.time_unit,
    )
