"""The elementary functions against 60-digit arithmetic, over twelve decades and both branches."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from wgfinn.theory import _functions as functions


def exact(z: float) -> dict[str, float]:
    with localcontext() as context:
        context.prec = 60
        x = Decimal(z)
        up, down = x.exp(), (-x).exp()
        sinh, cosh = (up - down) / 2, (up + down) / 2
        return {
            "exp_excess": float(up - 1 - x),
            "sinh_excess": float(sinh - x),
            "cosh_excess": float(cosh - 1),
            "sinh_quotient": float(sinh / x),
            "excess_ratio": float((sinh - x) / (x * (cosh - 1))),
        }


@pytest.mark.parametrize("z", [1e-9, -3e-6, 0.02, -0.7, 0.999999, -1.0, 1.000001, 2.5, -6.0, 40.0])
@pytest.mark.parametrize("name", ["exp_excess", "sinh_excess", "cosh_excess", "sinh_quotient", "excess_ratio"])
def test_no_digits_are_lost(name: str, z: float):
    """Eight roundings: the direct branch of e^z - 1 - z loses at most a factor of three at |z| = 1."""
    assert getattr(functions, name)(z) == pytest.approx(exact(z)[name], rel=8 * np.finfo(float).eps, abs=0.0)


def test_values_at_zero_and_far_out():
    assert functions.sinh_quotient(0.0) == 1.0
    assert functions.excess_ratio(0.0) == pytest.approx(1 / 3, rel=1e-15)
    # No overflow where sinh itself has left the doubles.
    assert functions.excess_ratio(2000.0) == pytest.approx(1 / 2000, rel=1e-15)


def test_arrays_keep_their_shape():
    z = np.linspace(-3.0, 3.0, 12).reshape(3, 4)
    assert np.asarray(functions.excess_ratio(z)).shape == (3, 4)
