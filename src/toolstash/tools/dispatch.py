"""One call, from a name and raw arguments to an outcome. The model's mistakes come back as values."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from toolstash.contracts import Call, Outcome, WorkspaceRef
from toolstash.errors import (
    InvalidArgumentError,
    ToolstashError,
    WorkspaceNotFoundError,
    WorkspaceTypeMismatchError,
)
from toolstash.schema.coerce import coerce_arguments, parse_arguments
from toolstash.schema.names import near_names, repair_name
from toolstash.store.session import current_session, session_scope
from toolstash.tools.bound import guard_result
from toolstash.tools.toolset import ToolEntry
from toolstash.tracing import Span, tool_call

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

logger = logging.getLogger("toolstash")

MOST_NAMES = 50
MOST_IDS = 20

_NOTICE_KEYS = frozenset(WorkspaceRef("", "", 0, "list", 0).to_dict())


async def dispatch(ctx: Ctx, call: Call) -> Outcome:
    """Runs a call.

    Raises:
        SessionRequiredError: The Ctx wants a session and there is none, or the session id is empty.
        Exception: What a tool raised, where `safe=False` asks for it.
    """
    if call.session_id is None:
        return await _in_session(ctx, call)
    with session_scope(call.session_id):
        return await _in_session(ctx, call)


async def _in_session(ctx: Ctx, call: Call) -> Outcome:
    entry = _find(ctx.entries, call.tool)
    with tool_call(entry.name if isinstance(entry, ToolEntry) else None, session_id=current_session()) as span:
        ctx.check_session()
        if isinstance(entry, Outcome):
            span.fail("tool_not_found")
            outcome = entry
        else:
            outcome = await _outcome(ctx, entry, call, span)
        span.note("toolstash.is_error", outcome.is_error)
        return outcome


async def _outcome(ctx: Ctx, entry: ToolEntry, call: Call, span: Span) -> Outcome:
    span.note("toolstash.workspace_type", entry.workspace_type)
    try:
        arguments = coerce_arguments(entry.schema.parameters, parse_arguments(call.arguments))
        result = await entry.run(**arguments)
    except ToolstashError as error:
        if not entry.safe and not isinstance(error, InvalidArgumentError):
            raise
        span.fail(error)
        return _bounded(ctx, await _explained(ctx, entry, error), is_error=True)
    except Exception as error:
        if not entry.safe:
            raise
        span.fail(error)
        return _bounded(ctx, _failed(entry, error), is_error=True)
    outcome = _bounded(ctx, result, is_error=False, is_json=entry.is_builtin)
    if outcome.is_error:
        span.fail("result_refused")
    else:
        _note_workspace(span, entry, arguments, result)
    return outcome


def _note_workspace(span: Span, entry: ToolEntry, arguments: Mapping[str, Any], result: Any) -> None:
    """Says which workspace a call has made, or which one a tool set's tool has read: never what is not there."""
    told = result.to_dict() if isinstance(result, WorkspaceRef) else result
    notice = cast(dict[str, Any], told) if isinstance(told, dict) else {}
    if notice.keys() >= _NOTICE_KEYS:
        for name in ("workspace_id", "workspace_type", "item_count"):
            span.note(f"toolstash.{name}", notice[name])
    elif entry.toolset is not None:
        span.note("toolstash.workspace_id", arguments.get("workspace_id"))


def _bounded(ctx: Ctx, result: Any, *, is_error: bool, is_json: bool = False) -> Outcome:
    guarded = guard_result(result, ctx.max_result_chars, is_json=is_json)
    refused = guarded is not result and isinstance(guarded, dict) and {"error", "suggested_action"} <= guarded.keys()
    return Outcome(guarded, is_error=is_error or refused)


def _find(entries: Mapping[str, ToolEntry], wanted: Any) -> ToolEntry | Outcome:
    if isinstance(wanted, str):
        entry = entries.get(wanted)
        if entry is not None:
            return entry
        repaired = repair_name(wanted[:200], entries)
        if repaired is not None:
            return entries[repaired]
    name = wanted[:80] if isinstance(wanted, str) else type(wanted).__name__
    near = near_names(name, entries)
    action = f"Did you mean {' or '.join(near[:3])}?" if near else "Use one of the available tools."
    refusal = {
        "error": f"Tool '{name}' not found.",
        "available_tools": [*near, *(tool for tool in entries if tool not in near)][:MOST_NAMES],
        "suggested_action": action if entries else "This program has registered no tools.",
    }
    return Outcome(refusal, is_error=True)


def _failed(entry: ToolEntry, error: Exception) -> dict[str, Any]:
    logger.error("tool %s failed", entry.name, exc_info=error)
    return {
        "error": f"{entry.name} failed ({type(error).__name__}).",
        "tool": entry.name,
        "suggested_action": "Try other arguments once; if it fails again, tell the user that this tool is not working.",
    }


async def _explained(ctx: Ctx, entry: ToolEntry, error: ToolstashError) -> dict[str, Any]:
    """The error for the model, with the workspaces that it could have meant."""
    told = error.to_llm_dict()
    try:
        if isinstance(error, WorkspaceTypeMismatchError):
            ids = await _visible_ids(ctx, error.details["expected_type"])
            if ids:
                told["workspaces_of_correct_type"] = ids[:MOST_IDS]
        elif isinstance(error, WorkspaceNotFoundError):
            told |= await _alternatives(ctx, entry, error)
    except ToolstashError:
        logger.warning("the store did not answer while an error was explained", exc_info=True)
    return told


async def _alternatives(ctx: Ctx, entry: ToolEntry, error: WorkspaceNotFoundError) -> dict[str, Any]:
    ids = await _visible_ids(ctx, entry.workspace_type)
    near = near_names(error.workspace_id, ids)
    found: dict[str, Any] = {}
    if ids:
        found["available_workspaces"] = [*near, *(name for name in ids if name not in near)][:MOST_IDS]
    if near and type(error) is WorkspaceNotFoundError:
        found["suggested_action"] = f"Did you mean '{near[0]}'?"
    return found


async def _visible_ids(ctx: Ctx, workspace_type: str | None) -> list[str]:
    return (await ctx.store.list_workspaces(workspace_type))[::-1]
