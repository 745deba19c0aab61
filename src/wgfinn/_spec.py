"""Settings: frozen pydantic models that refuse what they do not know.

One class per stage (`*Spec`) serves Python, TOML and the command line alike. This module holds only what
they share; each spec lives beside the stage that uses it.
"""

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from wgfinn._errors import InputError


class Spec(pydantic.BaseModel):
    """Base of all settings: immutable, unknown keys are errors."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _sections_over_their_defaults(cls, given: Any) -> Any:
        """A section given in part keeps the rest of this place's default, not of the section's own."""
        if not isinstance(given, Mapping):
            return given
        sections = {name: f.default for name, f in cls.model_fields.items() if isinstance(f.default, Spec)}
        return {
            key: {**sections[key].model_dump(exclude_unset=True), **value}
            if key in sections and isinstance(value, Mapping)
            else value
            for key, value in given.items()
        }


SpecType = TypeVar("SpecType", bound=Spec)


def parse(kind: type[SpecType], settings: Mapping[str, Any], source: str = "settings") -> SpecType:
    """`settings` as a `kind`, or an `InputError` that names each wrong key, its value and what is allowed."""
    try:
        return kind.model_validate(settings)
    except pydantic.ValidationError as error:
        raise InputError("; ".join(_sentence(kind, source, e) for e in error.errors()) + ".") from None


def _sentence(kind: type[Spec], source: str, error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"]) or "(whole)"
    if error["type"] == "extra_forbidden":
        known = _known_keys(kind, error["loc"][:-1])
        return f"{source}: unknown key {place!r}; known here are {', '.join(known)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{source}: {place} = {error['input']!r}: {message[0].lower()}{message[1:]}"


def _known_keys(kind: type[Spec], path: tuple[Any, ...]) -> list[str]:
    for part in path:
        inner = _spec_in(kind.model_fields[part].annotation) if part in kind.model_fields else None
        if inner is None:
            break
        kind = inner
    return sorted(kind.model_fields)


def _spec_in(annotation: Any) -> type[Spec] | None:
    """The spec that a field holds, also where it may be absent (`Spec | None`)."""
    candidates = (annotation, *typing.get_args(annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Spec)), None)
