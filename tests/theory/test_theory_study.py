"""The study: files, the numbers it returns, and that a seed fixes all of them."""

import json

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.theory import study, three_point_spread
from wgfinn.theory.experiments import both_by_noise, strong_by_step, weak_by_support


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("theory") / "made" / "here"
    return out, study(out, seed=3)


def test_writes_the_figure_and_every_number(ran):
    out, measured = ran
    assert sorted(path.name for path in out.iterdir()) == ["theory.json", "theory.png"]
    assert (out / "theory.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((out / "theory.json").read_text())
    assert record["measured"] == measured
    assert record["seed"] == 3
    assert set(record["panels"]) == {"strong_by_step", "sign_by_step", "weak_by_support", "both_by_noise"}
    assert np.shape(record["panels"]["strong_by_step"]["shown"]) == (4, 16, 10)


def test_measured_values(ran):
    _, measured = ran
    for found in measured["limit"]:
        assert abs(found["simulated"] - found["formula"]) < 3 * found["standard_error"]
    assert max(measured["deviation"].values()) < 1e-12
    step = measured["recovery_step"]
    assert step["simulated"] == pytest.approx(step["expected"], rel=0.1)
    assert measured["weak_slope"] == pytest.approx(1.0, abs=0.05)
    # Three samples against 101 on the same records: the weak form scatters more, by theorem 4.3 and by
    # the variance of G, whose first sample dominates (dt = 0.01, x(0) = e).
    spread = measured["spread_per_sigma"]
    assert spread["weak"] == pytest.approx(three_point_spread(-2.0, 1.0, 1.0), rel=0.03)
    assert spread["strong"] == pytest.approx(0.74, rel=0.03)


def test_panels_show_what_the_paper_says(ran):
    out, _ = ran
    panels = json.loads((out / "theory.json").read_text())["panels"]
    strong = panels["strong_by_step"]
    # Noise: diverging like 1 / dt at small steps; clean end: the integration error at large ones.
    mean = np.array(strong["mean"])
    assert np.all(mean[1:, 0] > 10 * np.array(strong["integration"])[0])
    np.testing.assert_allclose(mean[0, -4:], strong["integration"][-4:], rtol=0.01)
    signs = panels["sign_by_step"]
    assert signs["signed_mean"][0] == pytest.approx(signs["limit"], rel=0.02)
    weak = panels["weak_by_support"]
    np.testing.assert_allclose(weak["mean"], weak["first_order"], rtol=0.12)
    both = panels["both_by_noise"]
    assert both["strong_mean"][0] == pytest.approx(both["integration"], rel=1e-3)
    assert both["weak_mean"][0] < 1e-5


@pytest.mark.parametrize("panel", [strong_by_step, weak_by_support, both_by_noise])
def test_a_seed_fixes_the_numbers(panel):
    first, second, other = (panel(rng=np.random.default_rng(seed), runs=10) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_out_must_be_a_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="is a file; give a folder"):
        study(tmp_path / "taken")


def test_seed_must_not_be_negative(tmp_path):
    with pytest.raises(InputError, match="seed must not be negative"):
        study(tmp_path, seed=-1)
