"""Checks of what a step is given. Every refusal shows a right example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolstash.errors import InvalidArgumentError

MOST_FIELDS = 200


def whole_number(operation: str, value: Any, example: Mapping[str, Any]) -> int:
    """A whole number from 0 on; `"5"` and `5.0` are 5.

    Raises:
        InvalidArgumentError: Anything else.
    """
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgumentError(f"{operation} takes a whole number from 0 on, not {value!r:.60}.", example=example)
    return value


def one_field(operation: str, value: Any) -> str:
    """The path of a field.

    Raises:
        InvalidArgumentError: Not a non-empty string.
    """
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(
            f"{operation} takes the name of a field, not {value!r:.60}.", example={operation: "author.name"}
        )
    return value


def list_of_fields(operation: str, value: Any) -> list[str]:
    """Paths of fields; a single one may stand alone.

    Raises:
        InvalidArgumentError: Not strings, none, or more than 200.
    """
    listed = cast(list[Any], value) if isinstance(value, list) else [value]
    if not listed or len(listed) > MOST_FIELDS or not all(isinstance(path, str) and path for path in listed):
        raise InvalidArgumentError(
            f"{operation} takes a list of 1 to {MOST_FIELDS} fields, not {value!r:.60}.",
            example={operation: ["title", "author.name"]},
        )
    return list(dict.fromkeys(listed))


def allowed_fields(wanted: Any, searched: Sequence[str] | None) -> list[str] | None:
    """The fields to search: those that are asked for, else all that the program lets be searched (None: every text).

    Raises:
        InvalidArgumentError: One that is not searched, or no list of fields.
    """
    if not wanted:
        return None if searched is None else list(searched)
    fields = list_of_fields("fields", wanted)
    refused = [] if searched is None else [path for path in fields if path not in searched]
    if refused:
        raise InvalidArgumentError(
            f"The field '{refused[0]:.60}' is not searched here.",
            argument="fields",
            available_fields=list(searched or ())[:50],
            suggested_action="Use only available_fields, or leave fields out to search all of them.",
        )
    return fields


def known_keys(operation: str, value: Any, known: tuple[str, ...], example: Any) -> None:
    """Refuses what is no object, or has keys that the operation does not know.

    Raises:
        InvalidArgumentError: Names the unknown key and lists the known ones.
    """
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{operation} does not take {value!r:.60}.", example={operation: example})
    unknown = [name for name in cast(dict[str, Any], value) if name not in known]
    if unknown:
        raise InvalidArgumentError(
            f"{operation} has no '{unknown[0]:.60}'; it takes {', '.join(known)}.", example={operation: example}
        )
