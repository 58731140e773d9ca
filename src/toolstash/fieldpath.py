r"""Reads a dotted path in a JSON value: `author.name`, `tags.0`, `labels.name`, and `dot\.key` for a key with a dot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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

    A number takes that position of a list; any other segment is looked up in each object of the list, and the result
    is the list of what was found.
    """
    for place, segment in enumerate(segments):
        if isinstance(value, dict):
            value = value.get(segment, MISSING)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif isinstance(value, list):
            if not (segment.isascii() and segment.isdigit()):
                found = list(_in_each(cast(list[Any], value), segments[place:]))
                return found or MISSING
            position = int(segment) if len(segment) < 12 else len(value)  # pyright: ignore[reportUnknownArgumentType]
            value = value[position] if position < len(value) else MISSING  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value  # pyright: ignore[reportUnknownVariableType]


def _in_each(elements: list[Any], segments: Sequence[str]) -> Iterator[Any]:
    """What the objects of a list hold there. Lists on the way are walked as well; a list at the end is one value."""
    for element in elements:
        if not isinstance(element, dict):
            continue
        inner = cast(dict[str, Any], element).get(segments[0], MISSING)
        rest = segments[1:]
        if rest and isinstance(inner, list) and not (rest[0].isascii() and rest[0].isdigit()):
            yield from _in_each(cast(list[Any], inner), rest)
        elif inner is not MISSING:
            deeper = read_segments(inner, rest)
            if deeper is not MISSING:
                yield deeper


def escape_key(key: str) -> str:
    r"""A key as one segment of a path: `a.b` → `a\.b`."""
    return key.replace("\\", "\\\\").replace(".", "\\.")
