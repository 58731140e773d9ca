"""Rows of list workspaces by a condition on one field, and in the order of a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from toolstash.contracts import WorkspaceMeta
from toolstash.errors import InvalidArgumentError
from toolstash.query.conditions import compile_leaf
from toolstash.query.questions import Filter, Hits, Sort
from toolstash.schema.jsontext import read_json_twice
from toolstash.tools.bound import json_chars, json_text
from toolstash.tools.ctx import Ctx
from toolstash.tools.preview import shrink
from toolstash.tools.toolset import ToolSet, ToolSetSpec, make_toolset
from toolstash.toolsets.answers import hit_entries, how_to_read_on, limited, tools_of
from toolstash.toolsets.bounds import at_least

MAX_RESULTS = 200
SHOWN_CHARS = 200

Operator = Literal["eq", "ne", "lt", "lte", "gt", "gte", "contains", "startswith", "in", "nin", "exists"]


def filter_set(
    ctx: Ctx, name: str | None = None, *, max_results_cap: int = MAX_RESULTS, enforce_type: bool = True
) -> ToolSet | ToolSetSpec:
    """Tools `filter_by` and `sort_by` for lists.

    Args:
        name: What tool names start with; None: the producer's workspace type.
        max_results_cap: Rows of one answer at most.
        enforce_type: Whether only workspaces of the type `name` are accepted.

    Raises:
        ValueError: The bound is below 1.
    """
    if max_results_cap < 1:
        raise ValueError(f"max_results_cap must be at least 1, not {max_results_cap}")
    return make_toolset(
        ctx, name, lambda toolset: _Filter(toolset, max_results_cap).register(), enforce_type=enforce_type
    )


class _Filter:
    """The tools of one set."""

    def __init__(self, toolset: ToolSet, cap: int) -> None:
        self._toolset = toolset
        self._cap = cap

    def register(self) -> None:
        """Puts the tools into the set."""
        self._toolset.add_builtin(self.filter_by, "list")
        self._toolset.add_builtin(self.sort_by, "list")

    async def filter_by(
        self, workspace_id: str, field: str, value: Any, operator: Operator = "eq", limit: int = 50
    ) -> dict[str, Any]:
        """Return the items whose field meets a condition, in their order.

        Args:
            workspace_id: Id from the notice.
            field: The field (dotted path such as 'author.name' or 'tags.0').
            value: What to compare with: a number, text, true, false or null; a list for 'in' and 'nin'.
            operator: How. 'eq' and 'contains' also match an element of a list; 'exists' takes true or false.
            limit: Items to return.
        """
        wanted = at_least("limit", limit, 0)
        compared = _compared(value, operator)
        question = Filter(_leaf(field, operator, compared), min(wanted, self._cap))
        meta, found = await self._toolset.ask(workspace_id, question)
        results, cut = hit_entries(self._toolset, found.hits)
        answer: dict[str, Any] = {
            "field": field[:SHOWN_CHARS],
            "operator": operator,
            "value": shrink(value, SHOWN_CHARS),
            "total_matches": found.total,
            "returned": len(results),
            "has_more": found.total > len(results),
            "results": results,
        }
        answer |= limited(wanted, self._cap, len(results), found.total, cut)
        path = f"\\{field}" if field.startswith("$") else field
        step = {"filter": {path: {f"${operator}": compared}}}
        action = self._next(meta, found, len(results), step, wanted) + how_to_read_on(self._toolset, cut)
        return answer | ({"suggested_action": action.strip()} if action.strip() else {})

    async def sort_by(self, workspace_id: str, field: str, descending: bool = False, limit: int = 20) -> dict[str, Any]:
        """Return the first items by a field: numbers, then text, true and false, others; items without it come last.

        Args:
            workspace_id: Id from the notice.
            field: The field (dotted path).
            descending: Largest first.
            limit: Items to return.
        """
        wanted = at_least("limit", limit, 0)
        question = Sort(field, descending, min(wanted, self._cap))
        _, found = await self._toolset.ask(workspace_id, question)
        items, cut = hit_entries(self._toolset, found.hits)
        answer: dict[str, Any] = {
            "field": field[:SHOWN_CHARS],
            "descending": descending,
            "total": found.total,
            "returned": len(items),
            "has_more": found.total > len(items),
            "items": items,
        }
        answer |= limited(wanted, self._cap, len(items), found.total, cut)
        step = {"sort": {"field": field, "order": "desc" if descending else "asc"}}
        action = (found.hint or self._more(found.total, len(items), step, wanted)) + how_to_read_on(self._toolset, cut)
        return answer | ({"suggested_action": action.strip()} if action.strip() else {})

    def _next(self, meta: WorkspaceMeta, found: Hits, shown: int, step: Mapping[str, Any], wanted: int) -> str:
        if not found.total:
            return f"0 of {meta.item_count:,} rows match. " + (found.hint or "Try another value or operator.")
        return self._more(found.total, shown, step, wanted)

    def _more(self, total: int, shown: int, step: Mapping[str, Any], wanted: int) -> str:
        if total <= shown:
            return ""
        if not shown:
            return f"There are {total:,}: pass a limit of at least 1 to see some."
        pipe = tools_of(self._toolset, "pipe")
        if pipe is None or json_chars(step) > 3 * SHOWN_CHARS:
            is_full = shown < wanted or wanted >= self._cap
            more = "No more fit into one answer" if is_full else f"A higher limit shows more, up to {self._cap} at once"
            return f"Shown: the first {shown} of {total:,}. {more}."
        steps = json_text([step, {"skip": shown}, {"limit": 10}])
        return f"Shown: the first {shown} of {total:,}. {pipe} with steps={steps} shows the next."


def _leaf(field: str, operator: str, value: Any) -> Any:
    try:
        return compile_leaf(field, f"${operator}", value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            error.message.replace(f"${operator}", f"'{operator}'"),
            argument="value",
            suggested_action=_ACTIONS[operator],
        ) from error


_ACTIONS = dict.fromkeys(("lt", "lte", "gt", "gte"), "Pass a number or a text as value.") | {
    "in": "Pass a list as value.",
    "nin": "Pass a list as value.",
    "startswith": "Pass a text as value.",
    "exists": "Pass true or false as value.",
}


def _compared(value: Any, operator: str) -> Any:
    """The value in the form that the operator wants, where models send another one for it."""
    if operator == "exists" and isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    if operator not in ("in", "nin"):
        return value
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read_json_twice(value) or value
    return cast(Any, value) if isinstance(value, list) else [value]
