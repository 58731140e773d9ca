"""Patterns from a model, on RE2: its time is linear in the text, whatever the pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolstash.errors import InvalidArgumentError

MOST_PATTERN_CHARS = 1_000


def regex_test(pattern: Any) -> Callable[[Any], bool]:
    """A test whether a string holds the pattern somewhere.

    Raises:
        InvalidArgumentError: Not a pattern, too long, or `toolstash[regex]` is not installed.
    """
    if not isinstance(pattern, str) or len(pattern) > MOST_PATTERN_CHARS:
        raise InvalidArgumentError(
            f"$regex takes a pattern as a string of at most {MOST_PATTERN_CHARS:,} characters.",
            example={"title": {"$regex": "(?i)^graph"}},
        )
    search = _compiled(pattern).search
    return lambda value: value.__class__ is str and search(_encodable(value)) is not None


def _compiled(pattern: str) -> Any:
    try:
        import re2  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise InvalidArgumentError(
            "$regex is not available here: the program lacks the package google-re2 (toolstash[regex]).",
            suggested_action="Use $contains or $startswith instead.",
        ) from None
    library: Any = re2
    options = library.Options()
    options.log_errors = False
    try:
        return library.compile(_encodable(pattern), options)
    except library.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise InvalidArgumentError(f"$regex: {reason!s:.200}", example={"title": {"$regex": "(?i)^graph"}}) from None


def _encodable(text: str) -> str:
    """The text with lone surrogates, which have no UTF-8 form, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
