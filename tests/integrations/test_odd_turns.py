"""Whatever stands in a response, an adapter reads calls out of it or finds none; and what ends a turn early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integrations.openai_turns import chat
from tests.integrations.test_anthropic import message
from tests.wait import until
from toolstash import Ctx, Tool
from toolstash.integrations import anthropic, openai

KEYS = (
    *("choices", "message", "tool_calls", "function", "name", "arguments", "type", "id", "output", "content", "input"),
    *("status", "finish_reason", "stop_reason", "call_id", "tool_use_id", "tool_call_id", "role", "index", "delta"),
)
WORDS = ("function", "function_call", "tool_use", "tool", "tool_result", "function_call_output", "load", "{}", "{", "")
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.binary(max_size=3) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=40,
)


@settings(max_examples=150)
@given(ODD)
async def test_odd_responses(turn: Any) -> None:
    ctx = Ctx("memory:")

    @ctx.producer(workspace_type="rows")
    def load(n: int = 1) -> list[int]:
        return list(range(n))

    streamed = openai.StreamedTurn()
    streamed.add(turn)
    assert streamed.message["role"] == "assistant"
    for has, handle, read, settle in (
        (openai.has_tool_calls, openai.ahandle_tool_calls, openai.waiting_calls, openai.asettle_tool_calls),
        (anthropic.has_tool_use, anthropic.ahandle_tool_use, anthropic.waiting_calls, anthropic.asettle_tool_use),
    ):
        messages = await handle(ctx, turn, tools=[turn])
        assert has(turn) or messages == []
        assert all(isinstance(one.get("content", one.get("output")), str) for one in messages)
        assert read([turn, *messages]) == {}
        assert await settle(ctx, [turn, *messages]) == [turn, *messages]


async def test_of_several_choices_the_first_is_answered(tools_ctx: Ctx) -> None:
    first, second = (chat(("echo", {"value": n}), sdk=False)["choices"][0] for n in (1, 2))
    messages = await openai.ahandle_tool_calls(tools_ctx, {"choices": [first, second]})
    assert [one["content"] for one in messages] == ["1"]


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
async def test_a_turn_that_is_cancelled_ends_its_calls(tools_ctx: Ctx, adapter: str) -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def linger(args: dict[str, Any]) -> None:
        begun.append(args["n"])
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(args["n"])

    tools_ctx.add_tool(Tool("linger", "Linger.", {"type": "object", "additionalProperties": True}, execute=linger))
    calls = [("linger", {"n": n}) for n in ("a", "b")]
    turn = (
        openai.ahandle_tool_calls(tools_ctx, chat(*calls))
        if adapter == "openai"
        else anthropic.ahandle_tool_use(tools_ctx, message(*calls))
    )
    task = asyncio.create_task(turn)
    await until(lambda: len(begun) == 2, within=20, what="both calls have begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == ["a", "b"]
