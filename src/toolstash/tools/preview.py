"""Shrinks JSON values to a budget: the same kind of value, with long parts cut and the rest counted."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from toolstash.tools.bound import ELLIPSIS, json_chars, take_piece

_CAPS = (200, 100, 60, 30, 16)
_MOST_PARTS = 60


def shrink(value: Any, budget: int) -> Any:
    """The value with its JSON within `budget` characters (at least 3): cut texts end in "…", the rest is counted."""
    if json_chars(value) <= budget:
        return value
    if isinstance(value, str):
        return take_piece(value, 0, budget - 3).text + ELLIPSIS if budget > 4 else ELLIPSIS
    if isinstance(value, dict):
        return _shrink_dict(cast(dict[str, Any], value), budget)
    if isinstance(value, list):
        return _shrink_list(cast(list[Any], value), budget)
    return ELLIPSIS


def _shrink_dict(value: dict[str, Any], budget: int) -> Any:
    fields = list(islice(value.items(), _MOST_PARTS))
    while fields:
        for cap in _CAPS:
            shown = {str(shrink(key, 60)): shrink(item, cap) for key, item in fields}
            if len(fields) < len(value):
                shown[ELLIPSIS] = f"+{len(value) - len(fields)} more"
            if json_chars(shown) <= budget:
                return shown
        fields = fields[: len(fields) // 2]
    return ELLIPSIS


def _shrink_list(value: list[Any], budget: int) -> Any:
    items = value[:_MOST_PARTS]
    while items:
        for cap in _CAPS:
            shown = [shrink(item, cap) for item in items]
            if len(items) < len(value):
                shown.append(f"{ELLIPSIS} +{len(value) - len(items)} more")
            if json_chars(shown) <= budget:
                return shown
        items = items[: len(items) // 2]
    return ELLIPSIS
