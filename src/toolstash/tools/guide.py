"""The part of a system prompt that says how the tools of a Ctx go together. It names only what there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from toolstash.schema.function import function_name
from toolstash.tools.exporting import consumers_of, explorers_of, producers_of, whole_tools_of
from toolstash.tools.toolset import ToolEntry

if TYPE_CHECKING:
    from toolstash.tools.catalog import Catalog

MOST_TOOLS: Final = 6
MOST_LINES: Final = 30
SUMMARY_CHARS: Final = 160

_STEPS: Final = '[{"filter": {"year": {"$gte": 2023}}}, {"sort": {"field": "score", "order": "desc"}}, {"limit": 5}]'
_METRICS: Final = '{"n": "count", "average": "mean:score"}'
_WAYS: Final[Mapping[str, str]] = {
    "search": "finds rows by words, the best first",
    "field_values": "lists which values a field has, and how often",
    "filter_by": "finds rows by a condition on one field",
    "sort_by": "gives the first rows in the order of a field",
    "pipe": f"runs several steps in one call, such as steps={_STEPS}",
    "aggregate": f"computes metrics, of all rows or by group, such as metrics={_METRICS}",
    "paginate": "reads page by page",
    "get_slice": "reads the rows from one position to another",
    "get_item": "reads one row by its index, and on where a long field was cut",
    "get_keys": "lists the keys of an object",
    "get_value": "reads a value of an object by its dotted path",
    "search_in_text": "finds a text's passages with some words",
    "read_page": "reads a text page by page",
    "append_items": "adds rows",
    "update_item": "replaces a row",
    "patch_item": "sets fields of a row",
    "delete_items": "removes rows",
}
"""What a built-in tool's function is called → what it does, the most direct ways first."""

_PAGED: Final = frozenset({"paginate", "read_page"})


def guide(catalog: Catalog) -> str:
    """The guide's text; empty where there are no tools."""
    producers, consumers = producers_of(catalog), consumers_of(catalog)
    explorers, others = explorers_of(catalog), whole_tools_of(catalog)
    if not (producers or consumers or explorers or others):
        return ""
    sections = [
        _section("Tools that fetch", _stored_note(explorers), (_producer_line(catalog, one) for one in producers)),
        _section("Tools that work on a workspace", "", (_line(one) for one in consumers)),
        _section("Reading a workspace", _reading_note(explorers), _ways(explorers)),
        _section("Other tools", "", (_line(one) for one in others)),
        "## Errors\nA result with `error` says in `suggested_action` what to do. Repair the call and send it again.",
    ]
    return "\n\n".join(filter(None, sections))


def _section(title: str, note: str, lines: Iterable[str]) -> str:
    listed = list(lines)
    if not listed:
        return ""
    more = [f"- +{len(listed) - MOST_LINES} more"] if len(listed) > MOST_LINES else []
    return "\n".join([f"## {title}", *filter(None, [note]), *listed[:MOST_LINES], *more])


def _stored_note(explorers: list[ToolEntry]) -> str:
    way = "read what you need of it with the tools below, and do not fetch it again" if explorers else "it says more"
    return (
        "Their results are stored as workspaces. What comes back is a notice with the `workspace_id`, the fields and a "
        f"few rows, not the data: {way}."
    )


def _reading_note(explorers: list[ToolEntry]) -> str:
    kinds = {function_name(entry.run) for entry in explorers if entry.is_builtin}
    if not kinds:
        return "Each takes the `workspace_id` of a notice."
    signs = "`has_more` or `has_next`" if kinds & _PAGED else "`has_more`"
    return (
        "Each takes the `workspace_id` of a notice. A result may be a part of the whole: "
        f"where {signs} is true, or something was cut, there is more to read."
    )


def _line(entry: ToolEntry) -> str:
    summary = entry.schema.summary
    return f"- `{entry.name}`: {summary if len(summary) <= SUMMARY_CHARS else summary[: SUMMARY_CHARS - 1] + '…'}"


def _producer_line(catalog: Catalog, entry: ToolEntry) -> str:
    toolsets = catalog.toolsets_for_type(catalog.producers[entry.name].workspace_type)
    names = [name for toolset in toolsets for name in toolset.tool_names]
    if not names:
        return _line(entry)
    more = f" (+{len(names) - MOST_TOOLS} more)" if len(names) > MOST_TOOLS else ""
    return f"{_line(entry)} Read with: {', '.join(names[:MOST_TOOLS])}{more}."


def _ways(explorers: list[ToolEntry]) -> list[str]:
    """A line for each kind of built-in tool that is there, then one for each tool of the program's own."""
    built_in = [entry for entry in explorers if entry.is_builtin]
    kinds = {function_name(entry.run): entry for entry in reversed(built_in)}
    several = len({entry.toolset.name for entry in built_in if entry.toolset is not None}) > 1
    shown = {kind: f"…_{kind}" if several else kinds[kind].name for kind in _WAYS if kind in kinds}
    ways = [f"- `{name}` {_WAYS[kind]}." for kind, name in shown.items()]
    return ways + [_line(entry) for entry in explorers if not entry.is_builtin]
