"""Trajectories: every shape that is accepted, every complaint at the door."""

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.data import Run, Trajectories, add_noise, as_trajectories, cut, split

T = np.linspace(0.0, 1.0, 5)
X = np.arange(30.0).reshape(3, 5, 2)


def ragged() -> Trajectories:
    return Trajectories.from_arrays([X[0], X[1, :3]], [T, 2 * T[:3]], names=["q", "p"], run_names=["a", "b"])


# ------------------------------------------------------------------------------------- accepted shapes


@pytest.mark.parametrize(
    ("x", "t", "shapes"),
    [
        (X, T, [(5, 2)] * 3),
        (X, np.stack([T, T + 1, T + 2]), [(5, 2)] * 3),
        (X, [T, T, T], [(5, 2)] * 3),
        (X[0], T, [(5, 2)]),
        (X[0], [T], [(5, 2)]),
        (X[0].tolist(), T.tolist(), [(5, 2)]),
        (list(X[0]), T, [(5, 2)]),
        (X[0, :, 0], T, [(5, 1)]),
        (X[0, :, 0].tolist(), T, [(5, 1)]),
        ([X[0], X[1, :3]], [T, T[:3]], [(5, 2), (3, 2)]),
        ((X[0], X[1]), T, [(5, 2), (5, 2)]),
        ([X[0, :, 0], X[1, :3, 0]], [T, T[:3]], [(5, 1), (3, 1)]),
        (X.astype(np.float32), np.arange(5), [(5, 2)] * 3),
    ],
)
def test_from_arrays_shapes(x, t, shapes):
    trajectories = Trajectories.from_arrays(x, t)
    assert [run.x.shape for run in trajectories.runs] == shapes
    assert [run.t.size for run in trajectories.runs] == [shape[0] for shape in shapes]
    assert all(run.x.dtype == run.t.dtype == np.float64 for run in trajectories.runs)


def test_values_and_default_names():
    trajectories = Trajectories.from_arrays(X, T)
    assert len(trajectories) == 3
    assert trajectories.n_states == 2
    assert trajectories.names == ("x1", "x2")
    assert trajectories.units == ("", "")
    assert trajectories.run_names == ("0", "1", "2")
    np.testing.assert_array_equal(trajectories.runs[2].x, X[2])
    np.testing.assert_array_equal(trajectories.runs[2].t, T)


def test_arrays_are_read_only_copies():
    x, t = X.copy(), T.copy()
    trajectories = Trajectories.from_arrays(x, t)
    x[:] = -1.0
    t[:] = -1.0
    np.testing.assert_array_equal(trajectories.runs[0].x, X[0])
    np.testing.assert_array_equal(trajectories.runs[0].t, T)
    for array in (trajectories.runs[0].x, trajectories.runs[0].t, trajectories.stacked()[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_repr_is_short():
    assert repr(Trajectories.from_arrays(X, T, ["q", "p"], ["m", ""])) == (
        "Trajectories(3 runs of 5 times; states: q [m], p)"
    )
    assert repr(Trajectories.from_arrays(X, T, time_unit="s")) == (
        "Trajectories(3 runs of 5 times [s]; states: x1, x2)"
    )
    assert repr(ragged()) == "Trajectories(2 runs of 3 to 5 times; states: q, p)"
    assert repr(ragged().runs[1]) == "Run('b': 3 times in [0, 1], 2 states)"


# -------------------------------------------------------------------------------------------- the door


@pytest.mark.parametrize(
    ("x", "t", "message"),
    [
        (X, None, "t is missing"),
        ([], T, "x is empty: give at least one run"),
        (np.zeros((0, 5, 2)), T, "x is empty: give at least one run"),
        (X[0, :1], T[:1], r"run '0': a run needs at least 2 points in time, but has 1"),
        (X[0], T[0], r"run '0': t must be one-dimensional, \(time,\), but has shape \(\)"),
        (X[0], T[:, None, None], r"t must be one-dimensional"),
        ([X[0], X[1, :, :1]], T, r"run '1' has 1 states, but run '0' has 2; all runs must have the same"),
        (X[0].T, T, r"run '0': x has shape \(2, 5\) for 5 times and looks transposed: axis 0 is time"),
        (X.swapaxes(1, 2), T, r"looks transposed: axis 0 is time"),
        (X.swapaxes(0, 1), T, r"axis 0 is the run and axis 1 is time. Pass numpy.swapaxes\(x, 0, 1\)"),
        (X[0, :4], T, r"run '0': x has 4 rows \(axis 0 is time\) but t has 5 times; they must agree"),
        (X, [T, T], r"t holds the times of 2 runs, but x holds 3"),
        (X[None], T, r"x must be \(time, state\).* but has shape \(1, 3, 5, 2\)"),
        (X[0, :, :0], T, r"x must be \(time, state\) with at least one state, but has shape \(5, 0\)"),
        (X[0] * 1j, T, r"x must hold real numbers, but its dtype is complex128"),
        (X[0].astype(object), T, r"x must hold real numbers, but its dtype is object"),
        (X[0].astype(str), T, r"x must hold real numbers, but its dtype is <U"),
        (X[0] > 3, T, r"x must hold real numbers, but its dtype is bool"),
        ([[1.0, 2.0], [3.0]], [0.0, 1.0], r"x is not a regular array of numbers"),
        ([X[0], [[1.0, 2.0], [3.0]]], T, r"x\[1\] is not a regular array of numbers"),
        (X[0], T.astype(object), r"t must hold real numbers, but its dtype is object"),
        (X[0], [T.astype(complex)], r"t\[0\] must hold real numbers, but its dtype is complex128"),
        (X[0], [0, 1, 2, 2, 3], r"run '0': times must increase, but t\[3\] = 2 follows t\[2\] = 2. Sort"),
        (X[0], [0, 1, 2, 1.5, 3], r"t\[3\] = 1.5 follows t\[2\] = 2.*give each repetition its own run id"),
        (X[0], [0, 1, np.nan, 2, 3], r"run '0': times must be finite, but t\[2\] is nan"),
        (X[0, :2], [-1.7e308, 1.7e308], r"run '0': the times span .* too wide for float64"),
        (np.ma.masked_less(X[0], 3), T, r"x is a masked array with masked entries"),
    ],
)
def test_refused_arrays(x, t, message):
    with pytest.raises(InputError, match=message):
        Trajectories.from_arrays(x, t)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_first_bad_value_is_named(value):
    x = X.copy()
    x[1, 2, 1] = value
    x[1, 4, 0] = value
    x[2, 0, 0] = value
    message = rf"run 'b': states must be finite, or NaN .* but state 'p' is {value} at t = 0.5. Mend"
    with pytest.raises(InputError, match=message):
        Trajectories.from_arrays(x, T, names=["q", "p"], run_names=["a", "b", "c"])


def test_masked_array_without_masked_entries_is_an_array():
    x = np.ma.masked_less(X[0], -1)
    np.testing.assert_array_equal(Trajectories.from_arrays(x, T).runs[0].x, X[0])


def test_long_double_beyond_float64_is_refused():
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long double is double on this platform")
    x = X[0].astype(np.longdouble)
    x[1, 0] = np.longdouble("1e400")
    with pytest.raises(InputError, match=r"state 'x1' is inf at t = 0.25"):
        Trajectories.from_arrays(x, T)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"names": ["q"]}, r"received 1 state names \['q'\] for 2 states; give one for each"),
        ({"names": ["q", "q"]}, r"state names must be unique, but 'q' appears 2 times"),
        ({"names": ["q", ""]}, r"state names must be printable text .*not empty; received ''"),
        ({"names": ["q", " p"]}, r"state names must be printable text without surrounding spaces"),
        ({"names": ["q", "p\n1"]}, r"state names must be printable text"),
        ({"names": ["q", 2]}, r"state names must be text, but received 2 of type int"),
        ({"names": "qp"}, r"state names must be a list of names, but received the single text 'qp'"),
        ({"units": ["m"]}, r"received 1 units \['m'\] for 2 states"),
        ({"units": ["m", "s "]}, r"units must be printable text without surrounding spaces; received 's '"),
        ({"time_unit": "s "}, r"the unit of time must be printable text without surrounding spaces; received 's '"),
        ({"run_names": ["a"]}, r"received 1 run names for 3 runs"),
        ({"run_names": ["a", "b", "a"]}, r"run names must be unique, but 'a' appears 2 times"),
        ({"run_names": ["a", "", "b"]}, r"run names must be printable text"),
    ],
)
def test_refused_labels(labels, message):
    with pytest.raises(InputError, match=message):
        Trajectories.from_arrays(X, T, **labels)


def test_labels_may_be_numpy_text():
    trajectories = Trajectories.from_arrays(X, T, names=np.array(["q", "p"]))
    assert trajectories.names == ("q", "p")
    assert all(type(name) is str for name in trajectories.names)


def test_no_runs():
    with pytest.raises(InputError, match="need at least one run, but received none"):
        Trajectories(runs=(), names=("q",), units=("",))


# ---------------------------------------------------------------------------------------------- a run


def test_step():
    run = Run(t=0.1 * np.arange(11), x=np.zeros((11, 1)), name="a")
    assert run.is_uniform
    assert run.step == pytest.approx(0.1, rel=1e-15)
    assert run.duration == 1.0


def test_step_far_from_zero():
    """A clock that counts seconds since 1970 rounds its times to 2.4e-7, 2.4e-5 of this step."""
    run = Run(t=1.7e9 + 0.01 * np.arange(100), x=np.zeros((100, 1)), name="a")
    assert run.step == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize(("jitter", "uniform"), [(0.5e-6, True), (2e-6, False)])
def test_step_tolerance(jitter, uniform):
    t = np.arange(11.0)
    t[5] += jitter
    assert Run(t=t, x=np.zeros((11, 1)), name="a").is_uniform is uniform


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("digits", "uniform"), [(2, False), (3, True), (4, True), (6, True)])
def test_rounded_times(kind, digits, uniform):
    """A hundred steps of 0.1003...: rounded to a tenth of a step they are no longer even, to a hundredth they are."""
    t = np.linspace(2, 2 + 100 / 0.997, 1001)
    run = Run(t=np.round(t, digits).astype(kind), x=np.zeros((1001, 1)), name="a")
    assert run.is_uniform is uniform


def test_times_in_single_precision():
    t = np.linspace(0, 50, 4001, dtype=np.float32)
    assert not np.allclose(np.diff(t), 50 / 4000, rtol=1e-5)
    assert Run(t=t, x=np.zeros((4001, 1)), name="a").step == pytest.approx(50 / 4000, rel=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_small_jitter_is_not_rounding(kind):
    """A hundredth of a step, in times that are written to the end."""
    t = np.arange(101.0) + 0.01 * np.random.default_rng(0).uniform(-1, 1, 101)
    assert not Run(t=t.astype(kind), x=np.zeros((101, 1)), name="a").is_uniform


def test_drift_is_not_rounding():
    """Steps that grow by a digit each stay within it from one to the next, but not together."""
    t = np.cumsum(np.r_[0, np.repeat([1.0, 1.001], 50)])
    assert not Run(t=t, x=np.zeros((101, 1)), name="a").is_uniform


def test_step_of_a_run_with_a_gap():
    t = np.array([0.0, 1.0, 2.0, 5.0, 6.0])
    run = Run(t=t, x=np.zeros((5, 1)), name="a")
    assert not run.is_uniform
    message = r"run 'a': the times .* must be equally spaced .* t\[3\] - t\[2\] = 3 where the median step is 1"
    with pytest.raises(InputError, match=message):
        _ = run.step


# ---------------------------------------------------------------------------------- grids, subsets, digest


def test_stacked():
    t, x = Trajectories.from_arrays(X, T).stacked()
    np.testing.assert_array_equal(t, T)
    np.testing.assert_array_equal(x, X)


def test_times_of_ragged_runs():
    assert [t.size for t in ragged().times()] == [5, 3]
    assert not ragged().has_shared_grid
    assert Trajectories.from_arrays(X, T).has_shared_grid


def test_stacked_says_what_differs():
    with pytest.raises(InputError, match=r"do not share one time grid: run 'b' has 3 times, run 'a' has 5"):
        ragged().stacked()
    shifted = T.copy()
    shifted[3] = np.nextafter(shifted[3], 1)
    trajectories = Trajectories.from_arrays(X[:2], [T, shifted])
    with pytest.raises(InputError, match=r"t\[3\] is 0.7500000000000001 in run '1' and 0.75 in run '0'"):
        trajectories.shared_grid()


def test_subset():
    trajectories = Trajectories.from_arrays(X, T, ["q", "p"], ["m", "s"])
    part = trajectories.subset(np.array([2, 0]))
    assert part.run_names == ("2", "0")
    assert part.names == ("q", "p")
    assert part.units == ("m", "s")
    np.testing.assert_array_equal(part.runs[0].x, X[2])
    assert trajectories.subset([-1]).run_names == ("2",)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([], "indices must be a non-empty list of integers"),
        (0, "indices must be a non-empty list of integers"),
        ([True, False, True], "Turn a boolean mask into indices with numpy.flatnonzero"),
        ([0.0], "indices must be a non-empty list of integers"),
        ([0, 3], "there is no run 3: the 3 runs count from 0"),
        ([-4], "there is no run -4"),
        ([1, 1], "run names must be unique, but '1' appears 2 times"),
    ],
)
def test_refused_subset(indices, message):
    with pytest.raises(InputError, match=message):
        Trajectories.from_arrays(X, T).subset(indices)


def test_with_states():
    new = ragged().with_states([2 * run.x for run in ragged().runs])
    np.testing.assert_array_equal(new.runs[1].x, 2 * X[1, :3])
    np.testing.assert_array_equal(new.runs[1].t, ragged().runs[1].t)
    assert new.run_names == ("a", "b")


def test_the_unit_of_time_is_kept():
    x = X.copy()
    x[0, 0, 0] = np.nan
    runs = Trajectories.from_arrays(x, T, time_unit="s")
    train, test = split(runs, fraction=0.7, seed=0)
    made = (runs.subset([1]), runs.with_states(list(x + 1)), runs.from_complete_start(), train, test)
    made += (cut(runs, 3, shared=1), add_noise(runs, 0.1, seed=0), as_trajectories(runs))
    assert [other.time_unit for other in made] == ["s"] * len(made)


def test_refused_with_states():
    with pytest.raises(InputError, match="received states for 1 runs, but there are 2"):
        ragged().with_states([X[0]])
    with pytest.raises(InputError, match=r"run 'b': the new states have shape \(5, 2\), expected \(3, 2\)"):
        ragged().with_states([X[0], X[1]])
    with pytest.raises(InputError, match=r"run 'a': nothing was measured: all of x is NaN. Leave this run out"):
        ragged().with_states([X[0] * np.nan, X[1, :3]])


def test_digest_is_the_content():
    """SHA-256 of the stated bytes, so that a digest in a model file means the same everywhere."""
    digest = Trajectories.from_arrays([[0.0], [1.0]], [0.0, 1.0]).digest()
    assert digest == Trajectories.from_arrays([[0.0], [1.0]], [0.0, 1.0], run_names=["a"]).digest()
    # sha256 of '[["x1"], [""], [[2, 1]]]' and of the four little-endian doubles 0, 1, 0, 1.
    assert digest == DIGEST


DIGEST = "27e42bc17007fb75cdb5467c86ce89763da91f1156936120cb549a29bb18eae3"


def test_digest_changes_with_every_value():
    reference = Trajectories.from_arrays(X, T, ["q", "p"], ["m", "s"])
    digests = {reference.digest()}
    for index in np.ndindex(X.shape):
        x = X.copy()
        x[index] = np.nextafter(x[index], np.inf)
        digests.add(Trajectories.from_arrays(x, T, ["q", "p"], ["m", "s"]).digest())
    for k in range(T.size):
        t = T.copy()
        t[k] = np.nextafter(t[k], np.inf)
        digests.add(Trajectories.from_arrays(X, t, ["q", "p"], ["m", "s"]).digest())
    digests.add(Trajectories.from_arrays(X, T, ["q", "r"], ["m", "s"]).digest())
    digests.add(Trajectories.from_arrays(X, T, ["q", "p"], ["m", "kg"]).digest())
    digests.add(Trajectories.from_arrays(X, T, ["q", "p"], ["m", "s"], time_unit="s").digest())
    digests.add(Trajectories.from_arrays(X, T, ["q", "p"], ["m", "s"], time_unit="h").digest())
    digests.add(reference.subset([1, 0, 2]).digest())
    digests.add(reference.subset([0, 1]).digest())
    assert len(digests) == 1 + X.size + T.size + 6


def test_digest_of_complete_data_without_noise_levels_is_that_of_earlier_versions():
    """Computed before values could be missing: model files and interrupted runs know their data by it."""
    digest = Trajectories.from_arrays(X, T, ["q", "p"], ["m", "s"]).digest()
    assert digest == "15f26db54d8c039d52ebcf60c897c709ae11776bf24705cae2570221fd4f6bd1"


def test_digest_covers_noise_levels_and_what_is_missing():
    x = X.copy()
    x[1, 2, 1] = np.nan
    negative = np.array(-np.nan)
    same = x.copy()
    same[1, 2, 1] = negative
    assert Trajectories.from_arrays(x, T).digest() == Trajectories.from_arrays(same, T).digest()
    digests = {
        Trajectories.from_arrays(X, T).digest(),
        Trajectories.from_arrays(x, T).digest(),
        Trajectories.from_arrays(X, T, sigma=0.1 + X).digest(),
        Trajectories.from_arrays(X, T, sigma=0.2 + X).digest(),
        Trajectories.from_arrays(x, T, sigma=0.1 + X).digest(),
    }
    assert len(digests) == 5


# ----------------------------------------------------------------------- missing values, noise levels


def with_gaps() -> np.ndarray:
    """Values missing in run 0; in run 1 a whole row."""
    x = X.copy()
    x[0, 1, 0] = x[0, 4, 1] = np.nan
    x[1, 3] = np.nan
    return x


def test_missing_values():
    runs = Trajectories.from_arrays(with_gaps(), T).runs
    np.testing.assert_array_equal(runs[0].x, with_gaps()[0])
    np.testing.assert_array_equal(np.argwhere(~runs[0].observed), [[1, 0], [4, 1]])
    assert [run.is_complete for run in runs] == [False, True, True]
    assert not Trajectories.from_arrays(with_gaps(), T).is_complete
    assert Trajectories.from_arrays(X, T).is_complete


def test_times_at_which_nothing_was_measured_are_left_out():
    runs = Trajectories.from_arrays(with_gaps(), T, sigma=1 + X)
    np.testing.assert_array_equal(runs.runs[1].t, T[[0, 1, 2, 4]])
    np.testing.assert_array_equal(runs.runs[1].x, X[1, [0, 1, 2, 4]])
    np.testing.assert_array_equal(runs.runs[1].sigma, 1 + X[1, [0, 1, 2, 4]])
    kept = [0, 1, 2, 4]
    rows_left_out = Trajectories.from_arrays(
        [with_gaps()[0], X[1, kept], X[2]], [T, T[kept], T], sigma=[1 + X[0], 1 + X[1, kept], 1 + X[2]]
    )
    assert runs.digest() == rows_left_out.digest()


def test_noise_levels():
    sigma = 0.1 + X
    sigma[0, 1, 0] = -7.0  # of a value that is missing: not looked at
    runs = Trajectories.from_arrays(with_gaps(), T, sigma=sigma)
    assert runs.has_noise_levels
    assert not Trajectories.from_arrays(X, T).has_noise_levels
    assert np.isnan(runs.runs[0].sigma[1, 0])
    np.testing.assert_array_equal(runs.runs[2].sigma, sigma[2])
    with pytest.raises(ValueError, match="read-only"):
        runs.runs[2].sigma[0, 0] = 1.0
    np.testing.assert_array_equal(runs.subset([2]).runs[0].sigma, sigma[2])
    np.testing.assert_array_equal(runs.with_states([run.x + 1 for run in runs.runs]).runs[2].sigma, sigma[2])
    one_state = Trajectories.from_arrays(X[0, :, 0], T, sigma=sigma[2, :, 0])
    assert one_state.runs[0].sigma.shape == (5, 1)


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        (0.1 + X[:2], "sigma holds the noise levels of 2 runs, but x holds 3"),
        (0.1 + X[:, :, :1], r"run '0': sigma must have the shape of x, \(5, 2\), but has shape \(5, 1\)"),
        (X, "run '0': sigma must be finite and above 0 .* for state 'x1' at t = 0 it is 0.0. Give its noise level"),
        (np.where(X == 13, np.nan, 1.0), "run '1': sigma must be .* for state 'x2' at t = 0.25 it is nan"),
        (np.where(X == 13, np.inf, 1.0), "for state 'x2' at t = 0.25 it is inf"),
        (np.full(X.shape, "a"), "sigma must hold real numbers"),
    ],
)
def test_refused_noise_levels(sigma, message):
    with pytest.raises(InputError, match=message):
        Trajectories.from_arrays(X, T, sigma=sigma)


def test_noise_levels_are_for_all_runs_or_none():
    runs = (Run(T, X[0], "a", sigma=np.ones((5, 2))), Run(T, X[1], "b"))
    with pytest.raises(InputError, match="sigma is missing for run 'b': give noise levels for every run, or for none"):
        Trajectories(runs=runs, names=("q", "p"), units=("", ""))


def test_too_little_was_measured():
    x = X.copy()
    x[:, :, 1] = np.nan
    with pytest.raises(InputError, match=r"state 'p' was never measured: it is NaN in every run. Leave it out"):
        Trajectories.from_arrays(x, T, names=["q", "p"])
    x = X.copy()
    x[1, [0, 1, 2, 4]] = np.nan
    with pytest.raises(InputError, match=r"run '1': a run needs values at 2 points .* NaN except at time index 3"):
        Trajectories.from_arrays(x, T)


def test_from_complete_start():
    x = X.copy()
    x[0, :2, 1] = np.nan
    runs = Trajectories.from_arrays(x, T, sigma=1 + X).from_complete_start()
    np.testing.assert_array_equal(runs.runs[0].t, T[2:])
    np.testing.assert_array_equal(runs.runs[0].x, X[0, 2:])
    np.testing.assert_array_equal(runs.runs[0].sigma, 1 + X[0, 2:])
    np.testing.assert_array_equal(runs.runs[1].x, X[1])


@pytest.mark.parametrize(
    ("missing", "why"), [(slice(0, 4), "could start. Leave"), (slice(None), "state 'p' was never")]
)
def test_no_complete_start(missing, why):
    x = X.copy()
    x[1, missing, 1] = np.nan
    runs = Trajectories.from_arrays(x, T, names=["q", "p"])
    with pytest.raises(InputError, match=f"run '1': there is no time before its last at which all .* {why}"):
        runs.from_complete_start()


def test_as_trajectories():
    trajectories = ragged()
    assert as_trajectories(trajectories) is trajectories
    assert as_trajectories(X, T, ["q", "p"]).names == ("q", "p")
    with pytest.raises(InputError, match="its times are needed: give t as well"):
        as_trajectories(X)
    with pytest.raises(InputError, match="has its own times: leave t out"):
        as_trajectories(trajectories, T)
    with pytest.raises(InputError, match="has its own state names: leave names out"):
        as_trajectories(trajectories, names=["q", "p"])
