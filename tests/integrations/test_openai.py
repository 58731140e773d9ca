"""Chat Completions: the SDK's objects and dicts, sync and async; each call its own message, in order (F44-F47)."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from tests.integrations.conftest import ANY_OBJECT, PARALLEL
from tests.integrations.openai_turns import chat
from toolstash import Ctx, SessionRequiredError, Tool
from toolstash.integrations.openai import ahandle_tool_calls, handle_tool_calls, has_tool_calls, to_openai_tools

CUSTOM = {"id": "k", "type": "custom", "custom": {"name": "shell", "input": "ls"}}


def content(message: dict[str, Any]) -> Any:
    return json.loads(message["content"])


@pytest.mark.parametrize("sdk", [True, False])
async def test_a_turn_is_answered_in_order(tools_ctx: Ctx, sdk: bool) -> None:
    await tools_ctx.adispatch_tool_call("load_papers", {"count": 3})
    turn = chat(
        ("papers_count", {"workspace_id": "papers_3"}),
        ("papers_paginate", '{"workspace_id": "papers_3", "pa'),
        ("papers_paginate", {"workspace_id": "papers_3", "page": "0", "size": None}),
        ("papers_count", {"workspace_id": "papers_3", "oops": 1}),
        ("fail", {}),
        sdk=sdk,
    )
    assert has_tool_calls(turn)
    messages = await ahandle_tool_calls(tools_ctx, turn)
    for message in messages:
        TypeAdapter(ChatCompletionToolMessageParam).validate_python(message)
    assert [message["tool_call_id"] for message in messages] == ["c0", "c1", "c2", "c3", "c4"]
    count, broken, page, unknown, failed = map(content, messages)
    assert count["count"] == 3
    assert "not a JSON object" in broken["error"]
    assert [row["id"] for row in page["result"]["items"]] == [0, 1, 2]
    assert "oops" in unknown["error"]
    assert failed["error"] == "fail failed (OSError)."


@pytest.mark.parametrize("sdk", [True, False])
def test_sync_code(sync_ctx: Ctx, sdk: bool) -> None:
    turn = chat(("load_papers", {"count": 2}), ("echo", {"value": 7}), sdk=sdk)
    notice, echoed = handle_tool_calls(sync_ctx, turn, session_id="ann")
    assert content(notice)["item_count"] == 2
    assert echoed == {"role": "tool", "tool_call_id": "c1", "content": "7"}
    with sync_ctx.session("ann"):
        assert sync_ctx.blocking.list_workspaces() == [content(notice)["workspace_id"]]
    with sync_ctx.session("bob"):
        assert sync_ctx.blocking.list_workspaces() == []


async def test_the_sync_door_in_a_running_loop_names_the_async_one(tools_ctx: Ctx) -> None:
    with pytest.raises(RuntimeError, match="ahandle_tool_calls"):
        handle_tool_calls(tools_ctx, chat(("echo", {"value": 1})))


async def test_the_calls_of_a_turn_run_at_the_same_time(tools_ctx: Ctx) -> None:
    turn = chat(*(("meet", {"n": n}) for n in range(PARALLEL)))
    messages = await ahandle_tool_calls(tools_ctx, turn, timeout=30)
    assert [content(message) for message in messages] == [{"met": n} for n in range(PARALLEL)]


def test_the_calls_of_a_turn_run_at_the_same_time_for_sync_code(sync_ctx: Ctx) -> None:
    turn = chat(*(("meet", {"n": n}) for n in range(PARALLEL)))
    assert [content(message)["met"] for message in handle_tool_calls(sync_ctx, turn)] == [0, 1, 2]


@pytest.mark.parametrize("sdk", [True, False])
async def test_foreign_and_custom_tools_are_left_to_the_caller(tools_ctx: Ctx, sdk: bool) -> None:
    turn = chat(("get_weather", {}), ("echo", {"value": 1}), ("papers_delete", {}), sdk=sdk, extra=[CUSTOM])
    messages = await ahandle_tool_calls(tools_ctx, turn)
    assert [message["tool_call_id"] for message in messages] == ["c1", "c2"]
    assert "papers_count" in content(messages[1])["available_tools"]
    assert has_tool_calls(chat(extra=[CUSTOM], sdk=sdk))
    assert await ahandle_tool_calls(tools_ctx, chat(extra=[CUSTOM], sdk=sdk)) == []


async def test_with_the_list_of_tools_every_name_is_somebodys(tools_ctx: Ctx) -> None:
    weather = {"type": "function", "function": {"name": "get_weather", "parameters": ANY_OBJECT}}
    mine = {"type": "function", "name": "papers_export"}
    tools = [*to_openai_tools(tools_ctx), weather, mine, CUSTOM]
    turn = chat(("get_weather", {}), ("papers_export", {}), ("get_wether", {}), ("Echo", {"value": 1}))
    messages = await ahandle_tool_calls(tools_ctx, turn, tools=tools)
    assert [message["tool_call_id"] for message in messages] == ["c2", "c3"]
    assert content(messages[0])["error"] == "Tool 'get_wether' not found."
    assert content(messages[1]) == 1


@pytest.mark.parametrize(
    "nothing",
    [
        {"choices": [{"message": {"content": "hi", "tool_calls": None}}]},
        {"choices": [{"message": {"content": "hi"}}]},
        {"choices": [{"message": None}]},
        {"choices": []},
        {"choices": None},
        {},
        None,
        {"output": None},
    ],
)
async def test_a_turn_without_calls(tools_ctx: Ctx, nothing: Any) -> None:
    assert not has_tool_calls(nothing)
    assert await ahandle_tool_calls(tools_ctx, nothing) == []


async def test_what_other_servers_send(tools_ctx: Ctx) -> None:
    calls = [
        {"function": {"name": "echo", "arguments": {"value": "a dict"}}},
        {"id": "", "function": {"name": "echo", "arguments": '"{\\"value\\": \\"twice\\"}"'}},
        {"id": "n", "type": "function", "function": {"name": None, "arguments": None}},
        {"id": "m", "type": "function", "function": None},
    ]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    messages = await ahandle_tool_calls(tools_ctx, message)
    assert [one["tool_call_id"] for one in messages] == [None, "", "n"]
    assert [one["content"] for one in messages[:2]] == ["a dict", "twice"]
    assert "not found" in content(messages[2])["error"]


async def test_a_call_that_the_model_could_not_finish_is_not_run(tools_ctx: Ctx) -> None:
    turn = chat(("load_papers", {"count": 1}), ("load_papers", ""), finish_reason="length")
    whole, cut = map(content, await ahandle_tool_calls(tools_ctx, turn))
    assert whole["item_count"] == 1
    assert "cut off" in cut["error"]
    assert await tools_ctx.list_workspaces() == ["papers_1"]
    whole = chat(("load_papers", ""))
    assert content((await ahandle_tool_calls(tools_ctx, whole))[0])["item_count"] == 25


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", "(no text)"),
        (" \n", "(no text)"),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        ("text as it is", "text as it is"),
        ({"n": math.nan, "big": 10**30, "ü": "é"}, '{"n":null,"big":1000000000000000000000000000000,"ü":"é"}'),
        ({"d": Decimal("1.2345678901234567890")}, '{"d":"1.2345678901234567890"}'),
        ("\ud834 offer \ud83d\ude80", "\ufffd offer \U0001f680"),
        (["\ud834"], '["\\ud834"]'),
    ],
)
async def test_contents_are_never_empty_and_always_sendable(ctx: Ctx, value: Any, expected: str) -> None:
    async def give(_: dict[str, Any]) -> Any:
        return value

    ctx.add_tool(Tool("give", "Give.", ANY_OBJECT, execute=give))
    (message,) = await ahandle_tool_calls(ctx, chat(("give", {})))
    assert message["content"] == expected
    assert message["content"].encode()


async def test_limits_reach_the_calls(tools_ctx: Ctx) -> None:
    (message,) = await ahandle_tool_calls(tools_ctx, chat(("meet", {"n": 0})), timeout=0.01)
    assert content(message)["status"] == "timeout"
    with pytest.raises(ValueError, match="timeout"):
        await ahandle_tool_calls(tools_ctx, chat(("echo", {})), timeout="soon")  # pyright: ignore
    with pytest.raises(TypeError, match="wait_for"):
        await ahandle_tool_calls(tools_ctx, chat(("echo", {})), wait_for=3)  # pyright: ignore
    for length in (0, 19, True, 100.0):
        with pytest.raises(ValueError, match="max_content_length"):
            await ahandle_tool_calls(tools_ctx, chat(("echo", {})), max_content_length=length)  # pyright: ignore


async def test_a_programmers_mistakes_are_raised() -> None:
    async with Ctx("memory:", require_session=True) as strict, Ctx("memory:", safe=False) as open_hearted:

        async def fail(_: dict[str, Any]) -> Any:
            raise OSError("as it is")

        for ctx in (strict, open_hearted):
            ctx.add_tool(Tool("fail", "Fail.", ANY_OBJECT, execute=fail))
        with pytest.raises(SessionRequiredError):
            await ahandle_tool_calls(strict, chat(("fail", {})))
        with pytest.raises(OSError, match="as it is"):
            await ahandle_tool_calls(open_hearted, chat(("fail", {}), ("fail", {})))
    with pytest.raises(RuntimeError):
        await ahandle_tool_calls(strict, chat(("fail", {})), session_id="s")


async def test_schemas_for_both_apis(tools_ctx: Ctx) -> None:
    tools = to_openai_tools(tools_ctx)
    assert tools == tools_ctx.get_tools()
    for tool in tools:
        TypeAdapter(ChatCompletionFunctionToolParam).validate_python(tool)
    flat = to_openai_tools(tools_ctx, responses=True)
    for tool in flat:
        TypeAdapter(FunctionToolParam).validate_python(tool)
    assert [tool["name"] for tool in flat] == [tool["function"]["name"] for tool in tools]
    assert {tool["strict"] for tool in flat} == {False}
    strict = {tool["name"]: tool["strict"] for tool in to_openai_tools(tools_ctx, responses=True, strict=True)}
    assert strict["papers_count"] is True
    only = to_openai_tools(tools_ctx, workspace_id="papers_3", names=["papers_count"])
    assert only[0]["function"]["parameters"]["properties"]["workspace_id"]["enum"] == ["papers_3"]
    assert {name.split("_")[0] for name in (t["name"] for t in flat if "_" in t["name"])} == {"load", "papers"}
    assert all(t["function"]["name"].startswith("papers_") for t in to_openai_tools(tools_ctx, toolsets=["papers"]))
