"""What equal means, and which kind a JSON value is. Kinds never mix: `true` is not 1 and `"5"` is not 5."""

from __future__ import annotations

import copy
from typing import Any, cast

from toolstash.fieldpath import MISSING

DIGITS_AS_NUMBER = 16
"""A string of so many digits equals the integer that it spells: clients that read ids as doubles send them as text."""


def is_number(value: Any) -> bool:
    """Whether the value is a number; a boolean is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equality_key(value: Any) -> Any:
    """A hashable key: equal keys for equal values and only for them. Missing counts as null."""
    kind = value.__class__
    if kind is str or kind is int or kind is float or value is None:
        return value
    if value is MISSING:
        return None
    if kind is bool:
        return ("boolean", value)
    if kind is list:
        return ("list", tuple(equality_key(element) for element in value))
    return ("object", frozenset((name, equality_key(inner)) for name, inner in cast(dict[str, Any], value).items()))


def spellings(value: Any) -> list[Any]:
    """The value, and where it is an integer of 16 or more digits or a text of one, the other form as well."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if DIGITS_AS_NUMBER <= len(digits) <= 4_000 and digits.isascii() and digits.isdigit() and digits[0] != "0":
            return [value, int(value)]
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10 ** (DIGITS_AS_NUMBER - 1):
        return [value, str(value)]
    return [value]


def other_type(value: Any) -> Any:
    """A number as text, a text that spells a number as that number; None for everything else."""
    if is_number(value):
        return str(value)
    if isinstance(value, str) and len(value) < DIGITS_AS_NUMBER:
        try:
            number = float(value)
        except ValueError:
            return None
        if number - number == 0:
            return int(number) if number.is_integer() and "." not in value and "e" not in value.lower() else number
    return None


def as_json(value: Any) -> Any:
    """Missing as null; lists and objects as copies, so that who gets an answer cannot change what it came from."""
    if value is MISSING:
        return None
    return copy.deepcopy(value) if value.__class__ in (list, dict) else value
