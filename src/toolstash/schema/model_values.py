"""Brings a model's value near what a pydantic model takes, by the model's own JSON Schema; pydantic then decides."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from toolstash.schema.choices import choice_converter
from toolstash.schema.jsontext import read_json_twice
from toolstash.schema.mismatch import Mismatch
from toolstash.schema.references import referred

_SCALARS: Final = (str, int, float, bool, type(None))


def nearer(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value with JSON text read where an object or a list is wanted, choices found by their text, and what is
    optional and null left out. What does not fit stays as it is.

    Args:
        root: The whole schema, which `schema` may refer to.
    """
    if not isinstance(schema, Mapping):
        return value
    part = cast("Mapping[str, Any]", schema)
    if isinstance(part.get("$ref"), str):
        return nearer(value, referred(root, part["$ref"]), root)
    members = part.get("anyOf") or part.get("oneOf")
    if members:
        return _of_union(value, members, root)
    choices: list[Any] = [part["const"]] if "const" in part else list(part.get("enum", ()))
    if choices:
        return _choice(value, choices)
    if part.get("type") in ("object", "array") and isinstance(value, str):
        read: Any = read_json_twice(value)
        value = cast(Any, read) if isinstance(read, (dict, list)) else value
    if isinstance(value, dict):
        return _of_object(cast("dict[str, Any]", value), part, root)
    if isinstance(value, list) and "items" in part:
        return [nearer(item, part["items"], root) for item in cast("list[Any]", value)]
    return cast(Any, value)


def _of_object(value: dict[str, Any], part: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    properties, required = part.get("properties", {}), part.get("required", ())
    further = part.get("additionalProperties")
    return {
        name: nearer(inner, properties.get(name, further), root)
        for name, inner in value.items()
        if inner is not None or name not in properties or name in required
    }


def _of_union(value: Any, members: list[Any], root: Mapping[str, Any]) -> Any:
    """What the first member makes of it that changes it; text stays where a member takes any text."""
    takes_text = any(member.get("type") == "string" and "enum" not in member for member in members)
    if isinstance(value, str) and takes_text:
        return value
    changed = (nearer(value, member, root) for member in members)
    return next((made for made in changed if made != value), value)


def _choice(value: Any, choices: list[Any]) -> Any:
    if all(isinstance(choice, _SCALARS) for choice in choices):
        with suppress(Mismatch):
            return choice_converter([(choice, choice) for choice in choices]).convert(value)
    return value
