"""Keeps what a model reads within bounds, without dropping anything that it could not read on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from toolstash.errors import UnstorableValueError
from toolstash.fieldpath import escape_key
from toolstash.store.codec import Tally, decode, encode
from toolstash.store.values import count_non_finite

PAGE_CHARS = 12_000
FIELD_CHARS = 2_000
VALUE_CHARS = 20_000
ELLIPSIS = "…"

_LEAST_FIELD = 16
_MOST_CUT_FIELDS = 5
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def json_text(value: Any) -> str:
    """Compact JSON with non-ASCII characters as they are."""
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
    """The longest stretch from `offset` on whose JSON form is within `budget` code points; at least one of the text."""
    start = min(max(offset, 0), len(text))
    stretch = text[start : start + max(1, budget)]
    if _escaped_chars(stretch) > budget:
        stretch = stretch[: _longest_prefix(stretch, budget)]
    end = start + len(stretch)
    return Piece(stretch, start, len(text), end < len(text), end if end < len(text) else None)


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


def fit_rows(
    rows: Sequence[Any], first_index: int, *, limit: int = PAGE_CHARS, field_limit: int = FIELD_CHARS
) -> FittedRows:
    """Shortens rows until their JSON is within `limit`; none is dropped.

    Each row may take an equal share, and what short rows leave over goes to the longer ones. A field above
    `field_limit` is always cut. An entry of `cut` is `{index, field, total_chars, next_offset}`; its field is None
    where the whole row became a prefix of its JSON text, or where more than five fields were cut.
    """
    sizes = [json_chars(row) for row in rows]
    if sum(sizes) <= min(limit, field_limit):
        return FittedRows(list(rows), [])
    fitted = FittedRows([], [])
    for place, (row, share) in enumerate(zip(rows, _shares(sizes, limit), strict=True)):
        index = first_index + place
        item, cut = _fit_row(row, index, sizes[place], share, field_limit)
        fitted.items.append(item)
        fitted.cut.extend(cut)
    return fitted


def _shares(sizes: Sequence[int], limit: int) -> list[int]:
    shares = [0] * len(sizes)
    left = limit
    for done, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[place] = min(sizes[place], left // (len(sizes) - done))
        left -= shares[place]
    return shares


def _fit_row(row: Any, index: int, size: int, share: int, field_limit: int) -> tuple[Any, list[dict[str, Any]]]:
    if size <= min(share, field_limit):
        return row, []
    if isinstance(row, dict):
        cut_row = _cut_fields(cast(dict[str, Any], row), index, share, field_limit)
        if cut_row is not None:
            return cut_row
    elif size <= share:
        return row, []
    text = row if isinstance(row, str) else json_text(row)
    piece = take_piece(text, 0, share - 3)
    return piece.text + ELLIPSIS, [_cut_entry(index, None, len(text), piece.next_offset)]


def _cut_fields(
    row: Mapping[str, Any], index: int, share: int, field_limit: int
) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """The row with its long fields cut to one cap, the largest that fits; None when no cap does."""
    sizes = {key: json_chars(value) for key, value in row.items()}
    frame = 2 + sum(json_chars(key) + 2 for key in row)

    def total(cap: int) -> int:
        return frame + sum(min(size, cap) for size in sizes.values())

    if total(_LEAST_FIELD) > share:
        return None
    low, high = _LEAST_FIELD, field_limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if total(middle) <= share else (low, middle - 1)
    shown: dict[str, Any] = {}
    cut: list[dict[str, Any]] = []
    for key, value in row.items():
        if sizes[key] <= low:
            shown[key] = value
            continue
        text = value if isinstance(value, str) else json_text(value)
        piece = take_piece(text, 0, low - 3)
        shown[key] = piece.text + ELLIPSIS
        cut.append(_cut_entry(index, escape_key(key), len(text), piece.next_offset))
    if len(cut) > _MOST_CUT_FIELDS:
        cut = [_cut_entry(index, None, frame + sum(sizes.values()), 0)]
    return shown, cut


def _cut_entry(index: int, field: str | None, total_chars: int, next_offset: int | None) -> dict[str, Any]:
    return {"index": index, "field": field, "total_chars": total_chars, "next_offset": next_offset}


def guard_result(result: Any, max_chars: int | None) -> Any:
    """The last resort: a result that is strict JSON and within `max_chars`, or an error that says so.

    What is fine already is returned as it is. Other values take their JSON form; NaN and infinity become null.
    """
    if isinstance(result, str) and type(result) is str:
        return result if max_chars is None or len(result) <= max_chars else _too_large(result, len(result), max_chars)
    try:
        document = orjson.dumps(result, option=_STRICT)
        plain = result
        if b"null" in document and count_non_finite(result):
            plain = orjson.loads(document)
    except TypeError:
        tally = Tally()
        try:
            document = encode(result, tally)
        except UnstorableValueError as error:
            return error.to_llm_dict()
        plain = decode(document, tally.codec)
        if tally.codec == "json":
            document = json_text(plain).encode("utf-8", "surrogatepass")
    if max_chars is None or len(document) <= max_chars:
        return plain
    text = document.decode("utf-8", "surrogatepass")
    return plain if len(text) <= max_chars else _too_large(text, len(text), max_chars)


def _too_large(text: str, chars: int, max_chars: int) -> dict[str, Any]:
    return {
        "error": f"The result has {chars:,} characters; at most {max_chars:,} can be shown.",
        "truncated": True,
        "result_chars": chars,
        "preview": take_piece(text, 0, min(2_000, max_chars // 4)).text,
        "suggested_action": "Ask for less at once: a smaller page, fewer characters, or one field.",
    }
