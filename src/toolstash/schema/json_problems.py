"""What jsonschema found wrong with a value, in words that name the place and never repeat much of the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from toolstash.schema.mismatch import quotable, shortened, shown
from toolstash.schema.records import unknown_name

_TYPES: Final = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
}
_STEP_CHARS: Final = 40
_PLACE_CHARS: Final = 80
_WANTED_CHARS: Final = 200

Expected = Callable[[Any], str]

_EXPECTED: Final[Mapping[str, Expected]] = {
    "type": lambda wanted: " or ".join(_TYPES[name] for name in ([wanted] if isinstance(wanted, str) else wanted)),
    "enum": lambda wanted: f"one of {', '.join(map(_as_json, wanted))}",
    "const": lambda wanted: _as_json(wanted),
    "minimum": lambda wanted: f"at least {wanted}",
    "maximum": lambda wanted: f"at most {wanted}",
    "exclusiveMinimum": lambda wanted: f"above {wanted}",
    "exclusiveMaximum": lambda wanted: f"below {wanted}",
    "multipleOf": lambda wanted: f"a multiple of {wanted}",
    "minLength": lambda wanted: f"text of {wanted} characters or more",
    "maxLength": lambda wanted: f"text of {wanted} characters or fewer",
    "pattern": lambda wanted: f"text that matches {wanted}",
    "format": lambda wanted: f"text of the format {wanted}",
    "minItems": lambda wanted: f"a list of {wanted} entries or more",
    "maxItems": lambda wanted: f"a list of {wanted} entries or fewer",
    "uniqueItems": lambda _: "a list of different entries",
    "minProperties": lambda wanted: f"an object of {wanted} fields or more",
    "maxProperties": lambda wanted: f"an object of {wanted} fields or fewer",
}
"""Keyword → what would fit, made of the keyword's value."""


def problem_of(error: Any) -> tuple[str, str, str]:
    """Where (`filter.0.value`, "" for the whole), what is wrong there, and what to send, from a ValidationError."""
    keyword = str(error.validator)
    place = place_of(error.absolute_path)
    if error.validator is None:  # the schema there is `false`
        return place, "is not allowed", "nothing there"
    if keyword == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return place, f"lacks '{quotable(str(missing[0]), _STEP_CHARS)}'", f"an object with {', '.join(missing)}"
    if keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(error.instance, Mapping):
        return place, *_unknown_field(error)
    make = _EXPECTED.get(keyword)
    if make is None:
        return place, f"does not fit the schema ({keyword})", "what the schema describes"
    expected = shortened(make(error.validator_value), _WANTED_CHARS)
    return place, f"must be {expected}, not {shown(error.instance)}", expected


def place_of(path: Any) -> str:
    """A path as `filter.0.value`, shortened where its keys are long."""
    return shortened(".".join(quotable(str(step), _STEP_CHARS) for step in path), _PLACE_CHARS)


def _unknown_field(error: Any) -> tuple[str, str]:
    known = list(error.schema.get("properties", {}))
    given = cast("Mapping[str, Any]", error.instance)
    unknown = next((name for name in given if name not in known), "")
    fields = ", ".join(known)
    expected = f"an object with no fields but {fields}" if fields else "an empty object"
    return f"has an unknown field {unknown_name(unknown, known)}", shortened(expected, _WANTED_CHARS)


def _as_json(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), 60)
