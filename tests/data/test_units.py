"""Units in words."""

import pytest

from wgfinn.data import amount, duration_unit, rate_unit, with_unit


@pytest.mark.parametrize(
    ("unit", "duration", "rate"),
    [
        ("", "", ""),
        ("s", "s", "1/s"),
        ("t_c/2", "t_c/2", "1/(t_c/2)"),
        ("seconds since 2000-01-01", "seconds", "1/seconds"),
        ("10 ms", "10 ms", "1/(10 ms)"),
    ],
)
def test_units_made_of_that_of_time(unit, duration, rate):
    assert duration_unit(unit) == duration
    assert rate_unit(unit) == rate


def test_with_and_without_a_unit():
    assert (with_unit("q", "m"), with_unit("q", "")) == ("q [m]", "q")
    assert (amount("0.1", "s"), amount("0.1", "")) == ("0.1 s", "0.1")
