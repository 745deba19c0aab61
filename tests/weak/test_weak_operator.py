"""The weak operator against a dense matrix, its order as a quadrature, and its appetite for memory."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.weak import TestFunctionSpec, WeakOperator


def dense(width, degree, overlap, n_times):
    """Phi and its slope as full matrices, `test time`, from the formulas of spec section 6."""
    shared = math.floor(width * (1 - math.sqrt(1 - overlap ** (1 / degree))))
    count = 1 + (n_times - width) // (width - shared)
    tau = 2 * np.arange(width) / (width - 1) - 1
    values, slopes = np.zeros((2, count, n_times))
    for j in range(count):
        here = slice(j * (width - shared), j * (width - shared) + width)
        values[j, here] = (1 - tau**2) ** degree
        slopes[j, here] = -2 * degree * tau * (1 - tau**2) ** (degree - 1) * 2 / (width - 1)
    return values, slopes


SHAPES = [
    (30, 6, 0.9, 401),
    (80, 4, 0.9, 401),
    (10, 4, 0.7, 401),
    (40, 2, 0.95, 401),
    (10, 3, 0.9, 101),
    (4, 2, 0.0, 4),  # the smallest
    (25, 3, 0.5, 25),  # one window, as long as the record
    (25, 3, 0.5, 26),
    (10, 4, 0.0, 40),  # windows side by side
    (10, 4, 0.0, 47),  # with samples left over
    (12, 2, 0.9999, 50),  # stride 1
    (13, 5, 0.3, 64),  # stride does not divide the width
]


@pytest.mark.parametrize(("width", "degree", "overlap", "n_times"), SHAPES)
def test_equals_the_dense_product(width, degree, overlap, n_times):
    spec = TestFunctionSpec(width=width, degree=degree, overlap=overlap)
    operator = WeakOperator(spec, n_times)
    record = np.random.default_rng(0).normal(size=(3, 2, n_times))
    values, slopes = dense(width, degree, overlap, n_times)
    assert operator.count == len(values)
    for actual, matrix in ((operator.integrate, values), (operator.integrate_slope, slopes)):
        np.testing.assert_allclose(actual(jnp.asarray(record)), record @ matrix.T, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        operator.integrate(jnp.asarray(record[0, 0])), values @ record[0, 0], rtol=1e-12, atol=1e-13
    )


def test_stride_one_is_among_the_shapes():
    assert TestFunctionSpec(width=12, degree=2, overlap=0.9999).stride == 1


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_quadrature_order(degree):
    """The integrand is (phi x)' and phi vanishes to order p at both ends, so by Euler-Maclaurin the
    first surviving term is h to the smallest even power >= p. A wrong end point costs a full order."""
    duration, points, residuals = 2.0, (21, 41, 81), []
    for n in points:
        operator = WeakOperator(TestFunctionSpec(width=n, degree=degree), n)
        dt = duration / (n - 1)
        x = jnp.exp(-dt * jnp.arange(n))
        residuals.append(abs(float((operator.integrate_slope(x) + dt * operator.integrate(-x))[0])))
    slope = np.polyfit(np.log([1 / (n - 1) for n in points]), np.log(residuals), 1)[0]
    assert abs(slope - 2 * math.ceil(degree / 2)) < 0.15


def test_constant_record_has_no_slope():
    """The slope is odd about the window's centre; what is left is rounding."""
    operator = WeakOperator(TestFunctionSpec(width=30, degree=4), 200)
    assert np.abs(operator.integrate_slope(jnp.full((1, 200), 1e3))).max() < 1e-10


def test_shorter_record_agrees_where_it_is_covered():
    """Padding touches only the windows that are not wholly inside."""
    spec = TestFunctionSpec(width=20, degree=4, overlap=0.9)
    operator = WeakOperator(spec, 200)
    record = np.random.default_rng(1).normal(size=(2, 200))
    for n_times in (20, 57, 100, 199, 200):
        covered = operator.covered(n_times)
        assert covered.sum() == spec.count(n_times)
        assert np.all(np.diff(covered.astype(int)) <= 0)
        alone = WeakOperator(spec, n_times).integrate(jnp.asarray(record[:, :n_times]))
        padded = operator.integrate(jnp.asarray(np.pad(record[:, :n_times], ((0, 0), (0, 200 - n_times)))))
        np.testing.assert_allclose(padded[:, covered], alone, rtol=1e-13, atol=1e-14)


def test_covered_counts_the_last_sample():
    operator = WeakOperator(TestFunctionSpec(width=10, degree=4, overlap=0.0), 30)
    assert operator.covered(30).tolist() == [True, True, True]
    assert operator.covered(29).tolist() == [True, True, False]
    assert operator.covered(9).tolist() == [False, False, False]


def test_record_too_short():
    with pytest.raises(InputError, match=r"a record of 20 samples .* smallest legal record has 30 samples"):
        WeakOperator(TestFunctionSpec(width=30), 20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_is_the_one_asked_for(dtype):
    operator = WeakOperator(TestFunctionSpec(width=30), 100, dtype)
    assert operator.integrate(jnp.ones((2, 100), dtype)).dtype == dtype


def _temporary_bytes(n_times):
    operator = WeakOperator(TestFunctionSpec(width=80, degree=4, overlap=0.9), n_times)
    shape = jax.ShapeDtypeStruct((4, n_times), jnp.float64)
    compiled = jax.jit(lambda x: operator.integrate(x) + operator.integrate_slope(x)).lower(shape).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def test_memory_is_linear_in_the_record():
    """A million samples of four states are 32 MB; the dense matrix alone would be 600 GB."""
    one, two = _temporary_bytes(1_000_000), _temporary_bytes(2_000_000)
    assert one < 300e6
    assert 1.8 < two / one < 2.2


def test_a_million_samples():
    """Windows at both ends and in the middle against plain sums."""
    n_times = 1_000_000
    spec = TestFunctionSpec(width=80, degree=4, overlap=0.9)
    operator = WeakOperator(spec, n_times)
    record = np.random.default_rng(0).normal(size=(4, n_times))
    actual = np.asarray(eqx.filter_jit(operator.integrate)(jnp.asarray(record)))
    assert actual.shape == (4, spec.count(n_times))
    values, _ = spec.window()
    for j in (0, operator.count // 2, operator.count - 1):
        here = record[:, j * spec.stride : j * spec.stride + 80]
        np.testing.assert_allclose(actual[:, j], here @ values, rtol=1e-12, atol=1e-13)
