"""What to say of a field that no row has: a misspelt name gives an answer that looks right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, cast

from toolstash.fieldpath import MISSING, escape_key
from toolstash.query.table import DerivedTable, Table, field_of

_SAMPLED_ROWS = 5
_MOST_NAMES = 30
MOST_LOOKED_UP = 5


def first_hint(table: Table, paths: Iterable[str]) -> str | None:
    """Says of the first field that no row has which fields there are; None where each is in some row."""
    if isinstance(table, DerivedTable):
        return None  # whose columns would have to be made just for this
    rows: list[Any] | None = None
    looked_up = 0
    for path in paths:
        rows = table.rows_at(range(min(_SAMPLED_ROWS, len(table)))) if rows is None else rows
        if not rows or any(field_of(row, path) is not MISSING for row in rows):
            continue
        looked_up += 1
        if looked_up > MOST_LOOKED_UP:
            return None
        if all(value is MISSING for value in table.column(path)):
            return _no_such_field(rows, path)
    return None


def _no_such_field(rows: Sequence[Any], path: str) -> str:
    fields = (cast(dict[str, Any], row) for row in rows if isinstance(row, dict))
    names = list(dict.fromkeys(escape_key(name)[:60] for names in fields for name in names))
    if not names:
        return "The rows are no objects, so they have no fields."
    near = get_close_matches(path[:200], names[:1_000], 1)
    meant = f" Did you mean '{near[0]}'?" if near else ""
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"No row has the field '{path:.60}'.{meant} There are {', '.join(names[:_MOST_NAMES])}{more}."
