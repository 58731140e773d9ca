"""Converts JSON values to numbers, text, dates and other single values: what is unambiguous, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, Final
from uuid import UUID

from toolstash.schema.mismatch import Mismatch

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_MAX_NUMBER_CHARS: Final = 320
_BEYOND_ANY_NUMBER: Final = 10**308
_BEYOND_EXACT_FLOATS: Final = 2**53
_MAX_TEXT_CHARS: Final = 4_096

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Converter:
    """Takes JSON values of one type.

    Attributes:
        expected: What it takes, in words that follow "must be".
        takes: Whether a value is of the type as it stands, so that `convert` changes nothing in its meaning.
        convert: JSON value → Python value; raises `Mismatch`.
        splits_text: Whether a list of it may be written as one text with commas.
    """

    expected: str
    takes: Callable[[Any], bool]
    convert: Convert
    splits_text: bool = False


def to_integer(value: Any) -> int:
    """2, 2.0, "2", " 2 ", "2.0" and 1e3 are integers; true, 1.5, "12px" and floats beyond 2**53 are not."""
    if type(value) is int:
        if -_BEYOND_ANY_NUMBER < value < _BEYOND_ANY_NUMBER:
            return value
    elif isinstance(value, float):
        if value.is_integer() and abs(value) < _BEYOND_EXACT_FLOATS:
            return int(value)
    elif isinstance(value, str):
        return _integer_in(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise Mismatch("a whole number, such as 2", value)


def to_float(value: Any) -> float:
    """Numbers, and text that is one; neither booleans nor infinities."""
    number = float(value) if isinstance(value, str) and _is_number_text(value) else value
    if not _is_number(number):
        raise Mismatch("a number, such as 2.5", value)
    return float(number)


def to_boolean(value: Any) -> bool:
    """true and false, also as text in any case; neither 0 nor 1."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) and len(value) < 20 else ""
    if word not in ("true", "false"):
        raise Mismatch("true or false", value)
    return word == "true"


def to_text(value: Any) -> str:
    """Text as it is; a number as it is written."""
    if isinstance(value, str):
        return value
    if not _is_number(value):
        raise Mismatch("text", value)
    return str(value)


def to_decimal(value: Any) -> Decimal:
    """Numbers, and text that is one; a float as it is written, so that 0.1 stays 0.1."""
    if isinstance(value, Decimal):
        return value
    text = str(value) if _is_number(value) else value
    if not isinstance(text, str) or not _is_number_text(text):
        raise Mismatch("a number, such as 12.50", value)
    return Decimal(text.strip())


def to_nothing(value: Any) -> None:
    """Only null."""
    if value is not None:
        raise Mismatch("null", value)


def unchanged(value: Any) -> Any:
    """The value as it is."""
    return value


def _integer_in(text: str) -> int:
    stripped = text.strip() if len(text) <= _MAX_NUMBER_CHARS else ""
    if _INTEGER.fullmatch(stripped):
        return to_integer(int(stripped))
    if _NUMBER.fullmatch(stripped):
        numerator, denominator = Decimal(stripped).as_integer_ratio()
        if denominator == 1:
            return to_integer(numerator)
    raise Mismatch("a whole number, such as 2", text)


def _is_number_text(text: str) -> bool:
    return len(text) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(text.strip()) is not None


def _is_number(value: Any) -> bool:
    # Not a number also when it is NaN: no comparison with it holds.
    is_numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_numeric and -_BEYOND_ANY_NUMBER < value < _BEYOND_ANY_NUMBER


def _read_from_text(kind: type, parse: Callable[[str], Any], expected: str) -> Converter:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if isinstance(value, str) and len(value) <= _MAX_TEXT_CHARS and value.strip():
            try:
                return parse(value.strip())
            except (ValueError, OverflowError):
                pass
        raise Mismatch(expected, value)

    def takes(value: Any) -> bool:
        try:
            convert(value)
        except Mismatch:
            return False
        return True

    return Converter(expected, takes, convert)


ANYTHING: Final = Converter("anything", lambda _: True, unchanged)
TEXT: Final = Converter("text", lambda value: isinstance(value, str), to_text, splits_text=True)

SCALARS: Final[Mapping[Any, Converter]] = {
    str: TEXT,
    int: Converter("a whole number", lambda value: type(value) is int, to_integer),
    float: Converter("a number", _is_number, to_float),
    bool: Converter("true or false", lambda value: isinstance(value, bool), to_boolean),
    NoneType: Converter("null", lambda value: value is None, to_nothing),
    Decimal: Converter("a number", _is_number, to_decimal),
    datetime: _read_from_text(datetime, datetime.fromisoformat, "a date and time, such as 2024-05-31T12:00:00Z"),
    date: _read_from_text(date, date.fromisoformat, "a date, such as 2024-05-31"),
    time: _read_from_text(time, time.fromisoformat, "a time, such as 12:00:00"),
    UUID: _read_from_text(UUID, UUID, "a UUID"),
    Path: _read_from_text(Path, Path, "a path"),
}
