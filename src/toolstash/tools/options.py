"""Checks of what a program passes to a Ctx and its decorators: mistakes are refused before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from toolstash.contracts import IndexMode
from toolstash.store.codec import pack


class _Unset:
    def __repr__(self) -> str:
        return "<the Ctx's>"


UNSET: Any = _Unset()
"""A `ttl` that was left out, which is another thing than None."""

LEAST_RESULT_CHARS = 4_000  # a notice has up to 3,000
MOST_TTL_SECONDS = 10 * 365 * 86_400


def checked_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata, which must have a JSON form."""
    checked = dict(meta or {})
    pack(checked)
    return checked


def check_options(ttl: float | None, inline_below_chars: int, **bounds: int | None) -> None:
    checked_ttl(ttl)
    if inline_below_chars < 0:
        raise ValueError(f"inline_below_chars must be 0 or more, not {inline_below_chars}")
    for name, bound in bounds.items():
        if bound is not None and bound < 1:
            raise ValueError(f"{name} must be at least 1, not {bound}")


def checked_ttl(ttl: float | None) -> float | None:
    if ttl is not None and not 0 < ttl < MOST_TTL_SECONDS:
        raise ValueError(f"a time to live is above 0 and below ten years, in seconds, or None; not {ttl}")
    return ttl


def checked_index(mode: IndexMode) -> IndexMode:
    """Raises ValueError for anything but the three words."""
    if mode not in get_args(IndexMode):
        raise ValueError(f"index is one of {', '.join(map(repr, get_args(IndexMode)))}, not {mode!r}")
    return mode


def check_result_bound(max_result_chars: int | None) -> None:
    """Raises ValueError for a bound that not even a notice would fit."""
    if max_result_chars is not None and max_result_chars < LEAST_RESULT_CHARS:
        raise ValueError(f"max_result_chars must be at least {LEAST_RESULT_CHARS}, not {max_result_chars}")
