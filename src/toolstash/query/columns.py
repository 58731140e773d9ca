"""What an index holds of the fields of rows, so that a server can compare, order and group them exactly.

Equality goes by tags: a digest of the typed value, so that nothing in a value can be taken for a query, and values of
any length and kind compare right. Numbers are indexed as numbers only where each is one that a double holds exactly.
A field with few values is grouped by codes: the places of its values in `Column.values`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolstash.fieldpath import MISSING, escape_key
from toolstash.query.table import Table
from toolstash.query.values import equality_key

MOST_COLUMNS = 40
MOST_CODES = 500
MOST_CODED_CHARS = 8_000
LONGEST_TAGGED = 100
LONGEST_LIST = 100
ELEMENTS_A_ROW = 50
"""Tags for elements of lists, of all columns together and in the mean of the rows."""

EXACT = 2**53

_SAMPLED_ROWS = 200
_LEVELS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What is known of one field in all rows.

    Attributes:
        place: Its number among the columns of the index.
        kinds: The kinds of its values: "number", "string", "boolean", "list", "object", "null", "missing".
        is_exact: Whether all its numbers are exact as doubles.
        adds_up: Whether all its numbers are whole and any sum of them is exact too.
        is_tagged: Whether its values have tags. Long lists have none: each element costs the server as much as a row.
        values: Its distinct values in the order of their first rows, null for a missing one; None where there are too
            many, or where one value has two spellings (1 and 1.0).
    """

    place: int
    kinds: frozenset[str]
    is_exact: bool
    adds_up: bool
    is_tagged: bool
    values: Sequence[Any] | None

    @property
    def is_numeric(self) -> bool:
        """Whether the index has its numbers as numbers: it holds no other values, and all are exact."""
        return "number" in self.kinds and self.is_exact and self.kinds <= {"number", "null", "missing"}

    @property
    def group_field(self) -> str | None:
        """The field of documents that rows are grouped by: whole numbers as such, others by codes; None for none."""
        if self.values is None:
            return None
        return f"v{self.place}" if self.is_numeric and self.adds_up else f"c{self.place}"

    def group_value(self, group: Mapping[str, str]) -> Any:
        """The value of a group, by what the index says of it."""
        found = group.get(cast(str, self.group_field))
        if self.is_numeric and self.adds_up:
            return None if found is None else int(found)
        return cast(Sequence[Any], self.values)[int(cast(str, found))]

    @property
    def is_only_numbers(self) -> bool:
        """Whether every row has a number in it."""
        return self.is_numeric and len(self.kinds) == 1


def choose_paths(table: Table) -> list[str]:
    """The first 40 fields (dotted paths) that hold something else than objects in a sample of the rows."""
    step = max(1, len(table) // _SAMPLED_ROWS)
    found: dict[str, None] = {}
    for row in table.rows_at(range(0, len(table), step)):
        if isinstance(row, dict):
            found |= dict.fromkeys(_leaves(cast(dict[str, Any], row), "", _LEVELS))
    return list(found)[:MOST_COLUMNS]


def _leaves(fields: dict[str, Any], parent: str, levels: int) -> Iterator[str]:
    for name, value in fields.items():
        path = parent + escape_key(name)
        objects = _objects_in(value)
        if not objects:
            yield path
        elif levels > 1:
            for inner in objects[:5]:
                yield from _leaves(inner, f"{path}.", levels - 1)


def _objects_in(value: Any) -> list[dict[str, Any]]:
    held = cast(list[Any], value) if isinstance(value, list) else [value]
    return [cast(dict[str, Any], element) for element in held if isinstance(element, dict)]


class ColumnReader:
    """Learns of a column what there is to know, some values at a time."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._kinds: set[str] = set()
        self._is_exact = self._is_whole = True
        self._size: int | float = 0
        self._longest = 0
        self.elements = 0
        """How many elements its lists have in all."""
        self._coding = _Coding()

    def read(self, values: Sequence[Any]) -> None:
        """Takes in the values of more rows."""
        for value in values:
            kind = _KINDS[value.__class__]
            self._kinds.add(kind)
            if kind == "number":
                self._is_exact = self._is_exact and is_double(value)
                self._is_whole = self._is_whole and isinstance(value, int)
                self._size += abs(value)
            elif kind == "list":
                self.elements += len(value)
                self._longest = max(self._longest, len(value))
            self._coding.add(value)

    def column(self, most_elements: int) -> Column:
        """What has been learned. Lists have tags if they have no more elements than that in all, and are short."""
        return Column(
            place=self._place,
            kinds=frozenset(self._kinds),
            is_exact=self._is_exact,
            adds_up=self._is_whole and self._size < EXACT,
            is_tagged=self._longest <= LONGEST_LIST and self.elements <= most_elements,
            values=self._coding.values,
        )


_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "list",
    dict: "object",
    type(None): "null",
    type(MISSING): "missing",
}


def is_double(number: int | float) -> bool:
    """Whether a double holds the number exactly."""
    return isinstance(number, float) or -EXACT <= number <= EXACT


class _Coding:
    """Collects the distinct values of a column, until there are too many."""

    def __init__(self) -> None:
        self.values: list[Any] | None = []
        self._spellings: dict[Any, str] = {}
        self._chars = 0

    def add(self, value: Any) -> None:
        if self.values is None:
            return
        key = equality_key(value)
        known = self._spellings.get(key)
        if known is not None and value.__class__ is str:
            return
        spelling = json.dumps(None if value is MISSING else value)
        if known is None:
            self._chars += len(spelling)
            self._spellings[key] = spelling
            self.values.append(None if value is MISSING else value)
        if spelling != self._spellings[key] or len(self.values) > MOST_CODES or self._chars > MOST_CODED_CHARS:
            self.values = None


def tags_of(column: Column, value: Any) -> set[str]:
    """The tags of a row's value: its own, and one for each element of a list. Long values have none."""
    keys = {equality_key(value)}
    if value.__class__ is list:
        keys.update(map(equality_key, value))
    return {tag for key in keys if (tag := tag_of_key(column.place, key)) is not None}


def tag_of(column: Column, value: Any) -> str | None:
    """The tag that every row with this value (or with a list that holds it) has; None where it is too long for one."""
    return tag_of_key(column.place, equality_key(value))


def tag_of_key(place: int, key: Any) -> str | None:
    """`tag_of` for a value's equality key: 20 letters and digits of BLAKE2b, or for null the column's own."""
    if key is None:
        return f"{place}null"
    text = f"s{key}" if key.__class__ is str else _canonical(key)
    if len(text) > LONGEST_TAGGED:
        return None
    digest = hashlib.blake2b(f"{place} {text}".encode("utf-8", "surrogatepass"), digest_size=15).digest()
    return base64.b64encode(digest, altchars=b"__").decode("ascii")


def _canonical(key: Any) -> str:
    """A text for an equality key, the same for equal keys and only for them; a string in it is in quotes."""
    kind = key.__class__
    if kind is str:
        return json.dumps(key)
    if kind is float or kind is int:
        return f"n{int(key) if key == key // 1 else key!r}"
    if key is None:
        return "null"
    name, content = key
    if name == "boolean":
        return f"b{content}"
    if name == "list":
        return f"[{','.join(map(_canonical, content))}]"
    return "{" + ",".join(sorted(f"{json.dumps(field)}:{_canonical(inner)}" for field, inner in content)) + "}"
