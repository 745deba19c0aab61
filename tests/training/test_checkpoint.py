"""The state of a training on disk: every bit back, whole or not at all, and words for what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn._errors import ArtefactError
from wgfinn.losses import AttentionSpec
from wgfinn.training import (
    MemberSettings,
    OptimiserSpec,
    checkpoint_step,
    initial_state,
    load_checkpoint,
    save_checkpoint,
    stack,
)


def some_states(seed=0, n_weights=7, dtype="float32", members=2):
    """States of awkward numbers: every array random, the best loss of one member infinite."""
    rng = np.random.default_rng(seed)
    settings = MemberSettings.create(0, OptimiserSpec(), AttentionSpec(), dtype)
    state = initial_state(jnp.zeros(n_weights, dtype), settings, 3)
    states = stack([state] * members)
    states = jax.tree.map(lambda a: jnp.asarray(100 * rng.standard_normal(a.shape), a.dtype), states)
    return jax.tree.map(lambda a: a.at[0].set(jnp.inf) if a is states.best_loss else a, states)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, some_states(), 12.5)
    return path


def test_comes_back_bit_for_bit(checkpoint):
    states, seconds = load_checkpoint(checkpoint, some_states(seed=1))
    assert seconds == 12.5
    for a, b in zip(jax.tree.leaves(states), jax.tree.leaves(some_states()), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    assert checkpoint_step(checkpoint) == int(some_states().step[0])


def test_a_failing_write_leaves_the_old_file(checkpoint, monkeypatch):
    before = checkpoint.read_bytes()

    def half(file, **_):
        file.write(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(OSError, match="no space left"):
        save_checkpoint(checkpoint, some_states(seed=1), 13.0)
    assert checkpoint.read_bytes() == before
    assert list(checkpoint.parent.iterdir()) == [checkpoint]


def both_refuse(path, match):
    with pytest.raises(ArtefactError, match=match):
        load_checkpoint(path, some_states())
    with pytest.raises(ArtefactError, match=match):
        checkpoint_step(path)


def test_missing(tmp_path):
    both_refuse(tmp_path / "checkpoint.npz", r"checkpoint.npz: no checkpoint here; start the run with `wgfinn fit`")


@pytest.mark.parametrize("keep", [0, 3, 500])
def test_cut_short(checkpoint, keep):
    checkpoint.write_bytes(checkpoint.read_bytes()[:keep])
    both_refuse(checkpoint, r"checkpoint.npz: the checkpoint cannot be read \(.*\); start the run afresh")


def test_a_flipped_bit_is_noticed(checkpoint):
    content = bytearray(checkpoint.read_bytes())
    place = content.find(b"weights.npy") + 200  # inside the numbers of the first array
    content[place] ^= 1
    checkpoint.write_bytes(bytes(content))
    with pytest.raises(ArtefactError, match="the checkpoint cannot be read"):
        load_checkpoint(checkpoint, some_states())


def test_other_arrays(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez(path, t=np.arange(3))
    both_refuse(path, "the checkpoint cannot be read")


@pytest.mark.parametrize("other", [{"n_weights": 8}, {"dtype": "float64"}, {"members": 3}])
def test_of_another_model(checkpoint, other):
    with pytest.raises(ArtefactError, match=r"checkpoint.npz: the array 'weights' is float32\[2, 7\], but"):
        load_checkpoint(checkpoint, some_states(**other))
