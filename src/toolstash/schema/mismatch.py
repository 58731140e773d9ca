"""How a value that does not fit its type is told of, without ever repeating much of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_SHOWN_CHARS: Final = 50
_PATH_CHARS: Final = 40


class Mismatch(Exception):
    """A value does not fit. Inside the schema room only: callers see an InvalidArgumentError.

    Attributes:
        problem: What is wrong, to follow the argument's name: "must be text, not null".
        expected: What would have fit: "text".
        path: Where inside the argument, outermost first.
    """

    def __init__(self, expected: str, value: Any = None, *, problem: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.problem = problem or f"must be {expected}, not {shown(value)}"
        self.path: tuple[str, ...] = ()
        self._is_detailed = bool(problem)

    def inside(self, step: object) -> Mismatch:
        """The same, one level further out: at `step` (a position or a key) of what is around it."""
        self.path = (quotable(str(step), _PATH_CHARS), *self.path)
        return self

    @property
    def is_inside(self) -> bool:
        """Whether it is about a part of the value, and not about its type."""
        return self._is_detailed or bool(self.path)

    @property
    def place(self) -> str:
        """`.3.name`, or nothing at the top; shortened when the keys are long."""
        place = "".join(f".{step}" for step in self.path)
        return place if len(place) <= _PATH_CHARS else place[: _PATH_CHARS - 1] + "…"


def shown(value: Any) -> str:
    """A value for a message: at most 50 characters of text, lists and objects by their kind only."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return shortened(json.dumps(quotable(value, _SHOWN_CHARS), ensure_ascii=False), _SHOWN_CHARS + 2)
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "a very long number"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, (list, tuple, set, frozenset)) else f"a value of type {type(value).__name__}"


def shortened(text: str, most: int) -> str:
    """At most `most` characters of a text, with "…" where some are left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def quotable(text: str, most: int) -> str:
    """The same, of a model's text: half of a surrogate pair becomes "?", for no message could carry it."""
    return shortened(text[: most + 1], most).encode("utf-8", "replace").decode()
