"""Narrows a JSON Schema that another library made (pydantic) to the dialect of `hints`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from toolstash.schema.dialect import Schema, anything, choice_schema, choice_text

_KEPT: Final = (
    *("type", "description", "enum", "format", "pattern", "default", "required"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
)


def plain_schema(schema: Mapping[str, Any]) -> Schema:
    """The same schema with references put in place, `const` as `enum`, nulls dropped, one type per schema.

    A definition inside itself is an object without details. Keywords outside the dialect are left out.
    """
    return _plain(_inlined(schema, schema.get("$defs", {}), frozenset()))


def _inlined(part: Any, definitions: Mapping[str, Any], inside: frozenset[str]) -> Any:
    if isinstance(part, list):
        return [_inlined(item, definitions, inside) for item in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    whole = cast("dict[str, Any]", part)
    reference = whole.get("$ref")
    if not isinstance(reference, str):
        return {key: _inlined(value, definitions, inside) for key, value in whole.items() if key != "$defs"}
    name = reference.rpartition("/")[2]
    found = {"type": "object"} if name in inside else _inlined(definitions[name], definitions, inside | {name})
    return {**found, **{key: value for key, value in whole.items() if key not in ("$ref", "$defs")}}


def _plain(schema: Any) -> Schema:
    narrowed = _narrowed(schema)
    return narrowed if "type" in narrowed or "anyOf" in narrowed else anything() | narrowed


def _narrowed(schema: Any) -> Schema:
    if not isinstance(schema, dict):
        return {}
    given = cast("dict[str, Any]", schema)
    plain = {key: given[key] for key in _KEPT if given.get(key) is not None}
    if plain.get("type") == "null":
        del plain["type"]
    for end in ("Minimum", "Maximum"):  # the bound itself is refused by the model it comes from
        if f"exclusive{end}" in given:
            plain.setdefault(end.lower(), given[f"exclusive{end}"])
    for part in given.get("allOf", ()):
        plain = _narrowed(part) | plain
    if "properties" in given:
        plain["properties"] = {name: _plain(part) for name, part in given["properties"].items()}
    return _with_items(_with_one_type(_with_members(_with_choices(plain, given), given)), given)


def _with_choices(plain: Schema, given: Schema) -> Schema:
    choices: list[Any] = [given["const"]] if "const" in given else given.get("enum", [])
    choices = [choice for choice in choices if choice is not None]
    if not choices:
        return {key: value for key, value in plain.items() if key != "enum"}
    schema = {key: value for key, value in plain.items() if key not in ("enum", "type")} | choice_schema(choices)
    return schema | {"default": choice_text(schema["default"])} if "default" in schema and "enum" in schema else schema


def _with_members(plain: Schema, given: Schema) -> Schema:
    listed = (*given.get("anyOf", ()), *given.get("oneOf", ()))
    members = [_plain(member) for member in listed if member != {"type": "null"}]
    if len(members) == 1:
        return members[0] | plain
    return plain | {"anyOf": members} if members else plain


def _with_one_type(plain: Schema) -> Schema:
    names = plain.get("type")
    if not isinstance(names, list):
        return plain
    others = {key: value for key, value in plain.items() if key != "type"}
    kinds = [{"type": name} for name in cast("list[str]", names) if name != "null"]
    if len(kinds) <= 1:
        return {**(kinds[0] if kinds else {}), **others}
    return {**others, "anyOf": [_with_items(kind, {}) for kind in kinds]}


def _with_items(plain: Schema, given: Schema) -> Schema:
    if plain.get("type") != "array":
        return plain
    places = [_plain(part) for part in given.get("prefixItems", ())]
    if not places:
        return {**plain, "items": _plain(given.get("items"))}
    return {**plain, "items": places[0] if all(place == places[0] for place in places) else {"anyOf": places}}
