r"""Reads a dotted path in a JSON value: `author.name`, `tags.0`, `labels.name`, and `dot\.key` for a key with a dot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final[Any] = _Missing()
"""What `read_path` returns where nothing is: not the same as a null that is there."""

_SEGMENT = re.compile(r"(?:\\.|[^.\\]|\\$)*", re.DOTALL)


def split_path(path: str) -> list[str]:
    r"""The segments of a path. A backslash takes the next character as it is: `a\.b.c` → `["a.b", "c"]`."""
    if "\\" not in path:
        return path.split(".")
    segments: list[str] = []
    position = 0
    while True:
        match = _SEGMENT.match(path, position)
        assert match is not None
        segments.append(re.sub(r"\\(.)", r"\1", match.group(), flags=re.DOTALL))
        if match.end() >= len(path):
            return segments
        position = match.end() + 1


def read_path(value: Any, path: str) -> Any:
    """The value at `path`, or `MISSING`. A key spelt exactly like the whole path wins over the path."""
    if isinstance(value, dict) and path in value:
        return value[path]  # pyright: ignore[reportUnknownVariableType]
    return read_segments(value, split_path(path))


def read_segments(value: Any, segments: Sequence[str]) -> Any:
    """The value reached by following `segments` through dicts and lists, or `MISSING`.

    A number takes that position of a list; any other segment is looked up in each object of the list and gives the list
    of what was found, whose own lists become one where the path goes on.
    """
    is_gathered = False
    for segment in segments:
        if is_gathered:
            value, is_gathered = _joined(value), False
        if isinstance(value, dict):
            value = cast(dict[str, Any], value).get(segment, MISSING)
        elif not isinstance(value, list):
            return MISSING
        elif segment.isascii() and segment.isdigit():
            listed = cast(list[Any], value)
            value = listed[int(segment)] if len(segment) < 12 and int(segment) < len(listed) else MISSING
        else:
            value, is_gathered = _gathered(cast(list[Any], value), segment) or MISSING, True
        if value is MISSING:
            return MISSING
    return value  # pyright: ignore[reportUnknownVariableType]


def _gathered(elements: list[Any], name: str) -> list[Any]:
    objects = (cast(dict[str, Any], element) for element in elements if isinstance(element, dict))
    return [fields[name] for fields in objects if name in fields]


def _joined(values: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for value in values:
        if isinstance(value, list):
            joined += cast(list[Any], value)
        else:
            joined.append(value)
    return joined


def escape_key(key: str) -> str:
    r"""A key as one segment of a path: `a.b` → `a\.b`."""
    return key.replace("\\", "\\\\").replace(".", "\\.")
