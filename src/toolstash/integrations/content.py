"""What a model reads of a value: never empty, always sendable, and cut so that it stays JSON."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

from toolstash.contracts import Outcome
from toolstash.tools.bound import ELLIPSIS, json_chars, json_text, level, take_piece

LEAST_CHARS: Final = 20
"""The smallest `max_content_length`: room for saying that something was cut."""
NO_TEXT: Final = "(no text)"
"""In place of a blank text, which model APIs refuse."""

_ACTION: Final = "Ask for less at once: a smaller page, fewer rows or fields, or read on where it was cut."
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_MOST_NAMED: Final = 5
_PENDING_KEYS: Final = {"status", "call_id", "request", "suggested_action"}


def check_content_length(length: Any) -> None:
    """Raises ValueError for a `max_content_length` that is no number of characters with room for anything."""
    if length is None or (isinstance(length, int) and not isinstance(length, bool) and length >= LEAST_CHARS):
        return
    raise ValueError(f"max_content_length is a number of characters from {LEAST_CHARS} on, or None, not {length!r:.80}")


def content_of(outcome: Outcome, max_chars: int | None = None) -> str:
    """The content of a tool's message: a text as it is, anything else as JSON.

    Args:
        max_chars: Above it, the content is cut and says what is missing; it is then JSON in any case. A suspended call
            keeps what it is resumed with, even where that is longer.
    """
    text = _text_of(outcome.value)
    if max_chars is None or len(text) <= max_chars:
        return text
    told: Any = outcome.value
    if outcome.is_error and isinstance(told, dict) and isinstance(cast("dict[str, Any]", told).get("error"), str):
        return _short_error(cast("dict[str, Any]", told), max_chars)
    short = _cut(told, len(text), max_chars)
    if outcome.request is not None and waiting_call(short) != waiting_call(text):
        return text
    return short


def waiting_call(content: Any) -> str | None:
    """The id of the suspended call that a content tells of; None where it tells of none."""
    text = _text_in(content)
    if not text.startswith("{") or '"pending"' not in text:
        return None
    try:
        told: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if told.keys() - {"truncated"} != _PENDING_KEYS or told["status"] != "pending":
        return None
    return told["call_id"] if isinstance(told["call_id"], str) else None


def _text_in(content: Any) -> str:
    """A content's text: itself, or that of its only part, as some programs write it."""
    text = content
    if isinstance(content, (list, tuple)):
        parts = cast("list[Any]", content)
        part: Any = parts[0] if len(parts) == 1 else None
        text = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return _sendable(value) if value.strip() else NO_TEXT
    return _json_of(value)


def _sendable(text: str) -> str:
    """The text with pairs of surrogates joined and lone ones replaced, which have no UTF-8 form."""
    if _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _json_of(value: Any) -> str:
    return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text(value))


def _short_error(error: dict[str, Any], most: int) -> str:
    """What went wrong and what to do, as much of it as there is room for."""
    for kept in (("error", "suggested_action"), ("error",)):
        parts = {name: str(error[name]) for name in kept if error.get(name)}
        room = (most - len(_json_of(dict.fromkeys(parts, "")))) // max(1, len(parts))
        if room >= LEAST_CHARS:
            return _json_of({name: _beginning(part, room) for name, part in parts.items()})
    return _json_of({"error": _beginning(str(error["error"]), max(1, most - len('{"error":""}')))})


def _beginning(text: str, most: int) -> str:
    if len(_json_of(text)) - 2 <= most:
        return text
    return take_piece(text, 0, max(1, most - 1)).text[: most - 1] + ELLIPSIS


def _cut(value: Any, total_chars: int, most: int) -> str:
    """The value's beginning in its own shape, else a preview of its text, within `most` characters."""
    room = most - 60
    while room >= LEAST_CHARS:
        text = _json_of(_in_shape(value, total_chars, room))
        if len(text) <= most:
            return text
        room -= max(LEAST_CHARS, room // 5)
    short = _short_parts(value, most)
    if len(short) > 1:
        return _json_of(short)
    preview = {"truncated": True, "total_chars": total_chars}
    return next((text for text in (_json_of(preview), '{"truncated":true}') if len(text) <= most), '"…"')


def _short_parts(value: Any, most: int) -> dict[str, Any]:
    """The fields that fit as they are, the first ones first: the id of a workspace is one."""
    kept: dict[str, Any] = {"truncated": True}
    for name, field in cast("dict[str, Any]", value).items() if isinstance(value, dict) else ():
        longer = {**kept, name: field}
        if not isinstance(field, (list, dict)) and len(_json_of(longer)) <= most:
            kept = longer
    return kept


def _in_shape(value: Any, total_chars: int, room: int) -> dict[str, Any]:
    cut: list[str] = []
    if isinstance(value, dict):
        fitted: dict[str, Any] = _fitted(value, room, "", cut)
    else:
        name = "items" if isinstance(value, list) else "text"
        fitted = {name: _fitted(value, room, name, cut)}
    more = [f"+{len(cut) - _MOST_NAMED} more"] if len(cut) > _MOST_NAMED else []
    told = {"total_chars": total_chars, "cut": cut[:_MOST_NAMED] + more}
    return {**fitted, "truncated": told} | ({} if "suggested_action" in fitted else {"suggested_action": _ACTION})


def _fitted(value: Any, room: int, path: str, cut: list[str]) -> Any:
    """The beginning of a value whose JSON has about `room` characters; notes in `cut` what is missing."""
    if json_chars(value) <= room:
        return value
    if isinstance(value, list):
        return _first_items(cast("list[Any]", value), room, path, cut)
    if isinstance(value, dict):
        return _short_fields(cast("dict[str, Any]", value), room, path, cut)
    text = value if isinstance(value, str) else json_text(value)
    piece = take_piece(text, 0, room - 3)
    cut.append(f"{path}: {len(piece.text):,} of {len(text):,} characters")
    return piece.text + ELLIPSIS


def _first_items(items: list[Any], room: int, path: str, cut: list[str]) -> list[Any]:
    kept: list[Any] = []
    left = room - 2
    for item in items:
        left -= json_chars(item) + 1
        if left < 0:
            break
        kept.append(item)
    if not kept:
        kept = [_fitted(items[0], room - 2, f"{path}.0", cut)]
    if len(kept) < len(items):
        cut.append(f"{path}: {len(kept):,} of {len(items):,} items")
    return kept


def _short_fields(fields: dict[str, Any], room: int, path: str, cut: list[str]) -> dict[str, Any]:
    """Every field that is short, the others cut to one size; only the first ones where there are too many."""
    sizes = {name: json_chars(field) for name, field in fields.items()}
    shown, left = _first_names(sizes, room)
    if len(shown) < len(fields):
        cut.append(f"{path or 'the whole'}: {len(shown):,} of {len(fields):,} fields")
    cap = level([sizes[name] for name in shown], left)
    inner = f"{path}." if path else ""
    return {
        name: fields[name] if sizes[name] <= cap else _fitted(fields[name], cap, f"{inner}{name:.60}", cut)
        for name in shown
    }


def _first_names(sizes: dict[str, int], room: int) -> tuple[list[str], int]:
    """The names that fit with some room for their values, and how much their values have."""
    shown: list[str] = []
    left = room - 2
    needed = 0
    for name, size in sizes.items():
        frame, least = json_chars(name) + 2, min(size, LEAST_CHARS)
        if left - frame < needed + least:
            break
        shown.append(name)
        left -= frame
        needed += least
    return shown, left
