"""What a search index holds of a workspace, and the document that it gets for each row.

A document has a field `n` for the number of its row, `t` for the tokens of its texts, `g` for the tags of its values,
`v<column>` for numbers and `c<column>` for group codes. The fields `p1` … are there for the length of a row: they weigh
16, 256, … a token, so that a few of them bring a document to just the length in characters that the ranking wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolstash.fieldpath import MISSING
from toolstash.query.columns import Column, ColumnReader, choose_paths, tags_of
from toolstash.query.haystack import Haystack
from toolstash.query.search import B
from toolstash.query.table import RowsTable, Table, field_of
from toolstash.query.tokens import GAP, has_marked_ascii, tokens_of
from toolstash.query.values import equality_key

ROWS_AT_ONCE = 500
LONGEST_ROW = 16_000_000
"""A document's length has 24 bits."""

_DIGIT = 16
_PADS = ("p1", "p2", "p3", "p4", "p5")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextView:
    """Which texts of a row are in an index: those of some fields, in any order, or of all (None)."""

    fields: tuple[str, ...] | None

    @classmethod
    def of(cls, fields: Sequence[str] | None) -> TextView:
        """The view that a search in these fields needs."""
        return cls(fields=None if fields is None else tuple(sorted(set(fields))))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShape:
    """What one index holds.

    Attributes:
        rows: How many rows.
        text: The texts that are in it; None for an index without any.
        mean_chars: The mean length of a row's text, as ranking counts it.
        columns: Path → what is known of the field.
    """

    rows: int
    text: TextView | None
    mean_chars: float
    columns: Mapping[str, Column]

    def schema(self) -> list[str]:
        """The words of the index's schema."""
        words = ["n", "NUMERIC", "SORTABLE", "NOINDEX"]
        if self.text is not None:
            words += ["t", "TEXT", "NOSTEM"]
            for power, pad in enumerate(_PADS, 1):
                words += [pad, "TEXT", "NOSTEM", "WEIGHT", str(_DIGIT**power)]
        words += ["g", "TAG", "SEPARATOR", ",", "CASESENSITIVE"]
        for column in self.columns.values():
            if column.is_numeric:
                words += [f"v{column.place}", "NUMERIC", "SORTABLE"]
            if column.values is not None:
                words += [f"c{column.place}", "NUMERIC", "SORTABLE", "NOINDEX"]
        return words

    def to_json(self) -> dict[str, Any]:
        """A form that can be stored."""
        columns = {
            path: [column.place, sorted(column.kinds), column.is_exact, column.adds_up, column.values]
            for path, column in self.columns.items()
        }
        text = None if self.text is None else [self.text.fields]
        return {"rows": self.rows, "text": text, "mean_chars": self.mean_chars, "columns": columns}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> IndexShape:
        """Reads what `to_json` gave."""
        columns = {
            path: Column(place=place, kinds=frozenset(kinds), is_exact=is_exact, adds_up=adds_up, values=values)
            for path, (place, kinds, is_exact, adds_up, values) in form["columns"].items()
        }
        text = None if form["text"] is None else TextView.of(form["text"][0])
        return cls(rows=form["rows"], text=text, mean_chars=form["mean_chars"], columns=columns)


class IndexDraft:
    """Learns from the rows of a table what an index of them would hold."""

    def __init__(self, table: Table, text: TextView | None) -> None:
        self._table = table
        self._text = text
        self._chars = 0
        self._is_text_exact = True
        self._readers = {path: ColumnReader(place) for place, path in enumerate(choose_paths(table))}

    def slices(self) -> Iterator[None]:
        """Reads the rows, 500 for each step."""
        for _, rows in slices_of(self._table):
            for path, reader in self._readers.items():
                reader.read([field_of(row, path) for row in rows])
            if self._text is not None:
                self._read_text(haystack_of(rows, self._text))
            yield

    def _read_text(self, haystack: Haystack) -> None:
        self._chars += sum(haystack.lengths)
        if max(haystack.lengths) > LONGEST_ROW or any(map(has_marked_ascii, haystack.texts())):
            self._is_text_exact = False

    def shape(self) -> IndexShape:
        """What has been learned. Texts that the server could not search as Python does are left out."""
        rows = len(self._table)
        return IndexShape(
            rows=rows,
            text=self._text if self._is_text_exact else None,
            mean_chars=self._chars / max(1, rows),
            columns={path: reader.column() for path, reader in self._readers.items()},
        )


def slices_of(table: Table) -> Iterator[tuple[int, list[Any]]]:
    """The rows in slices of 500, each with the number of its first."""
    for first in range(0, len(table), ROWS_AT_ONCE):
        yield first, table.rows_at(range(first, min(first + ROWS_AT_ONCE, len(table))))


def haystack_of(rows: Sequence[Any], text: TextView) -> Haystack:
    """The texts of some rows as a search sees them."""
    return RowsTable(rows).make_haystack(text.fields, case_sensitive=False)


class Documents:
    """Makes the documents of rows.

    Args:
        shape: What they hold.
        server_b: The server's own b of BM25. Where it is not ours, lengths are stretched so that ranking comes out
            the same: 1 - b + b·L/A stays what it is for ours when L becomes r·L + (1 - r)·A, with r = B / b.
    """

    def __init__(self, shape: IndexShape, server_b: float) -> None:
        self._shape = shape
        self._ratio = B / server_b
        coded = {path: column for path, column in shape.columns.items() if column.values is not None}
        self._codes = {
            path: {equality_key(value): str(code) for code, value in enumerate(cast(Sequence[Any], column.values))}
            for path, column in coded.items()
        }

    def of_rows(self, first: int, rows: Sequence[Any]) -> list[list[str]]:
        """A document for each row: names of fields and values by turns."""
        documents = [["n", str(first + place)] for place in range(len(rows))]
        if self._shape.text is not None:
            haystack = haystack_of(rows, self._shape.text)
            for place, document in enumerate(documents):
                document += self._text_fields(haystack, place)
        tags: list[set[str]] = [set() for _ in rows]
        for path, column in self._shape.columns.items():
            values = [field_of(row, path) for row in rows]
            self._add_values(path, column, values, documents, tags)
        for document, row_tags in zip(documents, tags, strict=True):
            document += ["g", ",".join(sorted(row_tags))]
        return documents

    def _text_fields(self, haystack: Haystack, row: int) -> list[str]:
        tokens = tokens_of(haystack.values(row))
        length = round(self._ratio * haystack.lengths[row] + (1 - self._ratio) * self._shape.mean_chars)
        left, units = divmod(max(0, length - len(tokens)), _DIGIT)
        fields = ["t", " ".join([*tokens, *[GAP] * units])]
        for pad in _PADS:
            left, digit = divmod(left, _DIGIT)
            if digit:
                fields += [pad, " ".join([GAP] * digit)]
        return fields

    def _add_values(
        self, path: str, column: Column, values: Sequence[Any], documents: list[list[str]], tags: list[set[str]]
    ) -> None:
        codes = self._codes.get(path)
        for value, document, row_tags in zip(values, documents, tags, strict=True):
            if not column.is_numeric or value is None or value is MISSING:
                row_tags |= tags_of(column, value)
            else:
                document += [f"v{column.place}", repr(value)]
            if codes is not None:
                document += [f"c{column.place}", codes[equality_key(value)]]
