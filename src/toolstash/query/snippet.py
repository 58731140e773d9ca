"""A short stretch of a row around what a search found. Long texts are looked at block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolstash.query.haystack import texts_of
from toolstash.query.terms import Term

SNIPPET_CHARS = 160
BLOCK_CHARS = 4_096
OVERLAP = 256
_LEAD = 50


def snippet_of(value: Any, terms: Sequence[Term], fold: Callable[[str], str]) -> str:
    """At most about 160 characters around the first match in the value's texts; "" if there is none."""
    for text in texts_of(value):
        for start in range(0, max(1, len(text)), BLOCK_CHARS - OVERLAP):
            block = text[start : start + BLOCK_CHARS]
            place = _first_match(block, terms, fold)
            if place is not None:
                return _around(text, start + place)
    return ""


def _first_match(block: str, terms: Sequence[Term], fold: Callable[[str], str]) -> int | None:
    folded = fold(block)
    firsts = (next(term.matches(folded), None) for term in terms)
    starts = [match.start() for match in firsts if match is not None]
    if not starts:
        return None
    return min(starts) if len(folded) == len(block) else _unfolded(block, min(starts), fold)


def _unfolded(block: str, place: int, fold: Callable[[str], str]) -> int:
    """Where in the block its folded form reaches `place`: folding may change how many signs there are."""
    reached = 0
    for position, sign in enumerate(block):
        if reached >= place:
            return position
        reached += len(fold(sign))
    return max(0, len(block) - 1)


def _around(text: str, place: int) -> str:
    start = max(0, min(place - _LEAD, len(text) - SNIPPET_CHARS))
    stretch = " ".join(text[start : start + SNIPPET_CHARS].split())
    return ("…" if start else "") + stretch + ("…" if start + SNIPPET_CHARS < len(text) else "")
