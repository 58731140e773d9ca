"""Shrinks JSON values to a budget: the same kind of value, long parts cut with "…", the rest counted.

The work grows with the budget, never with the value: a row of 5 MB costs no more than one of 5 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, cast

from toolstash.tools.bound import ELLIPSIS, json_chars, level, take_piece

_MOST_PARTS = 40
_LEAST_PART = 16  # characters that make a part worth showing
_NAME_CHARS = 60
_COUNT_CHARS = 28  # `,"…":"+1,000,000,000 more"`
_LEAST_TEXT = 9  # quotes, one character in its longest escape, "…"


def shrink(value: Any, budget: int) -> Any:
    """The value with its JSON within `budget` characters (3 at least). What cannot be shown at all is "…"."""
    if size_within(value, budget) <= budget:
        return value
    if isinstance(value, str):
        return take_piece(value, 0, budget - 3).text + ELLIPSIS if budget >= _LEAST_TEXT else ELLIPSIS
    if isinstance(value, dict):
        return shrink_fields(cast(dict[str, Any], value), budget)
    if isinstance(value, (list, tuple)):
        return _shrink_list(cast(Sequence[Any], value), budget)
    return ELLIPSIS


def shrink_fields(fields: dict[str, Any], budget: int, total: int | None = None) -> Any:
    """The first fields that fit. Those left out, up to `total` (None: as many as there are), are counted under "…"."""
    total = len(fields) if total is None else total
    shown: dict[str, Any] = {}
    for name, value in islice(fields.items(), _MOST_PARTS):
        shown.setdefault(shrink(name, _NAME_CHARS), value)
    costs = [json_chars(name) + 2 for name in shown]  # a colon and a comma
    parts = _shrink_parts(list(shown.values()), costs, budget - 1, total)
    if not parts and total:
        return ELLIPSIS
    fitted: dict[str, Any] = dict(zip(shown, parts, strict=False))
    return fitted | {ELLIPSIS: f"+{total - len(parts):,} more"} if len(parts) < total else fitted


def _shrink_list(value: Sequence[Any], budget: int) -> Any:
    first = value[:_MOST_PARTS]
    parts = _shrink_parts(first, [1] * len(first), budget - 1, len(value))
    if not parts and value:
        return ELLIPSIS
    return [*parts, f"{ELLIPSIS} +{len(value) - len(parts):,} more"] if len(parts) < len(value) else parts


def _shrink_parts(values: Sequence[Any], costs: Sequence[int], room: int, total: int) -> list[Any]:
    """As many of the values as are worth showing in the room, cut to one cap.

    `costs` are what stands around each value, a comma included. One bracket is off the room: the other stands for
    the comma that the last part does not have.
    """
    sizes = [size_within(value, max(room, 0)) for value in values]
    count = _how_many(sizes, costs, room)
    if count < total:
        room -= _COUNT_CHARS
        count = _how_many(sizes, costs, room)
    cap = level(sizes[:count], room - sum(costs[:count]))
    return [shrink(value, cap) for value in values[:count]]


def _how_many(sizes: Sequence[int], costs: Sequence[int], room: int) -> int:
    for count, (size, cost) in enumerate(zip(sizes, costs, strict=True)):
        room -= cost + min(size, _LEAST_PART)
        if room < 0:
            return count
    return len(sizes)


def size_within(value: Any, most: int) -> int:
    """How many characters the value's JSON has; any number above `most` where it has more than that.

    Floats count as the standard library spells them, which is a little longer than orjson's way (1e-07, 1e-7).
    """
    if isinstance(value, str):
        return len(value) + 2 if len(value) + 2 > most else json_chars(value)
    if isinstance(value, float):
        return len(repr(value))
    if isinstance(value, dict):
        return _size_of_all(_flat(cast(dict[Any, Any], value)), most)
    if isinstance(value, (list, tuple)):
        return _size_of_all(cast(Sequence[Any], value), most)
    return json_chars(value)


def _flat(fields: dict[Any, Any]) -> Iterable[Any]:
    for name, value in fields.items():
        yield name
        yield value


def _size_of_all(values: Iterable[Any], most: int) -> int:
    size = 1
    for value in values:
        size += size_within(value, most - size) + 1  # a comma, a colon, or the closing bracket
        if size > most:
            return size
    return max(size, 2)
