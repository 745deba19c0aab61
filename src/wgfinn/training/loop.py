"""The host's side of a training: chunks of the compiled program, records, checkpoints, stops.

The host looks at a chunk's end only. Where it looks changes no number: the program is compiled once, for a
number of checks that is a value of it.
"""

import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wgfinn._device import one_lapack_thread, platform
from wgfinn.training.problem import Problem
from wgfinn.training.spec import TrainingSpec
from wgfinn.training.state import MemberSettings, StepInfo, TrainState
from wgfinn.training.step import advance, advance_soon

_CHUNK_SECONDS = 0.5
# Steps from which a program on an accelerator is worth the minute that its best form takes to find.
_LONG = 20_000


@dataclass(frozen=True)
class MemberRecord:
    """One member at one check. `loss` is over all data, without attention."""

    name: str
    loss: float
    best_loss: float
    rate: float
    gradient_norm: float
    residual: tuple[float, ...]
    diverged_at: int | None


@dataclass(frozen=True)
class Record:
    """All members at one check."""

    step: int
    steps: int
    seconds: float
    members: tuple[MemberRecord, ...]
    stage: str = "train"
    within: tuple[int, int] | None = None
    """The step, and how many there are, of a stage whose steps do not count as those of the training."""

    def to_dict(self) -> dict[str, Any]:
        within = {} if self.within is None else {"stage_step": self.within[0], "stage_steps": self.within[1]}
        return {
            "stage": self.stage,
            "step": self.step,
            **within,
            "seconds": round(self.seconds, 3),
            "members": [vars(m) | {"residual": list(m.residual)} for m in self.members],
        }


Observer = Callable[[Record], None]
Saver = Callable[[TrainState, float], None]


def train(
    states: TrainState,
    settings: MemberSettings,
    problem: Problem,
    spec: TrainingSpec,
    names: Sequence[str],
    *,
    own_data: bool = False,
    observe: Observer | None = None,
    save: Saver | None = None,
    save_every: float = 60.0,
    seconds_before: float = 0.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainState:
    """Steps until `spec.steps`, or until `should_stop`; returns the states of all members.

    `observe` gets a record at every chunk's end, among them every multiple of `spec.log_every` (rounded up
    to a check) and the last step. `save` is called every `save_every` seconds and at the end.
    """
    started = last_saved = time.monotonic()
    step = int(states.step[0])
    threads = _threads(len(states.step))
    chunk = 1
    while step < spec.steps and not should_stop():
        interval, n_checks = _next_chunk(step, _without_idle_threads(chunk, len(states.step), threads), spec)
        before = time.monotonic()
        with one_lapack_thread():
            states, info = _advance(
                states,
                settings,
                problem,
                n_checks,
                threads=threads,
                interval=interval,
                own_data=own_data,
                long=spec.steps >= _LONG,
            )
        now = time.monotonic()
        chunk = _chunk_for(n_checks, now - before)
        step += interval * n_checks
        if observe is not None:
            observe(_record(step, spec.steps, seconds_before + now - started, names, states, info))
        if save is not None and (now - last_saved >= save_every):
            save(states, seconds_before + now - started)
            last_saved = now
    if save is not None:
        save(states, seconds_before + time.monotonic() - started)
    return states


def compile_ahead(states: TrainState, settings: MemberSettings, problem: Problem, spec: TrainingSpec) -> None:
    """What `train` would compile for these members, on an accelerator."""
    interval = min(spec.check_every, spec.steps)
    _advance(states, settings, problem, 0, threads=1, interval=interval, own_data=False, long=spec.steps >= _LONG)


def _threads(count: int) -> int:
    """On a CPU members go in threads: one alone keeps little more than one core busy. An accelerator takes them all."""
    return min(count, os.cpu_count() or 1) if platform() == "cpu" else 1


def _without_idle_threads(n_checks: int, count: int, threads: int) -> int:
    """`n_checks` or a few more, so that the threads end together: three members on two cores take three checks' time
    for two checks each, but two for one."""
    together = threads // math.gcd(count, threads)
    return -(-n_checks // together) * together


def _advance(
    states: TrainState,
    settings: MemberSettings,
    problem: Problem,
    n_checks: int,
    *,
    threads: int,
    interval: int,
    own_data: bool,
    long: bool,
) -> tuple[TrainState, StepInfo]:
    """`advance`, in `threads`, which take the members in turn, a check at a time.

    A member's numbers are the same to the bit, whoever runs beside it.
    """
    on_cpu = platform() == "cpu"
    go = functools.partial(advance if long or on_cpu else advance_soon, interval=interval, own_data=own_data)
    count = len(states.step)
    if threads == 1:
        return jax.block_until_ready(go(states, settings, problem, jnp.asarray(n_checks)))
    shared, own = eqx.partition(problem, lambda leaf: not own_data or not eqx.is_array(leaf))
    # A thread has settings of its own.
    double = jnp.result_type(float) == jnp.float64

    def one(index: int, checks: int, state: TrainState) -> tuple[TrainState, StepInfo]:
        setting, data = jax.tree.map(lambda leaf: leaf[index : index + 1], (settings, own))
        with jax.enable_x64(double):
            return jax.block_until_ready(go(state, setting, eqx.combine(shared, data), jnp.asarray(checks)))

    first = [jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], states) for i in range(count)]
    # No checks at all compile the program, once for all threads.
    one(0, 0, first[0])
    turns = n_checks if count % threads else 1
    with ThreadPoolExecutor(threads) as pool:
        # Whom a turn waits for was begun before it, since turns are begun in this order: no two wait for each other.
        latest = [pool.submit(one, i, n_checks // turns, state) for i, state in enumerate(first)]
        for _ in range(turns - 1):
            latest = [pool.submit(lambda i, f: one(i, 1, f.result()[0]), i, f) for i, f in enumerate(latest)]
        members = [f.result() for f in latest]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *members)


def _next_chunk(step: int, chunk: int, spec: TrainingSpec) -> tuple[int, int]:
    """Steps between checks, and checks, until the host looks again: no further than the next record."""
    interval = min(spec.check_every, spec.steps - step)
    next_record = (step // spec.log_every + 1) * spec.log_every
    until_record = -(-(next_record - step) // interval)
    until_end = (spec.steps - step) // interval
    return interval, max(1, min(chunk, until_record, until_end))


def _chunk_for(n_checks: int, seconds: float) -> int:
    """How many checks fill a chunk at the speed just seen, growing at most twofold (a first call compiles)."""
    return max(1, min(2 * n_checks, int(n_checks * _CHUNK_SECONDS / max(seconds, 1e-9))))


def _record(step: int, steps: int, seconds: float, names: Sequence[str], states: TrainState, info: StepInfo) -> Record:
    best, diverged = np.asarray(states.best_loss), np.asarray(states.diverged_at)
    loss, rate, norm = (np.asarray(a) for a in (info.loss, info.rate, info.gradient_norm))
    residual = np.asarray(info.residual)
    members = tuple(
        MemberRecord(
            name=name,
            loss=float(loss[i]),
            best_loss=float(best[i]),
            rate=float(rate[i]),
            gradient_norm=float(norm[i]),
            residual=tuple(float(r) for r in residual[i]),
            diverged_at=int(diverged[i]) if diverged[i] >= 0 else None,
        )
        for i, name in enumerate(names)
    )
    return Record(step, steps, seconds, members)
