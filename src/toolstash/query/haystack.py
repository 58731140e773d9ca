"""The text of many rows, folded once and scanned for terms without decoding a row.

The text of a row is its JSON: values are told from keys by the colon behind a key's closing quote, and a match that
the JSON itself could have made (a comma, `true`) is checked against the row's values.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, cast

import orjson

from toolstash.query.terms import Term, blank
from toolstash.query.work import CHARS_A_UNIT, Work

ROWS_IN_SLICE = 2_000
BYTES_IN_SLICE = 1_500_000
CHARS_DECODED_A_UNIT = 4
_WIDE_QUOTE = "\uff02"  # folded, it would look like the end of a value
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some rows in one folded text, a line each. `starts` holds where each begins, and the end."""

    first: int
    text: str
    starts: Sequence[int]


class Haystack:
    """The folded text of rows.

    Args:
        documents: The JSON of each row, without escapes beyond ASCII.
        fold: How texts are made comparable with terms.
    """

    def __init__(self, documents: Sequence[bytes], fold: Callable[[str], str]) -> None:
        self._documents = documents
        self._fold = fold
        self._slices = [self._slice(first, end) for first, end in _stretches(documents)]
        self.lengths = [after - before for part in self._slices for before, after in pairwise(part.starts)]
        """How long each row is, in characters."""
        self.bytes = sum(part.text.__sizeof__() + 16 * len(part.starts) for part in self._slices)
        """About how much memory the text takes; the documents are not counted."""

    def __len__(self) -> int:
        return len(self._documents)

    def count(self, term: Term, work: Work) -> dict[int, int]:
        """How often the term stands in which rows' values."""
        counts: dict[int, int] = {}
        for part in self._slices:
            work.spend(1 + len(part.text) // CHARS_A_UNIT)
            if term.needle not in part.text:
                continue
            if term.proves:
                _count_in(part, term, counts)
            else:
                counts |= self._checked(part, term, work)
        return counts

    def _checked(self, part: _Slice, term: Term, work: Work) -> dict[int, int]:
        """Counts in the values of the rows that may have it."""
        if term.rung == "substring":  # whose signs may be escaped in the JSON
            rows = [part.first + place for place, line in enumerate(part.text.split("\n")) if term.needle in line]
        else:
            places = (bisect_right(part.starts, start) - 1 for start, _ in term.spans(part.text))
            rows = list(dict.fromkeys(part.first + place for place in places))
        work.spend(sum(1 + self.lengths[row] // CHARS_DECODED_A_UNIT for row in rows))
        counted = ((row, sum(self._times(term, text) for text in self.values(row))) for row in rows)
        return {row: times for row, times in counted if times}

    @staticmethod
    def _times(term: Term, text: str) -> int:
        return sum(1 for _ in term.spans(text if term.rung == "substring" else blank(text)))

    def values(self, row: int) -> Iterator[str]:
        """The folded texts and numbers of a row."""
        return (self._fold(text) for text in texts_of(orjson.loads(self._documents[row])))

    def texts(self) -> Iterator[str]:
        """The folded text, in slices."""
        return (part.text for part in self._slices)

    def _slice(self, first: int, end: int) -> _Slice:
        documents = self._documents[first:end]
        text = b"\n".join(documents).decode("utf-8", "surrogatepass")
        if "\\" in text:
            text = _ESCAPE.sub(" ", text)
        if self._fold is not str:
            text = self._fold(text.replace(_WIDE_QUOTE, " "))
        starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        return _Slice(first, text, starts)


def _stretches(documents: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """First rows and ends of stretches of 2,000 rows, or of about 1 MB."""
    first = size = 0
    for row, document in enumerate(documents):
        if row > first and (row - first >= ROWS_IN_SLICE or size > BYTES_IN_SLICE):
            yield first, row
            first, size = row, 0
        size += len(document)
    if documents:
        yield first, len(documents)


def _count_in(part: _Slice, term: Term, counts: dict[int, int]) -> None:
    """Counts the matches in values, row by row. What is looked up on the way only moves forward."""
    text, starts = part.text, part.starts
    quote = row_end = -1
    row = times = counted_to = quotes = 0
    is_key = False
    for start, end in term.spans(text):
        if quote < end:
            quote = text.find('"', end)
            if quote < 0:
                quote = len(text) - 1
            is_key = text[quote + 1 : quote + 2] == ":"
            if is_key and text[quote - 1] in "[,:{\n":  # or the start of a text that begins with a colon
                quotes += text.count('"', counted_to, end)
                counted_to = end
                is_key = quotes % 2 == 1
        if is_key:
            continue
        if end < row_end:
            times += 1
            continue
        if times:
            counts[row] = times
        place = bisect_right(starts, start) - 1
        row, row_end, times = part.first + place, starts[place + 1], 1
    if times:
        counts[row] = times


def texts_of(value: Any) -> Iterator[str]:
    """The texts and numbers in a JSON value, in their order; keys, booleans and nulls are none."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += reversed(cast(dict[str, Any], value).values())
        elif isinstance(value, list):
            waiting += reversed(cast(list[Any], value))
        elif value is not None and not isinstance(value, bool):
            yield str(value) if isinstance(value, int) else orjson.dumps(value).decode()
