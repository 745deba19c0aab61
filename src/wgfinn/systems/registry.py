"""Systems by name. Nothing below this file asks for a system's name."""

import dataclasses
import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from wgfinn._errors import InputError
from wgfinn.systems.base import System
from wgfinn.systems.damped_oscillator import DampedOscillator
from wgfinn.systems.double_pendulum import DoublePendulum
from wgfinn.systems.gas_containers import GasContainers
from wgfinn.systems.vlasov_poisson import VlasovPoisson

_SYSTEMS = MappingProxyType(
    {
        "gas_containers": GasContainers,
        "double_pendulum": DoublePendulum,
        "damped_oscillator": DampedOscillator,
        "vlasov_poisson": VlasovPoisson,
    }
)


def names() -> tuple[str, ...]:
    """The names `make` knows."""
    return tuple(_SYSTEMS)


def make(name: str, **parameters: Any) -> System | VlasovPoisson:
    """The system of that name, with the given parameters in place of its defaults."""
    if name not in _SYSTEMS:
        raise InputError(f"system={name!r} is unknown{_nearest(name, _SYSTEMS)}; choose one of {', '.join(_SYSTEMS)}.")
    system = _SYSTEMS[name]
    fields = {field.name: field.type for field in dataclasses.fields(system)}
    for parameter in parameters:
        if parameter not in fields:
            raise InputError(
                f"{name} has no parameter {parameter!r}{_nearest(parameter, fields)}; it has {', '.join(fields)}."
            )
    return system(**{p: _as_declared(f"{name}: {p}", value, fields[p]) for p, value in parameters.items()})


def _as_declared(what: str, value: Any, declared: Any) -> Any:
    """The value in the field's own type: 2 for a float field becomes 2.0, a list becomes a tuple."""
    if declared is float:
        return float(_number(what, value, Real, "number"))
    if declared is int:
        return int(_number(what, value, Integral, "whole number"))
    if isinstance(value, list | tuple):
        return tuple(float(_number(what, v, Real, "pair of numbers")) for v in value)
    return value


def _number(what: str, value: Any, kind: type, words: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InputError(f"{what}={value!r} must be a {words}.")
    return value


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.4)
    return f" (did you mean {close[0]!r}?)" if close else ""
