"""Families of test functions: slopes, ends, quadrature, placement, refused settings."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.weak import TestFunctionSpec, WeakOperator

SHAPES = [
    pytest.param({"family": "polynomial", "degree": 2}, id="polynomial 2"),
    pytest.param({"family": "polynomial", "degree": 5}, id="polynomial 5"),
    pytest.param({"family": "bump", "degree": 2}, id="bump 2"),
    pytest.param({"family": "bump", "degree": 6}, id="bump 6"),
    pytest.param({"family": "sine", "degree": 1}, id="sine 1"),
    pytest.param({"family": "sine", "degree": 1, "mode": 3}, id="sine 1, mode 3"),
    pytest.param({"family": "sine", "degree": 2}, id="raised cosine"),
    pytest.param({"family": "sine", "degree": 4, "mode": 2}, id="sine 4, mode 2"),
    pytest.param({"family": "hartley", "degree": 2}, id="hartley 2"),
    pytest.param({"family": "hartley", "degree": 3, "mode": 2}, id="hartley 3, mode 2"),
    pytest.param({"family": "hartley", "degree": 4, "mode": -2}, id="hartley 4, mode -2"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_slope_against_differences(shape):
    """Central differences with h = 1e-5: truncation h^2 phi''' / 6 (phi''' below 1e4) and rounding 1e-16 / h."""
    spec = TestFunctionSpec(**shape)
    u, h = np.linspace(-0.999, 0.999, 301), 1e-5
    numeric = (spec.evaluate(u + h)[0] - spec.evaluate(u - h)[0]) / (2 * h)
    np.testing.assert_allclose(spec.evaluate(u)[1], numeric, atol=2e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_support(shape):
    """Exactly zero at the ends and outside, for any shape of the argument."""
    spec = TestFunctionSpec(**shape)
    value, slope = spec.evaluate(np.array([[-1.0, 1.0], [-1.5, 3.0]]))
    assert value.shape == slope.shape == (2, 2)
    assert not value.any()
    assert not slope[1].any()
    assert spec.evaluate(np.array([0.37]))[0][0] != 0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_ends_vanish_to_the_claimed_order(shape):
    """phi(1 - h) ~ h^k: the slope between h = 1e-2 and 1e-3 in logarithms. The bump is below h^50 there."""
    spec = TestFunctionSpec(**shape)
    near = np.abs(spec.evaluate(1 - np.array([1e-2, 1e-3]))[0])
    if spec.shape.vanishing_order == math.inf:
        assert np.all(near < [1e-20, 1e-300])
        return
    assert math.log10(near[0] / near[1]) == pytest.approx(spec.shape.vanishing_order, abs=0.1)
    end_slope = spec.evaluate(np.array([-1.0, 1.0]))[1]
    assert np.all((end_slope != 0) == (spec.shape.vanishing_order == 1))


@pytest.mark.parametrize("shape", SHAPES)
def test_quadrature_order(shape):
    """The weak residual of exponential decay, x' = -x. The integrand is (phi x)', so by Euler-Maclaurin the first
    term that survives is the step to the smallest even power of at least k, where phi ~ (1 - |u|)^k at the ends; with
    full end weights the sine of degree 1 would be left with the first power. The bump converges faster than any."""
    errors = []
    widths = (41, 81, 161)
    for width in widths:
        values, slopes = TestFunctionSpec(**shape, width=width).window()
        step = 2 / (width - 1)
        x = np.exp(-step * np.arange(width))
        errors.append(abs(np.sum(slopes * x) + step * np.sum(values * -x)))
    order = TestFunctionSpec(**shape).shape.vanishing_order
    if order == math.inf:
        # As long as rounding is not reached: faster than the ninth power of the step.
        assert errors[1] < max(errors[0] / 2**9, 1e-15)
        return
    observed = math.log2(errors[-2] / errors[-1])
    assert observed == pytest.approx(2 * math.ceil(order / 2), abs=0.15)


@pytest.mark.parametrize("shape", SHAPES)
def test_integral_of_the_slope_and_of_the_value(shape):
    """The slope's weights sum to the boundary terms, zero; the value's to scipy's quad."""
    values, slopes = TestFunctionSpec(**shape, width=2001).window()
    exact, _ = quad(lambda u: float(TestFunctionSpec(**shape).evaluate(np.array([u]))[0][0]), -1, 1, limit=200)
    assert abs(slopes.sum()) < 1e-5
    assert values.sum() / 1000 == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize(("degree", "mode"), [(2, 0), (3, 0), (4, 1), (5, -2)])
def test_hartley_against_the_sum_of_the_literature(degree, mode):
    spec = TestFunctionSpec(family="hartley", degree=degree, mode=mode)
    u = np.linspace(-1, 1, 101)
    angle = np.pi * (u + 1)
    cas = [np.cos((degree + mode - j) * angle) + np.sin((degree + mode - j) * angle) for j in range(degree + 1)]
    literature = sum((-1) ** j * math.comb(degree, j) * c for j, c in enumerate(cas))
    np.testing.assert_allclose(spec.evaluate(u)[0], (-1) ** (degree + mode) * literature / 2**degree, atol=1e-13)


def test_sines_of_degree_one_are_orthogonal():
    """The sine basis of the window: integral of phi_m phi_n over [-1, 1] is one for m = n, else zero."""
    u = np.linspace(-1, 1, 401)
    basis = np.stack([TestFunctionSpec(family="sine", degree=1, mode=m).evaluate(u)[0] for m in range(6)])
    np.testing.assert_allclose(basis @ basis.T * (u[1] - u[0]), np.eye(6), atol=1e-12)


@pytest.mark.parametrize("family", ["polynomial", "bump"])
def test_degree_is_the_curvature_at_the_centre(family):
    """1 - p u^2 + O(u^4) for both, so the bump of the same degree is a drop-in."""
    u = np.array([1e-3])
    value, _ = TestFunctionSpec(family=family, degree=5).evaluate(u)
    assert (1 - value[0]) / u[0] ** 2 == pytest.approx(5, rel=1e-4)


@pytest.mark.parametrize("degree", [2, 5])
@pytest.mark.parametrize("family", ["polynomial", "bump", "sine"])
@pytest.mark.parametrize("overlap", [0.3, 0.9])
def test_neighbours_cross_at_the_height_of_the_overlap(family, degree, overlap):
    """Windows of 10,001 samples cross within a sample (2e-4 in u) of u = stride / (width - 1)."""
    spec = TestFunctionSpec(family=family, width=10_001, degree=degree, overlap=overlap)
    value, _ = spec.evaluate(np.array([spec.stride / 10_000]))
    assert value[0] == pytest.approx(overlap, abs=2 * degree * 2e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("width", "overlap"), [(16, 0.0), (21, 0.5), (40, 0.97)])
def test_one_formula_for_the_count(shape, width, overlap):
    """The last window fits, one more would not."""
    spec = TestFunctionSpec(**shape, width=width, overlap=overlap)
    count = spec.count(100)
    assert (count - 1) * spec.stride + width <= 100 < count * spec.stride + width
    assert spec.count(width) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_the_operator_takes_every_family(shape):
    """It only knows the window: each result is a scalar product with one stretch of the record."""
    spec = TestFunctionSpec(**shape, width=23, overlap=0.5)
    operator = WeakOperator(spec, 90)
    record = np.random.default_rng(0).normal(size=90)
    stretches = [record[j * spec.stride : j * spec.stride + 23] for j in range(spec.count(90))]
    for integral, window in zip((operator.integrate, operator.integrate_slope), spec.window(), strict=True):
        expected = [window @ stretch for stretch in stretches]
        np.testing.assert_allclose(integral(jnp.asarray(record)), expected, atol=1e-13)


def test_full_weights_at_the_ends_would_cost_an_order():
    """What halving the ends of the sine is for: x = 1 has x' = 0, and the boundary terms of phi' x cancel only by
    symmetry; x = t shows them."""
    spec = TestFunctionSpec(family="sine", degree=1, width=41)
    values, slopes = spec.window()
    t = np.arange(41.0)
    full = slopes.copy()
    full[[0, -1]] *= 2
    assert abs(np.sum(slopes * t) + np.sum(values)) < 0.03
    assert abs(np.sum(full * t) + np.sum(values)) > 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "wavelet"}, r"family = 'wavelet': input should be 'polynomial', 'bump', 'sine' or 'hartley'"),
        ({"family": "bump", "degree": 1}, r"degree = 1: the smallest legal degree is 2"),
        ({"family": "hartley", "degree": 1}, r"degree = 1: the smallest legal degree is 2"),
        (
            {"family": "sine", "degree": 0},
            r"degree = 0: the smallest legal degree is 1: the test function must vanish at",
        ),
        ({"mode": 2}, r"mode = 2: this family has no modes; leave it 0, or choose family 'sine' or 'hartley'"),
        ({"family": "sine", "mode": -1}, r"mode = -1: the modes of sine test functions count from 0"),
        (
            {"family": "sine", "degree": 1, "mode": 9, "width": 19},
            r"mode = 9: sine test functions of degree 1 and mode 9 need a width of at least 20 samples, 4 for each",
        ),
        (
            {"family": "hartley", "degree": 4, "mode": 3, "width": 19},
            r"hartley test functions of degree 4 and mode 3 need a width of at least 20 samples.* but it is 19",
        ),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(InputError, match=message):
        parse(TestFunctionSpec, settings)


def test_a_refused_degree_is_the_only_complaint():
    """The mode cannot be judged without it, and is not."""
    with pytest.raises(InputError) as caught:
        parse(TestFunctionSpec, {"family": "hartley", "degree": 1, "mode": 99})
    assert "mode" not in str(caught.value)
