"""From trajectories and settings to a model, and to the folder of a run."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wgfinn._errors import InputError
from wgfinn.artefact import Manifest, MemberManifest, Model, describe_data, save_model, serve_index, versions
from wgfinn.data import Trajectories, estimate_noise, mended, part_changed, state_std
from wgfinn.fitting.choices import choose_scales, resolve
from wgfinn.fitting.folder import (
    CHECKPOINT_FILE,
    MODEL_FILE,
    log_into,
    refinement_checkpoint,
    write_settings,
)
from wgfinn.fitting.members import Member, Trained, check_physics, ensemble, known_physics, train_members
from wgfinn.fitting.spec import FitSpec
from wgfinn.fitting.stages import train_staged
from wgfinn.losses import require_windows
from wgfinn.models import NO_FUNCTIONS, KnownFunctions
from wgfinn.training import Observer


def fit(
    trajectories: Trajectories,
    spec: FitSpec,
    *,
    functions: KnownFunctions = NO_FUNCTIONS,
    folder: Path | None = None,
    source: str | None = None,
    observe: Observer | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
) -> Model:
    """Learn an ensemble from `trajectories`; `functions` are the known pieces that settings cannot hold.

    With a `folder`, settings, metrics, checkpoints and the model file go there, and `resume` goes on from its
    checkpoint to the same numbers as a run that was never interrupted. Ctrl-C ends the training early; the
    model is what was best until then.
    """
    _check_motion(spec, trajectories)
    measured = trajectories
    if spec.outliers == "mend":
        trajectories = mended(measured, estimate_noise(measured))
    spec = resolve(spec, trajectories)
    if spec.test_functions is not None:
        # Before anything is written.
        require_windows(trajectories, spec.test_functions)
    check_physics(known_physics(ensemble(trajectories, spec), spec, functions), spec, trajectories)
    checkpoint = None
    if folder is not None:
        checkpoint = folder / CHECKPOINT_FILE
        observe = log_into(folder, spec, observe, resume=resume)
        if not resume:
            checkpoint.unlink(missing_ok=True)
            refinement_checkpoint(checkpoint).unlink(missing_ok=True)
            write_settings(folder, spec, measured, source)
    go = train_staged if spec.method == "auto" else _train_at_once
    learnt_from, members, trained = go(
        trajectories,
        spec,
        functions=functions,
        mended=part_changed(measured, trajectories),
        observe=observe,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        resume=resume,
    )
    model = Model(trained.fields, _manifest(measured, learnt_from, spec, members, trained))
    if folder is not None:
        save_model(model, folder / MODEL_FILE)
    return model


def _check_motion(spec: FitSpec, trajectories: Trajectories) -> None:
    """Something must move. A single state cannot: L is skew, so 0, and M∇E = 0 leaves M = 0 where E changes."""
    if not state_std(trajectories).any():
        raise InputError(
            f"no state ever moves ({', '.join(trajectories.names)} are constant): there is nothing to learn. "
            "Check which columns are the states."
        )
    if spec.model.field == "generic" and spec.model.entropy != "bath" and trajectories.n_states == 1:
        raise InputError(
            f"the data have one state, {trajectories.names[0]!r}, but x' = L∇E + M∇S needs two or more: alone, a state "
            "that conserves its energy stands still. Add the state it exchanges energy with (give all of them in "
            "--states), let the energy go into surroundings (model.entropy = 'bath'), or learn without thermodynamics "
            "by model.field = 'plain'."
        )


def _train_at_once(trajectories: Trajectories, spec: FitSpec, *, mended: float, **options: Any):
    """One stage: all members on all runs; no verdict tells of it."""
    members = ensemble(trajectories, spec)
    return trajectories, members, train_members(members, spec, **options)


def _manifest(
    trajectories: Trajectories,
    learnt_from: Trajectories,
    spec: FitSpec,
    members: Sequence[Member],
    trained: Trained,
) -> Manifest:
    """`learnt_from` are the runs whose coordinates the networks live in."""
    reports = tuple(
        MemberManifest(
            name=m.name,
            seed=m.seed,
            loss=loss if math.isfinite(loss) else None,
            diverged_at=diverged,
            misfit=trained.misfits[i] if trained.misfits else None,
        )
        for i, (m, loss, diverged) in enumerate(zip(members, trained.losses, trained.diverged_at, strict=True))
    )
    return Manifest(
        model=spec.model,
        names=trajectories.names,
        units=trajectories.units,
        time_unit=trajectories.time_unit,
        scales=choose_scales(spec, learnt_from).to_dict(),
        dtype=spec.training.dtype,
        members=reports,
        served=serve_index(list(trained.losses)) if trained.served is None else trained.served,
        steps_done=trained.steps_done,
        verdict=trained.verdict,
        settings=spec.model_dump(mode="json", exclude_none=True),
        data=describe_data(trajectories),
        versions=versions(),
    )
