"""One turn of a model: its tool calls run in parallel, and suspended ones are followed to their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from toolstash.asking import Request
from toolstash.contracts import Address, Call, Outcome
from toolstash.errors import CallNotFoundError, InvalidArgumentError, WorkspaceNotFoundError
from toolstash.integrations.content import check_content_length
from toolstash.schema.coerce import parse_arguments
from toolstash.schema.jsontext import JsonTextError, read_json
from toolstash.schema.names import repair_name
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import Noted
from toolstash.store.session import current_session, session_scope
from toolstash.tools.call_values import outcome_of
from toolstash.tools.control import check_resolver, checked_timeout
from toolstash.tools.ctx import Ctx
from toolstash.tools.dispatch import dispatch

Resolver = Callable[[Request], Any]

_CUT_OFF: Final = Outcome(
    {
        "error": "The call was cut off before its end, at the limit of the model's output; nothing was run.",
        "suggested_action": "Call the tool again, alone and with shorter arguments.",
    },
    is_error=True,
)
_FORGOTTEN: Final = (
    "Nobody knows what came of it. Find out what it has done before it is called again, or ask the user."
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a model's turn, as the provider hands it over.

    `is_cut_off`: the model could not finish it. `refusal`: why it is not run.
    """

    id: Any
    name: Any
    arguments: Any
    is_cut_off: bool = False
    refusal: Outcome | None = None


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How the calls of a turn are run; the words are those of `Ctx.adispatch_tool_call`."""

    session_id: str | None = None
    timeout: float | None = None
    wait_for: Resolver | None = None
    max_content_length: int | None = None

    def __post_init__(self) -> None:
        check_resolver(self.wait_for)
        check_content_length(self.max_content_length)
        object.__setattr__(self, "timeout", checked_timeout(self.timeout))


def part(thing: Any, name: str) -> Any:
    """A key of a mapping or an attribute of an SDK's object; None where there is none."""
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing).get(name)
    return getattr(thing, name, None)


def items(thing: Any, name: str) -> list[Any]:
    """A list that is a part of something; empty where there is none."""
    held = part(thing, name)
    return list(cast("Sequence[Any]", held)) if isinstance(held, (list, tuple)) else []


async def run_calls(ctx: Ctx, calls: Iterable[ToolCall], options: CallOptions) -> list[Outcome]:
    """Runs the calls in parallel. The outcomes are in the order of the calls, each call with its own error.

    Raises:
        SessionRequiredError, RuntimeError: As a dispatch does.
        Exception: What a tool raised, where `safe=False` asks for it, after all calls have ended.
    """
    with ctx.running():
        outcomes = await asyncio.gather(*(_run(ctx, call, options) for call in calls), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return cast("list[Outcome]", outcomes)


async def _run(ctx: Ctx, call: ToolCall, options: CallOptions) -> Outcome:
    if call.is_cut_off:
        return _CUT_OFF
    if call.refusal is not None:
        return call.refusal
    made = Call(call.name, call.arguments, options.session_id, options.timeout, None, options.wait_for)
    return await dispatch(ctx, made)


def own_calls(ctx: Ctx, calls: Iterable[ToolCall], tools: Iterable[Any] | None) -> list[ToolCall]:
    """The calls that the Ctx answers; the others are the caller's.

    Args:
        tools: What the model was given. A name that is in it and none of the Ctx's is the caller's; one that is in
            neither is answered with an error, and so are a tool of the Ctx that is not in it, and a workspace that its
            schema does not admit. None: only names that begin like those of a tool set are.
    """
    if tools is None:
        return [call for call in calls if _is_own(ctx, call.name, None)]
    named = ((_name_of(tool), tool) for tool in tools)
    offered = {name: _workspaces_of(tool) for name, tool in named if isinstance(name, str)}
    return [_as_offered(ctx, call, offered) for call in calls if _is_own(ctx, call.name, [*offered])]


def _as_offered(ctx: Ctx, call: ToolCall, offered: Mapping[Any, Sequence[Any] | None]) -> ToolCall:
    """The call, refused where the model was not given that tool, or not for that workspace."""
    name = repair_name(call.name[:200], ctx.entries) if isinstance(call.name, str) else None
    if name is None:
        return call
    if name not in offered:
        told = {"error": f"The tool '{name}' is not among those that you were given.", "available_tools": [*offered]}
        action = "Use one of the available tools."
    elif _names_another(call.arguments, offered[name]):
        told = {"error": f"'{name}' may only be used on the given workspace.", "available_workspaces": offered[name]}
        action = "Use an available workspace."
    else:
        return call
    return replace(call, refusal=Outcome({**told, "suggested_action": action}, is_error=True))


def _names_another(arguments: Any, allowed: Sequence[Any] | None) -> bool:
    if allowed is None:
        return False
    try:
        named = parse_arguments(arguments).get("workspace_id")
    except InvalidArgumentError:  # which the dispatch will say
        return False
    return named is not None and named not in allowed


def _workspaces_of(tool: Any) -> Sequence[Any] | None:
    """The only workspaces that a tool's schema admits; None for any."""
    schema = part(part(tool, "function"), "parameters") or part(tool, "parameters") or part(tool, "input_schema")
    allowed = part(part(part(schema, "properties"), "workspace_id"), "enum")
    return cast("list[Any]", allowed) if isinstance(allowed, list) else None


def is_unfinished(arguments: Any) -> bool:
    """Whether text that should be JSON is blank, or breaks off."""
    if not isinstance(arguments, str):
        return arguments is None
    try:
        read_json(arguments)
    except JsonTextError:
        return True
    return not arguments.strip()


def _name_of(tool: Any) -> Any:
    return part(tool, "name") or part(part(tool, "function"), "name")


def _is_own(ctx: Ctx, name: Any, offered: Sequence[Any] | None) -> bool:
    if not isinstance(name, str) or name in ctx.entries:
        return True
    if offered is not None:
        return name not in offered
    if repair_name(name[:200], ctx.entries) is not None:
        return True
    return name.startswith(tuple(toolset.tool_name_of("x")[:-1] for toolset in ctx.toolsets.values()))


async def outcomes_of(
    ctx: Ctx, call_ids: Sequence[str], *, session_id: str | None, seconds: float | None
) -> list[Outcome | None]:
    """What suspended calls came to; None for one that is not over within that time. All are waited for at once."""
    with session_scope(current_session() if session_id is None else session_id):
        return await asyncio.gather(*(_outcome(ctx, call_id, seconds) for call_id in call_ids))


async def _outcome(ctx: Ctx, call_id: str, seconds: float | None) -> Outcome | None:
    try:
        with ctx.running():
            at = await _located(ctx, call_id)
        return await ctx.until_call(at, partial(_ended, at), timeout_seconds=seconds)
    except TimeoutError:
        return None
    except (CallNotFoundError, InvalidArgumentError, WorkspaceNotFoundError):
        if seconds == 0:  # it may be of another session, or no call at all
            return None
        told = CallNotFoundError(f"The outcome of the call '{call_id:.150}' is not there any more.")
        return Outcome(told.to_llm_dict() | {"suggested_action": _FORGOTTEN}, is_error=True)


async def _located(ctx: Ctx, call_id: str) -> Address:
    return await ctx.store.locate(call_id) if current_session() is None else ctx.place_call(call_id)


def _ended(at: Address, record: CallRecord, seen: Noted) -> Outcome | None:
    ending = record.ending_at(seen.now)
    return None if ending is None else outcome_of(record, at.workspace_id, ending)
