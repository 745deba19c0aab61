"""Models without a training and runs without a system: all a report needs, in milliseconds."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from wgfinn._spec import parse
from wgfinn.artefact import Manifest, MemberManifest, Model, describe_data, versions
from wgfinn.data import Run, Scales, Trajectories
from wgfinn.fitting import FitSpec, resolve
from wgfinn.models import Box, build
from wgfinn.report import Source
from wgfinn.training import stack

NASTY_NAMES = ("<script>alert(1)</script>", "\"q' & <b>bold</b>", "</script><img src=x onerror=alert(2)>")
NASTY_UNITS = ("<i>m</i>", "", "J\"'")
NASTY_TIME_UNIT = "<u>s</u>"


def some_data(
    names=("q", "p", "S"),
    units=None,
    *,
    runs: int = 3,
    samples: int = 40,
    run_names=None,
    noise: float = 0.01,
    time_unit: str = "",
) -> Trajectories:
    """Rotations of different size, at times that are not equally spaced."""
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.05, 0.15, samples))
    phases = np.arange(len(names))
    states = [
        (1 + 0.3 * k) * np.cos(t[:, None] + phases) + noise * rng.normal(size=(samples, len(names)))
        for k in range(runs)
    ]
    return Trajectories.from_arrays(states, t, names=names, units=units, run_names=run_names, time_unit=time_unit)


def some_model(data: Trajectories, *, members: int = 2, seed: int = 0, losses=None, **model) -> Model:
    """An ensemble with the weights of the first step; member 1 is served, where there is one.

    With tanh: untrained fields that are not bounded leave the finite range.
    """
    settings = {
        "model": {"layers": 2, "width": 4, "activation": "tanh"} | model,
        "training": {"members": members, "seed": seed},
    }
    spec = resolve(parse(FitSpec, settings), data)
    box = Box.everywhere(data.n_states)
    fields = [build(spec.model, data.n_states, key=jax.random.key(seed + k), box=box) for k in range(members)]
    losses = [1.0 / (k + 1) for k in range(members)] if losses is None else losses
    manifest = Manifest(
        model=spec.model,
        names=data.names,
        units=data.units,
        time_unit=data.time_unit,
        scales=Scales.standardise(data).to_dict(),
        dtype="float64",
        members=tuple(MemberManifest(name=f"seed {k}", seed=k, loss=loss) for k, loss in enumerate(losses)),
        served=min(1, members - 1),
        steps_done=10,
        settings=spec.model_dump(exclude_none=True),
        data=describe_data(data),
        versions=versions(),
    )
    return Model(stack(fields), manifest)


def some_source(data: Trajectories, model: Model, *, records=True, verdict=None, run="runs/<b>one</b>") -> Source:
    lines = tuple(
        {
            "step": step,
            "members": [
                {"name": m.name, "loss": None if step == 20 else 1 / step, "best_loss": 1 / step}
                for m in model.manifest.members
            ],
        }
        for step in (10, 20, 30)
    )
    return Source(
        run=Path(run),
        data=Path("data & more.npz"),
        model=Model(model.fields, model.manifest.model_copy(update={"verdict": verdict})),
        trajectories=data,
        records=lines if records else (),
    )


def with_gaps(data: Trajectories) -> Trajectories:
    """`data` in which the first run lacks a value of its first sample and one later on."""
    first = np.array(data.runs[0].x)
    first[0, 0] = first[7, 1] = np.nan
    return replace(data, runs=(Run(t=data.runs[0].t, x=first, name=data.runs[0].name), *data.runs[1:]))


def with_a_lost_run(data: Trajectories) -> Trajectories:
    """`data` and a run whose prediction overflows."""
    far = np.where(np.arange(data.n_states) % 2 == 0, 1.7e308, -1.7e308)
    lost = Run(t=data.runs[0].t, x=np.tile(far, (data.runs[0].t.size, 1)), name="lost")
    return replace(data, runs=(*data.runs, lost))
