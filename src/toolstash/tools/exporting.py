"""Which tools of a Ctx a model is told of, in which form."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolstash.schema.names import near_names
from toolstash.schema.strict import NoStrictFormError, loose_tool, strict_tool
from toolstash.tools.tool import WholeEntry
from toolstash.tools.toolset import ToolEntry, ToolSet

if TYPE_CHECKING:
    from toolstash.tools.catalog import Catalog

logger = logging.getLogger("toolstash")

MOST_LISTED = 20


def exported(
    catalog: Catalog,
    workspace_id: str | None,
    *,
    toolsets: Sequence[str | ToolSet] | None,
    names: Sequence[str] | None,
    strict: bool,
) -> list[dict[str, Any]]:
    """See `Catalog.get_tools`."""
    if workspace_id is not None and (not workspace_id or not isinstance(workspace_id, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"workspace_id is the id of one workspace, not {workspace_id!r:.80}")
    producers, bound = producers_of(catalog), [*consumers_of(catalog), *explorers_of(catalog)]
    chosen = _chosen([*producers, *bound, *whole_tools_of(catalog)], catalog, toolsets, names)
    enums, is_bound = only_workspace(workspace_id), {entry.name for entry in bound}
    tools = [entry.schema.to_openai(enums=enums if entry.name in is_bound else None) for entry in chosen]
    return [_in_strict_form(tool) for tool in tools] if strict else tools


def producers_of(catalog: Catalog) -> list[ToolEntry]:
    return [entry for name, entry in catalog.entries.items() if name in catalog.producers]


def consumers_of(catalog: Catalog) -> list[ToolEntry]:
    return [entry for name, entry in catalog.entries.items() if name in catalog.exposed_consumers]


def explorers_of(catalog: Catalog) -> list[ToolEntry]:
    """The tools of all tool sets."""
    return [entry for toolset in catalog.toolsets.values() for entry in toolset.entries.values()]


def whole_tools_of(catalog: Catalog) -> list[ToolEntry]:
    """The tools made by hand."""
    return [entry for entry in catalog.entries.values() if isinstance(entry, WholeEntry)]


def only_workspace(workspace_id: str | None) -> dict[str, list[str]] | None:
    return None if workspace_id is None else {"workspace_id": [workspace_id]}


def _chosen(
    entries: list[ToolEntry],
    catalog: Catalog,
    toolsets: Sequence[str | ToolSet] | None,
    names: Sequence[str] | None,
) -> list[ToolEntry]:
    if toolsets is not None:
        sets = [toolset.name if isinstance(toolset, ToolSet) else toolset for toolset in _listed(toolsets, "toolsets")]
        _refuse_unknown("tool set", sets, catalog.toolsets)
        entries = [entry for entry in entries if entry.toolset is not None and entry.toolset.name in sets]
    if names is not None:
        wanted = _listed(names, "names")
        _refuse_unknown("tool", wanted, {entry.name: entry for entry in entries})
        entries = [entry for entry in entries if entry.name in wanted]
    return entries


def _listed(given: Iterable[Any], argument: str) -> list[Any]:
    if isinstance(given, (str, ToolSet)):
        raise TypeError(f"{argument} takes a list: {argument}=[…]")
    return list(given)


def _refuse_unknown(kind: str, wanted: list[Any], known: Mapping[str, Any]) -> None:
    unknown = next((name for name in wanted if name not in known), None)
    if unknown is None:
        return
    near = near_names(str(unknown), known)
    there = [*near, *(name for name in known if name not in near)]
    more = f" (+{len(there) - MOST_LISTED} more)" if len(there) > MOST_LISTED else ""
    hint = f"; did you mean '{near[0]}'?" if near else ""
    listed = f"there are: {', '.join(there[:MOST_LISTED])}{more}" if there else "there is none"
    raise ValueError(f"no {kind} {unknown!r:.80}{hint} ({listed})")


def _in_strict_form(tool: dict[str, Any]) -> dict[str, Any]:
    try:
        return strict_tool(tool)
    except NoStrictFormError as error:
        logger.info("the tool %s has no strict form: %s", tool["function"]["name"], error)
        return loose_tool(tool)
