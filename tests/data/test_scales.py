"""Affine scales: inverse of each other, standardised, kept by JSON."""

import json

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Scales, Trajectories


def sample() -> Trajectories:
    rng = np.random.default_rng(0)
    x = rng.normal([1e6, -3e-9, 0.1], [10.0, 1e-9, 0.0], size=(4, 50, 3))
    return Trajectories.from_arrays(list(x), [np.linspace(0.0, end, 50) for end in (1.0, 8.0, 8.0, 9.0)])


def test_identity():
    scales = Scales.identity(3)
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(scales.forward(x), x)
    np.testing.assert_array_equal(scales.backward(x), x)
    assert scales.time == 1.0


def test_standardise():
    """Rounding of the mean costs eps |mean| / std = 2e-16 * 1e6 / 10 = 2e-11 in the first state."""
    scales = Scales.standardise(sample())
    z = np.concatenate([scales.forward(run.x) for run in sample().runs])
    np.testing.assert_allclose(z[:, :2].mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(z[:, :2].std(axis=0), 1.0, rtol=1e-10)


def test_constant_state_keeps_scale_one():
    """The std of 200 times 0.1 is 1e-17, not 0: rounding must not become a scale."""
    scales = Scales.standardise(sample())
    assert scales.scale[2] == 1.0
    assert scales.shift[2] == pytest.approx(0.1, rel=1e-14)
    zeros = Trajectories.from_arrays(np.zeros((2, 5, 1)), np.arange(5))
    assert Scales.standardise(zeros).scale.tolist() == [1.0]


def test_time_scale():
    assert Scales.standardise(sample()).time == 2.0
    assert Scales.standardise(sample(), time=3).time == 3.0


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3)])
def test_backward_inverts_forward(shape):
    scales = Scales(shift=[1.0, -2.0, 0.5], scale=[3.0, 0.1, 7.0], time=1.0)
    x = np.random.default_rng(1).normal(size=shape)
    np.testing.assert_allclose(scales.backward(scales.forward(x)), x, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(scales.forward(np.array([4.0, -1.9, 0.5]))[[0, 2]], [1.0, 0.0])


def test_json_keeps_every_bit():
    scales = Scales.standardise(sample())
    again = Scales.from_dict(json.loads(json.dumps(scales.to_dict())))
    assert again.shift.tobytes() == scales.shift.tobytes()
    assert again.scale.tobytes() == scales.scale.tobytes()
    assert again.time == scales.time


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        Scales.identity(2).scale[0] = 2.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"shift": [0.0], "scale": [1.0]},
            r"exactly the keys \['scale', 'shift', 'time'\], but received \['scale",
        ),
        ({"shift": [0.0], "scale": [1.0], "time": 1.0, "unit": "m"}, r"scales need exactly the keys"),
        (
            {"shift": [0.0], "scale": [1.0, 2.0], "time": 1.0},
            r"one number for each state, .* \(1,\) and \(2,\)",
        ),
        ({"shift": [], "scale": [], "time": 1.0}, r"shift and scale need one number for each state"),
        ({"shift": ["a"], "scale": [1.0], "time": 1.0}, r"shift must hold real numbers"),
        ({"shift": [np.nan], "scale": [1.0], "time": 1.0}, r"shift must be finite, but is \[nan\]"),
        ({"shift": [0.0], "scale": [0.0], "time": 1.0}, r"scale must be finite and above 0, but is \[0.\]"),
        ({"shift": [0.0], "scale": [np.inf], "time": 1.0}, r"scale must be finite and above 0"),
        (
            {"shift": [0.0], "scale": [1.0], "time": 0.0},
            r"time scale must be one finite number above 0, but is 0",
        ),
        ({"shift": [0.0], "scale": [1.0], "time": [1.0]}, r"time scale must be one finite number above 0"),
    ],
)
def test_refused_content(content, message):
    with pytest.raises(InputError, match=message):
        Scales.from_dict(content)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_refused_shape(direction):
    with pytest.raises(InputError, match=r"the last axis must hold the 3 states, but the array has shape \(5, 1\)"):
        getattr(Scales.identity(3), direction)(np.zeros((5, 1)))


def test_missing_values_do_not_count():
    x = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, np.nan], [5.0, 7.0]])
    scales = Scales.standardise(Trajectories.from_arrays(x, np.arange(4.0)))
    np.testing.assert_allclose(scales.shift, [3.0, 6.0], rtol=1e-15)
    np.testing.assert_allclose(scales.scale, [np.std([1, 3, 5]), np.std([5, 6, 7])], rtol=1e-15)


def test_complete_data_give_the_numbers_of_plain_numpy():
    """Bit by bit: models of earlier versions must come out the same."""
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(7, 101, 3))
    scales = Scales.standardise(Trajectories.from_arrays(x, np.arange(101.0)))
    flat = x.reshape(-1, 3)
    assert scales.shift.tobytes() == np.mean(flat, axis=0).tobytes()
    assert scales.scale.tobytes() == np.std(flat, axis=0).tobytes()
