"""With `tools=`, a turn may use what the model was given and nothing else. Calls that break off are not run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.contracts import Outcome
from toolstash.integrations.anthropic import ahandle_tool_use, to_anthropic_tools
from toolstash.integrations.content import content_of
from toolstash.integrations.openai import ahandle_tool_calls, asettle_tool_calls, to_openai_tools, waiting_calls
from toolstash.toolsets import paginator


@pytest.fixture
async def ctx() -> Ctx:
    made = Ctx("memory:")
    paginator(made, "papers", mutations=True)
    for name in ("a", "b"):
        await made.store_workspace([{"i": i} for i in range(300)], workspace_type="papers", workspace_id=name)
    return made


def chat(*calls: tuple[str, Any], finish_reason: str = "tool_calls") -> dict[str, Any]:
    """A chat completion with these calls; arguments as text, or as a value."""
    made = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for place, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


async def test_a_tool_that_was_not_offered_does_not_run(ctx: Ctx) -> None:
    tools = to_openai_tools(ctx, names=["papers_count"])
    turn = chat(
        ("papers_delete_items", {"workspace_id": "b", "indices": [0, 1]}), ("papers-count", {"workspace_id": "b"})
    )
    refused, counted = (json.loads(one["content"]) for one in await ahandle_tool_calls(ctx, turn, tools=tools))
    assert "not among those" in refused["error"]
    assert refused["available_tools"] == ["papers_count"]
    assert counted["count"] == 300
    assert await ctx.store.count_items("b") == 300
    block = {
        "type": "tool_use",
        "id": "t",
        "name": "papers_delete_items",
        "input": {"workspace_id": "b", "indices": [0]},
    }
    offered = to_anthropic_tools(ctx, names=["papers_count"])
    (result,) = await ahandle_tool_use(ctx, {"content": [block]}, tools=offered)
    assert result["is_error"] is True
    assert await ctx.store.count_items("b") == 300


async def test_a_workspace_that_was_not_offered_is_not_read(ctx: Ctx) -> None:
    tools = to_openai_tools(ctx, workspace_id="a")
    turn = chat(("papers_count", {"workspace_id": "b"}), ("papers_count", {"workspace_id": "a"}), ("papers_count", {}))
    other, own, none = (json.loads(one["content"]) for one in await ahandle_tool_calls(ctx, turn, tools=tools))
    assert other["available_workspaces"] == ["a"]
    assert own["count"] == 300
    assert "workspace_id" in none["error"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("arguments", ["", '{"workspace_id":"a', '{"workspace_id":"a",'])
async def test_a_chat_call_that_breaks_off_is_said_to(ctx: Ctx, reason: str, arguments: str) -> None:
    turn = chat(("papers_count", {"workspace_id": "a"}), ("papers_count", arguments), finish_reason=reason)
    whole, broken = await ahandle_tool_calls(ctx, turn)
    assert json.loads(whole["content"])["count"] == 300
    assert "cut off" in json.loads(broken["content"])["error"]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
async def test_the_last_block_of_a_message_that_broke_off_is_not_run(ctx: Ctx, reason: str) -> None:
    block = {"type": "tool_use", "id": "t", "name": "papers_count", "input": {"workspace_id": "a"}}
    (result,) = await ahandle_tool_use(ctx, {"content": [block], "stop_reason": reason})
    assert "cut off" in result["content"]


async def test_a_poll_leaves_alone_what_it_does_not_know(ctx: Ctx) -> None:
    request = {"id": "r", "kind": "approval", "prompt": "Sure?"}
    told = {"status": "pending", "call_id": "call_x", "request": request, "suggested_action": "Wait."}
    messages = [{"role": "tool", "tool_call_id": "call_0", "content": json.dumps(told)}]
    assert await asettle_tool_calls(ctx, messages, timeout=0) == messages
    assert waiting_calls(messages) == {"call_0": "call_x"}
    settled = await asettle_tool_calls(ctx, messages)
    assert "not there any more" in settled[0]["content"]
    parts = [{"role": "tool", "tool_call_id": "call_0", "content": [{"type": "text", "text": json.dumps(told)}]}]
    assert waiting_calls(parts) == {"call_0": "call_x"}
    assert "not there any more" in (await asettle_tool_calls(ctx, parts))[0]["content"]


@pytest.mark.parametrize("most", [120, 200, 300])
async def test_a_notice_that_is_cut_keeps_its_workspace(ctx: Ctx, most: int) -> None:
    ref = await ctx.store_workspace([{"n": n, "text": "x" * 50} for n in range(500)], workspace_type="papers")
    content = content_of(Outcome(ref.to_dict()), most)
    assert len(content) <= most
    assert json.loads(content)["workspace_id"] == ref.workspace_id
