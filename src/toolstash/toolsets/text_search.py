"""Full-text search over list workspaces, and which values a field has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolstash.contracts import WorkspaceMeta
from toolstash.query.parameters import allowed_fields
from toolstash.query.questions import FieldValues, Hits, Search
from toolstash.query.terms import parse_query
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet, ToolSetSpec, make_toolset
from toolstash.toolsets.answers import fitting_rows, hit_entries, how_to_read_on, limited, tools_of
from toolstash.toolsets.bounds import at_least

MAX_RESULTS = 100
SHOWN_QUERY_CHARS = 200


def text_search(
    ctx: Ctx,
    name: str | None = None,
    *,
    fields: Sequence[str] | None = None,
    max_results_cap: int = MAX_RESULTS,
    enforce_type: bool = True,
) -> ToolSet | ToolSetSpec:
    """Tools `search` and `field_values` for lists.

    Args:
        name: What tool names start with; None: the producer's workspace type.
        fields: The only fields that are searched (dotted paths); None: every text and number of a row.
        max_results_cap: Hits, or values, of one answer at most.
        enforce_type: Whether only workspaces of the type `name` are accepted.

    Raises:
        ValueError: The bound is below 1, or `fields` is empty or a single text.
    """
    if max_results_cap < 1:
        raise ValueError(f"max_results_cap must be at least 1, not {max_results_cap}")
    if fields is not None and (isinstance(fields, str) or not fields):
        raise ValueError(f"fields is a list of field names such as ['title', 'author.name'], not {fields!r}")
    searched = None if fields is None else list(dict.fromkeys(fields))
    return make_toolset(
        ctx,
        name,
        lambda toolset: _Search(toolset, searched, max_results_cap).register(),
        enforce_type=enforce_type,
    )


class _Search:
    """The tools of one set."""

    def __init__(self, toolset: ToolSet, fields: list[str] | None, cap: int) -> None:
        self._toolset = toolset
        self._fields = fields
        self._cap = cap

    def register(self) -> None:
        """Puts the tools into the set."""
        self._toolset.searched_fields = self._fields
        note = "" if self._fields is None else f"Searches the fields {', '.join(self._fields)}."
        self._toolset.add_builtin(self.search, "list", note=note)
        self._toolset.add_builtin(self.field_values, "list")

    async def search(
        self,
        workspace_id: str,
        query: str,
        max_results: int = 20,
        case_sensitive: bool = False,
        fields: list[str] | None = None,
    ) -> dict[str, Any]:
        """Find items by words: any word matches, better matches come first. "Quoted words" must follow each other.

        Args:
            workspace_id: Id from the notice.
            query: The words to look for. A * at the end of a word stands for any ending.
            max_results: Hits to return.
            case_sensitive: Whether words must be spelt exactly as in the query.
            fields: Search only these fields (dotted paths).
        """
        wanted = at_least("max_results", max_results, 0)
        limit = min(wanted, self._cap)
        question = Search(
            parse_query(query, case_sensitive=case_sensitive),
            allowed_fields(fields, self._fields),
            limit,
            is_usual=fields is None,
        )
        meta, found = await self._toolset.ask(workspace_id, question)
        matches, cut = hit_entries(self._toolset, found.hits)
        answer: dict[str, Any] = {
            "query": query[:SHOWN_QUERY_CHARS],
            "total_matches": found.total,
            "returned": len(matches),
            "has_more": found.total > len(matches),
            "engine": found.engine,
            "matched_by": found.matched_by if found.total else None,
            "matches": matches,
        }
        answer |= limited(wanted, self._cap, len(matches), found.total, cut)
        action = self._next(meta, found, len(matches)) + how_to_read_on(self._toolset, cut)
        return answer | ({"suggested_action": action.strip()} if action.strip() else {})

    def _next(self, meta: WorkspaceMeta, found: Hits, shown: int) -> str:
        if not found.total:
            return f"0 of {meta.item_count:,} rows match. " + (found.hint or "Try other or fewer words.")
        if found.total <= shown:
            return ""
        if not shown:
            return f"There are {found.total:,} hits: pass a max_results of at least 1 to see some."
        pipe = tools_of(self._toolset, "pipe")
        skip = f'; {pipe} with [{{"search": …}}, {{"skip": {shown}}}, {{"limit": 10}}] shows the next' if pipe else ""
        return f"Shown: the best {shown} of {found.total:,}. Narrow the query with rarer words{skip}."

    async def field_values(self, workspace_id: str, field: str, max_values: int = 50) -> dict[str, Any]:
        """List which values a field has and how many items hold each, most frequent first. Elements of lists count.

        Args:
            workspace_id: Id from the notice.
            field: The field (dotted path).
            max_values: Values to return.
        """
        wanted = at_least("max_values", max_values, 0)
        question = FieldValues(field, min(wanted, self._cap))
        meta, found = await self._toolset.ask(workspace_id, question)
        rows = [{"value": value, "count": count} for value, count in found.values]
        values, cut = fitting_rows(self._toolset, rows)
        answer: dict[str, Any] = {
            "field": field[:SHOWN_QUERY_CHARS],
            "distinct_values": values,
            "count": found.total,
            "has_more": found.total > len(values),
        }
        answer |= limited(wanted, self._cap, len(values), found.total, [])
        if found.hint:
            answer["suggested_action"] = found.hint
        elif answer["has_more"]:
            answer["suggested_action"] = (
                f"Shown: the {len(values)} most frequent of {found.total:,} values in {meta.item_count:,} rows. "
                "Filter by a value, or look for others with search."
            )
        elif cut:
            answer["suggested_action"] = "Long values are cut: filter by their start."
        return answer
