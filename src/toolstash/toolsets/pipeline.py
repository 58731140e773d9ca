"""Several operations on a list workspace in one call, and metrics by group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolstash.contracts import WorkspaceMeta
from toolstash.errors import InvalidArgumentError, PipelineError
from toolstash.query.grouping import grouping_of
from toolstash.query.pipeline import compile_pipeline
from toolstash.query.questions import Aggregate, Measured, Pipe, Piped
from toolstash.query.steps import Options
from toolstash.schema.jsontext import read_json_twice
from toolstash.store.payload import Payload
from toolstash.store.primitives import ReplaceRule
from toolstash.tools.consumer import lineage_of
from toolstash.tools.ctx import Ctx
from toolstash.tools.options import UNSET
from toolstash.tools.producer import PIPELINE_PRODUCER
from toolstash.tools.toolset import ToolSet, ToolSetSpec, make_toolset
from toolstash.toolsets.answers import fitting_rows, limited

MAX_ITEMS = 50
SAVED_STATUS = "pipeline_result_saved"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_STEPS_SCHEMA = {"items": {"type": "object"}}
_REGEX_NOTE = "Conditions may also use $regex (RE2 syntax; (?i) at the start ignores case)."


def pipeline(
    ctx: Ctx,
    name: str | None = None,
    *,
    max_items: int = MAX_ITEMS,
    allow_regex: bool = False,
    enforce_type: bool = True,
) -> ToolSet | ToolSetSpec:
    """Tools `pipe` and `aggregate` for lists.

    Args:
        name: What tool names start with; None: the producer's workspace type.
        max_items: Rows, or groups, of one answer at most.
        allow_regex: Whether conditions may use `$regex`, on RE2 (`toolstash[regex]`).
        enforce_type: Whether only workspaces of the type `name` are accepted.

    Raises:
        ValueError: `max_items` is below 1.
    """
    if max_items < 1:
        raise ValueError(f"max_items must be at least 1, not {max_items}")
    return make_toolset(
        ctx, name, lambda toolset: _Pipe(ctx, toolset, max_items, allow_regex).register(), enforce_type=enforce_type
    )


class _Pipe:
    """The tools of one set."""

    def __init__(self, ctx: Ctx, toolset: ToolSet, max_items: int, allow_regex: bool) -> None:
        self._ctx = ctx
        self._toolset = toolset
        self._max_items = max_items
        self._allow_regex = allow_regex

    def register(self) -> None:
        """Puts the tools into the set."""
        note = _REGEX_NOTE if self._allow_regex else ""
        self._toolset.add_builtin(self.pipe, "list", schema_extra={"steps": _STEPS_SCHEMA}, note=note)
        self._toolset.add_builtin(self.aggregate, "list")

    async def pipe(self, workspace_id: str, steps: list[dict[str, Any]], save_as: str | None = None) -> dict[str, Any]:
        """Run several operations on the items in one call; only the result of the last one is returned.

        Each step is an object with one key:
        {"filter": {"year": {"$gte": 2023}, "author.name": "Ada"}} with $eq $ne $gt $gte $lt $lte $in $nin $contains
        $startswith $exists, and $and $or $nor $not around conditions; {"search": "words"};
        {"sort": {"field": "score", "order": "desc"}}; {"select": ["title"]}; {"exclude": ["body"]}; {"limit": 10};
        {"skip": 10}; {"slice": [5, 15]}; {"sample": {"n": 10, "seed": 7}}; {"unique": "author"}; {"flatten": "tags"}
        (a row for each element); {"group_by": {"field": "category", "metrics": {"n": "count", "avg": "mean:score"}}};
        {"count": true} (the last step).

        Args:
            workspace_id: Id from the notice.
            steps: The operations, in order, such as
                [{"filter": {"year": {"$gte": 2023}}}, {"sort": {"field": "score", "order": "desc"}}, {"limit": 5}].
            save_as: Store the resulting rows as a workspace of this name and return its notice instead.
        """
        options = Options(self._allow_regex, self._toolset.searched_fields)
        compiled = compile_pipeline(steps, options)
        _check_name(save_as)
        question = Pipe(compiled, 0, wants_all=True) if save_as else Pipe(compiled, self._max_items)
        meta, piped = await self._toolset.ask(workspace_id, question)
        return self._answer(meta, piped) if save_as is None else await self._save(save_as, meta, piped)

    def _answer(self, meta: WorkspaceMeta, piped: Piped) -> dict[str, Any]:
        if piped.count is not None:
            return {"count": piped.count} | _notes(piped.skipped, piped.hint)
        items, cut = fitting_rows(self._toolset, piped.rows)
        answer: dict[str, Any] = {
            "items": items,
            "count": len(items),
            "total": piped.total,
            "has_more": piped.total > len(items),
        }
        answer |= limited(piped.total, self._max_items, len(items), piped.total, cut)
        if answer["has_more"]:
            answer["suggested_action"] = (
                f"Shown: the first {len(items)} of {piped.total:,}. Add a skip step ({len(items)}) at the end for the "
                "next, select fewer fields, or store them all with save_as."
            )
        elif cut:
            answer["suggested_action"] = "Long fields are cut: select fewer fields or fewer rows."
        elif not piped.total and meta.item_count and not piped.hint:
            answer["suggested_action"] = f"No row is left of {meta.item_count:,} after these steps."
        return answer | _notes(piped.skipped, piped.hint, answer)

    async def _save(self, name: str, meta: WorkspaceMeta, piped: Piped) -> dict[str, Any]:
        if piped.count is not None:
            raise PipelineError(
                "save_as stores rows, but these steps give a count.",
                suggested_action="Leave save_as out, or leave the count step out.",
            )
        saved = f"saved_{name}"
        draft = WorkspaceMeta(
            workspace_id=saved,
            workspace_type=meta.workspace_type,
            producer_fn=PIPELINE_PRODUCER,
            extra={"derived_from": meta.workspace_id},
            ttl=self._ctx.lifetime_of(UNSET),
            lineage=lineage_of([meta]),
        )
        rule = ReplaceRule(meta.workspace_type, (PIPELINE_PRODUCER,))
        tools = self._ctx.toolsets_for_type(meta.workspace_type) or [self._toolset]
        payload = Payload(piped.all_rows())
        ref = await self._ctx.storing.put(draft, payload, tools, rule, status=SAVED_STATUS)
        return ref.to_dict() | _notes(piped.skipped, piped.hint)

    async def aggregate(
        self,
        workspace_id: str,
        group_by: str | list[str] | None = None,
        metrics: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Compute metrics over all items, or for each group of items with the same value of a field.

        Metrics are named: {"n": "count", "average": "mean:score"}. There are count, sum, mean, min, max, median,
        stddev, p50, p90, p95, p99, count_distinct, values, first and last, all but count with a colon and a field.

        Args:
            workspace_id: Id from the notice.
            group_by: The field to group by (dotted path), or several; left out: all items are one group.
            metrics: Names and metrics, such as {"n": "count", "average": "mean:score"}; left out: a count.
        """
        if isinstance(group_by, str) and group_by.lstrip().startswith("["):
            group_by = read_json_twice(group_by) or group_by
        question = Aggregate(grouping_of(group_by, metrics), self._max_items)
        _, measured = await self._toolset.ask(workspace_id, question)
        return self._measured(measured, group_by is not None)

    def _measured(self, measured: Measured, is_grouped: bool) -> dict[str, Any]:
        if not is_grouped:
            (result,), cut = fitting_rows(self._toolset, measured.rows)
            answer = {"result": result} | limited(1, 1, 1, 1, cut)
            if cut:
                answer["suggested_action"] = "Long values are cut: measure fewer or shorter fields."
            return answer | _notes(measured.skipped, measured.hint, answer)
        groups, cut = fitting_rows(self._toolset, measured.rows)
        answer: dict[str, Any] = {
            "groups": groups,
            "group_count": measured.total,
            "has_more": measured.total > len(groups),
        }
        answer |= limited(measured.total, self._max_items, len(groups), measured.total, cut)
        if answer["has_more"]:
            pipe = self._toolset.tool_name_of("pipe")
            answer["suggested_action"] = (
                f"Shown: the first {len(groups)} of {measured.total:,} groups. "
                f"{pipe} with group_by, sort and limit steps shows the largest."
            )
        return answer | _notes(measured.skipped, measured.hint, answer)


def _notes(skipped: Any, hint: str | None, answer: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What metrics passed over, and what may be wrong, before what the answer suggests already."""
    notes: dict[str, Any] = {"skipped": dict(skipped)} if skipped else {}
    suggested = (answer or {}).get("suggested_action", "")
    return notes | ({"suggested_action": f"{hint} {suggested}".strip()} if hint else {})


def _check_name(name: str | None) -> None:
    if name is not None and _NAME.match(name) is None:
        raise InvalidArgumentError(
            f"Invalid 'save_as': {name!r:.120}.",
            argument="save_as",
            suggested_action="Use 1 to 100 letters, digits, '_', '.', '-', starting with a letter or digit.",
        )
