"""What a search index holds of a workspace, and the document that it gets for each row.

A document has a field `n` for the number of its row, `t` for the tokens of its texts, `g` for the tags of its values,
`v<column>` for numbers and `c<column>` for group codes. The fields `p1` … are there for the length of a row: they weigh
32, 1024, … a token, so that a few of them bring a document to just the length in characters that the ranking wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as with_changes
from typing import Any

from toolstash.fieldpath import MISSING
from toolstash.query.columns import ELEMENTS_A_ROW, Column, ColumnReader, choose_paths, tags_of
from toolstash.query.haystack import Haystack, texts_of
from toolstash.query.search import B
from toolstash.query.table import RowsTable, Table, field_of
from toolstash.query.tokens import GAP, has_marked_ascii, tokens_of
from toolstash.query.values import as_json, equality_key

ROWS_AT_ONCE = 500
LONGEST_ROW = 6_000_000
"""Characters: a longer text would hold the server for long while it is indexed."""

SHAPE_FORMAT = 1

_DIGIT = 32
_PADS = ("p1", "p2", "p3", "p4")


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
            if column.group_field == f"c{column.place}":
                words += [f"c{column.place}", "NUMERIC", "SORTABLE", "NOINDEX"]
        return words

    def to_json(self) -> dict[str, Any]:
        """A form that can be stored."""
        columns = {path: asdict(column) | {"kinds": sorted(column.kinds)} for path, column in self.columns.items()}
        text = None if self.text is None else [self.text.fields]
        return {
            "format": SHAPE_FORMAT,
            "rows": self.rows,
            "text": text,
            "mean_chars": self.mean_chars,
            "columns": columns,
        }

    @classmethod
    def from_json(cls, form: Any) -> IndexShape:
        """Reads what `to_json` gave.

        Raises:
            ValueError: Another version of the library wrote it.
        """
        if form.get("format") != SHAPE_FORMAT:
            raise ValueError(f"the shape of an index has the format {form.get('format')!r:.50}, not {SHAPE_FORMAT}")
        columns = {
            path: with_changes(Column(**known), kinds=frozenset(known["kinds"]))
            for path, known in form["columns"].items()
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
            columns=self._columns(ELEMENTS_A_ROW * rows),
        )

    def _columns(self, most_elements: int) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for path, reader in self._readers.items():
            columns[path] = reader.column(most_elements)
            most_elements -= reader.elements if columns[path].is_tagged else 0
        return columns


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
        server_b: The server's own b of BM25. Where it is more than ours, every row is made longer by as much as makes
            ranking come out the same: 1 - b + b·L/A is 1 - B + B·L/A again when A·(b/B - 1) is added to each L.
    """

    def __init__(self, shape: IndexShape, server_b: float) -> None:
        self._shape = shape
        self._added_chars = round(shape.mean_chars * (server_b / B - 1))
        self._known: dict[str, dict[Any, _KnownValue]] = {
            path: {equality_key(value): _known(column, code, value) for code, value in enumerate(column.values)}
            for path, column in shape.columns.items()
            if column.values is not None
        }

    def of_rows(self, first: int, rows: Sequence[Any]) -> list[list[str]]:
        """A document for each row: names of fields and values by turns."""
        documents = [["n", str(first + place)] for place in range(len(rows))]
        if self._shape.text is not None:
            self._add_texts(rows, self._shape.text, documents)
        tags: list[list[str]] = [[] for _ in rows]
        for path, column in self._shape.columns.items():
            values = [field_of(row, path) for row in rows]
            if column.is_numeric:
                _add_numbers(column, values, documents)
            self._add_values(path, column, values, documents, tags)
        for document, row_tags in zip(documents, tags, strict=True):
            document += ["g", ",".join(row_tags)]
        return documents

    def _add_texts(self, rows: Sequence[Any], text: TextView, documents: list[list[str]]) -> None:
        lengths = haystack_of(rows, text).lengths
        for row, length, document in zip(rows, lengths, documents, strict=True):
            held = row if text.fields is None else [as_json(field_of(row, path)) for path in text.fields]
            document += _text_fields(tokens_of(texts_of(held)), length + self._added_chars)

    def _add_values(
        self, path: str, column: Column, values: Sequence[Any], documents: list[list[str]], tags: list[list[str]]
    ) -> None:
        known = self._known.get(path)
        for value, document, row_tags in zip(values, documents, tags, strict=True):
            if known is not None:
                fields, value_tags = known[equality_key(value)]
                document += fields
                row_tags += value_tags
            else:
                row_tags += _tags(column, value)


_KnownValue = tuple[list[str], list[str]]
"""The group code of a value, as a field, and its tags."""


def _known(column: Column, code: int, value: Any) -> _KnownValue:
    field = f"c{column.place}"
    return [field, str(code)] if column.group_field == field else [], _tags(column, value)


def _tags(column: Column, value: Any) -> list[str]:
    """The tags of a value; numbers that are indexed as such need none."""
    if not column.is_tagged or (column.is_numeric and value is not None and value is not MISSING):
        return []
    return sorted(tags_of(column, value))


def _add_numbers(column: Column, values: Sequence[Any], documents: list[list[str]]) -> None:
    name = f"v{column.place}"
    for value, document in zip(values, documents, strict=True):
        if value is not None and value is not MISSING:
            document += [name, repr(value)]


def _text_fields(tokens: list[str], length: int) -> list[str]:
    """The tokens, and as many that stand for nothing as bring the document to the length."""
    left, units = divmod(max(0, length - len(tokens)), _DIGIT)
    fields = ["t", " ".join([*tokens, *[GAP] * units])]
    for pad in _PADS:
        left, digit = divmod(left, _DIGIT)
        if digit:
            fields += [pad, " ".join([GAP] * digit)]
    return fields
