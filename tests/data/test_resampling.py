"""Records on equally spaced times."""

import numpy as np

from wgfinn.data import Run, evenly_spaced


def test_a_uniform_run_comes_back_as_it_is():
    run = Run(t=np.arange(5) * 0.1, x=np.arange(10.0).reshape(5, 2), name="a")
    assert evenly_spaced(run) is run.x


def test_straight_lines_survive():
    t = np.array([1.0, 1.3, 2.0, 2.2, 3.0])
    even = evenly_spaced(Run(t=t, x=np.stack([2 * t, 1 - t], axis=-1), name="a"))
    times = np.linspace(1, 3, 5)
    np.testing.assert_allclose(even, np.stack([2 * times, 1 - times], axis=-1), atol=1e-14)


def test_another_step():
    t = np.arange(11) * 0.1
    even = evenly_spaced(Run(t=t, x=t, name="a"), step=0.25)
    np.testing.assert_allclose(even[:, 0], [0, 0.25, 0.5, 0.75, 1.0], atol=1e-15)


def test_missing_samples_are_bridged_and_absent_states_stay_absent():
    t = np.arange(4.0)
    x = np.array([[0, np.nan, 1], [np.nan, np.nan, 1], [2, np.nan, 1], [3, np.nan, 1]])
    run = Run(t=t, x=x, name="a")
    even = evenly_spaced(run)
    np.testing.assert_allclose(even[:, 0], t)
    assert np.isnan(even[:, 1]).all()
