"""One run of a tool: from raw arguments to an outcome. The model's mistakes come back as values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from toolstash.asking import Answer, ToolResult, pending_of
from toolstash.contracts import Address, Outcome, WorkspaceRef
from toolstash.errors import (
    InvalidArgumentError,
    ToolstashError,
    WorkspaceNotFoundError,
    WorkspaceTypeMismatchError,
)
from toolstash.schema.bounded_validator import has_many_values
from toolstash.schema.json_schema import JsonFunctionSchema, check_schema
from toolstash.schema.names import near_names
from toolstash.store.session import current_session
from toolstash.threads import in_thread
from toolstash.tools.bound import guard_result, json_text
from toolstash.tools.call_values import stopped_value
from toolstash.tools.control import Control, StoppedError
from toolstash.tools.progress import ProgressTeller
from toolstash.tools.tool_context import ToolContext, context_scope
from toolstash.tools.toolset import ToolEntry
from toolstash.tracing import Span
from toolstash.wire.keys import label_of, space_of_session

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

logger = logging.getLogger("toolstash")

MOST_IDS = 20
FAILED_ACTION = "Try other arguments once; if it fails again, tell the user that this tool is not working."

_NOTICE_KEYS = frozenset(WorkspaceRef("", "", 0, "list", 0).to_dict())


async def attempt(
    ctx: Ctx,
    entry: ToolEntry,
    raw_arguments: Any,
    at: Address,
    control: Control,
    span: Span,
    *,
    answers: tuple[Answer, ...] = (),
    safe: bool,
) -> Outcome:
    """Runs a tool within its limits.

    Args:
        at: The call's space and id.
        answers: To what the tool has asked so far.
        safe: Whether what the tool raises becomes a value.

    Raises:
        Exception: What the tool raised, unless `safe`.
    """
    span.note("toolstash.workspace_type", entry.workspace_type)
    teller = ProgressTeller(ctx.store.calls, at)
    cancels = _cancels()
    arguments: Mapping[str, Any] = {}
    try:
        arguments = await _checked(entry, raw_arguments, control)
        context = _context(at, control, answers, teller)
        with context_scope(context):
            result = await control.run(partial(entry.invoke, arguments, context))
        if isinstance(result, ToolResult):
            return _of_tool_result(ctx, entry, result, span)
        if isinstance(result, WorkspaceRef):  # of a producer with notify=False: a model reads the notice
            result = result.to_dict()
    except asyncio.CancelledError as error:
        if _cancels() > cancels:
            raise
        return await refusal_of(ctx, entry, _Ended(error), at.workspace_id, span, safe=True)
    except SystemExit as error:  # a tool's sys.exit() does not end the program
        return await refusal_of(ctx, entry, _Ended(error), at.workspace_id, span, safe=True)
    except Exception as error:
        if _cancels() > cancels:  # of the caller's: no tool turns that into something else
            raise asyncio.CancelledError from error
        return await refusal_of(ctx, entry, error, at.workspace_id, span, safe=safe, arguments=arguments)
    finally:
        await teller.finish()
    return _told(ctx, entry, arguments, result, span)


async def _checked(entry: ToolEntry, raw_arguments: Any, control: Control) -> Mapping[str, Any]:
    """The arguments as the tool takes them. The check of many values against a JSON Schema is beside the event loop."""
    if isinstance(entry.schema, JsonFunctionSchema) and has_many_values(raw_arguments):
        return await control.run(lambda: in_thread(entry.schema.checked, raw_arguments))
    return entry.schema.checked(raw_arguments)


async def attempt_builtin(ctx: Ctx, entry: ToolEntry, raw_arguments: Any, span: Span) -> Outcome:
    """Runs a tool of ours, which is short, asks nothing and reports nothing, for a caller that sets no limits.

    Raises:
        Exception: What it raised, where `safe=False` asks for it.
    """
    span.note("toolstash.workspace_type", entry.workspace_type)
    arguments: Mapping[str, Any] = {}
    try:
        arguments = entry.schema.checked(raw_arguments)
        result = await entry.run(**arguments)
    except Exception as error:
        return await refusal_of(ctx, entry, error, "", span, safe=entry.safe, arguments=arguments)
    return _told(ctx, entry, arguments, result, span)


def _told(ctx: Ctx, entry: ToolEntry, arguments: Mapping[str, Any], result: Any, span: Span) -> Outcome:
    outcome = _bounded(ctx, result, is_error=False, is_json=entry.is_builtin)
    if outcome.is_error:
        span.fail("result_refused")
    else:
        _note_workspace(span, entry, arguments, result)
    return outcome


class _Ended(Exception):
    """A tool raised what is no exception of a program."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"it raised {type(error).__name__}")
        self.__cause__ = error


def _cancels() -> int:
    """How often the running task was told to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _context(at: Address, control: Control, answers: tuple[Answer, ...], teller: ProgressTeller) -> ToolContext:
    return ToolContext(
        control.signal,
        answer=answers[-1] if answers else None,
        answers={answer.id: answer for answer in answers},
        session_id=current_session(),
        call_id=at.workspace_id,
        deadline=control.deadline,
        report=teller,
    )


async def refusal_of(
    ctx: Ctx,
    entry: ToolEntry,
    error: Exception,
    call_id: str,
    span: Span,
    *,
    safe: bool,
    arguments: Mapping[str, Any] | None = None,
) -> Outcome:
    """What the caller reads in place of an exception. `arguments` are those that the tool was run with, if it was.

    Raises:
        Exception: The error itself, where it is a tool's own and not `safe`.
    """
    if isinstance(error, StoppedError):
        span.fail(error.status)
        value = stopped_value(error.status, entry.name, call_id)
        return Outcome(value, is_error=True, status=error.status)
    if not safe and not isinstance(error, InvalidArgumentError):
        raise error
    span.fail(error)
    if isinstance(error, ToolstashError):
        return _bounded(ctx, await _explained(ctx, entry, error), is_error=True)
    return _bounded(ctx, _failed(entry, error, arguments or {}), is_error=True)


def _of_tool_result(ctx: Ctx, entry: ToolEntry, result: ToolResult, span: Span) -> Outcome:
    """The model reads what the tool puts out. A request is no error: the call waits."""
    request = pending_of(result)
    if request is not None:
        if request.data is not None and "schema" in request.data:
            check_schema(request.data["schema"])
        return Outcome(None, request=request)
    if not result.is_error:
        return _bounded(ctx, result.output, is_error=False)
    span.fail("tool_error")
    output: Any = result.output
    text = output if isinstance(output, str) else "" if output is None else json_text(output)
    told = {"error": text if text.strip() else f"{entry.name} failed and did not say why.", "tool": entry.name}
    return _bounded(ctx, told | {"suggested_action": FAILED_ACTION}, is_error=True)


def _note_workspace(span: Span, entry: ToolEntry, arguments: Mapping[str, Any], result: Any) -> None:
    """Says which workspace a call has made, or which one a tool set's tool has read: never what is not there."""
    notice = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    if notice.keys() >= _NOTICE_KEYS:
        for name in ("workspace_id", "workspace_type", "item_count"):
            span.note(f"toolstash.{name}", notice[name])
    elif entry.toolset is not None:
        span.note("toolstash.workspace_id", arguments.get("workspace_id"))


def _bounded(ctx: Ctx, result: Any, *, is_error: bool, is_json: bool = False) -> Outcome:
    guarded = guard_result(result, ctx.max_result_chars, is_json=is_json)
    refused = guarded is not result and isinstance(guarded, dict) and {"error", "suggested_action"} <= guarded.keys()
    return Outcome(guarded, is_error=is_error or refused)


def _failed(entry: ToolEntry, error: Exception, arguments: Mapping[str, Any]) -> dict[str, Any]:
    logger.error("tool %s failed", entry.name, exc_info=error)
    raised = error.__cause__ if isinstance(error, _Ended) else error
    told = {"error": f"{entry.name} failed ({type(raised).__name__}).", "tool": entry.name}
    workspace_id = arguments.get("workspace_id")
    if entry.toolset is not None and isinstance(workspace_id, str):
        told["workspace_id"] = workspace_id[:150]
    return told | {"suggested_action": FAILED_ACTION}


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
    own = error.workspace_id + label_of(space_of_session(current_session()))
    near = [own] if own in ids else near_names(error.workspace_id, ids)
    found: dict[str, Any] = {}
    if ids:
        found["available_workspaces"] = [*near, *(name for name in ids if name not in near)][:MOST_IDS]
    if near and type(error) is WorkspaceNotFoundError:
        found["suggested_action"] = f"Did you mean '{near[0]}'?"
    return found


async def _visible_ids(ctx: Ctx, workspace_type: str | None) -> list[str]:
    return (await ctx.store.list_workspaces(workspace_type))[::-1]
