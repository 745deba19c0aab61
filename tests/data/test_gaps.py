"""Stretches between long gaps: what is filled, what divides, and how exact the filled values are."""

import numpy as np
import pytest

from wgfinn.data import Run, stretches

T = 0.1 * np.arange(40)
X = np.stack([np.sin(T), np.cos(2 * T)], axis=1)


def holes(**missing):
    """`X` without the rows named for each state, or for both."""
    x = X.copy()
    x[missing.get("q", []), 0] = np.nan
    x[missing.get("p", []), 1] = np.nan
    x[missing.get("both", [])] = np.nan
    return Run(T, x, "a")


def test_a_complete_run_is_one_stretch():
    (found,) = stretches(holes(), 0.1)
    np.testing.assert_array_equal(found.x, X)
    np.testing.assert_array_equal(found.t, T)


def test_short_gaps_are_filled():
    """Two neighbours missing: the cubic through values 3 steps and more apart, error f''''/24 times the product of
    the distances, at most 16 * 2.25 * 2.25 * 1e-4 / 24 = 3e-4; what was measured stays bit by bit."""
    run = holes(q=[7, 20, 21], p=[8, 9, 30])
    (found,) = stretches(run, 0.3)
    assert found.is_complete
    np.testing.assert_array_equal(found.t, T)
    np.testing.assert_array_equal(found.x[run.observed], X[run.observed])
    np.testing.assert_allclose(found.x, X, atol=1e-3)


def test_cubics_are_filled_exactly():
    x = np.stack([T**3 - T, 2 - T**2], axis=1)
    with_holes = x.copy()
    with_holes[[1, 11, 12, 25, 38], 0] = np.nan
    (found,) = stretches(Run(T, with_holes, "a"), 0.35)
    np.testing.assert_allclose(found.x, x, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("points", [(41, 81, 161)])
def test_order_of_the_filling(points):
    """Every fifth value missing: the error falls as the fourth power of the step."""
    errors = []
    for n in points:
        t = np.linspace(0, 2, n)
        x = np.stack([np.exp(t), t], axis=1)
        x[2:-2:5, 0] = np.nan
        (found,) = stretches(Run(t, x, "a"), 1.0)
        errors.append(np.abs(found.x[:, 0] - np.exp(t)).max())
    slope = np.polyfit(np.log([1 / (n - 1) for n in points]), np.log(errors), 1)[0]
    assert abs(slope - 4) < 0.15


def test_a_long_gap_of_one_state_divides():
    """Steps 10 to 14 of q are missing: a gap of 0.6. The stretches end and begin with measured values."""
    first, second = stretches(holes(q=[10, 11, 12, 13, 14], p=[3]), 0.55)
    np.testing.assert_array_equal(first.t, T[:10])
    np.testing.assert_array_equal(second.t, T[15:])
    assert first.is_complete
    assert len(stretches(holes(q=[10, 11, 12, 13, 14]), 0.6)) == 1


def test_a_long_gap_in_time_divides():
    first, second = stretches(holes(both=[10, 11, 12, 13, 14]), 0.55)
    assert (len(first.t), len(second.t)) == (10, 25)


def test_missing_rows_are_put_back():
    """Rows 10, 20 and 21 at their places; a step of 1.4 lacks none, one that is too long keeps its gap."""
    (found,) = stretches(holes(both=[10, 20, 21]), 0.35)
    np.testing.assert_allclose(found.t, T, rtol=1e-12)
    np.testing.assert_allclose(found.x, X, atol=1e-3)
    t = np.array([0.0, 1.0, 2.4, 3.4, 4.4, 5.4, 7.6, 8.6, 9.6])
    (found,) = stretches(Run(t, t[:, None], "a"), 2.5)
    np.testing.assert_allclose(found.t, [0.0, 1.0, 2.4, 3.4, 4.4, 5.4, 6.5, 7.6, 8.6, 9.6], rtol=1e-12)
    np.testing.assert_allclose(found.x[:, 0], found.t, rtol=1e-12)


def test_nothing_is_extrapolated():
    (found,) = stretches(holes(q=[0, 1], p=[39]), 0.35)
    np.testing.assert_array_equal(found.t, T[2:39])


def test_states_measured_in_turn():
    """Never both at once: either is filled where the other was measured."""
    (found,) = stretches(holes(q=range(0, 40, 2), p=range(1, 40, 2)), 0.2)
    np.testing.assert_array_equal(found.t, T[1:39])
    np.testing.assert_allclose(found.x, X[1:39], atol=1e-3)


def test_nothing_left():
    assert stretches(holes(q=range(5, 40)), 0.3)[0].t[-1] == T[4]
    assert stretches(holes(q=range(1, 40)), 0.3) == ()
    assert stretches(Run(T, np.where([[True, False]], np.nan, X), "a"), 10.0) == ()


def test_noise_level_of_a_filled_value():
    """(-1/16, 9/16, 9/16, -1/16) from distances 3 and 1: equal levels shrink by sqrt(164) / 16."""
    x = X.copy()
    x[9::2, 0] = np.nan
    sigma = np.where(np.isnan(x), np.nan, 0.5)
    (found,) = stretches(Run(T, x, "a", sigma), 0.2)
    np.testing.assert_allclose(found.sigma[15, 0], 0.5 * np.sqrt(164) / 16, rtol=1e-12)
    np.testing.assert_array_equal(found.sigma[:, 1], 0.5)
