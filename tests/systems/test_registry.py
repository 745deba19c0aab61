"""Systems by name, and what is said when a name or a value is wrong."""

import pytest

from wgfinn import systems
from wgfinn._errors import InputError


def test_names():
    assert systems.names() == ("gas_containers", "double_pendulum", "damped_oscillator", "vlasov_poisson")


@pytest.mark.parametrize("name", systems.names())
def test_every_system_has_labels(name):
    system = systems.make(name)
    assert system.description
    assert system.dimension == len(system.state_names) == len(set(system.state_names))
    assert system.units == ()


def test_whole_numbers_become_floats():
    assert systems.make("gas_containers", mass=2).mass == 2.0
    assert systems.make("vlasov_poisson", temperature_range=[1, 2]).temperature_range == (1.0, 2.0)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "gas_container",
            {},
            r"'gas_container' is unknown \(did you mean 'gas_containers'\?\); choose one of gas",
        ),
        (
            "zzz",
            {},
            r"'zzz' is unknown; choose one of gas_containers, double_pendulum, damped_oscillator, vlasov",
        ),
        (
            "gas_containers",
            {"mas": 1},
            r"no parameter 'mas' \(did you mean 'mass'\?\); it has mass, alpha",
        ),
        ("gas_containers", {"mass": 0}, "mass=0.0 must be a finite positive number"),
        ("gas_containers", {"alpha": -1}, "alpha=-1.0 must be a finite non-negative number"),
        ("gas_containers", {"mass": "heavy"}, "gas_containers: mass='heavy' must be a number"),
        ("gas_containers", {"mass": True}, "mass=True must be a number"),
        ("double_pendulum", {"mass2": float("nan")}, "mass2=nan must be a finite positive number"),
        ("double_pendulum", {"kappa": -0.1}, "kappa=-0.1 must be"),
        ("damped_oscillator", {"temperature": 0}, "temperature=0.0 must be a finite positive number"),
        ("vlasov_poisson", {"cells": 64.5}, "cells=64.5 must be a whole number"),
        ("vlasov_poisson", {"cells": 63}, "cells=63 must be an even number"),
        ("vlasov_poisson", {"cells": 32, "points": "nodes"}, "node 7i of 64, but cells=32"),
        (
            "vlasov_poisson",
            {"points": "corners"},
            "points='corners' is unknown; choose interpolated or nodes",
        ),
        ("vlasov_poisson", {"temperature_range": [1.1, 0.9]}, "the smallest value must come first"),
        (
            "vlasov_poisson",
            {"temperature_range": [0, 1]},
            r"temperature_range\[0\]=0.0 must be a finite positive",
        ),
        ("vlasov_poisson", {"wavenumber_range": [1.0]}, "must be a pair"),
        ("vlasov_poisson", {"drop_last": 441}, "drop_last=441 leaves none"),
        ("vlasov_poisson", {"t_end": 8.0}, "t_end=8 must be later than t_start=8"),
        ("vlasov_poisson", {"dt": 0.003}, "is not a multiple of the solver's step 0.005"),
    ],
)
def test_wrong_names_and_values(name, parameters, message):
    with pytest.raises(InputError, match=message):
        systems.make(name, **parameters)
