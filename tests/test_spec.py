"""Settings: what is refused, and that the message names the key, the value and what is allowed."""

import pydantic
import pytest
from pydantic import Field as Key

from wgfinn._errors import InputError, WgfinnError
from wgfinn._spec import Spec, parse
from wgfinn.fitting import FitSpec


class Inner(Spec):
    size: int = Key(default=3, ge=1)
    ratio: float = 0.5


class Outer(Spec):
    name: str = "some"
    inner: Inner = Inner()
    maybe: Inner | None = None


def test_defaults_and_nesting():
    assert parse(Outer, {}) == Outer()
    assert parse(Outer, {"inner": {"size": 7}}).inner == Inner(size=7)
    assert parse(Outer, {"maybe": {"size": 2}}).maybe == Inner(size=2)


def test_settings_are_frozen():
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        Outer().name = "other"


def test_settings_survive_json():
    spec = parse(Outer, {"name": "a", "inner": {"ratio": 0.1}})
    assert Outer.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nam": "a"}, r"^settings: unknown key 'nam'; known here are inner, maybe, name\.$"),
        ({"inner": {"sise": 3}}, r"unknown key 'inner\.sise'; known here are ratio, size\.$"),
        ({"maybe": {"sise": 3}}, r"unknown key 'maybe\.sise'; known here are ratio, size\.$"),
        ({"inner": {"size": 0}}, r"^settings: inner\.size = 0: input should be greater than or equal to 1\.$"),
        ({"inner": {"size": "many"}}, r"inner\.size = 'many': input should be a valid integer"),
        ({"inner": {"ratio": float("inf")}}, r"inner\.ratio = inf: input should be a finite number"),
        ({"inner": 3}, r"settings: inner = 3: input should be a valid dictionary"),
        ({"name": 3}, r"settings: name = 3: input should be a valid string"),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(InputError, match=message):
        parse(Outer, settings)


def test_every_wrong_key_is_named_at_once():
    with pytest.raises(InputError) as caught:
        parse(Outer, {"nam": "a", "inner": {"size": 0}})
    assert "unknown key 'nam'" in str(caught.value)
    assert "inner.size = 0" in str(caught.value)


def test_source_is_named():
    with pytest.raises(InputError, match=r"^study\.toml \[gas\]: unknown key 'nam'"):
        parse(Outer, {"nam": "a"}, source="study.toml [gas]")


def test_error_is_the_callers_to_mend():
    """A `ValueError` for Python users, a `WgfinnError` for the command line; pydantic stays out of sight."""
    with pytest.raises(ValueError, match="unknown key") as caught:
        parse(Outer, {"nam": "a"})
    assert isinstance(caught.value, WgfinnError)
    assert caught.value.__suppress_context__


def test_a_section_given_in_part_keeps_the_default_of_its_place():
    """The optimiser of the refinement has a lower rate than that of the weak stage; naming one key changes that one."""
    default = FitSpec().refine.optimiser
    assert default != FitSpec().optimiser
    given = parse(FitSpec, {"refine": {"optimiser": {"decay_every": 7}}}).refine.optimiser
    assert given == default.model_copy(update={"decay_every": 7})
    assert parse(FitSpec, {"refine": {"steps": 3}}).refine.optimiser == default
