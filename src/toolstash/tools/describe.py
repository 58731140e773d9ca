"""What a notice says of a payload besides its meta: the tools that can read it, the form of its rows, its size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolstash.contracts import DataShape
from toolstash.errors import UnstorableValueError
from toolstash.schema.infer import item_schema_of
from toolstash.store.codec import Tally, encode
from toolstash.store.payload import Payload
from toolstash.tools.notice import ToolListing
from toolstash.tools.toolset import ToolEntry, ToolSet


def encoded_chars(result: Any) -> float:
    """Characters of a result's JSON; infinite for one that has none, which storing will name."""
    tally = Tally()
    try:
        encode(result, tally)
    except UnstorableValueError:
        return math.inf
    return tally.chars


def tools_for(toolsets: Sequence[ToolSet], payload: Payload) -> list[ToolListing]:
    """The tools that can read this payload. Text tools cannot read a bare number."""
    if payload.kind == "value":
        return []
    return [
        ToolListing(entry.name, entry.schema.summary)
        for toolset in toolsets
        for entry in toolset.entries.values()
        if reads(entry, toolset, payload.shape)
    ]


def reads(entry: ToolEntry, toolset: ToolSet, shape: DataShape) -> bool:
    """Whether a tool explores workspaces of a shape."""
    takes_workspace = any(parameter.name == "workspace_id" for parameter in entry.schema.parameters)
    return takes_workspace and (entry.data_shape or toolset.data_shape) in (None, shape)


def schema_for(payload: Payload) -> dict[str, Any] | None:
    if payload.kind == "rows":
        return item_schema_of(payload.sample)
    return item_schema_of([payload.sample]) if payload.kind == "fields" else None


def toolsets_of(
    workspace_type: str, outputs: Iterable[tuple[str, Sequence[ToolSet]]], toolsets: Mapping[str, ToolSet]
) -> Sequence[ToolSet]:
    """The tool sets that explore a type: those that `outputs` names, the one of that name, else the generic ones."""
    found = {toolset.name: toolset for made, named in outputs if made == workspace_type for toolset in named}
    if workspace_type in toolsets:
        found[workspace_type] = toolsets[workspace_type]
    return list(found.values()) or [toolset for toolset in toolsets.values() if not toolset.enforce_type]
