"""Regular expressions of JSON Schemas, which may not take long: the text is a model's or a person's.

google-re2 matches them in linear time where it is installed (extra `regex`). Without it, and for look-arounds and
back-references, Python's own engine does, as long as the pattern repeats nothing that itself repeats or branches, and
has few repeats and branches at all: the time grows exponentially with the first and with a power of the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, cast

MOST_TEXT_CHARS: Final = (2_000, 2_000, 500, 100)
"""Of a text for Python's engine, by how many open repeats the pattern has. A longer text never fits."""
MOST_CHOICES: Final = 8
"""How many optional parts and branches a pattern may have for it."""
MANY: Final = 8
"""What repeats more often than this counts as open."""

_REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

Search = Callable[[str], bool]


@lru_cache(maxsize=500)
def search_of(pattern: str) -> Search:
    """Whether a text holds what the pattern says.

    Raises:
        ValueError: It is no regular expression, or one that could take for ever.
    """
    return _re2_search(pattern) or _python_search(pattern)


def _re2_search(pattern: str) -> Search | None:
    try:
        import re2  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return None
    engine: Any = re2
    options = engine.Options()
    options.log_errors = False
    try:
        compiled = engine.compile(pattern, options)
    except engine.error:  # look-arounds and back-references, which no linear engine has
        return None
    return lambda text: compiled.search(text.encode("utf-8", "replace").decode()) is not None


def _python_search(pattern: str) -> Search:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r:.80} is no regular expression: {error}") from None
    repeats, choices = _weigh(import_module("re._parser").parse(pattern), inside=False)
    if repeats >= len(MOST_TEXT_CHARS) or choices > MOST_CHOICES:
        raise ValueError(
            f"the pattern {pattern!r:.80} could take for ever on the wrong text: write it with fewer repeats and "
            "branches and none inside another, or install toolstash[regex]"
        )
    most = MOST_TEXT_CHARS[repeats]
    return lambda text: len(text) <= most and compiled.search(text) is not None


def _weigh(parts: Any, *, inside: bool) -> tuple[int, int]:
    """How many open repeats a parsed pattern has, and how many choices: optional parts and branches.

    A repeat of what repeats or branches counts as too many of both.
    """
    repeats = choices = 0
    for part in _parts_of(parts):
        name, value = str(part[0]), part[1]
        is_variable = name in _REPEATS and value[0] != value[1]
        is_open = is_variable and value[1] > MANY
        if inside and (is_variable or name in ("BRANCH", "GROUPREF")):
            return len(MOST_TEXT_CHARS), MOST_CHOICES + 1
        repeats += is_open
        choices += (is_variable and not is_open) * int(value[1] if is_variable and not is_open else 0)
        choices += len(value[1]) - 1 if name == "BRANCH" else 0
        inner = _weigh(value, inside=inside or (name in _REPEATS and value[1] > 1))
        repeats, choices = repeats + inner[0], choices + inner[1]
    return repeats, choices


def _parts_of(value: Any) -> list[Any]:
    """The parsed parts anywhere inside a part."""
    if not isinstance(value, (list, tuple)) and type(value).__name__ != "SubPattern":
        return []
    found: list[Any] = []
    for one in cast("Iterable[Any]", value):
        found += [one] if _is_part(one) else _parts_of(one)
    return found


def _is_part(one: Any) -> bool:
    names = [type(name).__name__ for name in cast("tuple[Any, ...]", one)[:1]] if isinstance(one, tuple) else []
    return names == ["_NamedIntConstant"]
