"""Infers the JSON Schema of a row from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from toolstash.schema.mismatch import shortened

_MAX_ROWS: Final = 100
_MAX_FIELDS: Final = 30
_MAX_NAME_CHARS: Final = 80
_MAX_ELEMENTS: Final = 100

_NAMES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


def item_schema_of(rows: Sequence[Any]) -> dict[str, Any] | None:
    """The JSON Schema of a row, from the first 100 rows (decoded JSON); None without rows.

    Objects have `properties` (30 at most, then "…" with the number of further ones; one level deep) and
    `required` (in all objects). Null is left out beside other types; integers beside numbers are numbers.
    """
    seen = list(islice(rows, _MAX_ROWS))
    objects = [cast("dict[str, Any]", row) for row in seen if isinstance(row, dict)]
    if not seen:
        return None
    return _schema_of(seen) | _fields_of(objects) if objects else _schema_of(seen)


def _fields_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    names: dict[str, None] = {}
    for row in objects:
        names.update(dict.fromkeys(row))
    shown = {name: shortened(name, _MAX_NAME_CHARS) for name in islice(names, _MAX_FIELDS)}
    properties = {short: _schema_of([row[name] for row in objects if name in row]) for name, short in shown.items()}
    if len(names) > len(shown):
        properties["…"] = {"description": f"+{len(names) - len(shown)} more fields"}
    in_all = [short for name, short in shown.items() if all(name in row for row in objects)]
    return {"properties": properties, "required": list(dict.fromkeys(in_all))}


def _schema_of(values: list[Any]) -> dict[str, Any]:
    kinds = _kinds_in(values)
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if "array" not in kinds:
        return schema
    elements = [element for value in values if isinstance(value, (list, tuple)) for element in _first_of(value)]
    inner = _kinds_in(elements) if elements else []
    return schema | {"items": {"type": inner[0]}} if len(inner) == 1 else schema


def _first_of(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value)[:_MAX_ELEMENTS]


def _kinds_in(values: list[Any]) -> list[str]:
    kinds = {_NAMES.get(value.__class__, "string") for value in values}
    if len(kinds) > 1:
        kinds.discard("null")
    if "number" in kinds:
        kinds.discard("integer")
    return sorted(kinds)
