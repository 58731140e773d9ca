"""OpenAI's Chat Completions and Responses, and servers that speak like them. Reads SDK objects and plain dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from toolstash.blocking import run_blocking
from toolstash.contracts import Outcome
from toolstash.integrations.content import check_content_length, content_of, waiting_call
from toolstash.integrations.openai_stream import StreamedTurn
from toolstash.integrations.turns import (
    CallOptions,
    Resolver,
    ToolCall,
    is_unfinished,
    items,
    outcomes_of,
    own_calls,
    part,
    run_calls,
)
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet

__all__ = [
    "StreamedTurn",
    "ahandle_tool_calls",
    "asettle_tool_calls",
    "handle_tool_calls",
    "has_tool_calls",
    "settle_tool_calls",
    "to_openai_tools",
    "waiting_calls",
]

_ANSWERED_BY_US: Final = ("function_call", "custom_tool_call")


def to_openai_tools(
    ctx: Ctx,
    *,
    workspace_id: str | None = None,
    toolsets: Sequence[str | ToolSet] | None = None,
    names: Sequence[str] | None = None,
    strict: bool = False,
    responses: bool = False,
) -> list[dict[str, Any]]:
    """The tools of a Ctx as the `tools=` of a request.

    Args:
        workspace_id: The only workspace that the tools of tool sets admit; None: any.
        toolsets, names: Only these tools, as in `Ctx.get_tools`; None: all.
        strict: Schemas in the form of OpenAI's strict mode.
        responses: In the flat form of the Responses API.

    Raises:
        ValueError, TypeError: As `Ctx.get_tools` does.
    """
    tools = ctx.get_tools(workspace_id, toolsets=toolsets, names=names, strict=strict)
    return [_flat(tool["function"]) for tool in tools] if responses else tools


def _flat(function: Mapping[str, Any]) -> dict[str, Any]:
    """Responses takes a tool that does not say so for a strict one."""
    return {"type": "function", **function, "strict": function.get("strict", False)}


def has_tool_calls(response: Any) -> bool:
    """Whether the model waits for the results of tools: those of the Ctx, and the caller's own.

    Args:
        response: As for `ahandle_tool_calls`. A `StreamedTurn` has none before its end.
    """
    if isinstance(response, StreamedTurn) and not response.is_complete:
        return False
    return bool(items(_message_of(response), "tool_calls")) or any(
        part(item, "type") in _ANSWERED_BY_US for item in items(response, "output")
    )


async def ahandle_tool_calls(
    ctx: Ctx,
    response: Any,
    *,
    tools: Iterable[Any] | None = None,
    session_id: str | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the limit of each call, in the seed's word
    wait_for: Resolver | None = None,
    max_content_length: int | None = None,
) -> list[dict[str, Any]]:
    """Runs the calls of a turn in parallel and returns their messages in the order of the calls.

    A mistake in one call, such as arguments that are no JSON, is an error in its own message. A call that waits for a
    person has the suspended call as its content: see `waiting_calls`.

    Args:
        response: A completion of Chat Completions (of its choices the first), its message, a response of the Responses
            API, or a `StreamedTurn`: objects of the SDK or dicts.
        tools: The list that the model was given. Names on it that the Ctx does not have are left to the caller, and
            any other unknown name is answered with an error. None: every unknown name is left to the caller, unless
            it begins with the name of a tool set.
        session_id: Whose calls they are; None: the session that is active here, if any.
        timeout: Seconds that each call may take.
        wait_for: Answers at once what a tool asks; None: the call is left in the store.
        max_content_length: Characters of one content, from 20 on; a longer one is cut to valid JSON that says what is
            missing. None: no bound but the Ctx's `max_result_chars`.

    Returns:
        `{"role": "tool", "tool_call_id", "content"}` for each call, or `{"type": "function_call_output", "call_id",
        "output"}` where `response` is of the Responses API.

    Raises:
        SessionRequiredError: `require_session` and no session, or an empty session id.
        ValueError, TypeError: An argument has no such form, or the stream has not ended.
        RuntimeError: The Ctx is closed.
    """
    options = CallOptions(session_id, timeout, wait_for, max_content_length)
    if isinstance(response, StreamedTurn) and not response.is_complete:
        raise ValueError("the stream has not ended: add all of its chunks first")
    is_chat = not items(response, "output")
    calls = own_calls(ctx, _chat_calls(response) if is_chat else _response_calls(response), tools)
    outcomes = await run_calls(ctx, calls, options)
    contents = [content_of(outcome, max_content_length) for outcome in outcomes]
    make = _tool_message if is_chat else _output_item
    return [make(call.id, content) for call, content in zip(calls, contents, strict=True)]


def handle_tool_calls(
    ctx: Ctx,
    response: Any,
    *,
    tools: Iterable[Any] | None = None,
    session_id: str | None = None,
    timeout: float | None = None,
    wait_for: Resolver | None = None,
    max_content_length: int | None = None,
) -> list[dict[str, Any]]:
    """`ahandle_tool_calls` for sync code. Raises RuntimeError inside a running event loop."""
    return run_blocking(
        ahandle_tool_calls,
        ctx,
        response,
        tools=tools,
        session_id=session_id,
        timeout=timeout,
        wait_for=wait_for,
        max_content_length=max_content_length,
    )


def waiting_calls(messages: Iterable[Any]) -> dict[str, str]:
    """The suspended calls in a conversation: the provider's id of the tool call → the id that `ctx.answer` takes.

    Args:
        messages: Of Chat Completions, or items of the Responses API; others than tools' results are passed over.
    """
    found = ((_id_of(message), waiting_call(_content_in(message))) for message in messages)
    return {tool_call_id: call_id for tool_call_id, call_id in found if call_id is not None}


async def asettle_tool_calls(
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
        max_content_length: As for `ahandle_tool_calls`.

    Raises:
        ValueError: An argument has no such form.
        RuntimeError: The Ctx is closed.
    """
    check_content_length(max_content_length)
    waiting = [(message, waiting_call(_content_in(message))) for message in messages]
    call_ids = list(dict.fromkeys(call_id for _, call_id in waiting if call_id is not None))
    outcomes = await outcomes_of(ctx, call_ids, session_id=session_id, seconds=timeout)
    known = dict(zip(call_ids, outcomes, strict=True))
    return [_settled(message, known.get(call_id or ""), max_content_length) for message, call_id in waiting]


def settle_tool_calls(
    ctx: Ctx,
    messages: Sequence[Any],
    *,
    session_id: str | None = None,
    timeout: float | None = None,
    max_content_length: int | None = None,
) -> list[Any]:
    """`asettle_tool_calls` for sync code. Raises RuntimeError inside a running event loop."""
    return run_blocking(
        asettle_tool_calls,
        ctx,
        messages,
        session_id=session_id,
        timeout=timeout,
        max_content_length=max_content_length,
    )


def _message_of(response: Any) -> Any:
    choices = items(response, "choices")
    return part(choices[0], "message") if choices else response


def _chat_calls(response: Any) -> list[ToolCall]:
    choices = items(response, "choices")
    held = items(_message_of(response), "tool_calls")
    is_cut_off = bool(choices) and part(choices[0], "finish_reason") in ("length", "content_filter")
    functions = [(one, part(one, "function")) for one in held if part(one, "type") in ("function", None)]
    return [
        ToolCall(
            part(one, "id"),
            part(function, "name"),
            part(function, "arguments"),
            is_cut_off and one is held[-1] and is_unfinished(part(function, "arguments")),
        )
        for one, function in functions
        if function is not None
    ]


def _response_calls(response: Any) -> list[ToolCall]:
    output = items(response, "output")
    is_cut_off = part(response, "status") == "incomplete"
    return [
        ToolCall(
            part(item, "call_id"),
            part(item, "name"),
            part(item, "arguments"),
            part(item, "status") == "incomplete"
            or (is_cut_off and item is output[-1] and is_unfinished(part(item, "arguments"))),
        )
        for item in output
        if part(item, "type") == "function_call"
    ]


def _tool_message(call_id: Any, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _output_item(call_id: Any, content: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def _id_of(message: Any) -> str:
    """The provider's id; some servers give none."""
    return str(part(message, "tool_call_id") or part(message, "call_id") or "")


def _content_in(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return None
    held = cast("Mapping[str, Any]", message)
    if held.get("type") == "function_call_output":
        return held.get("output")
    return held.get("content") if held.get("role") == "tool" else None


def _settled(message: Any, outcome: Outcome | None, max_chars: int | None) -> Any:
    if outcome is None:
        return message
    key = "output" if part(message, "type") == "function_call_output" else "content"
    return {**message, key: content_of(outcome, max_chars)}
