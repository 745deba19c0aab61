"""Test functions: the paper's table, the window's closed form, and the settings that are refused."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import beta

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.weak import TestFunctionSpec

# Spec, section 6: (samples, width, degree, overlap, samples shared by neighbours, windows).
TABLE = [
    pytest.param(401, 30, 6, 0.9, 26, 93, id="gas containers, clean"),
    pytest.param(401, 80, 4, 0.9, 67, 25, id="gas containers, noisy"),
    pytest.param(401, 60, 4, 0.9, 50, 35, id="gas containers, the count the paper prints"),
    pytest.param(401, 10, 4, 0.7, 7, 131, id="double pendulum, clean"),
    pytest.param(401, 40, 2, 0.95, 33, 52, id="double pendulum, noisy"),
    pytest.param(401, 60, 4, 0.8, 46, 25, id="damped oscillator"),
    pytest.param(101, 10, 3, 0.9, 8, 46, id="Vlasov-Poisson, clean"),
    pytest.param(101, 20, 3, 0.9, 16, 21, id="Vlasov-Poisson, noisy"),
]


@pytest.mark.parametrize(("n_times", "width", "degree", "overlap", "shared", "count"), TABLE)
def test_table_of_the_paper(n_times, width, degree, overlap, shared, count):
    spec = TestFunctionSpec(width=width, degree=degree, overlap=overlap)
    assert spec.shared == shared
    assert spec.stride == width - shared
    assert spec.count(n_times) == count


@pytest.mark.parametrize(("width", "degree"), [(4, 2), (10, 3), (41, 4), (80, 7)])
def test_window_against_the_product_form(width, degree):
    """C (t - a)^p (b - t)^p with C = ((b - a) / 2)^(-2p) is the same function (spec, section 6)."""
    values, _ = TestFunctionSpec(width=width, degree=degree).window()
    t, b = np.arange(float(width)), width - 1
    np.testing.assert_allclose(values, (t * (b - t)) ** degree / (b / 2) ** (2.0 * degree), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(values, values[::-1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("width", "degree"), [(4, 2), (10, 3), (41, 4), (80, 7)])
def test_slope_against_differences(width, degree):
    """Central differences of the closed form with step h = 1e-4 of a sample: truncation h^2 phi'''/6 below
    1e-8, rounding 1e-16 / h = 1e-12."""
    _, slopes = TestFunctionSpec(width=width, degree=degree).window()

    def phi(t):
        return (1 - (2 * t / (width - 1) - 1) ** 2) ** degree

    t, h = np.arange(width), 1e-4
    np.testing.assert_allclose(slopes, (phi(t + h) - phi(t - h)) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("degree", [2, 3, 4, 6])
def test_integrals_of_the_window(degree):
    """The slope integrates to zero; the value to (l - 1) / 2 times B(1/2, p + 1), by scipy's quad as well.

    The trapezoidal rule on 201 points is good to h^p, so 1e-4 for p = 2."""
    width = 201
    values, slopes = TestFunctionSpec(width=width, degree=degree).window()
    exact = beta(0.5, degree + 1) * (width - 1) / 2
    estimate, error = quad(lambda tau: (1 - tau**2) ** degree, -1, 1)
    assert abs(estimate * (width - 1) / 2 - exact) <= max(error * width, 1e-13 * exact)
    assert values.sum() == pytest.approx(exact, rel=1e-4)
    assert abs(slopes.sum()) < 1e-14


@pytest.mark.parametrize("degree", [2, 3, 6])
def test_both_ends_vanish(degree):
    values, slopes = TestFunctionSpec(width=12, degree=degree).window()
    assert values[0] == values[-1] == slopes[0] == slopes[-1] == 0
    assert values.max() <= 1
    assert TestFunctionSpec(width=13, degree=degree).window()[0][6] == 1


@pytest.mark.parametrize("degree", [2, 3, 4, 6])
@pytest.mark.parametrize("overlap", [0.3, 0.7, 0.95])
def test_neighbours_cross_at_the_height_of_the_overlap(degree, overlap):
    """Windows of 10,001 samples cross within a sample of tau = stride / width, where phi = overlap; a sample
    is 2e-4 in tau and the slope there at most 2p."""
    width = 10_001
    spec = TestFunctionSpec(width=width, degree=degree, overlap=overlap)
    tau = spec.stride / (width - 1)
    assert (1 - tau**2) ** degree == pytest.approx(overlap, abs=2 * degree * 2e-4)


def test_no_overlap_puts_windows_side_by_side():
    spec = TestFunctionSpec(width=10, overlap=0)
    assert (spec.shared, spec.stride, spec.count(39), spec.count(40)) == (0, 10, 3, 4)


@pytest.mark.parametrize("overlap", [0.999999, 1 - 2**-53])
def test_windows_move_by_at_least_one_sample(overlap):
    """1 - 2^-53 is the largest number below one; its fourth root rounds to one."""
    spec = TestFunctionSpec(width=10, degree=4, overlap=overlap)
    assert spec.stride == 1
    assert spec.count(15) == 6


def test_record_as_long_as_the_support():
    assert TestFunctionSpec(width=30).count(30) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 3}, r"width = 3: the smallest legal width is 4 samples"),
        ({"width": -1}, r"width = -1: the smallest legal width is 4"),
        ({"width": 10.5}, r"width = 10\.5: input should be a valid integer"),
        ({"degree": 1}, r"degree = 1: the smallest legal degree is 2: .* slope must vanish at both ends"),
        ({"degree": 0}, r"degree = 0: the smallest legal degree is 2"),
        ({"overlap": 1.0}, r"overlap = 1\.0: the overlap lies in \[0, 1\); the smallest legal value is 0"),
        ({"overlap": -0.1}, r"overlap = -0\.1: the overlap lies in \[0, 1\)"),
        ({"overlap": float("nan")}, r"overlap = nan: input should be a finite number"),
        ({"widht": 10}, r"unknown key 'widht'; known here are degree, family, mode, overlap, width"),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(InputError, match=message):
        parse(TestFunctionSpec, settings)


def test_record_shorter_than_the_support():
    with pytest.raises(
        InputError,
        match=r"a record of 39 samples is shorter .* smallest legal record has 40 samples\. "
        r"Choose a width of at most 39",
    ):
        TestFunctionSpec(width=40).count(39)


def test_record_shorter_than_any_support():
    """No width helps a record of three samples, so none is advised."""
    with pytest.raises(InputError, match=r"has 40 samples\. Leave this run out") as caught:
        TestFunctionSpec(width=40).count(3)
    assert "width of at most" not in str(caught.value)
