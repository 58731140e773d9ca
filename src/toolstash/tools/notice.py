"""The notice: what a model reads in place of the data. Small, whatever the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from toolstash.contracts import WorkspaceMeta, WorkspaceRef
from toolstash.tools.bound import ELLIPSIS, guard_result, json_chars, level
from toolstash.tools.notice_message import message_of
from toolstash.tools.notice_schema import shorten_schema
from toolstash.tools.preview import shrink, shrink_fields, size_within

DATA_CHARS = 1_500
WHOLE_CHARS = 3_000
PREVIEW_ROWS = 3
STEPS = 4

_SPARE_CHARS = 40  # key names and punctuation of one part
_METADATA_CHARS = 350
_SCHEMA_CHARS = 800
_TYPE_CHARS = 100
_STEP_CHARS = 160
_LEAST_ROW = 90  # characters below which fewer rows tell more
_LEAST_PREVIEW = 16

_USEFUL_FIRST = ("search", "pipe", "filter_by", "paginate", "search_in_text", "read_page", "get_keys", "get_value")
_USEFUL_LAST = ("get_item", "aggregate", "sort_by", "field_values", "get_slice", "count", "get_length")
_CHANGING = ("append_items", "update_item", "patch_item", "delete_items")


@dataclass(frozen=True, slots=True)
class ToolListing:
    """A tool as the notice names it; `summary` is the first line of its docstring."""

    name: str
    summary: str


def build_ref(
    meta: WorkspaceMeta,
    *,
    sample: Any,
    item_schema: Mapping[str, Any] | None,
    tools: Sequence[ToolListing],
    non_finite: int = 0,
    status: str = "workspace_ready",
    note: str = "",
) -> WorkspaceRef:
    """Describes a stored workspace within the bounds of the notice.

    What the data adds (id, schema, preview, metadata) stays within 1,500 characters of JSON and the whole within
    3,000. The preview gives way first, then the next steps, the schema, the metadata; the id never does.

    Args:
        sample: The first rows of a list, the first fields of a dict, the start of a text, or the value itself.
        item_schema: JSON Schema of a row; of a long one the first fields are kept.
        tools: Those that can read the workspace. All are named, as far as they fit.
        non_finite: How many NaN and infinite numbers were stored as null.
        note: One more sentence for the model, up to 300 characters.
    """
    left = DATA_CHARS - json_chars(meta.workspace_id) - _SPARE_CHARS
    metadata = _metadata(meta.extra, min(_METADATA_CHARS, left))
    left -= json_chars(metadata) + _SPARE_CHARS
    schema = shorten_schema(item_schema, min(_SCHEMA_CHARS, left)) if item_schema else None
    left -= json_chars(schema) + _SPARE_CHARS
    preview = _preview(meta, sample, left - _SPARE_CHARS)
    ref = WorkspaceRef(
        workspace_id=meta.workspace_id,
        workspace_type=str(shrink(meta.workspace_type, _TYPE_CHARS)),
        item_count=meta.item_count,
        data_shape=meta.data_shape,
        chars=meta.chars,
        status=status,
        producer_fn=meta.producer_fn,
        message=message_of(meta, sample, preview, has_tools=bool(tools), non_finite=non_finite, note=note),
        item_schema=schema,
        preview=preview,
        expires_in_seconds=meta.ttl,
        metadata=metadata,
    )
    return _with_tools(ref, tools)


def _metadata(extra: Mapping[str, Any], budget: int) -> dict[str, Any]:
    if not extra or budget < _LEAST_PREVIEW:
        return {}
    plain = guard_result(dict(extra), None)
    shown = shrink(plain, budget)
    if isinstance(shown, dict):
        return cast(dict[str, Any], shown)
    counted = {ELLIPSIS: f"+{len(plain):,} more"}
    return counted if json_chars(counted) <= budget else {}


def _preview(meta: WorkspaceMeta, sample: Any, budget: int) -> Any:
    """The start of the data, cut to the budget; None where nothing of it fits."""
    if budget < _LEAST_PREVIEW:
        return None
    if meta.data_shape == "list":
        return _first_rows(sample, budget)
    if isinstance(sample, dict) and len(cast(dict[str, Any], sample)) < meta.item_count:
        shown = shrink_fields(cast(dict[str, Any], sample), budget, meta.item_count)
    elif isinstance(sample, str) and len(sample) < meta.chars:
        shown = shrink(sample + ELLIPSIS, budget)
    else:
        shown = shrink(sample, budget)
    return None if shown == ELLIPSIS != sample else shown


def _first_rows(sample: Sequence[Any], budget: int) -> list[Any] | None:
    """Three rows, long values cut; fewer where three would show next to nothing."""
    for count in range(min(PREVIEW_ROWS, len(sample)), 0, -1):
        rows = sample[:count]
        sizes = [size_within(row, budget) for row in rows]
        cap = level(sizes, budget - 1 - count)
        if cap >= min(_LEAST_ROW if count > 1 else _LEAST_PREVIEW, max(sizes)):
            shown = [shrink(row, cap) for row in rows]
            return None if all(row == ELLIPSIS for row in shown) else shown
    return None


def _with_tools(ref: WorkspaceRef, tools: Sequence[ToolListing]) -> WorkspaceRef:
    left = WHOLE_CHARS - json_chars(ref.to_dict()) - 2 * _SPARE_CHARS
    named = _name_tools(ref.workspace_id, [tool.name for tool in tools], left)
    return replace(ref, available_tools=named, next_steps=_steps(tools, left - json_chars(named)))


def _name_tools(workspace_id: str, names: list[str], budget: int) -> list[str]:
    """Full calls while they fit, then bare names, then how many more there are."""
    calls = [f"{name}(workspace_id='{workspace_id}')" for name in names]
    for full in range(len(names), -1, -1):
        listed = calls[:full] + names[full:]
        if json_chars(listed) <= budget:
            return listed
    for shown in range(len(names) - 1, -1, -1):
        listed = [*names[:shown], f"+{len(names) - shown} more"]
        if json_chars(listed) <= budget:
            return listed
    return []


def _steps(tools: Sequence[ToolListing], budget: int) -> list[str]:
    """What the most useful tools do, one line each, as many as fit."""
    steps: list[str] = []
    left = budget - 2
    for tool in sorted(tools, key=_usefulness)[:STEPS]:
        step = str(shrink(f"{tool.name}: {tool.summary}", _STEP_CHARS))
        left -= json_chars(step) + 1
        if left >= 0:
            steps.append(step)
    return steps


def _usefulness(tool: ToolListing) -> int:
    """Tools that find come first, then those of the program itself, then those that read one thing or change it."""
    ranked = (*_USEFUL_FIRST, None, *_USEFUL_LAST, *_CHANGING)
    for rank, suffix in enumerate(ranked):
        if suffix is not None and f"_{tool.name}".endswith(f"_{suffix}"):
            return rank
    return ranked.index(None)
