"""`WGFINN` and `GFINN` as a user meets them: shapes, double precision, settings, and what is refused."""

import jax
import numpy as np
import pytest

from small_fits import GENERIC, NAMES, PLAIN, STEP, small_settings, some_runs
from wgfinn import GFINN, WGFINN, ArtefactError, InputError, Trajectories
from wgfinn.artefact import load_model
from wgfinn.estimator import make_spec, read_settings

RUNS = some_runs()
T, X = RUNS.stacked()
SETTINGS = small_settings(GENERIC)


@pytest.fixture(scope="module")
def weak():
    return WGFINN(settings=SETTINGS).fit(X, T, names=list(NAMES))


@pytest.fixture(scope="module")
def strong():
    return GFINN(settings=small_settings(PLAIN, "strong", members=1, batch=16)).fit(X, T)


# ---------------------------------------------------------------------------------------------- shapes, types


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3)])
def test_shapes_and_double_precision(weak, shape):
    x = np.resize(X, shape)
    results = {
        "predict": (weak.predict(x), shape),
        "energy": (weak.energy(x), shape[:-1]),
        "entropy": (weak.entropy(x), shape[:-1]),
        "poisson": (weak.poisson(x), (*shape, 3)),
        "friction": (weak.friction(x), (*shape, 3)),
    }
    for name, (value, expected) in results.items():
        assert isinstance(value, np.ndarray), name
        assert value.shape == expected, name
        assert value.dtype == np.float64, name


def test_a_batch_is_its_states_one_by_one(weak):
    """Products over a batch may be summed in another order: rounding."""
    for method in (weak.predict, weak.energy, weak.entropy, weak.poisson, weak.friction):
        one_by_one = np.stack([[method(x) for x in run] for run in X[:2, :3]])
        np.testing.assert_allclose(method(X[:2, :3]), one_by_one, rtol=1e-12, atol=1e-14)


def test_parts_make_up_the_right_hand_side(weak):
    """x' = L∇E + M∇S; the gradients by central differences of `energy` and `entropy` (error h² + eps/h ~ 1e-10)."""
    h = 1e-5
    for x in X[0, ::10]:
        nudges = h * np.eye(3)
        of_energy = (weak.energy(x + nudges) - weak.energy(x - nudges)) / (2 * h)
        of_entropy = (weak.entropy(x + nudges) - weak.entropy(x - nudges)) / (2 * h)
        rate = weak.poisson(x) @ of_energy + weak.friction(x) @ of_entropy
        np.testing.assert_allclose(weak.predict(x), rate, atol=1e-8)


def test_simulate_shapes(weak):
    one = weak.simulate(X[0, 0], T)
    many = weak.simulate(X[:2, 0], T)
    assert one.shape == (30, 3)
    assert many.shape == (2, 30, 3)
    assert one.dtype == many.dtype == np.float64
    np.testing.assert_array_equal(one[0], X[0, 0])
    np.testing.assert_allclose(one, many[0], rtol=1e-12, atol=1e-14)


def test_simulate_ensemble(weak):
    """The served member as from `simulate`, and between the bounds the two members; one start or several."""
    several = weak.simulate_ensemble(X[:2, 0], T)
    np.testing.assert_array_equal(several.x, weak.simulate(X[:2, 0], T))
    np.testing.assert_array_equal(several.members, [weak.simulate(X[:2, 0], T, member=k) for k in range(2)])
    np.testing.assert_array_equal(several.low, several.members.min(axis=0))
    np.testing.assert_array_equal(several.high, several.members.max(axis=0))
    one = weak.simulate_ensemble(X[0, 0], T)
    assert one.members.shape == (2, 30, 3)
    for name in ("x", "low", "high"):
        assert getattr(one, name).shape == (30, 3)
        np.testing.assert_allclose(getattr(one, name), getattr(several, name)[0], rtol=1e-12, atol=1e-14)


def test_simulate_ensemble_needs_an_ensemble(weak, strong):
    with pytest.raises(InputError, match="a band is the spread of two or more members, but there is 1"):
        strong.simulate_ensemble(X[0, 0], T)
    with pytest.warns(UserWarning, match=r"member \d, trajectory 0 left the finite range at t = ") as told:
        lost = weak.simulate_ensemble([1e308, -1e308, 1e308], T)
    assert len(told) == 2
    assert np.isnan(lost.low).all()


def test_members_can_be_asked_one_by_one(weak):
    served = weak.model.manifest.served
    np.testing.assert_array_equal(weak.predict(X), weak.predict(X, member=served))
    assert np.any(weak.predict(X) != weak.predict(X, member=1 - served))
    with pytest.raises(InputError, match="member 2 does not exist; members are numbered 0 to 1"):
        weak.predict(X, member=2)


# ------------------------------------------------------------------------------------------------------- fit


def test_the_same_data_in_every_form(weak):
    """Array, list of runs with shared or own times, `Trajectories`: one model, bit for bit."""
    forms = [(X, T), (list(X), T), (list(X), [T] * 3), (X.tolist(), T.tolist()), (RUNS, None)]
    for x, t in forms:
        again = WGFINN(settings=SETTINGS).fit(x, t)
        np.testing.assert_array_equal(again.predict(X), weak.predict(X))


def test_one_run_and_ragged_runs():
    model = WGFINN(settings=small_settings(PLAIN, members=1, steps=5))
    assert model.fit(X[0], T).model.manifest.data.runs == 1
    ragged = model.fit([X[0], X[1, :20]], [T, T[:20]])
    assert ragged is model
    assert model.model.manifest.data.samples == 50
    assert model.model.names == ("x1", "x2", "x3")
    assert np.all(np.isfinite(model.predict(X)))


def test_strong_form(strong):
    assert strong.model.manifest.settings["method"] == "strong"
    assert strong.simulate(X[0, 0], T).shape == (30, 3)
    with pytest.raises(InputError, match="a plain network has no energy; fit with field = 'generic'"):
        strong.energy(X)


def test_folder_and_observer(tmp_path, weak):
    seen = []
    WGFINN(settings=SETTINGS).fit(RUNS, folder=str(tmp_path / "run"), observe=lambda r: seen.append(r.step))
    assert seen[-1] == 40
    assert load_model(tmp_path / "run" / "model.wgfinn").manifest == weak.model.manifest


def test_the_callers_precision_stays_as_it_was(weak, tmp_path):
    """Under single precision the same numbers come out, and single precision it is afterwards."""
    with jax.enable_x64(False):
        model = WGFINN(settings=SETTINGS).fit(X, T, names=list(NAMES))
        got = [model.predict(X), model.energy(X), model.friction(X), model.simulate(X[0, 0], T)]
        model.save(tmp_path / "model.wgfinn")
        got.append(WGFINN.load(tmp_path / "model.wgfinn").predict(X))
        assert not jax.config.jax_enable_x64
    assert jax.config.jax_enable_x64
    expected = [weak.predict(X), weak.energy(X), weak.friction(X), weak.simulate(X[0, 0], T), weak.predict(X)]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------------------------- simulate


def test_far_apart_times_are_stepped_as_finely_as_the_data(weak):
    """Every fifth time asked for: the same steps in between, so equal but for rounding of the times."""
    fine = weak.simulate(X[0, 0], T[:26])
    np.testing.assert_allclose(weak.simulate(X[0, 0], T[:26:5]), fine[::5], rtol=1e-10)
    uneven = weak.simulate(X[0, 0], T[[0, 1, 6, 11]])
    assert np.abs(uneven - fine[[0, 1, 6, 11]]).max() < 1e-4


def test_integrators_agree(weak):
    """The fixed scheme is of third order, with steps of 0.1: 1e-3 at this length."""
    paper, accurate = (weak.simulate(X[0, 0], T, integrator=i) for i in ("rk23", "accurate"))
    assert 0 < np.abs(paper - accurate).max() < 1e-3
    with pytest.raises(InputError, match="integrator='euler' is unknown; choose one of rk23, accurate"):
        weak.simulate(X[0, 0], T, integrator="euler")


def test_a_trajectory_that_leaves_the_finite_range_is_told(weak):
    starts = np.stack([X[0, 0], [1e308, -1e308, 1e308]])
    with pytest.warns(UserWarning, match=r"trajectory 1 left the finite range at t = .*integrator='accurate'") as told:
        x = weak.simulate(starts, T)
    assert len(told) == 1
    assert np.all(np.isfinite(x[0]))
    assert not np.all(np.isfinite(x[1]))


def test_a_trajectory_outside_of_the_data_is_told(weak):
    """A range beyond the data is as far as anything moves (`Box.fading`)."""
    outside = X.max(axis=(0, 1)) + 2 * np.ptp(X, axis=(0, 1))
    starts = np.stack([X[0, 0], outside])
    with pytest.warns(UserWarning, match=r"trajectory 1 leaves the region of the training data at t = 0: ") as told:
        x = weak.simulate(starts, T)
    assert len(told) == 1
    np.testing.assert_allclose(x[1], np.broadcast_to(outside, x[1].shape), rtol=1e-6)
    assert weak.model.first_outside(X) == []


@pytest.mark.parametrize(
    "t", [[0.0], [0.0, 0.0], [1.0, 0.0], [[0.0, 1.0]], [0.0, np.nan], [0.0, np.inf], np.array(3.0)]
)
def test_bad_times(weak, t):
    with pytest.raises(InputError, match="t must hold at least two finite, increasing times"):
        weak.simulate(X[0, 0], t)


def test_bad_starts(weak):
    with pytest.raises(InputError, match=r"x0 has shape \(3, 30, 3\); give one start state"):
        weak.simulate(X, T)
    with pytest.raises(InputError, match=r"x0 has shape \(2,\), but the model has 3 states \(q, p, S\)"):
        weak.simulate([1.0, 2.0], T)


# ---------------------------------------------------------------------------------------------------- score


def r_squared(measured, predicted):
    """scikit-learn's r2_score with uniform average, in its own words."""
    scores = []
    for y, f in zip(measured.T, predicted.T, strict=True):
        total = np.sum((y - y.mean()) ** 2)
        missed = np.sum((y - f) ** 2)
        scores.append(1 - missed / total if total > 0 else float(missed == 0))
    return np.mean(scores)


def test_score_is_r_squared_of_the_derivatives(weak):
    measured = np.concatenate([np.gradient(x, T, axis=0) for x in X])
    expected = r_squared(measured, weak.predict(X).reshape(-1, 3))
    assert weak.score(X, T) == pytest.approx(expected, rel=1e-12)
    assert weak.score(RUNS) == weak.score(X, T)
    assert expected < 1


def test_score_over_what_was_measured(weak):
    """A value missing at the sixth of seven uneven times takes out that time and both neighbours' differences."""
    t = np.array([0.0, 0.1, 0.3, 0.4, 0.7, 0.8, 0.9])
    x = np.stack([np.sin(t), np.cos(3 * t), t**2], axis=1)
    expected = r_squared(np.gradient(x, t, axis=0)[:4], weak.predict(x[:4]))
    x[5, 1] = np.nan
    assert weak.score(x, t) == pytest.approx(expected, rel=1e-12)
    x[::2, 0] = np.nan
    with pytest.raises(InputError, match="no time and its neighbours were measured completely"):
        weak.score(x, t)


def test_score_of_the_truth_and_of_a_state_at_rest(weak, monkeypatch):
    """States linear in time, whose differences are exact: the truth scores 1. A state at rest scores 1 if predicted
    exactly and 0 otherwise, as in scikit-learn."""
    t = np.arange(8.0)
    rates = np.array([2.0, -0.5, 0.0])
    x = t[:, None] * rates
    monkeypatch.setattr(weak, "predict", lambda states: np.broadcast_to(rates, states.shape))
    assert weak.score(x, t) == 1.0
    wrong_at_rest = np.array([2.0, -0.5, 1.0])
    monkeypatch.setattr(weak, "predict", lambda states: np.broadcast_to(wrong_at_rest, states.shape))
    assert weak.score(x, t) == pytest.approx(2 / 3)


# ------------------------------------------------------------------------------------------------ save, load


def test_loaded_predicts_bit_for_bit(weak, tmp_path):
    weak.save(tmp_path / "model.wgfinn")
    loaded = WGFINN.load(str(tmp_path / "model.wgfinn"))
    np.testing.assert_array_equal(loaded.predict(X), weak.predict(X))
    np.testing.assert_array_equal(loaded.simulate(X[0, 0], T), weak.simulate(X[0, 0], T))
    assert loaded.model.manifest == weak.model.manifest
    # What was chosen, where the settings leave the choice.
    assert loaded.spec.model == weak.spec.model.model_copy(update={"entropy": "neural"})


def test_load_with_the_other_class(weak, strong, tmp_path):
    weak.save(tmp_path / "weak.wgfinn")
    strong.save(tmp_path / "strong.wgfinn")
    with pytest.raises(InputError, match=r"weak.wgfinn: this model was learnt by WGFINN; load it with WGFINN.load"):
        GFINN.load(tmp_path / "weak.wgfinn")
    with pytest.raises(InputError, match=r"strong.wgfinn: this model was learnt by GFINN; load it with GFINN.load"):
        WGFINN.load(tmp_path / "strong.wgfinn")
    with pytest.raises(ArtefactError, match="no such model file"):
        WGFINN.load(tmp_path / "none.wgfinn")


# --------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("name", ["predict", "energy", "entropy", "poisson", "friction"])
def test_nothing_learnt_yet(name):
    with pytest.raises(InputError, match=r"this WGFINN has not learnt anything yet; call fit\(x, t\) first"):
        getattr(WGFINN(), name)(X)


def test_nothing_to_save_simulate_or_score_yet(tmp_path):
    for call in (
        lambda m: m.save(tmp_path / "model.wgfinn"),
        lambda m: m.simulate(X[0, 0], T),
        lambda m: m.score(X, T),
        lambda m: m.model,
    ):
        with pytest.raises(InputError, match="this GFINN has not learnt anything yet"):
            call(GFINN())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("x", [np.array(3.0), [1.0, 2.0], np.ones((4, 2)), np.ones((3, 4))])
def test_wrong_number_of_states(weak, x):
    with pytest.raises(InputError, match=r"x has shape \(.*\), but the model has 3 states \(q, p, S\): the last axis"):
        weak.predict(x)


def test_data_are_checked_at_the_door():
    model = WGFINN(settings=SETTINGS)
    with pytest.raises(InputError, match="its times are needed"):
        model.fit(X)
    with pytest.raises(InputError, match="leave t out"):
        model.fit(RUNS, T)
    with pytest.raises(InputError, match="must be finite"):
        model.fit(np.where(X > 1, np.inf, X), T)
    with pytest.raises(InputError, match="times must increase"):
        model.fit(X, T[::-1])


@pytest.mark.parametrize("learner", [WGFINN, GFINN])
def test_uneven_times_and_missing_values(learner):
    method = "weak" if learner is WGFINN else "strong"
    t = T + 0.3 * STEP * np.sin(np.arange(30))
    x = X.copy()
    x[0, 11, 1] = x[2, 20] = np.nan
    model = learner(settings=small_settings(PLAIN, method)).fit(x, t)
    assert np.all(np.isfinite(model.predict(X)))


# -------------------------------------------------------------------------------------------------- settings


def toml(tmp_path, text):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return path


def test_settings_from_a_file_or_a_mapping(tmp_path):
    text = 'weights = "none"\n[model]\nwidth = 7\n[training]\nsteps = 12\nmembers = 4\n'
    path = toml(tmp_path, text)
    keys = {"weights": "none", "model": {"width": 7}, "training": {"steps": 12, "members": 4}}
    assert read_settings(path) == keys
    assert WGFINN(settings=path).spec == WGFINN(settings=str(path)).spec == WGFINN(settings=keys).spec
    spec = GFINN(settings=keys, members=2, seed=9).spec
    assert spec.method == "strong"
    assert (spec.training.members, spec.training.steps, spec.training.seed) == (2, 12, 9)
    assert keys["training"] == {"steps": 12, "members": 4}  # the caller's mapping is left alone


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[training]\nstep = 3\n", r"settings.toml: unknown key 'training.step'; known here are batch, check_every"),
        ("speed = 3\n", r"settings.toml: unknown key 'speed'; known here are attention, coordinates"),
        ("[model]\nwidth = 0\n", r"settings.toml: model.width = 0: input should be greater than or equal to 1"),
        ("[model\n", r"settings.toml: not a TOML file"),
        ("training = 3\n", r"settings.toml: training = 3: input should be"),
    ],
)
def test_bad_settings_name_the_file(tmp_path, text, match):
    with pytest.raises(InputError, match=match):
        WGFINN(settings=toml(tmp_path, text), members=2)


def test_bad_settings_without_a_file(tmp_path):
    with pytest.raises(InputError, match=r"settings: unknown key 'modle'"):
        WGFINN(settings={"modle": {}})
    with pytest.raises(InputError, match=r"settings: training.members = 0: input should be greater"):
        WGFINN(members=0)
    with pytest.raises(InputError, match=r"none.toml: no such settings file"):
        WGFINN(settings=tmp_path / "none.toml")
    with pytest.raises(InputError, match=r": cannot be read"):
        WGFINN(settings=tmp_path)


def test_an_option_given_wins():
    assert make_spec({"method": "weak"}, method="strong").method == "strong"
    assert make_spec({"method": "strong"}).method == "strong"
    assert make_spec(None).training.members == 3


def test_trajectories_and_arrays_are_public():
    assert Trajectories.from_arrays(X, T).n_states == 3


def test_settings_for_the_other_form_are_refused():
    with pytest.raises(InputError, match="method = 'strong', but WGFINN learns by 'auto' or 'weak' or 'paper'"):
        WGFINN(settings={"method": "strong"})


def test_states_that_are_no_numbers_are_refused(weak):
    with pytest.raises(InputError, match="x must be an array of numbers, but"):
        weak.predict("abc")
