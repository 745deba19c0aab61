"""The door for arrays: whatever the caller holds becomes a read-only float64 copy, or an `InputError`."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from wgfinn._errors import InputError


def real_array(value: Any, what: str) -> np.ndarray:
    """Return `value` as a read-only float64 copy; `what` names it in messages.

    Values are not checked to be finite here: the caller knows how to name the offending entry.
    """
    if np.ma.isMaskedArray(value) and np.ma.is_masked(value):
        # np.asarray would hand out the values under the mask as if they had been measured.
        raise InputError(f"{what} is a masked array with masked entries; drop or fill them first.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{what} is not a regular array of numbers ({error}).") from error
    if array.dtype.kind not in "iuf":
        raise InputError(f"{what} must hold real numbers, but its dtype is {array.dtype}. Convert it to float64 first.")
    with np.errstate(over="ignore"):
        copy = np.array(array, dtype=np.float64, order="C")
    copy.setflags(write=False)
    return copy


def labels(values: Iterable[Any], what: str, *, empty: bool = False) -> tuple[str, ...]:
    """Return `values` as a tuple of text that survives every file format; `empty` allows ''."""
    if isinstance(values, str):
        raise InputError(f"{what} must be a list of names, but received the single text {values!r}.")
    found = tuple(values)
    for value in found:
        if not isinstance(value, str):
            raise InputError(f"{what} must be text, but received {value!r} of type {type(value).__name__}.")
        if value != value.strip() or not value.isprintable() or not (value or empty):
            raise InputError(
                f"{what} must be printable text without surrounding spaces"
                f"{'' if empty else ', and not empty'}; received {value!r}."
            )
    return tuple(str(value) for value in found)


def unique(values: tuple[str, ...], what: str) -> None:
    """Refuse repeated labels."""
    for value, times in Counter(values).items():
        if times > 1:
            raise InputError(f"{what} must be unique, but {value!r} appears {times} times.")
