"""Reads JSON text that a model wrote. Whatever the text is, the work is bounded and the only error is one of ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, cast

from toolstash.fieldpath import MISSING

MAX_DEPTH: Final = 200
"""Lists and objects inside each other, at most."""

MAX_DIGITS: Final = 4_300
"""Digits of one integer, at most: the same as Python's own default."""

_MANY_CONTAINERS: Final = 1_000_000


class JsonTextError(ValueError):
    """The text is no JSON that could be used; the message says why without repeating the text."""


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        JsonTextError: Not JSON (`NaN` and infinities are not), nested too deeply, or a number too long.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise JsonTextError(f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise JsonTextError("nested too deeply") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and is_too_deep(value):
        raise JsonTextError("nested too deeply")
    return value


def read_json_twice(text: str) -> Any:
    """The value of a JSON text that may have been encoded a second time; `MISSING` when it is no JSON."""
    value: Any = text
    try:
        for _ in range(2):
            value = read_json(value) if isinstance(value, str) else value
    except JsonTextError:
        return MISSING if value is text else value
    return value


def is_too_deep(value: Any) -> bool:
    """Whether lists and objects are nested beyond `MAX_DEPTH`. Walks level by level, so depth costs no stack."""
    level: list[Any] = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        inner = chain.from_iterable(map(_parts_of, level))
        # An empty one has nothing further in it: left out, for there may be millions.
        level = [part for part in inner if part and isinstance(part, (dict, list))]
        if not level:
            return False
        if len(level) > _MANY_CONTAINERS:
            # One container may be in many places, even in itself: it is walked once a level.
            level = list({id(part): part for part in level}.values())
    return True


def _parts_of(container: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", container).values() if isinstance(container, dict) else container


def _refuse_constant(name: str) -> Any:
    raise JsonTextError(f"{name} is not JSON")


def _bounded_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonTextError(f"a number of {len(digits)} digits")
    return int(digits)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_bounded_integer)
