"""Regular expressions of JSON Schemas, which may not take more than linear time: the text is a model's or a person's.

google-re2 matches them where it is installed (extra `regex`). Without it Python's own engine does, as long as the
pattern repeats nothing that itself repeats or branches: that takes exponential time on the wrong text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, cast

MOST_TEXT_CHARS: Final = 2_000
"""Of a text that Python's own engine may look through: its time may grow with the square. A longer one fits nothing."""

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
    check_harmless(pattern, "write it without, or install toolstash[regex]")
    return lambda text: len(text) <= MOST_TEXT_CHARS and compiled.search(text) is not None


def check_harmless(pattern: str, advice: str) -> None:
    """Refuses a pattern on which Python's own engine could take exponential time.

    Raises:
        ValueError: It is one; ends with the advice.
    """
    parser: Any = import_module("re._parser")
    if any(_repeats_repeats(item, inside=False) for item in parser.parse(pattern)):
        raise ValueError(
            f"the pattern {pattern!r:.80} repeats what itself repeats or branches, which can take for ever: {advice}"
        )


def _repeats_repeats(item: Any, *, inside: bool) -> bool:
    """Whether a part of a parsed pattern is repeated, and in it something is repeated or branches."""
    name, value = str(item[0]), item[1]
    is_repeat = name in _REPEATS and value[1] > 1
    if inside and (is_repeat or name in ("BRANCH", "GROUPREF", "ASSERT", "ASSERT_NOT")):
        return True
    return any(_repeats_repeats(part, inside=inside or is_repeat) for part in _parts_of(value))


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
