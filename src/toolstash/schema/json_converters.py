"""Builds, once for each JSON Schema, the converter that brings a model's value near it.

It changes only what is unambiguous ("2" where an integer is wanted) and leaves all else to the validation after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, cast

from toolstash.schema.choices import choice_converter
from toolstash.schema.converters import any_of, as_object, at_place, list_of, optional
from toolstash.schema.mismatch import Mismatch, shortened
from toolstash.schema.references import referred
from toolstash.schema.scalars import ANYTHING, SCALARS, TEXT, Converter, to_float, to_integer

_KINDS: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_EXPECTED_CHARS: Final = 200
_COMBINING: Final = ("allOf", "anyOf", "oneOf", "then", "else", "if", "$ref", "dependentSchemas")
_JSON_SCALARS: Final = (str, int, float, bool, type(None))


def _to_number(value: Any) -> int | float:
    """An integer stays one, in text too."""
    if isinstance(value, str):
        with suppress(Mismatch):
            return to_integer(value)
    number = to_float(value)
    return value if isinstance(value, int) else number


_NUMBER: Final = Converter("a number", SCALARS[float].takes, _to_number)


class JsonConverters:
    """The converters for one schema and for what it refers to inside itself.

    Args:
        root: The whole schema, checked.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def converter_of(self, schema: Any, inside: tuple[str, ...] = ()) -> Converter:
        """The converter for a part of the schema. `inside` holds the references that led there."""
        if not isinstance(schema, Mapping):
            return ANYTHING
        part = cast("Mapping[str, Any]", schema)
        if "$ref" in part:
            return self._referred(part["$ref"], inside)
        choices: list[Any] = [part["const"]] if "const" in part else list(part.get("enum", ()))
        if choices:
            is_plain = all(isinstance(choice, _JSON_SCALARS) for choice in choices)
            return choice_converter([(choice, choice) for choice in choices]) if is_plain else ANYTHING
        members: Sequence[Any] = part.get("anyOf") or part.get("oneOf") or ()
        if members and "type" not in part:
            return self._one_of([self.converter_of(member, inside) for member in members])
        return self._of_type(part, inside)

    def _referred(self, reference: Any, inside: tuple[str, ...]) -> Converter:
        """What a reference inside the schema leads to; anything, where it leads in a circle or elsewhere."""
        if not isinstance(reference, str) or not reference.startswith("#") or reference in inside:
            return ANYTHING
        return self.converter_of(referred(self._root, reference), (*inside, reference))

    def _of_type(self, part: Mapping[str, Any], inside: tuple[str, ...]) -> Converter:
        named: Any = part.get("type", "object" if "properties" in part else ())
        kinds = [named] if isinstance(named, str) else sorted(named, key=_KINDS.index)
        return self._one_of([self._of_kind(kind, part, inside) for kind in kinds]) if kinds else ANYTHING

    def _of_kind(self, kind: str, part: Mapping[str, Any], inside: tuple[str, ...]) -> Converter:
        if kind == "array":
            return list_of(self.converter_of(part.get("items"), inside))
        if kind == "object":
            return _JsonObject(self, part, inside).converter
        scalars = {"null": SCALARS[type(None)], "boolean": SCALARS[bool], "integer": SCALARS[int], "number": _NUMBER}
        return scalars.get(kind, TEXT)

    def _one_of(self, converters: list[Converter]) -> Converter:
        nothing = SCALARS[type(None)]
        others = [converter for converter in converters if converter is not nothing]
        if not others:
            return nothing
        chosen = any_of(others) if len(others) > 1 else others[0]
        return optional(chosen) if nothing in converters else chosen


class _JsonObject:
    """An object of a schema: properties by name, further ones where the schema says what they are."""

    def __init__(self, owner: JsonConverters, part: Mapping[str, Any], inside: tuple[str, ...]) -> None:
        self._owner, self._part, self._inside = owner, part, inside
        self._required: frozenset[str] = frozenset(part.get("required", ()))
        names = ", ".join(part.get("properties", {}))
        self._expected = shortened(f"an object with {names}" if names else "an object", _EXPECTED_CHARS)

    @cached_property
    def _converters(self) -> dict[str, Converter]:
        properties: Mapping[str, Any] = self._part.get("properties", {})
        return {name: self._owner.converter_of(schema, self._inside) for name, schema in properties.items()}

    @cached_property
    def _further(self) -> Converter:
        is_said = isinstance(self._part.get("additionalProperties"), Mapping) and "patternProperties" not in self._part
        return self._owner.converter_of(self._part["additionalProperties"], self._inside) if is_said else ANYTHING

    @property
    def converter(self) -> Converter:
        """Takes objects, and JSON text of one."""
        return Converter(self._expected, self._takes, self._convert)

    def _takes(self, value: Any) -> bool:
        return isinstance(value, Mapping) and self._required <= cast("Mapping[str, Any]", value).keys()

    def _convert(self, value: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, inner in as_object(value, self._expected).items():
            converter = self._converters.get(name, self._further)
            if inner is not None or name in self._required or converter.takes(None):
                made[name] = at_place(name, converter, inner)
        return made


def named_elsewhere(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Properties that a schema of an object names in the parts it combines, such as `oneOf`, each with its schema."""
    found: dict[str, list[Any]] = {}
    waiting, seen = _combined(schema, schema), set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        for name, inner in part.get("properties", {}).items():
            found.setdefault(name, []).append(inner)
        waiting += _combined(part, schema)
    return {name: parts[0] if len(parts) == 1 else {"anyOf": parts} for name, parts in found.items()}


def _combined(part: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Any] = []
    for keyword in _COMBINING:
        value = part.get(keyword)
        if isinstance(value, str):
            found.append(referred(root, value) if value.startswith("#") else None)
        elif keyword == "dependentSchemas" and isinstance(value, Mapping):
            found += cast("Mapping[str, Any]", value).values()
        else:
            found += cast("list[Any]", value) if isinstance(value, list) else [value]
    return [cast("Mapping[str, Any]", one) for one in found if isinstance(one, Mapping)]
