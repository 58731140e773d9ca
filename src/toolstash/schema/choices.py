"""Converts a JSON value to one of a Literal's values or an Enum's members."""

from __future__ import annotations

import json
from typing import Any, Final

from toolstash.schema.mismatch import Mismatch, shortened
from toolstash.schema.scalars import Converter

_LISTED_CHARS: Final = 200
_JSON_SCALARS: Final = (str, int, float, bool)


def choice_converter(choices: list[tuple[Any, Any]]) -> Converter:
    """Takes the exact value, else the only one that differs in case, outer blanks or quotes around a number.

    Args:
        choices: `(JSON value, Python value)` pairs; None among the JSON values lets null through.
    """
    exact: dict[Any, Any] = {(type(choice), choice): value for choice, value in choices}
    spelled = _by_spelling(choices)
    longest = max(map(len, spelled), default=0)
    expected = _expected([choice for choice, _ in choices])

    def takes(value: Any) -> bool:
        return isinstance(value, (*_JSON_SCALARS, type(None))) and (type(value), value) in exact

    def convert(value: Any) -> Any:
        if takes(value):
            return exact[type(value), value]
        if any(value is member for _, member in choices):
            return value
        word = _spelling(value, longest)
        matches = spelled.get(word, []) if word is not None else []
        if len(matches) != 1:
            raise Mismatch(expected, value)
        return matches[0]

    return Converter(expected, takes, convert, any(isinstance(choice, str) for choice, _ in choices))


def _by_spelling(choices: list[tuple[Any, Any]]) -> dict[str, list[Any]]:
    spelled: dict[str, list[Any]] = {}
    for choice, value in choices:
        word = _spelling(choice, len(str(choice)))
        if word is not None:
            spelled.setdefault(word, []).append(value)
    return spelled


def _spelling(value: Any, longest: int) -> str | None:
    """How a value is written, case aside; None for what is longer than any choice."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, int) and value.bit_length() > 1_000:
        return None
    text = value if isinstance(value, str) else str(value) if isinstance(value, _JSON_SCALARS) else None
    return None if text is None or len(text) > longest + 100 else text.strip().casefold()


def _expected(values: list[Any]) -> str:
    listed = [json.dumps(value, ensure_ascii=False, default=str) for value in values]
    shown: list[str] = []
    for value in listed:
        if shown and sum(map(len, shown)) + len(value) > _LISTED_CHARS:
            return f"one of {', '.join(shown)} (+{len(listed) - len(shown)} more)"
        shown.append(shortened(value, _LISTED_CHARS))
    return f"one of {', '.join(shown)}"
