"""Keeps what a model reads within bounds, without dropping anything that it could not read on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from toolstash.errors import UnstorableValueError
from toolstash.fieldpath import escape_key
from toolstash.store.codec import Codec, Tally, decode, encode

PAGE_CHARS = 12_000
FIELD_CHARS = 2_000
VALUE_CHARS = 20_000
ELLIPSIS = "…"

_LEAST_ROW = 100
_LEAST_FIELD = 16
_CUT_ENTRY = 80  # characters of one entry of `cut` that names no field
_MOST_CUT_FIELDS = 5
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def json_text(value: Any) -> str:
    """Compact JSON with non-ASCII characters as they are.

    A value with very large integers or lone surrogates is written by the standard library; its floats with an
    exponent are then a character longer (1e-07 for 1e-7).
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))


def json_chars(value: Any) -> int:
    """How many code points the JSON of a value has."""
    try:
        document = orjson.dumps(value)
    except TypeError:
        return len(json_text(value))
    return len(document) if document.isascii() else len(document.decode())


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text. `next_offset` is where to read on; None at the end."""

    text: str
    offset: int
    total_chars: int
    has_more: bool
    next_offset: int | None


def take_piece(text: str, offset: int, budget: int) -> Piece:
    """The longest stretch from `offset` on whose JSON form is within `budget` code points; at least one of the text.

    A surrogate pair kept as two code points stays together where the budget has room for both.
    """
    start = min(max(offset, 0), len(text))
    stretch = text[start : start + max(1, budget)]
    if _escaped_chars(stretch) > budget:
        stretch = stretch[: _longest_prefix(stretch, budget)]
    end = start + len(stretch)
    if len(stretch) > 1 and _is_high_half(stretch[-1]) and _is_low_half(text[end : end + 1]):
        stretch, end = stretch[:-1], end - 1
    return Piece(stretch, start, len(text), end < len(text), end if end < len(text) else None)


def _is_high_half(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def _is_low_half(char: str) -> bool:
    return "\udc00" <= char <= "\udfff"


def _longest_prefix(text: str, budget: int) -> int:
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _escaped_chars(text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def _escaped_chars(text: str) -> int:
    return json_chars(text) - 2


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows within their bounds. `cut` names what was shortened and where to read on."""

    items: list[Any]
    cut: list[dict[str, Any]]


def level(sizes: Iterable[int], room: int) -> int:
    """The largest cap with which the sizes, each counted up to the cap, are within `room` together; 0 if none is.

    Where all fit as they are, it is the largest size.
    """
    ordered = sorted(sizes)
    for done, size in enumerate(ordered):
        cap = room // (len(ordered) - done)
        if size > cap:
            return max(cap, 0)
        room -= size
    return ordered[-1] if ordered else 0


def fit_rows(
    rows: Sequence[Any], first_index: int, *, limit: int = PAGE_CHARS, field_limit: int = FIELD_CHARS
) -> FittedRows:
    """Shortens rows until their JSON, with what `cut` adds, is within `limit`; none is dropped.

    Each row may take an equal share (100 characters at least, however many rows there are), and what short rows
    leave over goes to the longer ones. A field above `field_limit` is always cut. An entry of `cut` is
    `{index, field, total_chars, next_offset}`: reading on at `next_offset` continues what is shown before the "…".
    Its `field` is None where the whole row became a prefix of its JSON text (of a text row: of the text), and
    where several fields were cut and only the row as a whole is named; then `next_offset` is 0.
    """
    sizes = [json_chars(row) for row in rows]
    if sum(sizes) <= limit and max(sizes, default=0) <= field_limit:
        return FittedRows(list(rows), [])
    measured = [
        _measured(index, row, size) for index, (row, size) in enumerate(zip(rows, sizes, strict=True), first_index)
    ]
    share = level([row.demand(field_limit) for row in measured], limit)
    fitted = FittedRows([], [])
    for row in measured:
        item, cut = _fit_row(row, max(min(row.demand(field_limit), share), _LEAST_ROW), field_limit)
        fitted.items.append(item)
        fitted.cut.extend(cut)
    return fitted


def fitting_count(rows: Sequence[Any], limit: int, *, extra: Sequence[int], field_limit: int = FIELD_CHARS) -> int:
    """How many of the first rows are within `limit` with no more than their long fields cut; at least one.

    `extra` is what goes with each row, in characters.
    """
    used = 0
    for count, (row, more) in enumerate(zip(rows, extra, strict=True)):
        used += _measured(0, row, json_chars(row)).bounded_size(field_limit) + more
        if used > limit and count:
            return count
    return len(rows)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row with its size as JSON; for a dict also the sizes of its fields."""

    index: int
    value: Any
    size: int
    fields: Mapping[str, int]

    def has_long_field(self, field_limit: int) -> bool:
        return self.size > field_limit and max(self.fields.values(), default=0) > field_limit

    def bounded_size(self, field_limit: int) -> int:
        """The size with fields cut to their bound."""
        if not self.has_long_field(field_limit):
            return self.size
        surplus = sum(size - field_limit for size in self.fields.values() if size > field_limit)
        return self.size - surplus + _CUT_ENTRY

    def demand(self, field_limit: int) -> int:
        """What the row would take if it had all the room it wants, its entry in `cut` included."""
        return self.size + _CUT_ENTRY if self.has_long_field(field_limit) else self.size


def _measured(index: int, row: Any, size: int) -> _Row:
    fields = cast(dict[str, Any], row) if isinstance(row, dict) else {}
    return _Row(index, row, size, {name: json_chars(value) for name, value in fields.items()})


_Cut = list[dict[str, Any]]


def _fit_row(row: _Row, room: int, field_limit: int) -> tuple[Any, _Cut]:
    if row.size <= room and not row.has_long_field(field_limit):
        return row.value, []
    fitted = _cut_fields(row, room, field_limit) if row.fields else None
    return fitted or _cut_whole(row, room)


def _cut_whole(row: _Row, room: int) -> tuple[str, _Cut]:
    text, shown, next_offset = _start_of(row.value, room - _CUT_ENTRY)
    return shown, [_cut_entry(row.index, None, len(text), next_offset)]


def _cut_fields(row: _Row, room: int, field_limit: int) -> tuple[dict[str, Any], _Cut] | None:
    """The row with its long fields cut to one cap, the largest that fits; None when no cap does."""
    frame = json_chars(dict.fromkeys(row.fields, 0)) - len(row.fields)
    cap = _field_cap(row.fields, room - frame, field_limit)
    if cap < _LEAST_FIELD:
        return None
    shown: dict[str, Any] = dict(row.value)
    cut: _Cut = []
    for name in (name for name, size in row.fields.items() if size > cap):
        text, shown[name], next_offset = _start_of(shown[name], cap)
        cut.append(_cut_entry(row.index, _path_to(name, row.fields), len(text), next_offset))
    left = room - frame - _taken(row.fields, cap)
    if len(cut) > _MOST_CUT_FIELDS or json_chars(cut) > left:
        cut = [_cut_entry(row.index, None, row.size, 0)]
    return shown, cut


def _field_cap(sizes: Mapping[str, int], room: int, field_limit: int) -> int:
    """How long a field may be. A fifth of the room is kept for `cut`, less where the field limit leaves enough."""
    if _taken(sizes, field_limit) + _CUT_ENTRY <= room:
        return field_limit
    return min(level(sizes.values(), room - max(_CUT_ENTRY, room // 5)), field_limit)


def _taken(sizes: Mapping[str, int], cap: int) -> int:
    return sum(min(size, cap) for size in sizes.values())


def _start_of(value: Any, budget: int) -> tuple[str, str, int | None]:
    """The text that the value is read in, its start with "…" (`budget` characters as JSON), and where that ends."""
    text = value if isinstance(value, str) else json_text(value)
    piece = take_piece(text, 0, budget - 3)
    return text, piece.text + ELLIPSIS, piece.next_offset


def _path_to(name: str, fields: Mapping[str, int]) -> str:
    """The field's path. Where another field is spelt like it, the plain name: a whole name wins over a path."""
    path = escape_key(name)
    return name if path in fields else path


def _cut_entry(index: int, field: str | None, total_chars: int, next_offset: int | None) -> dict[str, Any]:
    return {"index": index, "field": field, "total_chars": total_chars, "next_offset": next_offset}


def guard_result(result: Any, max_chars: int | None, *, is_json: bool = False) -> Any:
    """The last resort: a result that is strict JSON and within `max_chars`, or an error that says so.

    What is plain JSON already is returned as it is, the same object; other values take their JSON form, and NaN
    and infinity become null. A text counts by its own length, everything else by its JSON. The error itself is
    within `max_chars` where that is at least 500.

    Args:
        is_json: Whether the result is known to be plain JSON, as the built-in tools' answers are: only its size is
            looked at then.
    """
    try:
        document, codec, is_plain = _document_of(result)
    except UnstorableValueError as error:
        return error.to_llm_dict()
    if max_chars is not None and len(document) > max_chars:
        text = result if isinstance(result, str) else document.decode("utf-8", "surrogatepass")
        if len(text) > max_chars:
            return _too_large(text, max_chars)
    if is_json:
        return result
    # orjson writes enums, UUIDs and NaN without a word: only the comparison tells that they were converted.
    plain = decode(document, codec)
    return result if is_plain and plain == result else plain


def _document_of(result: Any) -> tuple[bytes, Codec, bool]:
    """The JSON of a result, and whether orjson took it as it is."""
    try:
        return orjson.dumps(result, option=_STRICT), "orjson", True
    except TypeError:
        pass
    tally = Tally()
    try:
        document = encode(result, tally)
    except UnstorableValueError:
        raise
    except Exception as error:
        raise UnstorableValueError(f"The result has no JSON form ({type(result).__name__}).") from error
    if tally.codec == "json":
        document = json_text(decode(document, "json")).encode("utf-8", "surrogatepass")
    return document, tally.codec, False


def _too_large(text: str, max_chars: int) -> dict[str, Any]:
    return {
        "error": f"The result has {len(text):,} characters; at most {max_chars:,} can be shown.",
        "truncated": True,
        "result_chars": len(text),
        "preview": take_piece(text, 0, min(2_000, max_chars // 2)).text,
        "suggested_action": "Ask for less at once: a smaller page, fewer characters, or one field.",
    }
