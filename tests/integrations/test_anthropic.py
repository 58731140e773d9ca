"""Anthropic's Messages: the SDK's objects and dicts, sync and async; an error is what the call came to, not a row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message, ToolParam, ToolResultBlockParam
from pydantic import TypeAdapter

from tests.integrations.conftest import PARALLEL
from toolstash import Ctx
from toolstash.integrations.anthropic import ahandle_tool_use, handle_tool_use, has_tool_use, to_anthropic_tools

SERVER_TOOL = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
SAID = {"type": "text", "text": "let me see", "citations": None}


def message(*calls: tuple[str, Any], sdk: bool = True, stop_reason: str = "tool_use", extra: Any = ()) -> Any:
    """A message with these calls, their ids u0, u1, …"""
    uses = [
        {"type": "tool_use", "id": f"u{at}", "name": name, "input": given} for at, (name, given) in enumerate(calls)
    ]
    data = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [*extra, *uses],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return Message.model_validate(data) if sdk else data


@pytest.mark.parametrize("sdk", [True, False])
async def test_a_turn_is_answered_in_order(tools_ctx: Ctx, sdk: bool) -> None:
    await tools_ctx.adispatch_tool_call("load_papers", {"count": 3})
    turn = message(
        ("papers_get_item", {"workspace_id": "papers_3", "index": "1"}),
        ("papers_get_item", {"workspace_id": "papers_3", "index": "x"}),
        ("get_weather", {"city": "Rome"}),
        ("papers_delete", {}),
        ("refuse", {}),
        ("fail", {}),
        sdk=sdk,
        extra=[SAID, SERVER_TOOL],
    )
    assert has_tool_use(turn)
    blocks = await ahandle_tool_use(tools_ctx, turn)
    for block in blocks:
        TypeAdapter(ToolResultBlockParam).validate_python(block)
    assert [block["tool_use_id"] for block in blocks] == ["u0", "u1", "u3", "u4", "u5"]
    assert [block.get("is_error") for block in blocks] == [None, True, True, True, True]
    row, *errors = (json.loads(block["content"]) for block in blocks)
    assert row == {"id": 1, "year": 2001, "error": "a column"}
    assert all(error["error"] and error["suggested_action"] for error in errors)


async def test_an_error_inside_an_envelope_is_no_error_of_the_call(tools_ctx: Ctx) -> None:
    await tools_ctx.adispatch_tool_call("load_papers", {"count": 3})
    calls = [("papers_paginate", {"workspace_id": "papers_3"}), ("echo", {"value": {"error": "data", "row": 1}})]
    blocks = await ahandle_tool_use(tools_ctx, message(*calls))
    assert [set(block) for block in blocks] == [{"type", "tool_use_id", "content"}] * 2


def test_sync_code(sync_ctx: Ctx) -> None:
    turn = message(*(("meet", {"n": n}) for n in range(PARALLEL)))
    blocks = handle_tool_use(sync_ctx, turn, session_id="ann", timeout=30)
    assert [block["content"] for block in blocks] == ['{"met":0}', '{"met":1}', '{"met":2}']


async def test_the_calls_of_a_turn_run_at_the_same_time(tools_ctx: Ctx) -> None:
    blocks = await ahandle_tool_use(tools_ctx, message(*(("meet", {"n": n}) for n in range(PARALLEL)), sdk=False))
    assert [block["content"] for block in blocks] == ['{"met":0}', '{"met":1}', '{"met":2}']


@pytest.mark.parametrize("nothing", [{"content": None}, {"content": "hi"}, {"content": []}, {}, None])
async def test_a_message_without_calls(tools_ctx: Ctx, nothing: Any) -> None:
    assert not has_tool_use(nothing)
    assert await ahandle_tool_use(tools_ctx, nothing) == []
    assert not has_tool_use(message(extra=[SAID, SERVER_TOOL]))


async def test_tools_of_anthropics_own_toolsets_are_the_callers(tools_ctx: Ctx) -> None:
    member = {"type": "tool_use", "id": "b", "name": "echo", "input": {"value": 1}, "toolset_name": "browser"}
    assert await ahandle_tool_use(tools_ctx, message(extra=[member])) == []


async def test_the_last_call_at_the_limit_is_not_run(tools_ctx: Ctx) -> None:
    calls = [("load_papers", {"count": 1}), ("load_papers", {"count": 2})]
    first, last = await ahandle_tool_use(tools_ctx, message(*calls, stop_reason="max_tokens"))
    assert "is_error" not in first
    assert last["is_error"]
    assert "cut off" in last["content"]
    assert await tools_ctx.list_workspaces() == ["papers_1"]


async def test_with_the_list_of_tools_every_name_is_somebodys(tools_ctx: Ctx) -> None:
    tools = [*to_anthropic_tools(tools_ctx), {"name": "get_weather", "input_schema": {"type": "object"}}]
    blocks = await ahandle_tool_use(tools_ctx, message(("get_weather", {}), ("get_wether", {})), tools=tools)
    assert [(block["tool_use_id"], block["is_error"]) for block in blocks] == [("u1", True)]


async def test_a_content_is_cut_to_json(tools_ctx: Ctx) -> None:
    turn = message(("load_papers", {"count": 500}), ("echo", {"value": "x" * 900}))
    for block in await ahandle_tool_use(tools_ctx, turn, max_content_length=400):
        assert len(block["content"]) <= 400
        assert json.loads(block["content"])["truncated"]["cut"]


async def test_schemas(tools_ctx: Ctx) -> None:
    tools = to_anthropic_tools(tools_ctx, workspace_id="papers_3")
    for tool in tools:
        TypeAdapter(ToolParam).validate_python(tool)
    assert [tool["name"] for tool in tools] == [tool["function"]["name"] for tool in tools_ctx.get_tools()]
    count = next(tool for tool in tools if tool["name"] == "papers_count")
    assert count["input_schema"]["properties"]["workspace_id"]["enum"] == ["papers_3"]
    assert [tool["name"] for tool in to_anthropic_tools(tools_ctx, names=["ask"])] == ["ask"]
    assert {tool["name"].split("_")[0] for tool in to_anthropic_tools(tools_ctx, toolsets=["papers"])} == {"papers"}
