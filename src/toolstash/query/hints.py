"""What to say of a field that no row has: a misspelt name gives an answer that looks right."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, cast

from toolstash.fieldpath import MISSING, escape_key
from toolstash.query.table import Table, field_of

_SAMPLED_ROWS = 20
_MOST_NAMES = 30


def field_hint(table: Table, path: str) -> str | None:
    """Says that no row has a field, and which fields there are; None where a row has it, or there is no row."""
    rows = table.rows_at(range(min(_SAMPLED_ROWS, len(table))))
    if not rows or any(field_of(row, path) is not MISSING for row in rows):
        return None
    if any(value is not MISSING for value in table.column(path)):
        return None
    fields = (cast(dict[str, Any], row) for row in rows if isinstance(row, dict))
    names = list(dict.fromkeys(escape_key(name)[:60] for names in fields for name in names))
    if not names:
        return "The rows are no objects, so they have no fields."
    near = get_close_matches(path, names, 1)
    meant = f" Did you mean '{near[0]}'?" if near else ""
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"No row has the field '{path:.60}'.{meant} There are {', '.join(names[:_MOST_NAMES])}{more}."
