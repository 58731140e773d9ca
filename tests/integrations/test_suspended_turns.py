"""Calls of a turn that wait for a person: found in the history, answered anywhere, filled in under the same ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integrations.openai_turns import chat, response
from tests.integrations.test_anthropic import message
from toolstash import Answer, Ctx
from toolstash.integrations import anthropic, openai

USER: dict[str, Any] = {"role": "user", "content": "go"}


async def answered(ctx: Ctx, call_id: str, *, ok: bool = True, data: Any = None) -> None:
    request = next(call.request for call in await ctx.pending_calls() if call.call_id == call_id)
    await ctx.answer(call_id, Answer(request.id, ok=ok, data=data), resume=True)


async def test_chat_completions(tools_ctx: Ctx) -> None:
    turn = chat(("ask", {"prompt": "A?"}), ("echo", {"value": 1}), ("ask", {"prompt": "B?"}))
    messages = await openai.ahandle_tool_calls(tools_ctx, turn, session_id="ann")
    history = json.loads(json.dumps([USER, *messages]))
    waiting = openai.waiting_calls(history)
    assert list(waiting) == ["c0", "c2"]
    with tools_ctx.session("ann"):
        await answered(tools_ctx, waiting["c2"], data="yes")
    partly = await openai.asettle_tool_calls(tools_ctx, history, session_id="ann", timeout=0)
    assert openai.waiting_calls(partly) == {"c0": waiting["c0"]}
    with tools_ctx.session("ann"):
        await answered(tools_ctx, waiting["c0"], ok=False)
    filled = await openai.asettle_tool_calls(tools_ctx, partly, session_id="ann")
    assert [one.get("tool_call_id") for one in filled] == [None, "c0", "c1", "c2"]
    assert json.loads(filled[1]["content"])["status"] == "declined"
    assert filled[2:] == [messages[1], {"role": "tool", "tool_call_id": "c2", "content": '{"answered":"yes"}'}]
    assert openai.waiting_calls(history) == waiting
    assert await openai.asettle_tool_calls(tools_ctx, filled) == filled


async def test_responses(tools_ctx: Ctx) -> None:
    outputs = await openai.ahandle_tool_calls(tools_ctx, response(("ask", {})))
    items = [*response(("ask", {})).output, *outputs]
    waiting = openai.waiting_calls(items)
    await answered(tools_ctx, waiting["c0"], data=list(range(500)))
    filled = await openai.asettle_tool_calls(tools_ctx, items, max_content_length=300)
    assert filled[0] is items[0]
    assert (filled[1]["type"], filled[1]["call_id"]) == ("function_call_output", "c0")
    assert len(filled[1]["output"]) <= 300
    assert json.loads(filled[1]["output"])["answered"][:3] == [0, 1, 2]


@pytest.mark.parametrize("as_messages", [True, False])
async def test_anthropic_messages(tools_ctx: Ctx, as_messages: bool) -> None:
    blocks = await anthropic.ahandle_tool_use(tools_ctx, message(("ask", {}), ("echo", {"value": 1}), ("ask", {})))
    assert not any("is_error" in block for block in blocks)
    history = [USER, {"role": "user", "content": blocks}] if as_messages else blocks
    waiting = anthropic.waiting_calls(history)
    assert list(waiting) == ["u0", "u2"]
    await answered(tools_ctx, waiting["u0"], data={"error": "of the data"})
    await answered(tools_ctx, waiting["u2"], ok=False)
    filled = await anthropic.asettle_tool_use(tools_ctx, history)
    settled = filled[1]["content"] if as_messages else filled
    assert settled[0] == {
        "type": "tool_result",
        "tool_use_id": "u0",
        "content": '{"answered":{"error":"of the data"}}',
    }
    assert settled[1] is blocks[1]
    assert (settled[2]["tool_use_id"], settled[2]["is_error"]) == ("u2", True)
    assert anthropic.waiting_calls(filled) == {}


def test_sync_code(sync_ctx: Ctx) -> None:
    blocks = anthropic.handle_tool_use(sync_ctx, message(("ask", {})))
    messages = openai.handle_tool_calls(sync_ctx, chat(("ask", {})))
    for call in sync_ctx.blocking.pending_calls():
        sync_ctx.blocking.answer(call.call_id, Answer(call.request.id, ok=True, data=5), resume=True)
    assert anthropic.settle_tool_use(sync_ctx, blocks, timeout=20)[0]["content"] == '{"answered":5}'
    assert openai.settle_tool_calls(sync_ctx, messages, timeout=20)[0]["content"] == '{"answered":5}'


async def test_an_answer_at_once(tools_ctx: Ctx) -> None:
    messages = await openai.ahandle_tool_calls(
        tools_ctx, chat(("ask", {}), ("ask", {})), wait_for=lambda request: Answer(request.id, ok=True, data="now")
    )
    assert [one["content"] for one in messages] == ['{"answered":"now"}'] * 2
    (block,) = await anthropic.ahandle_tool_use(
        tools_ctx, message(("ask", {})), wait_for=lambda request: Answer(request.id, ok=False)
    )
    assert block["is_error"]


async def test_a_call_that_nobody_knows_any_more_is_told_as_an_error(tools_ctx: Ctx) -> None:
    (block,) = await anthropic.ahandle_tool_use(tools_ctx, message(("ask", {})), session_id="ann")
    (foreign,) = await anthropic.asettle_tool_use(tools_ctx, [block], session_id="bob")
    assert foreign["is_error"]
    assert "not there any more" in json.loads(foreign["content"])["error"]
    unknown = block | {"content": json.dumps(json.loads(block["content"]) | {"call_id": "call_" + "0" * 32})}
    (gone,) = await anthropic.asettle_tool_use(tools_ctx, [unknown])
    assert gone["is_error"]
    assert (await anthropic.asettle_tool_use(tools_ctx, [block], timeout=0)) == [block]
