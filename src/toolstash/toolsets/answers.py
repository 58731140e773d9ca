"""How found rows are put into an answer: as many as fit, long fields cut, and how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolstash.contracts import Hit
from toolstash.tools.bound import FIELD_CHARS, PAGE_CHARS, fit_rows, fitting_count, json_chars
from toolstash.tools.toolset import ToolSet

_ENVELOPE = 40


def hit_entries(toolset: ToolSet, hits: Sequence[Hit]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The hits as a model reads them, the first that fit, and what of them was cut."""
    heads = [_head(hit) for hit in hits]
    items, cut = fitting_rows(toolset, [hit.item for hit in hits], [json_chars(head) for head in heads])
    cut = [entry | {"index": hits[int(entry["index"])].index} for entry in cut]
    return [head | {"item": item} for head, item in zip(heads, items, strict=False)], cut


def _head(hit: Hit) -> dict[str, Any]:
    if hit.score is None:
        return {"index": hit.index}
    return {"index": hit.index, "score": hit.score, "snippet": hit.snippet}


def fitting_rows(
    toolset: ToolSet, rows: Sequence[Any], extra: Sequence[int] | None = None
) -> tuple[list[Any], list[dict[str, Any]]]:
    """The first rows that fit into an answer, at least one, and what of them was cut. `extra` goes with each row."""
    room = toolset.room(PAGE_CHARS) - _ENVELOPE * 5
    more = [size + _ENVELOPE for size in extra] if extra is not None else [0] * len(rows)
    count = fitting_count(rows, room, extra=more, field_limit=FIELD_CHARS)
    fitted = fit_rows(rows[:count], 0, limit=max(1, room - sum(more[:count])), field_limit=FIELD_CHARS)
    return fitted.items, fitted.cut


def limited(wanted: int, most: int, shown: int, total: int, cut: Sequence[Any]) -> dict[str, Any]:
    """Which limit cut the answer; nothing where none did."""
    if cut or shown < min(wanted, most, total):
        return {"limited_by": "chars"} | ({"cut": list(cut)} if cut else {})
    return {"limited_by": "size"} if most < wanted and shown < total else {}


def tools_of(toolset: ToolSet, *names: str) -> str | None:
    """The whole name of the first of these tools that the set has."""
    return next((toolset.tool_name_of(name) for name in names if toolset.tool_name_of(name) in toolset.entries), None)


def how_to_read_on(toolset: ToolSet, cut: Sequence[Any]) -> str:
    """How a cut field is read whole, where the set has a tool for it."""
    get_item = tools_of(toolset, "get_item")
    if not cut or get_item is None:
        return ""
    return f" Read a cut field on with {get_item}(workspace_id, index, field, offset=next_offset)."
