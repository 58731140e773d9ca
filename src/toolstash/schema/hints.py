"""From a type annotation to JSON Schema, in the narrow dialect that every model API takes.

`dialect` says what that is. What is optional is absent from `required`, never a union with null.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from toolstash.schema.annotations import (
    DICT_KINDS,
    LIST_KINDS,
    RecordField,
    choices_of,
    is_anything,
    is_pydantic_model,
    record_fields,
    union_members,
    unwrap,
)
from toolstash.schema.dialect import Schema, anything, choice_schema, union_schema
from toolstash.schema.foreign import plain_schema

_SCALARS: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "number"},
    Path: {"type": "string"},
}


def json_schema_of(annotation: Any) -> Schema:
    """The JSON Schema of values that fit the annotation.

    No annotation, `Any`, `object` and text that names nothing known give `anything()`. An unknown class
    gives a string. A class inside itself is an object without details from the second time on.
    """
    return _schema(annotation, ())


def _schema(annotation: Any, inside: tuple[type, ...]) -> Schema:
    bare, description = unwrap(annotation)
    schema = _bare_schema(bare, inside)
    return {**schema, "description": description} if description else schema


def _bare_schema(annotation: Any, inside: tuple[type, ...]) -> Schema:
    if is_anything(annotation) or annotation is NoneType:
        return anything()
    members = union_members(annotation)
    if members is not None:
        return _union(members, inside)
    choices = choices_of(annotation)
    if choices is not None:
        return choice_schema([choice for choice, _ in choices])
    origin = get_origin(annotation) or annotation
    return _class_schema(origin, get_args(annotation), inside) if isinstance(origin, type) else {"type": "string"}


def _class_schema(kind: type, parts: tuple[Any, ...], inside: tuple[type, ...]) -> Schema:
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if kind in LIST_KINDS:
        return {"type": "array", "items": _schema(parts[0], inside) if parts else anything()}
    if kind is tuple:
        return _tuple(parts, inside)
    if is_pydantic_model(kind):
        return plain_schema(kind.model_json_schema())  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownArgumentType]
    fields = record_fields(kind)
    if fields is not None:
        return {"type": "object"} if kind in inside else _record(fields, (*inside, kind))
    return {"type": "object" if kind in DICT_KINDS else "string"}


def _union(members: tuple[Any, ...], inside: tuple[type, ...]) -> Schema:
    return union_schema([_schema(member, inside) for member in members if member is not NoneType])


def _tuple(parts: tuple[Any, ...], inside: tuple[type, ...]) -> Schema:
    if not parts:
        return {"type": "array", "items": anything()}
    if parts[-1] is ...:
        return {"type": "array", "items": _schema(parts[0], inside)}
    items = union_schema([_schema(part, inside) for part in parts])
    return {"type": "array", "items": items, "minItems": len(parts), "maxItems": len(parts)}


def _record(fields: tuple[RecordField, ...], inside: tuple[type, ...]) -> Schema:
    return {
        "type": "object",
        "properties": {field.name: _schema(field.annotation, inside) for field in fields},
        "required": [field.name for field in fields if field.required],
    }
