"""Shortens the JSON Schema of a row, so that it fits into a notice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from toolstash.tools.bound import ELLIPSIS, json_chars
from toolstash.tools.preview import shrink, size_within

MOST_FIELDS = 30

_NAME_CHARS = 80
_FIELD_CHARS = 120
_COUNTED = re.compile(r"\+(\d+) more fields\Z")


def shorten_schema(schema: Mapping[str, Any], budget: int) -> dict[str, Any] | None:
    """The schema with its first fields, 30 at most, within `budget` characters; None where nothing of it fits.

    Fields left out, those that the schema itself counts as left out included, are counted under "…".
    """
    whole = dict(schema)
    fields = dict(cast(Mapping[str, Any], whole.get("properties") or {}))
    left_out = _take_count(fields)
    if len(fields) <= MOST_FIELDS and size_within(whole, budget) <= budget:
        return whole
    total = len(fields) + left_out
    frame: dict[str, Any] = {"type": shrink(whole.get("type", "object"), _FIELD_CHARS)}
    if fields:
        frame |= _first_fields(fields, whole.get("required") or [], budget - json_chars(frame), total)
    return frame if json_chars(frame) <= budget else None


def _take_count(fields: dict[str, Any]) -> int:
    """Takes the entry that counts fields left out from among the fields; 0 where there is none."""
    entry = fields.get(ELLIPSIS)
    words = cast(Mapping[str, Any], entry).get("description") if isinstance(entry, Mapping) else None
    match = _COUNTED.match(words) if isinstance(words, str) else None
    if match is None:
        return 0
    del fields[ELLIPSIS]
    return int(match[1])


def _first_fields(fields: Mapping[str, Any], required: list[str], room: int, total: int) -> dict[str, Any]:
    """`properties` and `required` of the fields that fit."""
    needed = set(required)
    shown: dict[str, Any] = {}
    kept: list[str] = []
    room -= json_chars(_parts(shown, kept, total))
    for name, field in islice(fields.items(), MOST_FIELDS):
        short, form = str(shrink(name, _NAME_CHARS)), shrink(field, _FIELD_CHARS)
        room -= json_chars({short: form}) + (json_chars(short) + 1 if name in needed else 0)
        if room < 0 or short in shown:
            break
        shown[short] = form
        kept += [short] if name in needed else []
    return _parts(shown, kept, total)


def _parts(shown: Mapping[str, Any], required: list[str], total: int) -> dict[str, Any]:
    hidden = total - len(shown)
    more = {ELLIPSIS: {"description": f"+{hidden} more fields"}} if hidden else {}
    return {"properties": {**shown, **more}, "required": required}
