"""The sentences of a report for the cases that need different ones."""

from dataclasses import replace

import numpy as np
import pytest

from wgfinn.evaluate import ThermodynamicChecks
from wgfinn.report.numbers import ReportData, StateErrors
from wgfinn.report.words import fact_lines, factor, headline, number, percent, power

CHECKS = ThermodynamicChecks(energy_drift=2e-5, min_entropy_increment=1e-4, degeneracy={})


def state(name="q", median=0.1, noise=0.1, residual=0.1, is_noisy=True):
    return StateErrors(
        name=name,
        unit="",
        mean=median,
        median=median,
        worst=median,
        residual=residual,
        noise=noise,
        is_noisy=is_noisy,
        spread=1.0,
    )


FACTS = ReportData(
    names=("q", "p"),
    units=("", ""),
    time_unit="",
    n_runs=3,
    n_samples=30,
    missing=0,
    mended=0.0,
    error=0.2,
    median_error=0.123,
    worst_run="cold",
    worst_error=0.4,
    run_errors={"cold": 0.4},
    states=(state("q", 0.05), state("p", 0.3)),
    diverged=(),
    unpredicted=(),
    left_out_members=0,
    checks=CHECKS,
    median_state=np.zeros(2),
    runs=(),
    slices=None,
    histograms=(),
)


def lines(is_training_data=False, **changes):
    return " ".join(fact_lines(replace(FACTS, **changes), is_training_data=is_training_data))


def test_headlines():
    assert headline(FACTS) == "The median run is predicted with an error of 12 % of the states' spread."
    assert headline(replace(FACTS, n_runs=1)) == "The run is predicted with an error of 12 % of the states' spread."
    lost = replace(FACTS, median_error=np.inf)
    assert headline(lost) == "The prediction of half the runs or more left the finite range."
    assert headline(replace(lost, n_runs=1)) == "The prediction of the run left the finite range."


def test_training_data_are_named_as_such():
    assert "data the model was trained on" in lines(is_training_data=True)
    assert "trained on" not in lines()


def test_best_and_worst():
    assert "q is met best (5.0 % in the median), p least (30 %)" in lines()
    assert "met best" not in lines(states=(state(),))
    assert "The worst run is cold, with an error of 40 %." in lines()
    assert "worst run" not in lines(n_runs=1)
    assert "worst run" not in lines(worst_error=np.inf)


def test_what_is_missing():
    assert "2 predictions left the finite range: a, b." in lines(diverged=("a", "b"))
    assert "a, b, c, d, e and 2 more" in lines(diverged=tuple("abcdefg"))
    assert "1 run could not be predicted" in lines(unpredicted=("a",))
    assert "1 member of the ensemble is left out of the bands: without a finite loss, or" in lines(left_out_members=1)
    assert "2 members of the ensemble are left out of the bands" in lines(left_out_members=2)


def test_noise():
    assert "no larger than the noise" in lines()
    assert "up to 3 times the estimated measurement noise (p)" in lines(states=(state(), state("p", residual=0.3)))
    assert "noise" not in lines(states=(state(is_noisy=False),))


def test_laws():
    assert "Energy is conserved: it drifts by 2.0 × 10⁻⁵" in lines()
    assert "Entropy never decreases." in lines()
    coarse = replace(CHECKS, energy_drift=0.02, min_entropy_increment=-1e-5)
    assert "With these time steps the energy drifts by 2.0 × 10⁻²" in lines(checks=coarse)
    assert "falls by 1.0 × 10⁻⁵ at most from one sample to the next, which is rounding" in lines(checks=coarse)
    falling = replace(CHECKS, min_entropy_increment=-0.5)
    assert "falls by 5.0 × 10⁻¹ at most from one sample to the next." in lines(checks=falling)
    assert "open: heat goes into surroundings that are no states. Energy never rises." in lines(
        checks=replace(CHECKS, energy_drift=0.0, is_open=True)
    )
    assert "Energy rises by 2.0 × 10⁻⁵ of its natural variation at most, which is rounding" in lines(
        checks=replace(CHECKS, is_open=True)
    )
    assert "cannot be judged" in lines(checks=replace(CHECKS, energy_drift=np.inf))
    assert "plain network without energy and entropy" in lines(checks=None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 %"),
        (0.123, "12 %"),
        (0.0123, "1.2 %"),
        (0.00123, "0.12 %"),
        (1.234, "123 %"),
        (1e-9, "1.0 × 10⁻⁷ %"),
        (1e5, "1.0 × 10⁷ %"),
        (np.inf, "without bound"),
        (np.nan, "–"),
    ],
)
def test_percent(value, text):
    assert percent(value) == text


def test_numbers():
    assert [number(v) for v in (0.12345, np.nan, np.inf, -np.inf)] == ["0.123", "–", "∞", "−∞"]
    assert [factor(v) for v in (0.123, 12.3, 99.9, 1234.5)] == ["0.12", "12", "100", "1234"]
    assert [power(v) for v in (0.0, -1.23e-12, np.inf)] == ["0", "−1.2 × 10⁻¹²", "∞"]
