"""Rows as columns. Questions are asked of columns; rows are put together only where one is shown.

A step that changes what rows look like (select, exclude, flatten) gives a table that knows its parent and from which
row of it each of its own rows comes: nothing is copied until a row is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import orjson

from toolstash.errors import InvalidArgumentError
from toolstash.fieldpath import MISSING, read_path, read_segments, split_path
from toolstash.query.haystack import Haystack
from toolstash.query.search import Found, search
from toolstash.query.terms import Query
from toolstash.query.values import as_json
from toolstash.query.words import fold
from toolstash.query.work import Work

REMEMBERED_SEARCHES = 4
MOST_FLAT_ROWS = 2_000_000

_SAMPLED = 50
_VALUE_BYTES = 70
_ELEMENT_BYTES = 100
_HIT_BYTES = 130
_FLAT_BYTES = 24


class Table(ABC):
    """Rows, numbered from 0 on. What it gives out is shared: nobody changes it."""

    depth = 0
    """How many tables there are between this one and rows that are there: each is walked through to make a row."""

    def __init__(self) -> None:
        self._columns: dict[str, Sequence[Any]] = {}
        self._sizes: dict[str, int] = {}
        self._haystacks: dict[tuple[tuple[str, ...] | None, bool], Haystack] = {}
        self._flat: dict[str, Table] = {}
        self._found: dict[tuple[Query, tuple[str, ...] | None], Found] = {}

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def rows_at(self, positions: Sequence[int]) -> list[Any]:
        """The rows at these positions, in this order."""

    @abstractmethod
    def make_column(self, path: str) -> Sequence[Any]:
        """The values of a field in all rows, `MISSING` where a row has none."""

    def column(self, path: str) -> Sequence[Any]:
        """`make_column`, made once."""
        column = self._columns.get(path)
        if column is None:
            column = self._columns[path] = self.make_column(path)
        return column

    def prepare(self, paths: Iterable[str]) -> None:  # noqa: B027 - most tables make columns one by one
        """Says which columns will be asked for, for tables that make several in one go."""

    def haystack(self, fields: Sequence[str] | None, *, case_sensitive: bool) -> Haystack:
        """The text of all rows, or of some fields of them."""
        key = (None if fields is None else tuple(fields), case_sensitive)
        haystack = self._haystacks.get(key)
        if haystack is None:
            haystack = self._haystacks[key] = self.make_haystack(fields, case_sensitive=case_sensitive)
        return haystack

    def search(self, query: Query, fields: Sequence[str] | None, work: Work) -> Found:
        """The rows that match a query; the last few are remembered, because the next question often refines one."""
        key = (query, None if fields is None else tuple(fields))
        found = self._found.get(key)
        if found is None:
            found = search(self.haystack(fields, case_sensitive=query.case_sensitive), query, work)
            if len(self._found) >= REMEMBERED_SEARCHES:
                self._found = {}
            self._found[key] = found
        return found

    def flattened(self, path: str, positions: Sequence[int]) -> Table:
        """A row for each element of a field's list; of all rows it is made once.

        Raises:
            InvalidArgumentError: More than 2,000,000 rows.
        """
        if not isinstance(positions, range) or len(positions) < len(self):
            return _flat_table(self, path, positions)
        flat = self._flat.get(path)
        if flat is None:
            flat = _flat_table(self, path, positions)
            self._flat = {path: flat}
        return flat

    @property
    def derived_bytes(self) -> int:
        """About how much memory takes what was made of the rows: columns, texts, searches, flattened rows."""
        columns = sum(self._sizes.setdefault(path, _column_bytes(values)) for path, values in [*self._columns.items()])
        texts = sum(haystack.bytes for haystack in [*self._haystacks.values()])
        found = sum(_HIT_BYTES * len(found.scores) for found in [*self._found.values()])
        return columns + texts + found + sum(_FLAT_BYTES * len(t) + t.derived_bytes for t in [*self._flat.values()])

    def forget_derived(self) -> None:
        """Lets go of all that; it can be made again."""
        self._columns, self._sizes, self._haystacks, self._found, self._flat = {}, {}, {}, {}, {}

    def make_haystack(self, fields: Sequence[str] | None, *, case_sensitive: bool) -> Haystack:
        """`haystack`, made anew."""
        if fields is None:
            values: Iterable[Any] = self.rows_at(range(len(self)))
        else:
            columns = [self.column(path) for path in fields]
            values = ([as_json(value) for value in found] for found in zip(*columns, strict=True))
        documents = [_document(value) for value in values]
        haystack = Haystack(documents, folding(case_sensitive))
        haystack.bytes += sum(map(len, documents))
        return haystack


def folding(case_sensitive: bool) -> Callable[[str], str]:
    """How the texts of a search are made comparable."""
    return str if case_sensitive else fold


def _document(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_plain(value))


def _plain(value: Any) -> Any:
    """The value in a form that every JSON library reads: large integers as text, lone surrogates as `?`."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_plain(inner) for inner in cast(list[Any], value)]
    if isinstance(value, dict):
        return {_plain(name): _plain(inner) for name, inner in cast(dict[str, Any], value).items()}
    return str(value) if isinstance(value, int) and value.bit_length() > 63 else value


def field_of(row: Any, path: str) -> Any:
    """The value of a field; a row that is no object has none."""
    return read_path(row, path) if row.__class__ is dict else MISSING


class RowsTable(Table):
    """A table of rows that are there already."""

    def __init__(self, rows: Sequence[Any]) -> None:
        super().__init__()
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def rows_at(self, positions: Sequence[int]) -> list[Any]:
        rows = self._rows
        return [rows[position] for position in positions]

    def make_column(self, path: str) -> Sequence[Any]:
        return [field_of(row, path) for row in self._rows]


class DerivedTable(Table):
    """A table whose rows are made of another's: row n of `origins[n]`."""

    def __init__(self, parent: Table, origins: Sequence[int]) -> None:
        super().__init__()
        self._parent = parent
        self._origins = origins
        self.depth = parent.depth + 1

    def __len__(self) -> int:
        return len(self._origins)

    def parents_column(self, path: str) -> list[Any]:
        """A column of the parent for the rows that this table has."""
        return list(map(self._parent.column(path).__getitem__, self._origins))

    def parents_rows(self, positions: Sequence[int]) -> list[Any]:
        """The rows of the parent that these rows come from."""
        return self._parent.rows_at([self._origins[position] for position in positions])

    def make_column(self, path: str) -> Sequence[Any]:
        return [field_of(row, path) for row in self.rows_at(range(len(self)))]


class SelectedTable(DerivedTable):
    """Only some fields, each under the name that the path gives it."""

    def __init__(self, parent: Table, origins: Sequence[int], paths: Sequence[str]) -> None:
        super().__init__(parent, origins)
        self._paths = {name_of(path): path for path in paths}

    def make_column(self, path: str) -> Sequence[Any]:
        source = self._paths.get(name_of(path))
        return super().make_column(path) if source is None else self.parents_column(source)

    def rows_at(self, positions: Sequence[int]) -> list[Any]:
        return [self._selected(row) for row in self.parents_rows(positions)]

    def _selected(self, row: Any) -> Any:
        if row.__class__ is not dict:
            return row
        fields = ((name, read_path(row, path)) for name, path in self._paths.items())
        return {name: value for name, value in fields if value is not MISSING}


class ExcludedTable(DerivedTable):
    """All but some fields."""

    def __init__(self, parent: Table, origins: Sequence[int], paths: Sequence[str]) -> None:
        super().__init__(parent, origins)
        self._paths = paths

    def make_column(self, path: str) -> Sequence[Any]:
        related = any(_overlap(path, excluded) for excluded in self._paths)
        return super().make_column(path) if related else self.parents_column(path)

    def rows_at(self, positions: Sequence[int]) -> list[Any]:
        rows = self.parents_rows(positions)
        for path in self._paths:
            rows = [_without(row, path) for row in rows]
        return rows


class FlatTable(DerivedTable):
    """A row for each element of a field's list; `values` are what the field holds in the rows of this table."""

    def __init__(self, parent: Table, origins: Sequence[int], path: str, values: Sequence[Any]) -> None:
        super().__init__(parent, origins)
        self._path = path
        self._columns[path] = self._values = values

    def make_column(self, path: str) -> Sequence[Any]:
        return super().make_column(path) if _overlap(path, self._path) else self.parents_column(path)

    def rows_at(self, positions: Sequence[int]) -> list[Any]:
        return [
            self._put_back(row, position) for row, position in zip(self.parents_rows(positions), positions, strict=True)
        ]

    def _put_back(self, row: Any, position: int) -> Any:
        was_list = self._parent.column(self._path)[self._origins[position]].__class__ is list
        return _with_field(row, self._path, as_json(self._values[position])) if was_list else row


def _flat_table(parent: Table, path: str, positions: Sequence[int]) -> FlatTable:
    column = parent.column(path)
    origins: list[int] = []
    values: list[Any] = []
    for position in positions:
        value = column[position]
        if value.__class__ is list:
            elements = value or [None]
            values += elements
            origins += [position] * len(elements)
            if len(values) > MOST_FLAT_ROWS:
                raise InvalidArgumentError(
                    f"flatten would make more than {MOST_FLAT_ROWS:,} rows.",
                    suggested_action="Filter or limit the rows in a step before it.",
                )
        else:
            values.append(value)
            origins.append(position)
    return FlatTable(parent, origins, path, values)


def _column_bytes(values: Sequence[Any]) -> int:
    """An estimate from some of the values; of lists and objects only the first level counts."""
    sampled = values[:: max(1, len(values) // _SAMPLED)]
    extra = sum(_held_bytes(value) for value in sampled) / max(1, len(sampled))
    return int(len(values) * (_VALUE_BYTES + extra))


def _held_bytes(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return len(value) * _ELEMENT_BYTES if value.__class__ in (list, dict) else 0


def name_of(path: str) -> str:
    """What a field is called in a row of its own: its plain name, or the path as it was given."""
    segments = split_path(path)
    return segments[0] if len(segments) == 1 else path


def _overlap(path: str, other: str) -> bool:
    """Whether the two could reach into the same top-level field."""
    return not {path, split_path(path)[0]}.isdisjoint({other, split_path(other)[0]})


def _without(row: Any, path: str) -> Any:
    """The row without a field; parents are copied, never changed."""
    if row.__class__ is not dict:
        return row
    fields = cast(dict[str, Any], row)
    return _cut_out(fields, [path] if path in fields else split_path(path))


def _cut_out(value: Any, segments: list[str]) -> Any:
    name, rest = segments[0], segments[1:]
    if isinstance(value, list):
        return _cut_out_of_list(cast(list[Any], value), segments)
    if not isinstance(value, dict) or name not in value:
        return cast(Any, value)
    fields = cast(dict[str, Any], value)
    if not rest:
        return {key: inner for key, inner in fields.items() if key != name}
    return fields | {name: _cut_out(fields[name], rest)}


def _cut_out_of_list(elements: list[Any], segments: list[str]) -> list[Any]:
    """A position reaches one element, whose fields go but not itself; a name reaches every object."""
    name, rest = segments[0], segments[1:]
    if not (name.isascii() and name.isdigit()):
        return [_cut_out(element, segments) for element in elements]
    return [
        _cut_out(element, rest) if rest and position == int(name[:12]) else element
        for position, element in enumerate(elements)
    ]


def _with_field(row: Any, path: str, value: Any) -> Any:
    """The row with another value in a field that it has; parents are copied, never changed."""
    if row.__class__ is not dict:
        return row
    fields = cast(dict[str, Any], row)
    segments = split_path(path)
    if path in fields or len(segments) == 1:
        return fields | {path if path in fields else segments[0]: value}
    for end in range(1, len(segments)):
        if not isinstance(read_segments(fields, segments[:end]), dict):
            return fields | {path: value}  # the way leads through a list, which has no single place for the value
    return _put_in(fields, segments, value)


def _put_in(fields: dict[str, Any], segments: list[str], value: Any) -> dict[str, Any]:
    name, rest = segments[0], segments[1:]
    return fields | {name: _put_in(fields[name], rest, value) if rest else value}
