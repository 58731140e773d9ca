"""Anthropic's Messages. Reads SDK objects and plain dicts; a streamed message is `stream.get_final_message()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from toolstash.blocking import run_blocking
from toolstash.contracts import Outcome
from toolstash.integrations.content import check_content_length, content_of, waiting_call
from toolstash.integrations.turns import CallOptions, Resolver, ToolCall, items, outcomes_of, own_calls, part, run_calls
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet

__all__ = [
    "ahandle_tool_use",
    "asettle_tool_use",
    "handle_tool_use",
    "has_tool_use",
    "settle_tool_use",
    "to_anthropic_tools",
    "waiting_calls",
]


def to_anthropic_tools(
    ctx: Ctx,
    *,
    workspace_id: str | None = None,
    toolsets: Sequence[str | ToolSet] | None = None,
    names: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """The tools of a Ctx as the `tools=` of a request.

    Args:
        workspace_id: The only workspace that the tools of tool sets admit; None: any.
        toolsets, names: Only these tools, as in `Ctx.get_tools`; None: all.

    Raises:
        ValueError, TypeError: As `Ctx.get_tools` does.
    """
    functions = (tool["function"] for tool in ctx.get_tools(workspace_id, toolsets=toolsets, names=names))
    return [
        {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]} for one in functions
    ]


def has_tool_use(response: Any) -> bool:
    """Whether the model waits for the results of tools: those of the Ctx, and the caller's own."""
    return any(part(block, "type") == "tool_use" for block in items(response, "content"))


async def ahandle_tool_use(
    ctx: Ctx,
    response: Any,
    *,
    tools: Iterable[Any] | None = None,
    session_id: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the limit of each call, in the seed's word
    wait_for: Resolver | None = None,
    max_content_length: int | None = None,
) -> list[dict[str, Any]]:
    """Runs the calls of a turn in parallel and returns their result blocks in the order of the calls.

    A block says `is_error` where the call failed, was stopped or was refused; never because of what is in the data. A
    call that waits for a person has the suspended call as its content: see `waiting_calls`.

    Args:
        response: A message, as an object of the SDK or a dict. Tools that Anthropic runs are passed over.
        tools: The list that the model was given. Names on it that the Ctx does not have are left to the caller, and
            any other unknown name is answered with an error. None: every unknown name is left to the caller, unless
            it begins with the name of a tool set.
        session_id: Whose calls they are; None: the session that is active here, if any.
        timeout: Seconds that each call may take.
        wait_for: Answers at once what a tool asks; None: the call is left in the store.
        max_content_length: Characters of one content, from 20 on; a longer one is cut to valid JSON that says what is
            missing. None: no bound but the Ctx's `max_result_chars`.

    Returns:
        `{"type": "tool_result", "tool_use_id", "content"}` for each call, with `"is_error": True` where it is one.

    Raises:
        SessionRequiredError: `require_session` and no session, or an empty session id.
        ValueError, TypeError: An argument has no such form.
        RuntimeError: The Ctx is closed.
    """
    options = CallOptions(session_id, timeout, wait_for, max_content_length)
    calls = own_calls(ctx, _calls_in(response), tools)
    outcomes = await run_calls(ctx, calls, options)
    return [
        _with_outcome({"type": "tool_result", "tool_use_id": call.id}, outcome, max_content_length)
        for call, outcome in zip(calls, outcomes, strict=True)
    ]


def handle_tool_use(
    ctx: Ctx,
    response: Any,
    *,
    tools: Iterable[Any] | None = None,
    session_id: str | None = None,
    timeout: float | None = None,
    wait_for: Resolver | None = None,
    max_content_length: int | None = None,
) -> list[dict[str, Any]]:
    """`ahandle_tool_use` for sync code. Raises RuntimeError inside a running event loop."""
    return run_blocking(
        ahandle_tool_use,
        ctx,
        response,
        tools=tools,
        session_id=session_id,
        timeout=timeout,
        wait_for=wait_for,
        max_content_length=max_content_length,
    )


def waiting_calls(messages: Iterable[Any]) -> dict[str, str]:
    """The suspended calls in a conversation: the id of the tool use → the id that `ctx.answer` takes.

    Args:
        messages: Messages, or the blocks that `ahandle_tool_use` returned; others than tools' results are passed over.
    """
    found = ((block["tool_use_id"], waiting_call(block.get("content"))) for block in _result_blocks(messages))
    return {use_id: call_id for use_id, call_id in found if call_id is not None}


async def asettle_tool_use(
    ctx: Ctx,
    messages: Sequence[Any],
    *,
    session_id: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - a caller's limit, in the words of asyncio.wait_for
    max_content_length: int | None = None,
) -> list[Any]:
    """The messages with the outcomes of suspended calls in their places, under the same ids. Waits until they are over.

    Args:
        messages: As for `waiting_calls`. They are not changed.
        session_id: Whose calls they are; None: the session that is active here, if any.
        timeout: Seconds to wait at most; 0: not at all. A call that is not over then stays as it is. None: no bound.
        max_content_length: As for `ahandle_tool_use`.

    Raises:
        ValueError: An argument has no such form.
        RuntimeError: The Ctx is closed.
    """
    check_content_length(max_content_length)
    call_ids = list(dict.fromkeys(waiting_calls(messages).values()))
    outcomes = await outcomes_of(ctx, call_ids, session_id=session_id, seconds=timeout)
    known = {call_id: outcome for call_id, outcome in zip(call_ids, outcomes, strict=True) if outcome is not None}
    return [_settled(message, known, max_content_length) for message in messages]


def settle_tool_use(
    ctx: Ctx,
    messages: Sequence[Any],
    *,
    session_id: str | None = None,
    timeout: float | None = None,
    max_content_length: int | None = None,
) -> list[Any]:
    """`asettle_tool_use` for sync code. Raises RuntimeError inside a running event loop."""
    return run_blocking(
        asettle_tool_use,
        ctx,
        messages,
        session_id=session_id,
        timeout=timeout,
        max_content_length=max_content_length,
    )


def _calls_in(response: Any) -> list[ToolCall]:
    """Members of Anthropic's own toolsets are the caller's. What stood last at the output's limit is cut off."""
    blocks = items(response, "content")
    is_cut_off = part(response, "stop_reason") in ("max_tokens", "model_context_window_exceeded", "refusal")
    return [
        ToolCall(part(block, "id"), part(block, "name"), part(block, "input"), is_cut_off and block is blocks[-1])
        for block in blocks
        if part(block, "type") == "tool_use" and part(block, "toolset_name") is None
    ]


def _with_outcome(block: Mapping[str, Any], outcome: Outcome, max_chars: int | None) -> dict[str, Any]:
    filled = {**block, "content": content_of(outcome, max_chars)}
    return {**filled, "is_error": True} if outcome.is_error else filled


def _result_blocks(messages: Iterable[Any]) -> list[Mapping[str, Any]]:
    held: list[Any] = []
    for message in messages:
        held += [message] if part(message, "type") == "tool_result" else items(message, "content")
    return [
        cast("Mapping[str, Any]", one)
        for one in held
        if isinstance(one, Mapping) and part(one, "type") == "tool_result" and isinstance(part(one, "tool_use_id"), str)
    ]


def _settled(message: Any, known: Mapping[str, Outcome], max_chars: int | None) -> Any:
    if not isinstance(message, Mapping):
        return message
    held = cast("Mapping[str, Any]", message)
    if held.get("type") == "tool_result":
        outcome = known.get(waiting_call(held.get("content")) or "")
        return held if outcome is None else _with_outcome(held, outcome, max_chars)
    blocks = items(held, "content")
    filled = [_settled(block, known, max_chars) for block in blocks]
    is_same = all(one is other for one, other in zip(blocks, filled, strict=True))
    return held if is_same else {**held, "content": filled}
