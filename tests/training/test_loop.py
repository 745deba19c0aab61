"""The host's side of a training: where it looks, when it saves and stops, and that none of it changes a number."""

import itertools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from small_fits import some_runs
from wgfinn.losses import AttentionSpec, WeakEquations
from wgfinn.models import ModelSpec, build
from wgfinn.training import (
    MemberSettings,
    OptimiserSpec,
    Problem,
    TrainingSpec,
    initial_state,
    loop,
    stack,
    take_apart,
    train,
)
from wgfinn.weak import TestFunctionSpec

NAMES = ("first", "second")


def spec(**changes):
    return TrainingSpec(**{"steps": 40, "check_every": 5, "log_every": 10, **changes})


def start(width=4):
    """Two members at their first step, their settings, and a problem with minibatches."""
    model = ModelSpec(field="plain", layers=2, width=width)
    vectors, structures = zip(
        *(take_apart(build(model, 3, key=jax.random.key(k)), "float32") for k in range(2)), strict=True
    )
    settings = [
        MemberSettings.create(k, OptimiserSpec(), AttentionSpec(rate=0.1, decay=0.9), "float32") for k in range(2)
    ]
    equations = WeakEquations(some_runs(), TestFunctionSpec(width=10, degree=3), "float32")
    problem = Problem(equations, jnp.ones(3, "float32"), structures[0], batch=2)
    states = stack([initial_state(v, s, 3) for v, s in zip(vectors, settings, strict=True)])
    return states, stack(settings), problem


@pytest.fixture(scope="module")
def beginning():
    return start()


@pytest.fixture(scope="module")
def reference(beginning):
    """The end of a training nobody watched."""
    return train(*beginning, spec(), NAMES)


def assert_same_bits(actual, expected):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


def steps_seen(beginning, training, **options):
    records = []
    states = train(*beginning, training, NAMES, observe=records.append, **options)
    return [r.step for r in records], records, states


@pytest.mark.parametrize("k", range(2))
def test_a_member_beside_others_is_the_member_alone(beginning, reference, k):
    """Whatever the other threads do."""
    states, settings, problem = beginning
    alone = jax.tree.map(lambda leaf: leaf[k : k + 1], (states, settings))
    expected = jax.tree.map(lambda leaf: leaf[k : k + 1], reference)
    assert_same_bits(train(*alone, problem, spec(), NAMES[:1]), expected)


@pytest.mark.parametrize("chunk_seconds", [0.0, 1e9])
@pytest.mark.parametrize("log_every", [1, 10, 1000])
def test_where_the_host_looks_changes_no_number(beginning, reference, monkeypatch, chunk_seconds, log_every):
    """Slow and fast machines, watched often or never: the same bits."""
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", chunk_seconds)
    seen, _, states = steps_seen(beginning, spec(log_every=log_every))
    assert_same_bits(states, reference)
    assert seen[-1] == 40
    if chunk_seconds == 0 or log_every == 1:
        assert seen == list(range(5, 41, 5))
    elif log_every == 10:
        assert seen == [5, 10, 20, 30, 40]
    else:  # a chunk grows at most twofold: 1, 2, 4 checks, and the one left
        assert seen == [5, 15, 35, 40]


def test_records_fall_on_the_first_check_from_each_multiple(beginning, monkeypatch):
    """log_every = 12 with checks every 5 steps: 12, 24 and 36 are first seen at 15, 25 and 40."""
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", 1e9)
    seen, _, _ = steps_seen(beginning, spec(log_every=12))
    assert {15, 25, 40} <= set(seen)


def test_record_tells_each_member(beginning, reference):
    _, records, _ = steps_seen(beginning, spec())
    last = records[-1]
    assert (last.step, last.steps) == (40, 40)
    assert tuple(m.name for m in last.members) == NAMES
    np.testing.assert_array_equal([m.best_loss for m in last.members], reference.best_loss)
    assert all(0 < m.best_loss <= m.loss for m in last.members)
    assert all(m.rate == pytest.approx(1e-2, rel=1e-6) and m.gradient_norm > 0 for m in last.members)
    assert all(len(m.residual) == 3 and min(m.residual) > 0 for m in last.members)
    assert all(m.diverged_at is None for m in last.members)
    content = last.to_dict()
    assert set(content) == {"stage", "step", "seconds", "members"}
    assert set(content["members"][0]) == set(vars(last.members[0]))
    assert [r.seconds for r in records] == sorted(r.seconds for r in records)


@pytest.mark.parametrize("steps", [3, 23])
def test_length_need_not_be_a_multiple_of_the_checks(beginning, steps):
    seen, _, states = steps_seen(beginning, spec(steps=steps))
    assert seen[-1] == steps
    assert states.step.tolist() == [steps, steps]
    assert np.all(np.isfinite(states.best_loss))


def test_nothing_is_left_to_do_at_the_end(beginning, reference):
    _, settings, problem = beginning
    seen, _, states = steps_seen((reference, settings, problem), spec())
    assert seen == []
    assert_same_bits(states, reference)


def test_stops_at_a_chunks_end_and_goes_on_to_the_same_bits(beginning, reference, monkeypatch):
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", 0.0)
    answers = itertools.chain([False, False, False], itertools.repeat(True))
    saved = []
    seen, _, states = steps_seen(
        beginning, spec(), should_stop=lambda: next(answers), save=lambda s, t: saved.append(int(s.step[0]))
    )
    assert seen == [5, 10, 15]
    assert saved == [15]
    _, settings, problem = beginning
    assert_same_bits(train(states, settings, problem, spec(), NAMES), reference)


def test_saves_by_the_clock_and_at_the_end(beginning, monkeypatch):
    """A clock that ticks once a look, twice a chunk: every 4 seconds is every second chunk of one check."""
    ticks = itertools.count()
    monkeypatch.setattr(loop.time, "monotonic", lambda: float(next(ticks)))
    saved = []
    train(
        *beginning,
        spec(),
        NAMES,
        save=lambda states, seconds: saved.append((int(states.step[0]), seconds)),
        save_every=4.0,
        seconds_before=100.0,
    )
    assert saved == [(10, 104.0), (20, 108.0), (30, 112.0), (40, 116.0), (40, 117.0)]


def test_one_compilation_a_training(caplog, monkeypatch):
    """Chunks of 1, 2, 4 and 1 checks; a width of its own, so that no other test has compiled it."""
    monkeypatch.setattr(loop, "_CHUNK_SECONDS", 1e9)
    beginning = start(width=6)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        seen, _, _ = steps_seen(beginning, spec(log_every=1000))
    assert seen == [5, 15, 35, 40]
    assert sum(r.getMessage().startswith("Compiling jit(_advance)") for r in caplog.records) == 1
