"""The study from recipe to figures, at sizes that take seconds; resuming, row by row and inside a program."""

import json
import math

import pytest

from wgfinn._errors import InputError
from wgfinn.artefact import load_model
from wgfinn.data import state_std
from wgfinn.studies import run
from wgfinn.studies.plan import plan_rows
from wgfinn.studies.recipes import Recipe, load_recipe
from wgfinn.studies.reproduction import Event, reproduce, reproduce_all
from wgfinn.studies.results import RowResult, StudyResult, read_json
from wgfinn.studies.theory import reproduce_theory

SMALL = {
    "weak_steps": 6,
    "strong_steps": 4,
    "check_every": 2,
    "trajectories": 4,
    "batch": 40,
    "network": {"rows": 1, "layers": 2, "width": 4},
}


def small_recipe(name: str, **changes) -> Recipe:
    """The recipe with its smoke scale made smaller still."""
    recipe = load_recipe(name)
    smoke = recipe.scales["smoke"].model_copy(update=SMALL)
    return recipe.model_copy(update={"scales": {**recipe.scales, "smoke": smoke}, **changes})


@pytest.fixture(scope="module")
def gas(tmp_path_factory):
    out, events = tmp_path_factory.mktemp("gas"), []
    result = reproduce(small_recipe("gas_containers"), out=out, scale="smoke", watch=events.append)
    return out / "gas_containers", result, events


@pytest.fixture(scope="module")
def damped(tmp_path_factory):
    out = tmp_path_factory.mktemp("damped")
    return out, reproduce(small_recipe("damped_oscillator"), out=out, scale="smoke")


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a finished row was trained again")

    monkeypatch.setattr(run, "train_members", refuse)


def test_writes_results_table_models_and_the_papers_figures(gas):
    folder, result, _ = gas
    assert {path.stem for path in (folder / "figures").iterdir()} == {"errors", "trajectories", "potentials"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (folder / "figures").iterdir())
    keys = {f"{arm}_{level}" for arm in ("weak", "strong", "strong_fair") for level in (0, 5, 10)}
    assert {path.stem for path in (folder / "models").iterdir()} == keys
    assert {row["key"] for row in result["rows"]} == keys
    assert result["pending"] == []
    assert not list((folder / "checkpoints").iterdir())
    table = (folder / "table.md").read_text()
    assert "| 10 % | GFINN, fair |" in table
    assert "seed 1" in table


def test_the_damped_system_has_its_own_figures(damped):
    out, _ = damped
    drawn = {path.stem for path in (out / "damped_oscillator" / "figures").iterdir()}
    assert drawn == {"errors", "trajectories", "spotlight", "weighting"}


def test_results_follow_their_schema(gas):
    folder, result, _ = gas
    assert json.loads((folder / "results.json").read_text()) == result
    study = StudyResult.model_validate(result)
    assert (study.scale, study.seeds, study.train_runs, study.test_runs) == ("smoke", 2, 3, 1)
    for row in study.rows:
        assert row == read_json(folder / "rows" / f"{row.key}.json", RowResult)
        assert row.steps == {"weak": 6, "strong": 4}[row.settings["fit"]["method"]]
        assert row.program_seconds > 0
        assert {"platform", "device"} <= set(row.hardware)
        assert {"jax", "wgfinn"} <= set(row.versions)
        assert [member.seed for member in row.members] == [0, 1]
        for member in row.members:
            assert list(member.per_state) == ["q", "p", "S1", "S2"]
            assert member.error == pytest.approx(math.fsum(member.per_state.values()) / 4)
            assert member.loss is not None
            assert member.loss > 0
            assert member.min_entropy_increment is not None
            assert max(abs(value) for value in member.degeneracy.values()) < 1e-13


def test_a_saved_model_is_the_one_that_was_judged(gas):
    folder, result, _ = gas
    row = StudyResult.model_validate(result).row("weak", 0.05)
    assert row is not None
    manifest = load_model(folder / "models" / "weak_5.wgfinn").manifest
    assert [m.loss for m in manifest.members] == [m.loss for m in row.members]
    assert manifest.data.digest == row.data_digest


def test_noise_is_on_the_training_runs_alone():
    recipe = small_recipe("gas_containers")
    data = run.make_data(plan_rows(recipe, "smoke")[0].data, recipe.levels)
    clean, noisy, noisier = (data.train[level] for level in (0.0, 0.05, 0.1))
    sigma = state_std(clean)
    once, twice = noisy.runs[0].x - clean.runs[0].x, noisier.runs[0].x - clean.runs[0].x
    assert once / (0.05 * sigma) == pytest.approx(twice / (0.1 * sigma))
    assert abs((once / (0.05 * sigma)).std() - 1) < 0.05
    assert not set(data.test.run_names) & set(clean.run_names)


def test_progress_tells_every_stage(gas):
    _, _, events = gas
    assert {event.stage for event in events} == {"data", "training", "figures"}
    assert Event("gas_containers", "training", 6, 6, "program 2 of 3: weak_5, weak_10") in events


def test_a_finished_study_is_drawn_again_without_training(damped, no_training):
    out, result = damped
    figures = out / "damped_oscillator" / "figures"
    (figures / "errors.png").unlink()
    assert reproduce(small_recipe("damped_oscillator"), out=out, scale="smoke") == result
    assert (figures / "errors.png").exists()


def test_rows_may_be_done_one_by_one(tmp_path, damped, monkeypatch):
    _, whole = damped
    recipe = small_recipe("damped_oscillator")
    first = reproduce(recipe, out=tmp_path, scale="smoke", noise=[0.05], method=["weak"])
    assert [row["key"] for row in first["rows"]] == ["weak_5"]
    assert len(first["pending"]) == len(whole["rows"]) - 1

    trained = []
    train_program = run.train_members
    monkeypatch.setattr(
        run, "train_members", lambda members, *a, **k: trained.extend(members) or train_program(members, *a, **k)
    )
    second = reproduce(recipe, out=tmp_path, scale="smoke", method=["weak"])
    assert [row["key"] for row in second["rows"]] == ["weak_0", "weak_5", "weak_10"]
    assert {member.name for member in trained} == {f"weak_{n} seed {s}" for n in (0, 10) for s in (0, 1)}
    # Alone or together with others, a row learns the same, up to the rounding of another program.
    by_key = {row["key"]: row for row in whole["rows"]}
    for row in second["rows"]:
        assert row["digest"] == by_key[row["key"]]["digest"]
        for mine, theirs in zip(row["members"], by_key[row["key"]]["members"], strict=True):
            assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


def test_an_interrupted_program_goes_on_to_the_same_numbers(tmp_path, damped, monkeypatch):
    _, whole = damped
    recipe = small_recipe("damped_oscillator")
    train_members = run.train_members

    def stop_half_way(members, spec, **how):
        shorter = spec.training.model_copy(update={"steps": spec.training.steps - 2})
        return train_members(members, spec.model_copy(update={"training": shorter}), **how)

    with monkeypatch.context() as patched:
        patched.setattr(run, "train_members", stop_half_way)
        stopped = reproduce(recipe, out=tmp_path, scale="smoke", method=["weak"])
    assert stopped["rows"] == []
    assert {"weak_0", "weak_5", "weak_10"} <= set(stopped["pending"])
    assert len(list((tmp_path / "damped_oscillator" / "checkpoints").iterdir())) == 1

    finished = reproduce(recipe, out=tmp_path, scale="smoke", method=["weak"])
    by_key = {row["key"]: row["members"] for row in whole["rows"]}
    assert [row["members"] for row in finished["rows"]] == [by_key[f"weak_{n}"] for n in (0, 5, 10)]
    assert not list((tmp_path / "damped_oscillator" / "checkpoints").iterdir())


def test_other_settings_are_trained_again(tmp_path):
    recipe = small_recipe("damped_oscillator")
    chosen = {"out": tmp_path, "scale": "smoke", "noise": [0.05], "method": ["weak"]}
    first = reproduce(recipe, **chosen)
    warmer = recipe.model_copy(update={"parameters": {"temperature": 2.0}})
    second = reproduce(warmer, **chosen)
    assert first["rows"][0]["digest"] != second["rows"][0]["digest"]
    assert first["rows"][0]["data_digest"] != second["rows"][0]["data_digest"]
    # A damaged row file is as good as none.
    (tmp_path / "damped_oscillator" / "rows" / "weak_5.json").write_text("{")
    third = reproduce(warmer, **chosen)
    assert third["rows"][0]["members"] == second["rows"][0]["members"]


def test_another_scale_or_number_of_seeds_does_not_replace_results(damped):
    out, _ = damped
    with pytest.raises(InputError, match=r"results of scale 'smoke' with 2 seeds, but scale 'short' with 5 is asked"):
        reproduce("damped_oscillator", out=out, scale="short")
    with pytest.raises(InputError, match=r"but scale 'smoke' with 3 is asked for; choose another output folder"):
        reproduce("damped_oscillator", out=out, scale="smoke", seeds=3)


def test_unknown_scale_and_method_are_refused(tmp_path):
    with pytest.raises(InputError, match="scale='tiny' is unknown; choose one of smoke, short, paper"):
        reproduce("damped_oscillator", out=tmp_path, scale="tiny")
    with pytest.raises(InputError, match="method='wgfinn' is in no row"):
        reproduce("damped_oscillator", out=tmp_path, scale="smoke", method=["wgfinn"])
    with pytest.raises(InputError, match="method='wgfinn' is unknown; choose from weak, strong, strong_fair"):
        reproduce_all(out=tmp_path, scale="smoke", method=["wgfinn"])


def test_all_systems_make_one_summary(tmp_path, monkeypatch):
    recipes = {name: small_recipe(name) for name in ("damped_oscillator", "gas_containers")}
    monkeypatch.setattr("wgfinn.studies.reproduction.recipe_names", lambda: tuple(recipes))
    monkeypatch.setattr("wgfinn.studies.reproduction.load_recipe", recipes.__getitem__)
    found = reproduce_all(out=tmp_path, scale="smoke", seeds=1, method=["weak_unweighted", "strong"])
    assert list(found) == ["damped_oscillator", "gas_containers"]
    assert {row["arm"] for row in found["gas_containers"]["rows"]} == {"strong"}
    assert list(reproduce_all(out=tmp_path, scale="smoke", seeds=1, method=["weak_unweighted"])) == [
        "damped_oscillator"
    ]
    reproduce_all(out=tmp_path, scale="smoke", seeds=1, method=["strong"])
    summary = (tmp_path / "summary.md").read_text()
    assert "## Linearly damped system (scale `smoke`)" in summary
    assert "## Two gas containers exchanging heat and volume" in summary


def test_theory_writes_its_table(tmp_path):
    measured = reproduce_theory(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"theory.png", "theory.json", "theory.md"}
    table = (tmp_path / "theory.md").read_text()
    assert f"| {measured['limit'][0]['simulated']:.5f} |" in table


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gas_containers", "double_pendulum", "damped_oscillator", "vlasov_poisson"])
def test_smoke_scale_as_shipped(name, tmp_path):
    result = reproduce(name, out=tmp_path, scale="smoke")
    assert result["pending"] == []
