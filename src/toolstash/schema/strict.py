"""The strict form of a tool's schema, as OpenAI's strict mode wants it.

Every object is closed, every property required, and what is optional takes null as well, which means its default.
Strict mode has no objects of free names: such an object, and a list of anything, is sent as JSON text, which coercion
reads. Bounds, formats and patterns are said in the description instead: not every server of strict mode (Azure's,
fine-tuned models) takes them as keywords. A dispatch checks arguments in full whatever the form was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from toolstash.schema.dialect import Schema, is_anything_schema

MAX_PROPERTIES: Final = 5_000
MAX_DEPTH: Final = 10
MAX_CHOICES: Final = 1_000
MAX_NAME_CHARS: Final = 120_000
"""Characters of all property names, definition names and choices together."""

_SCALARS: Final = ("string", "number", "boolean")
_KINDS: Final = ("string", "number", "integer", "boolean")
_BOUNDS: Final = (
    *("format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems", "uniqueItems"),
)
_COMBINING: Final = (
    *("allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties"),
    *("propertyNames", "prefixItems", "contains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef"),
    *("minProperties", "maxProperties", "additionalItems", "dependencies"),
)
_NAMES: Final[Mapping[Any, str]] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NULL: Final[Schema] = {"type": "null"}


class NoStrictFormError(ValueError):
    """A schema that strict mode cannot express; the message says why."""


def strict_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's function form with strict parameters and `"strict": true`.

    Raises:
        NoStrictFormError: The parameters have no strict form.
    """
    function = tool["function"]
    try:
        parameters = strict_schema(function["parameters"])
    except RecursionError:
        raise NoStrictFormError("parts too deep inside each other") from None
    return {**tool, "function": {**function, "parameters": parameters, "strict": True}}


def loose_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """The same tool with `"strict": false` said, for the Responses API takes a tool without it for strict."""
    return {**tool, "function": {**tool["function"], "strict": False}}


def strict_schema(schema: Mapping[str, Any]) -> Schema:
    """The strict form of the schema of a tool's arguments, a new dict.

    Raises:
        NoStrictFormError: It has none: names that are not in the schema, a choice of objects and texts, unions at the
            root, parts under no type, references other than `#/$defs/…`, or more than strict mode allows.
    """
    combining = [keyword for keyword in (*_COMBINING, "anyOf", "oneOf", "$ref", "enum", "const") if keyword in schema]
    if combining:
        raise NoStrictFormError(f"{combining[0]} at the root")
    if schema.get("additionalProperties"):
        raise NoStrictFormError("arguments of any name")
    made = _closed(schema)
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    if definitions:
        made["$defs"] = {name: _strict(part) for name, part in definitions.items()}
        if any(_became_text(made["$defs"][name], part) for name, part in definitions.items()):
            raise NoStrictFormError("a definition of a free object or list")  # a choice may hold it beside a text
    _check_size(made)
    return made


def _strict(schema: Any) -> Schema:
    if is_anything_schema(schema):
        return _described(schema, _any_value())
    part = cast("Mapping[str, Any]", schema)
    if "$ref" in part:
        return _reference(part["$ref"])
    if any(keyword in part for keyword in _COMBINING):
        return _as_text(part)
    members: list[Any] = part.get("anyOf") or part.get("oneOf") or []
    if members and "type" not in part:
        return _described(part, _union(members))
    if "const" in part or "enum" in part:
        return _described(part, _choices([part["const"]] if "const" in part else list(part["enum"])))
    named = part.get("type", "object" if "properties" in part else None)
    if isinstance(named, list):
        kinds = cast("list[str]", named)
        without_notes = {key: value for key, value in part.items() if key not in ("description", *_BOUNDS)}
        return _described(part, _union([{**without_notes, "type": kind} for kind in kinds]))
    return _of_type(named, part)


def _of_type(kind: Any, part: Mapping[str, Any]) -> Schema:
    if kind == "object":
        is_closed = (part.get("properties") or part.get("additionalProperties") is False) and not part.get(
            "additionalProperties"
        )
        return _closed(part) if is_closed else _as_text(part)
    if kind == "array":
        if is_anything_schema(part.get("items", True)):
            return _as_text(part)
        return _described(part, {"type": "array", "items": _strict(part["items"])})
    if kind == "null":
        return dict(_NULL)
    if kind not in _KINDS:
        raise NoStrictFormError("a part without a type")
    return _described(part, {"type": kind})


def _closed(part: Mapping[str, Any]) -> Schema:
    properties: Mapping[str, Any] = part.get("properties", {})
    required = part.get("required", ())
    made = {
        name: _strict(inner) if name in required else _optional(_strict(inner), inner)
        for name, inner in properties.items()
        if inner is not False
    }
    closed = {"type": "object", "properties": made, "required": list(made), "additionalProperties": False}
    return _described(part, closed)


def _optional(made: Schema, part: Any) -> Schema:
    """Takes null as well, and says what that means."""
    default = part.get("default") if isinstance(part, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    note = "Null leaves it out." if default is None else f"Null means {json.dumps(default, ensure_ascii=False)}."
    told = f"{made.get('description', '')} {note}".strip()
    rest = {key: value for key, value in made.items() if key != "description"}
    if "anyOf" in rest:
        members = rest["anyOf"]
        return {"description": told, "anyOf": members if _NULL in members else [*members, dict(_NULL)]}
    if isinstance(rest.get("type"), str) and "enum" not in rest and rest != _NULL:
        return {**rest, "type": [rest["type"], "null"], "description": told}
    return {"description": told, "anyOf": [rest, dict(_NULL)]}


def _any_value() -> Schema:
    kinds: list[Schema] = [{"type": kind} for kind in _SCALARS]
    return {"anyOf": [*kinds, {"type": "array", "items": {"anyOf": [*kinds]}}, dict(_NULL)]}


def _as_text(part: Mapping[str, Any]) -> Schema:
    """JSON text in place of an object or a list; coercion reads it where the type says what it must be."""
    kind = part.get("type")
    if kind not in ("object", "array") or "$ref" in part:
        raise NoStrictFormError(next((f"{key} without a type" for key in part if key in _COMBINING), "a free form"))
    form = "JSON text of an object." if kind == "object" else "JSON text of a list."
    return {"type": "string", "description": f"{_told(part)} {form}".strip()}


def _union(members: list[Any]) -> Schema:
    made = [_strict(member) for member in members]
    texts = [one for one, member in zip(made, members, strict=True) if _became_text(one, member)]
    others = [one for one in made if one not in texts and one not in ({"type": "null"}, {"type": "boolean"})]
    if texts and (len(texts) > 1 or any(one.get("type") not in ("integer", "number") for one in others)):
        raise NoStrictFormError("a choice between a free object and something else that may be text")
    different = [one for place, one in enumerate(made) if one not in made[:place]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def _became_text(made: Schema, part: Any) -> bool:
    return made.get("type") == "string" and isinstance(part, Mapping) and part.get("type") in ("object", "array")  # pyright: ignore[reportUnknownMemberType]


def _choices(values: list[Any]) -> Schema:
    kinds = list(dict.fromkeys(_NAMES.get(type(value), "") for value in values))
    if "" in kinds or not values:
        raise NoStrictFormError("choices that are no single values")
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _reference(reference: Any) -> Schema:
    if not isinstance(reference, str) or not reference.startswith("#/$defs/") or "/" in reference[8:]:
        raise NoStrictFormError(f"the reference {reference!r:.60}")
    return {"$ref": reference}


def _described(part: Any, made: Schema) -> Schema:
    told = _told(cast("Mapping[str, Any]", part)) if isinstance(part, Mapping) else ""
    return {"description": told, **made} if told else made


def _told(part: Mapping[str, Any]) -> str:
    """The description, with the bounds that go with it."""
    bounds = ", ".join(f"{key} {part[key]}" for key in _BOUNDS if key in part)
    return " ".join(filter(None, (str(part.get("description", "")), f"({bounds})" if bounds else "")))


def _check_size(schema: Schema) -> None:
    properties = choices = chars = 0
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        part, depth = waiting.pop()
        inside = depth + ("properties" in part)
        if inside > MAX_DEPTH:
            raise NoStrictFormError(f"more than {MAX_DEPTH} objects inside each other")
        named = {**part.get("properties", {}), **part.get("$defs", {})}
        properties += len(part.get("properties", {}))
        choices += len(part.get("enum", ()))
        chars += sum(map(len, named)) + sum(len(value) for value in part.get("enum", ()) if isinstance(value, str))
        waiting += [(inner, inside) for inner in (*named.values(), *part.get("anyOf", ()))]
        waiting += [(part["items"], inside)] if "items" in part else []
    if properties > MAX_PROPERTIES or choices > MAX_CHOICES or chars > MAX_NAME_CHARS:
        raise NoStrictFormError("more properties or choices than strict mode takes")
