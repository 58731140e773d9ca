"""The narrow JSON Schema that every model API takes: what it says for any value, for choices, and for unions.

Gemini's function declarations are the narrowest: one type in each schema or an `anyOf`, choices of text only, no
`$ref`, no `const`, no `additionalProperties`, no `uniqueItems`, `multipleOf` or exclusive bounds; every array has
`items`.
"""

from __future__ import annotations

import copy
from typing import Any, Final, cast

Schema = dict[str, Any]

_FLAT: Final[tuple[Schema, ...]] = ({"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"})
_ANYTHING: Final[Schema] = {"anyOf": [*_FLAT, {"type": "array", "items": {"anyOf": list(_FLAT)}}]}
_NOTES: Final = frozenset({"description", "default", "title", "examples"})
_BEYOND_EXACT_FLOATS: Final = 2**53


def anything() -> Schema:
    """The schema of any value, a new dict every time."""
    return copy.deepcopy(_ANYTHING)


def is_anything_schema(schema: Any) -> bool:
    """Whether a schema takes whatever there is: `true`, one without constraints, or `anything()`."""
    if not isinstance(schema, dict):
        return schema is True
    said = {key: value for key, value in cast(Schema, schema).items() if key not in _NOTES}
    return not said or ("type" not in said and said.get("anyOf") == _ANYTHING["anyOf"])


def choice_schema(values: list[Any]) -> Schema:
    """The schema of a choice: the texts of the values that are not null. Both booleans are a boolean."""
    texts = list(dict.fromkeys(choice_text(value) for value in values if value is not None))
    if not texts:
        return anything()
    if {type(value) for value in values if value is not None} == {bool} and len(texts) == 2:
        return {"type": "boolean"}
    return {"type": "string", "enum": texts}


def choice_text(value: Any) -> str:
    """How a choice is written in a schema; coercion finds the value by it again."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _BEYOND_EXACT_FLOATS:
        return str(int(value))
    return str(value)


def union_schema(members: list[Schema]) -> Schema:
    """`anyOf` of different members; one member stands for itself, and a member that takes anything for all."""
    different = [member for place, member in enumerate(members) if member not in members[:place]]
    if not different or any(map(is_anything_schema, different)):
        return anything()
    return different[0] if len(different) == 1 else {"anyOf": different}
