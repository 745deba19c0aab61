"""Which rows there are, and which of them train in one program."""

import pytest

from wgfinn._errors import InputError
from wgfinn.studies.plan import group_rows, plan_rows, select_rows
from wgfinn.studies.recipes import load_recipe, recipe_names

# Rows of equal form, weights, test functions, batch and steps, by the tables of the appendix.
PROGRAMS = {
    "gas_containers": [
        ["weak_0"],
        ["weak_5", "weak_10"],
        ["strong_0", "strong_5", "strong_10", "strong_fair_0", "strong_fair_5", "strong_fair_10"],
    ],
    "double_pendulum": [
        ["weak_0"],
        ["weak_5", "weak_10"],
        ["strong_0", "strong_fair_0"],
        ["strong_5", "strong_10", "strong_fair_5", "strong_fair_10"],
    ],
    "damped_oscillator": [
        ["weak_0", "weak_5", "weak_10"],
        ["strong_0", "strong_5", "strong_10", "strong_fair_0", "strong_fair_5", "strong_fair_10"],
        ["weak_unweighted_0"],
        ["strong_unweighted_0"],
    ],
    "vlasov_poisson": [
        ["weak_0"],
        ["weak_3", "weak_5"],
        ["strong_0", "strong_3", "strong_fair_0", "strong_fair_3"],
        ["strong_5", "strong_fair_5"],
    ],
}


@pytest.fixture
def rows():
    return plan_rows(load_recipe("damped_oscillator"), "short")


@pytest.mark.parametrize("name", recipe_names())
def test_rows_of_equal_shape_share_a_program(name):
    recipe = load_recipe(name)
    rows = plan_rows(recipe, "paper")
    programs = group_rows(rows)
    assert [[row.key for row in program.rows] for program in programs] == PROGRAMS[name]
    assert sum(len(row.seeds) for program in programs for row in program.rows) == 5 * len(rows)
    for program in programs:
        assert {row.fit.method for row in program.rows} == {program.fit.method}
        assert {row.fit.training for row in program.rows} == {program.fit.training}
        assert {row.fit.test_functions for row in program.rows} == {program.fit.test_functions}


def test_members_keep_their_own_optimiser(rows):
    weak = {row.noise: row.fit.optimiser for row in rows if row.arm == "weak"}
    assert [(o.rate, o.decay) for o in weak.values()] == [(1e-3, 0.95), (1e-4, 0.95), (1e-4, 0.85)]


def test_a_row_holds_the_papers_conventions(rows):
    for row in rows:
        assert row.fit.coordinates == "physical"
        assert row.fit.model.initialisation == "paper"


def test_the_smoke_scale_is_small():
    for name in recipe_names():
        rows = plan_rows(load_recipe(name), "smoke")
        assert {len(row.seeds) for row in rows} == {2}
        assert rows[0].data.spec.trajectories <= 10
        assert len(group_rows(rows)) <= 4


def test_keys_are_unique_and_labels_readable(rows):
    assert len({row.key for row in rows}) == len(rows)
    assert rows[1].label == "WGFINN at 5 % noise"


def test_select(rows):
    assert [row.key for row in select_rows(rows, [0.05], ["weak", "strong_fair"])] == ["weak_5", "strong_fair_5"]
    assert select_rows(rows) == rows


@pytest.mark.parametrize(
    ("noise", "method", "message"),
    [
        ([0.07], None, r"noise=0.07 is in no row of this study; its levels are 0, 0.05, 0.1"),
        (None, ["wgfinn"], r"method='wgfinn' is in no row of this study; it has weak, strong, strong_fair"),
        ([0.1], ["weak_unweighted"], r"no row of this study has both"),
    ],
)
def test_select_refuses_what_no_row_has(rows, noise, method, message):
    with pytest.raises(InputError, match=message):
        select_rows(rows, noise, method)


def test_a_digest_feels_every_setting(rows):
    recipe = load_recipe("damped_oscillator")
    digests = {row.digest() for row in rows}
    assert len(digests) == len(rows)
    assert digests == {row.digest() for row in plan_rows(recipe, "short")}
    assert digests.isdisjoint({row.digest() for row in plan_rows(recipe, "paper")})
    assert digests.isdisjoint({row.digest() for row in plan_rows(recipe, "short", seeds=3)})
    warmer = recipe.model_copy(update={"parameters": {"temperature": 2.0}})
    assert digests.isdisjoint({row.digest() for row in plan_rows(warmer, "short")})


def test_seeds_must_be_positive():
    with pytest.raises(InputError, match="seeds=0 must be at least 1"):
        plan_rows(load_recipe("damped_oscillator"), "smoke", seeds=0)
