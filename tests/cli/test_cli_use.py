"""`wgfinn simulate` and `wgfinn evaluate`."""

import json
import sys

import jax
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from small_fits import GENERIC, NAMES, PLAIN, small_spec, some_runs
from wgfinn._errors import ArtefactError, InputError
from wgfinn.artefact import Model, load_model, save_model
from wgfinn.cli import app
from wgfinn.data import Trajectories, band, coverage, load, save
from wgfinn.evaluate import simulate_runs, trajectory_errors
from wgfinn.fitting import fit

RUNS = some_runs()
UNTIL = ("--until", "1", "--step", "0.1")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "generic"
    fit(RUNS, small_spec(GENERIC), folder=folder)
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(RUNS, "data.npz")
    return tmp_path


def wgfinn(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


# -------------------------------------------------------------------------------------------------- simulate


@pytest.mark.parametrize("out", ["predicted.npz", "predicted.csv"])
def test_simulate_from_a_data_file(run, out):
    result = wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", out, "--no-bands")
    assert result.stdout == f"{out}: 3 runs of 11 samples\n"
    predicted = load(out)
    assert predicted.names == NAMES
    t, x = predicted.stacked()
    np.testing.assert_allclose(t, np.linspace(0, 1, 11), rtol=1e-15)
    expected = load_model(run / "model.wgfinn").simulate(np.stack([r.x[0] for r in RUNS.runs]), t)
    np.testing.assert_array_equal(x, expected)


def test_simulate_writes_the_unit_of_time_of_the_model(run, here):
    model = load_model(run / "model.wgfinn")
    timed = Model(model.fields, model.manifest.model_copy(update={"time_unit": "s"}))
    save_model(timed, here / "timed.wgfinn")
    wgfinn("simulate", "timed.wgfinn", "--initial", "data.npz", *UNTIL, "--out", "predicted.csv")
    assert (here / "predicted.csv").read_text().startswith("run,time [s],q,")
    assert load("predicted.csv").time_unit == "s"


def test_simulate_from_a_table(run, here):
    """Columns in any order, with and without names of the runs; a model file in place of its folder."""
    (here / "plain.csv").write_text("S,q,p\n0.1,1,0\n0.2,0.5,-0.5\n")
    (here / "named.csv").write_text("p,S,run,q\n0,0.1,cold,1\n-0.5,0.2,hot,0.5\n")
    wgfinn("simulate", run, "--initial", "plain.csv", *UNTIL, "--out", "plain.npz", "--no-bands")
    wgfinn("simulate", run / "model.wgfinn", "--initial", "named.csv", *UNTIL, "--out", "named.npz", "--no-bands")
    plain, named = load("plain.npz"), load("named.npz")
    assert plain.run_names == ("0", "1")
    assert named.run_names == ("cold", "hot")
    np.testing.assert_array_equal([r.x[0] for r in plain.runs], [[1, 0, 0.1], [0.5, -0.5, 0.2]])
    np.testing.assert_array_equal(plain.stacked()[1], named.stacked()[1])


@pytest.mark.parametrize(("until", "last"), [("1", 1.0), ("0.95", 0.9), ("0.3", 0.3), ("0.1", 0.1)])
def test_simulate_never_goes_beyond_the_end(run, until, last):
    """0.3 / 0.1 is 2.9999999999999996 in floating point, and the row at 0.3 must not be lost."""
    wgfinn("simulate", run, "--initial", "data.npz", "--until", until, "--step", "0.1", "--out", "out.npz")
    assert load("out.npz").runs[0].t[-1] == pytest.approx(last, rel=1e-12)


def test_simulate_another_member_and_integrator(run):
    for name, options in {"a": ("--member", 0), "b": ("--member", 1), "c": ("--integrator", "accurate")}.items():
        wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", f"{name}.npz", "--no-bands", *options)
    a, b, c = (load(f"{name}.npz").stacked()[1] for name in "abc")
    served = (a, b)[load_model(run / "model.wgfinn").manifest.served]
    assert np.any(a != b)
    assert 0 < np.abs(c - served).max() < 1e-3


@pytest.mark.parametrize("out", ["predicted.npz", "predicted.csv", "predicted.parquet"])
def test_bands_are_the_spread_of_the_members(run, out):
    """Two members: the band reaches from the one to the other, and the served one is a bound."""
    wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", out)
    if out.endswith(".parquet"):
        table = pd.read_parquet(out)
        columns, values = tuple(table.columns), table[table["run"] == "1"].to_numpy()[:, 2:].astype(float)
        assert columns[:2] == ("run", "time")
        names = columns[2:]
    else:
        predicted = load(out)
        names, values = predicted.names, predicted.runs[1].x
    assert names == ("q", "q_low", "q_high", "p", "p_low", "p_high", "S", "S_low", "S_high")
    model = load_model(run / "model.wgfinn")
    start, t = RUNS.runs[1].x[:1], 0.1 * np.arange(11)
    members = np.stack([model.simulate(start, t, index=k)[0] for k in range(2)])
    np.testing.assert_allclose(values[:, 0::3], members[model.manifest.served], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(values[:, 1::3], members.min(axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(values[:, 2::3], members.max(axis=0), rtol=1e-12, atol=1e-14)
    assert np.all(values[1:, 1::3] < values[1:, 2::3])


def test_parquet_without_its_library(run, here, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="Parquet files need the library pyarrow, which is not installed"):
        wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", "out.parquet")
    assert not list(here.glob("out*"))


def test_one_member_has_no_bands(here):
    fit(RUNS, small_spec(GENERIC, members=1), folder=here / "one")
    result = wgfinn("simulate", "one", "--initial", "data.npz", *UNTIL, "--out", "out.csv")
    assert "no bands: they are the spread of two or more members, but this model has 1" in result.stderr
    assert load("out.csv").names == NAMES
    assert json.loads(wgfinn("evaluate", "one", "data.npz", "--json").stdout)["band_coverage"] is None


def test_a_run_with_one_member_left_is_not_written(run, here, monkeypatch):
    simulate = Model.simulate_members
    monkeypatch.setattr(
        Model, "simulate_members", lambda *a, **k: simulate(*a, **k) * np.array([1, np.nan])[:, *3 * [None]]
    )
    with pytest.raises(InputError, match="no trajectory stayed finite"):
        wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", "out.csv")
    result = CliRunner().invoke(app, ["simulate", str(run), "--initial", "data.npz", *UNTIL, "--out", "out.csv"])
    assert "run '0': fewer than two members stayed finite, so that it has no band and was not written" in result.stderr


def test_simulate_at_given_times(run):
    wgfinn("simulate", run, "--initial", "data.npz", "--times", "2,2.05,3", "--out", "out.npz", "--no-bands")
    t, x = load("out.npz").stacked()
    np.testing.assert_array_equal(t, [2, 2.05, 3])
    expected = load_model(run / "model.wgfinn").simulate(np.stack([r.x[0] for r in RUNS.runs]), t)
    np.testing.assert_array_equal(x, expected)


def test_simulate_at_the_times_of_the_data(run):
    """Runs of two lengths, each on its own grid; `--duration` is another word for `--until`."""
    ragged = [RUNS.runs[0].x, RUNS.runs[1].x[:7], RUNS.runs[2].x]
    grids = [RUNS.runs[0].t, RUNS.runs[1].t[:7] + 5, RUNS.runs[2].t]
    save(Trajectories.from_arrays(ragged, grids, names=NAMES, run_names=["a", "b", "c"]), "ragged.csv")
    result = wgfinn("simulate", run, "--initial", "ragged.csv", "--out", "out.npz", "--no-bands")
    assert result.stdout == "out.npz: 3 runs of 7 to 30 samples\n"
    predicted = load("out.npz")
    assert predicted.run_names == ("a", "b", "c")
    for made, t, x in zip(predicted.runs, grids, ragged, strict=True):
        np.testing.assert_array_equal(made.t, t)
        np.testing.assert_array_equal(made.x[0], x[0])
    wgfinn("simulate", run, "--initial", "data.npz", "--duration", "1", "--step", "0.5", "--out", "out.csv")
    np.testing.assert_allclose(load("out.csv").runs[0].t, [0, 0.5, 1])


@pytest.mark.parametrize("times", ["", "1", "2,1", "0,nan", "0;1", "0,1,1"])
def test_bad_lists_of_times(run, times):
    with pytest.raises(InputError, match=f"--times '{times}': give two or more increasing numbers with commas"):
        wgfinn("simulate", run, "--initial", "data.npz", f"--times={times}", "--out", "out.csv")


def test_times_said_twice_or_by_half_or_not_at_all(run, here):
    (here / "starts.csv").write_text("q,p,S\n1,0,0\n")
    with pytest.raises(InputError, match="--times already says when: leave --until and --step out"):
        wgfinn("simulate", run, "--initial", "data.npz", "--times", "0,1", "--step", "1", "--out", "out.csv")
    with pytest.raises(InputError, match="--until and --step belong together"):
        wgfinn("simulate", run, "--initial", "data.npz", "--step", "1", "--out", "out.csv")
    with pytest.raises(InputError, match=r"starts.csv holds no times: say when, by --until and --step or by --times"):
        wgfinn("simulate", run, "--initial", "starts.csv", "--out", "out.csv")


def test_simulate_tells_of_runs_outside_of_the_data(run, here):
    (here / "starts.csv").write_text("run,q,p,S\nnear,1,0,0\nfar,60,-40,50\n")
    result = wgfinn("simulate", run, "--initial", "starts.csv", *UNTIL, "--out", "out.csv", "--no-bands")
    assert "run 'far' leaves the region of the training data at t = 0: beyond it learnt" in " ".join(
        result.stderr.split()
    )
    assert "near" not in result.stderr
    assert load("out.csv").run_names == ("near", "far")


def test_simulate_leaves_out_what_is_lost(run, here):
    (here / "starts.csv").write_text("run,q,p,S\nsound,1,0,0\nlost,1e308,-1e308,1e308\n")
    result = wgfinn("simulate", run, "--initial", "starts.csv", *UNTIL, "--out", "out.csv")
    assert "run 'lost' left the finite range at t = " in result.stderr
    assert result.stderr.count("\n") == 1
    assert load("out.csv").run_names == ("sound",)
    (here / "starts.csv").write_text("q,p,S\n1e308,-1e308,1e308\n")
    with pytest.raises(InputError, match="no trajectory stayed finite; nothing was written"):
        wgfinn("simulate", run, "--initial", "starts.csv", *UNTIL, "--out", "none.csv")
    assert not (here / "none.csv").exists()


@pytest.mark.parametrize(
    ("until", "step"),
    [("0", "0.1"), ("1", "0"), ("1", "-0.1"), ("0.05", "0.1"), ("nan", "1"), ("inf", "1"), ("1", "nan")],
)
def test_bad_times(run, here, until, step):
    with pytest.raises(InputError, match=r"--until .* and --step .*: both must be positive, and the step no longer"):
        wgfinn("simulate", run, "--initial", "data.npz", f"--until={until}", f"--step={step}", "--out", "out.csv")
    assert not (here / "out.csv").exists()


def test_bad_simulations(run, here):
    (here / "starts.csv").write_text("q,p\n1,0\n")
    with pytest.raises(InputError, match=r"starts.csv: the state 'S' of the model is missing; the file has q, p"):
        wgfinn("simulate", run, "--initial", "starts.csv", *UNTIL, "--out", "out.csv")
    with pytest.raises(InputError, match=r"none.csv: there is no such file"):
        wgfinn("simulate", run, "--initial", "none.csv", *UNTIL, "--out", "out.csv")
    with pytest.raises(InputError, match="member 7 does not exist"):
        wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", "out.csv", "--member", 7)
    with pytest.raises(InputError, match=r"out.txt: unknown suffix"):
        wgfinn("simulate", run, "--initial", "data.npz", *UNTIL, "--out", "out.txt")
    with pytest.raises(ArtefactError, match=r"model.wgfinn: no such model file"):
        wgfinn("simulate", here, "--initial", "data.npz", *UNTIL, "--out", "out.csv")
    with pytest.raises(ArtefactError, match=r"data.npz: not a wgfinn model file"):
        wgfinn("simulate", "data.npz", "--initial", "data.npz", *UNTIL, "--out", "out.csv")
    assert not list(here.glob("out.*"))


# -------------------------------------------------------------------------------------------------- evaluate


def test_evaluate_json(run):
    result = wgfinn("evaluate", run, "data.npz", "--json")
    found = json.loads(result.stdout)
    model = load_model(run / "model.wgfinn")
    with jax.enable_x64(True):
        errors = [trajectory_errors(model.field(k), RUNS) for k in range(2)]
    served = model.manifest.served
    assert found["relative_l2_members"] == [e.overall for e in errors]
    assert found["relative_l2"] == errors[served].overall
    assert found["served"] == served
    assert found["per_state"] == errors[served].per_state
    assert set(found["per_state"]) == set(NAMES)
    assert set(found["per_run"]) == {"0", "1", "2"}
    assert found["diverged_runs"] == []
    assert found["open"] is False
    assert found["energy_drift"] >= 0
    assert isinstance(found["min_entropy_increment"], float)
    assert all(abs(value) < 1e-12 for value in found["degeneracy"].values())


def test_evaluate_says_how_much_of_the_data_the_band_holds(run):
    """The share of samples between the two members, per state; the columns of the data may come in any order."""
    swapped = [r.x[:, [2, 0, 1, 1]] for r in RUNS.runs]
    save(Trajectories.from_arrays(swapped, RUNS.runs[0].t, names=["S", "q", "p", "spare"]), "swapped.npz")
    found = json.loads(wgfinn("evaluate", run, "swapped.npz", "--json").stdout)
    model = load_model(run / "model.wgfinn")
    members = [simulate_runs(model.field(k), RUNS) for k in range(2)]
    assert found["band_coverage"] == coverage(RUNS, [band(np.stack(pair)) for pair in zip(*members, strict=True)])
    assert found["band_share"] == 0.9
    assert found["per_state"] == json.loads(wgfinn("evaluate", run, "data.npz", "--json").stdout)["per_state"]
    people = wgfinn("evaluate", run, "data.npz").stdout
    assert "samples within the members' 90% band" in people
    assert "without measurement noise: noisy samples fall outside of it" in people


def test_evaluate_incomplete_runs(run):
    """Each is predicted from its first complete state, and compared where something was measured."""
    x = [np.array(r.x) for r in RUNS.runs]
    x[0][:2, 1] = np.nan
    x[1][7] = np.nan
    incomplete = Trajectories.from_arrays(x, RUNS.runs[0].t, names=NAMES)
    save(incomplete, "gaps.csv")
    found = json.loads(wgfinn("evaluate", run, "gaps.csv", "--json").stdout)
    with jax.enable_x64(True):
        expected = trajectory_errors(load_model(run / "model.wgfinn").field(), incomplete.from_complete_start())
    assert found["relative_l2"] == pytest.approx(expected.overall, rel=1e-9)


def test_evaluate_a_table_written_otherwise(run, here):
    """A separator given leaves the roles of the fit in force."""
    save(RUNS, "data.csv")
    text = (here / "data.csv").read_text().replace(",", ";").replace(".", ",")
    (here / "comma.csv").write_text(text)
    marks = ("--separator", ";", "--decimal", ",")
    usual = wgfinn("evaluate", run, "data.csv", "--json")
    assert json.loads(wgfinn("evaluate", run, "comma.csv", *marks, "--json").stdout) == json.loads(usual.stdout)
    start = text.splitlines()[0].split(";")[2:]
    (here / "start.csv").write_text(";".join(start) + "\n" + ";".join(["0,25"] * len(start)) + "\n")
    result = wgfinn("simulate", run, "--initial", "start.csv", *marks, *UNTIL, "--out", "out.csv")
    assert result.exit_code == 0
    np.testing.assert_array_equal(load("out.csv", states=NAMES).runs[0].x[0], [0.25] * len(start))


def test_evaluate_for_people(run):
    found = json.loads(wgfinn("evaluate", run, "data.npz", "--json").stdout)
    table = wgfinn("evaluate", run, "data.npz").stdout
    for line in ("relative l2 error (served model)", "median over runs", "energy drift", "least entropy increment"):
        assert line in table
    assert f"{found['relative_l2']:.4g}" in table


def test_evaluate_a_model_without_thermodynamics(here):
    fit(RUNS, small_spec(PLAIN), folder=here / "plain")
    found = json.loads(wgfinn("evaluate", "plain", "data.npz", "--json").stdout)
    assert found["relative_l2"] > 0
    assert found["energy_drift"] is found["min_entropy_increment"] is found["degeneracy"] is None
    assert "energy drift" not in wgfinn("evaluate", "plain", "data.npz").stdout


def test_evaluate_a_lost_run(run):
    """The paper's mean is then infinite, which JSON cannot say; the run is named."""
    far = np.full((1, 30, 3), 1e308) * [1, -1, 1]
    x = np.concatenate([RUNS.stacked()[1], far])
    save(Trajectories.from_arrays(x, RUNS.runs[0].t, names=NAMES, run_names=["a", "b", "c", "far"]), "far.npz")
    with np.errstate(all="ignore"):
        result = wgfinn("evaluate", run, "far.npz", "--json")
        people = wgfinn("evaluate", run, "far.npz")
    found = json.loads(result.stdout)
    assert found["relative_l2"] is None
    assert found["diverged_runs"] == ["far"]
    assert "run 'far': the prediction left the finite range" in people.stderr


def test_evaluate_other_states(run):
    save(Trajectories.from_arrays(np.ones((4, 2)), np.arange(4.0), names=["q", "v"]), "other.npz")
    with pytest.raises(InputError, match=r"other.npz: its states are q, v, but the model's are q, p, S"):
        wgfinn("evaluate", run, "other.npz", "--json")


# ---------------------------------------------------------------------------------------------------- export


@pytest.mark.parametrize("format", ["numpy", "stablehlo", "onnx"])
def test_export(run, here, format):
    """The files themselves are tested with the library; here: options, the served member, words."""
    result = wgfinn("export", run, "--format", format, "--out", "served")
    served = load_model(run / "model.wgfinn").manifest.served
    assert result.stdout == f"served: {format}, member {served}, states q, p, S\n"
    wgfinn("export", run, "--format", format, "--out", "other", "--member", 1 - served, "--dtype", "float64")
    assert (here / "served").read_bytes() != (here / "other").read_bytes()
