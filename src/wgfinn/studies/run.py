"""Making a study's data, training its programs and judging what came out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from wgfinn._device import on_cpu
from wgfinn.artefact import Manifest, MemberManifest, Model, describe_data, serve_index, versions
from wgfinn.data import Scales, Trajectories, add_noise, split
from wgfinn.evaluate import prediction_errors, simulate_runs, thermodynamic_checks
from wgfinn.fitting import Member, Trained, train_members
from wgfinn.models import AbstractField
from wgfinn.studies.plan import DataPlan, PlannedRow, Program
from wgfinn.studies.results import MemberResult, RowResult, finite, finite_values, hardware
from wgfinn.systems import Progress, Source, generate, make
from wgfinn.training import Observer

INTEGRATOR = "rk23"


@dataclass(frozen=True)
class StudyData:
    """Clean test runs, and the training runs at every noise level."""

    system: Source
    test: Trajectories
    train: dict[float, Trajectories]


def make_data(plan: DataPlan, levels: Sequence[float], progress: Progress | None = None) -> StudyData:
    """Runs of the system, split, and noise on the training part with σ from its clean states (paper, section 5)."""
    system = make(plan.system, **plan.parameters)
    clean = generate(system, trajectories=plan.spec.trajectories, seed=plan.spec.seed, progress=progress).clean
    train, test = split(clean, fraction=plan.spec.train_fraction, seed=plan.spec.seed)
    return StudyData(
        system, test, {level: add_noise(train, level, seed=plan.spec.noise_seed) for level in dict.fromkeys(levels)}
    )


@dataclass(frozen=True)
class Outcome:
    """A program after its training; `finished` unless it was interrupted before its last step."""

    trained: Trained
    seconds: float
    finished: bool


def train_program(program: Program, data: StudyData, checkpoint: Path, observe: Observer | None = None) -> Outcome:
    """Train all rows of a program, from its checkpoint if there is one."""
    trained = train_members(
        program_members(program, data),
        program.fit,
        observe=observe,
        checkpoint=checkpoint,
        resume=checkpoint.exists(),
    )
    # The last checkpoint knows the time of all sessions of this training.
    with np.load(checkpoint, allow_pickle=False) as file:
        seconds = float(file["seconds"])
    return Outcome(trained, seconds, trained.steps_done >= program.fit.training.steps)


def program_members(program: Program, data: StudyData) -> list[Member]:
    """One member a row and seed; rows of one noise level share their data."""
    return [
        Member(f"{row.key} seed {seed}", seed, data.train[row.noise], row.fit.optimiser, row.fit.attention)
        for row in program.rows
        for seed in row.seeds
    ]


def row_models(program: Program, data: StudyData, trained: Trained) -> list[Model]:
    """The model of each row of a program: its members are the seeds."""
    ends = np.cumsum([len(row.seeds) for row in program.rows]).tolist()
    parts = [slice(end - len(row.seeds), end) for row, end in zip(program.rows, ends, strict=True)]
    return [_row_model(row, data, trained, part) for row, part in zip(program.rows, parts, strict=True)]


def _row_model(row: PlannedRow, data: StudyData, trained: Trained, part: slice) -> Model:
    train = data.train[row.noise]
    losses = trained.losses[part]
    members = tuple(
        MemberManifest(name=f"seed {seed}", seed=seed, loss=finite(loss), diverged_at=diverged)
        for seed, loss, diverged in zip(row.seeds, losses, trained.diverged_at[part], strict=True)
    )
    manifest = Manifest(
        model=row.fit.model,
        names=train.names,
        units=train.units,
        time_unit=train.time_unit,
        scales=Scales.identity(train.n_states).to_dict(),
        dtype=row.fit.training.dtype,
        members=members,
        served=serve_index(list(losses)),
        steps_done=trained.steps_done,
        settings=row.fit.model_dump(exclude_none=True),
        data=describe_data(train),
        versions=versions(),
    )
    # Plain numpy: what follows a training belongs to no device.
    fields = jax.tree.map(lambda leaf: np.asarray(leaf)[part], trained.fields)
    return Model(fields, manifest)


def judge_row(row: PlannedRow, model: Model, data: StudyData, outcome: Outcome, n_members: int) -> RowResult:
    """Every member of a row on the clean test runs."""
    with on_cpu():
        members = tuple(
            _judge_member(model.field(i), member, data.test) for i, member in enumerate(model.manifest.members)
        )
    return RowResult(
        key=row.key,
        arm=row.arm,
        noise=row.noise,
        digest=row.digest(),
        settings=row.settings(),
        data_digest=model.manifest.data.digest,
        steps=outcome.trained.steps_done,
        program_seconds=round(outcome.seconds, 3),
        program_members=n_members,
        hardware=hardware(),
        versions=model.manifest.versions,
        members=members,
    )


def _judge_member(field: AbstractField, member: MemberManifest, test: Trajectories) -> MemberResult:
    simulated = simulate_runs(field, test, INTEGRATOR)
    checks = thermodynamic_checks(field, test, INTEGRATOR, simulated=simulated)
    assert checks is not None  # every recipe's network is a GENERIC field
    errors = prediction_errors(test, simulated)
    return MemberResult(
        seed=member.seed,
        error=finite(errors.overall),
        median_run=finite(errors.median_run),
        per_state=finite_values(errors.per_state),
        diverged_runs=errors.diverged,
        loss=member.loss,
        diverged_at=member.diverged_at,
        energy_drift=finite(checks.energy_drift),
        min_entropy_increment=finite(checks.min_entropy_increment),
        degeneracy=finite_values(checks.degeneracy),
    )
