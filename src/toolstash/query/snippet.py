"""A short stretch of a row around what a search found. Long texts are looked at block by block."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from toolstash.query.haystack import texts_of
from toolstash.query.terms import Term, blank

SNIPPET_CHARS = 160
BLOCK_CHARS = 4_096
OVERLAP = 1_024  # a match is no longer than a query
ENOUGH_CHARS = 200_000
_LEAD = 50


def snippet_of(value: Any, terms: Sequence[Term], fold: Callable[[str], str]) -> str:
    """At most about 160 characters around a match in the value's texts; "" if there is none.

    Of several texts, the one with the most terms in its first matching block is shown, and of equals a long one.
    """
    best: tuple[int, int] = (0, 0)
    shown = ""
    looked_at = 0
    for text in texts_of(value):
        if shown and looked_at > ENOUGH_CHARS:
            break
        looked_at += len(text)
        found = _first_match(text, terms, fold)
        if found is not None and (rank := (found[1], min(len(text), SNIPPET_CHARS))) > best:
            best, shown = rank, _around(text, found[0])
    return shown


def _first_match(text: str, terms: Sequence[Term], fold: Callable[[str], str]) -> tuple[int, int] | None:
    """Where the first match stands, and how many terms its block has."""
    for start in range(0, max(1, len(text)), BLOCK_CHARS - OVERLAP):
        block = text[start : start + BLOCK_CHARS]
        folded = fold(block)
        firsts = (next(term.spans(folded if term.rung == "substring" else blank(folded)), None) for term in terms)
        places = [span[0] for span in firsts if span is not None]
        if places:
            place = min(places) if len(folded) == len(block) else _unfolded(block, min(places), fold)
            return start + place, len(places)
    return None


def _unfolded(block: str, place: int, fold: Callable[[str], str]) -> int:
    """Where in the block its folded form reaches `place`: folding may change how many signs there are."""
    return bisect_left(range(len(block)), place, key=lambda end: len(fold(block[:end])))


def _around(text: str, place: int) -> str:
    start = max(0, min(place - _LEAD, len(text) - SNIPPET_CHARS))
    stretch = " ".join(text[start : start + SNIPPET_CHARS].split())
    return ("…" if start else "") + stretch + ("…" if start + SNIPPET_CHARS < len(text) else "")
