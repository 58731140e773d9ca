"""The notice: what a model reads in place of the data. Small, whatever the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from toolstash.contracts import WorkspaceMeta, WorkspaceRef
from toolstash.tools.bound import ELLIPSIS, json_chars
from toolstash.tools.preview import shrink

DATA_CHARS = 1_500
WHOLE_CHARS = 3_000
PREVIEW_ROWS = 3
STEPS = 4

_METADATA_CHARS = 350
_SCHEMA_CHARS = 800
_SPARE_CHARS = 40  # key names and punctuation of one part
_NOTE_CHARS = 300


@dataclass(frozen=True, slots=True)
class ToolListing:
    """A tool as the notice names it; `summary` is the first line of its docstring."""

    name: str
    summary: str


def build_ref(
    meta: WorkspaceMeta,
    *,
    sample: Any,
    item_schema: dict[str, Any] | None,
    tools: Sequence[ToolListing],
    non_finite: int = 0,
    status: str = "workspace_ready",
    note: str = "",
) -> WorkspaceRef:
    """Describes a stored workspace within the bounds of the notice.

    What the data adds (id, schema, preview, metadata) stays within 1,500 characters of JSON and the whole within
    3,000. The preview gives way first, then the next steps, the schema, the metadata.

    Args:
        sample: The first rows of a list, the first fields of a dict, the start of a text, or the value itself.
        non_finite: How many NaN and infinite numbers were stored as null.
        note: One more sentence for the model.
    """
    left = DATA_CHARS - json_chars(meta.workspace_id) - _SPARE_CHARS
    metadata = _as_dict(shrink(dict(meta.extra), min(_METADATA_CHARS, left)))
    left -= json_chars(metadata) + _SPARE_CHARS
    schema = _shrink_schema(item_schema, min(_SCHEMA_CHARS, left)) if item_schema else None
    left -= json_chars(schema) + _SPARE_CHARS
    preview = _preview(meta, sample, left - _SPARE_CHARS)
    ref = WorkspaceRef(
        workspace_id=meta.workspace_id,
        workspace_type=str(shrink(meta.workspace_type, 100)),
        item_count=meta.item_count,
        data_shape=meta.data_shape,
        chars=meta.chars,
        status=status,
        producer_fn=meta.producer_fn,
        message=_message(meta, preview, bool(tools), non_finite, note),
        item_schema=schema,
        preview=preview,
        expires_in_seconds=meta.ttl,
        metadata=metadata,
    )
    return _with_tools(ref, tools)


def _with_tools(ref: WorkspaceRef, tools: Sequence[ToolListing]) -> WorkspaceRef:
    left = WHOLE_CHARS - json_chars(ref.to_dict()) - 2 * _SPARE_CHARS
    named = _name_tools(ref.workspace_id, tools, left)
    left -= json_chars(named)
    steps: list[str] = []
    for tool in tools[:STEPS]:
        step = f"{tool.name}: {tool.summary}"[:160]
        left -= json_chars(step) + 1
        if left < 0:
            break
        steps.append(step)
    return replace(ref, available_tools=named, next_steps=steps)


def _name_tools(workspace_id: str, tools: Sequence[ToolListing], budget: int) -> list[str]:
    """Full calls while they fit, then bare names, then how many more there are."""
    calls = [f"{tool.name}(workspace_id='{workspace_id}')" for tool in tools]
    names = [tool.name for tool in tools]
    for full in range(len(tools), -1, -1):
        listed = calls[:full] + names[full:]
        if json_chars(listed) <= budget:
            return listed
    for shown in range(len(names) - 1, -1, -1):
        listed = [*names[:shown], f"+{len(names) - shown} more"]
        if json_chars(listed) <= budget:
            return listed
    return []


def _preview(meta: WorkspaceMeta, sample: Any, budget: int) -> Any:
    if meta.data_shape != "list":
        return shrink(sample, budget) if sample not in ("", None) and budget > 20 else sample or None
    rows = cast(list[Any], sample)[:PREVIEW_ROWS]
    while rows:
        shown = [shrink(row, (budget - 2) // len(rows) - 1) for row in rows]
        if json_chars(shown) <= budget and not all(row == ELLIPSIS for row in shown):
            return shown
        rows = rows[:-1]
    return None


def _shrink_schema(schema: dict[str, Any], budget: int) -> dict[str, Any] | None:
    """Fewer fields until it fits; what is left out is counted under "…"."""
    if json_chars(schema) <= budget:
        return schema
    properties = cast(dict[str, Any], schema.get("properties") or {})
    more = cast(dict[str, Any], properties.get(ELLIPSIS) or {}).get("description", "+0")
    hidden = int("".join(filter(str.isdigit, more)) or 0)
    fields = [item for item in properties.items() if item[0] != ELLIPSIS]
    for count in range(len(fields) - 1, 0, -1):
        shown = dict(fields[:count])
        smaller = {
            "type": "object",
            "properties": shown | {ELLIPSIS: {"description": f"+{len(fields) - count + hidden} more fields"}},
            "required": [name for name in cast(list[str], schema.get("required", [])) if name in shown],
        }
        if json_chars(smaller) <= budget:
            return smaller
    return None


def _as_dict(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {ELLIPSIS: "left out"}


def _message(meta: WorkspaceMeta, preview: Any, has_tools: bool, non_finite: int, note: str) -> str:
    sentences = [_what(meta, preview)]
    if meta.item_count and has_tools:
        sentences.append("Use the tools with this workspace_id to read what you need; do not guess from the preview.")
    if non_finite:
        sentences.append(f"{non_finite:,} NaN or infinite numbers were stored as null.")
    if meta.ttl is not None:
        sentences.append(f"Kept for {meta.ttl:g} seconds.")
    if note:
        sentences.append(note[:_NOTE_CHARS])
    return " ".join(sentences)


def _what(meta: WorkspaceMeta, preview: Any) -> str:
    if meta.data_shape == "list":
        return _rows(meta.item_count, len(preview) if isinstance(preview, list) else 0)  # pyright: ignore[reportUnknownArgumentType]
    if meta.data_shape == "dict":
        if not meta.item_count:
            return "No rows: the tool returned an empty object, {}."
        keys = _counted(meta.item_count, "key")
        return f"An object with {keys} is stored, not shown in full; the preview shows a part of it."
    if isinstance(preview, str) and meta.chars:
        shown = len(preview.removesuffix(ELLIPSIS))
        if not preview.strip():
            return f"A text of {meta.chars:,} characters is stored; it holds only white space."
        return f"A text of {meta.chars:,} characters is stored, not shown in full; the preview is its first {shown:,}."
    if preview is None and meta.chars == len("null"):
        return "No rows: the tool returned nothing (null)."
    return "No rows: the tool returned an empty text." if not meta.chars else "A single value is stored: see preview."


def _rows(count: int, shown: int) -> str:
    if not count:
        return "No rows: the tool returned an empty list, []."
    stored = f"{_counted(count, 'row')} {'is' if count == 1 else 'are'} stored, not shown in full."
    if not shown:
        return f"{stored} No preview fits here."
    return f"{stored} The preview shows rows 0-{shown - 1} of {count:,}, long values cut."


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
