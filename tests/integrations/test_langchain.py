"""LangChain: numbers, null, lists and JSON text reach the Ctx as the model sent them; contents, artifacts, errors."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from toolstash import Answer, Ctx
from toolstash.integrations import langchain
from toolstash.integrations.langchain import to_langchain_tools


def called(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "id": "t1", "name": name, "args": args}


def by_name(ctx: Ctx, **options: Any) -> dict[str, StructuredTool]:
    return {tool.name: tool for tool in to_langchain_tools(ctx, **options)}


async def test_what_the_model_sends_is_for_the_ctx_to_check(tools_ctx: Ctx) -> None:
    tools = by_name(tools_ctx)
    notice = json.loads(await tools["load_papers"].ainvoke({"count": "3", "config": "kept"}))
    assert notice["item_count"] == 3
    of = {"workspace_id": notice["workspace_id"]}
    found = json.loads(await tools["papers_filter_by"].ainvoke({**of, "field": "year", "value": 2002, "limit": None}))
    assert [row["item"]["error"] for row in found["results"]] == ["kept"]
    assert found["results"][0]["item"]["id"] == 2
    steps = json.dumps([{"sort": {"field": "id", "order": "desc"}}, {"limit": 1}])
    assert json.loads(await tools["papers_pipe"].ainvoke({**of, "steps": steps}))["items"][0]["id"] == 2
    assert json.loads(await tools["papers_count"].ainvoke(json.dumps(of)))["count"] == 3


async def test_a_tool_call_gives_a_message(tools_ctx: Ctx) -> None:
    tools = by_name(tools_ctx)
    good = await tools["echo"].ainvoke(called("echo", {"value": {"error": "data"}}))
    assert isinstance(good, ToolMessage)
    assert (good.content, good.artifact, good.status) == ('{"error":"data"}', {"error": "data"}, "success")
    assert (good.tool_call_id, good.name) == ("t1", "echo")
    for name, args in {"papers_count": {"oops": 1}, "fail": {}, "refuse": {}}.items():
        bad = await tools[name].ainvoke(called(name, args))
        assert bad.status == "error"
        assert json.loads(bad.content)["suggested_action"]
    for empty in ("", [], ["a", "b"], [{"type": "text", "text": "t"}]):
        message = await tools["echo"].ainvoke(called("echo", {"value": empty}))
        assert isinstance(message.content, str)
        assert message.content


def test_sync_code(sync_ctx: Ctx) -> None:
    tools = by_name(sync_ctx, session_id="ann")
    notice = json.loads(tools["load_papers"].invoke({"count": 2}))
    message = tools["papers_filter_by"].invoke(
        called("papers_filter_by", {"workspace_id": notice["workspace_id"], "field": "year", "value": 2001})
    )
    assert message.artifact["total_matches"] == 1
    with sync_ctx.session("bob"):
        assert sync_ctx.blocking.list_workspaces() == []
    assert tools["fail"].invoke(called("fail", {})).status == "error"


async def test_the_sync_door_in_a_running_loop_names_the_async_one(tools_ctx: Ctx) -> None:
    with pytest.raises(RuntimeError, match="ainvoke"):
        by_name(tools_ctx)["echo"].invoke({"value": 1})


async def test_an_agents_turn_with_a_chat_model(tools_ctx: Ctx) -> None:
    turns = [AIMessage("", tool_calls=[called("load_papers", {"count": 4})]), AIMessage("done")]
    model, tools = GenericFakeChatModel(messages=iter(turns)), by_name(tools_ctx)
    history: list[Any] = [("user", "load")]
    while (said := await model.ainvoke(history)).tool_calls:
        history += [said, *[await tools[call["name"]].ainvoke(call) for call in said.tool_calls]]
    assert history[-1].artifact["workspace_id"] == "papers_4"


async def test_schemas_are_those_of_the_ctx(tools_ctx: Ctx) -> None:
    for tool, exported in zip(to_langchain_tools(tools_ctx), tools_ctx.get_tools(), strict=True):
        shown = convert_to_openai_tool(tool)["function"]
        function = exported["function"]
        assert (shown["name"], shown["description"]) == (function["name"], function["description"])
        assert shown["parameters"] == {"properties": {}, **function["parameters"]}
        assert tool.args == shown["parameters"]["properties"]
        assert tool.get_name() == function["name"]
    assert list(by_name(tools_ctx, names=["papers_count"], workspace_id="w")) == ["papers_count"]
    assert all(name.startswith("papers_") for name in by_name(tools_ctx, toolsets=["papers"]))


async def test_limits_reach_the_calls(tools_ctx: Ctx) -> None:
    options = {"timeout": 0.01, "max_content_length": 300}
    assert "timeout" in await by_name(tools_ctx, **options)["meet"].ainvoke({"n": 1})
    assert len(await by_name(tools_ctx, max_content_length=300)["load_papers"].ainvoke({})) <= 300
    waiting = await by_name(tools_ctx)["ask"].ainvoke(called("ask", {}))
    assert (waiting.status, waiting.artifact["status"]) == ("success", "pending")
    at_once = by_name(tools_ctx, wait_for=lambda request: Answer(request.id, ok=True, data=1))
    assert await at_once["ask"].ainvoke({}) == '{"answered":1}'


def test_without_the_package(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> None:
    langchain._tool_class.cache_clear()
    monkeypatch.setitem(sys.modules, "langchain_core.tools", None)
    with pytest.raises(ImportError, match="pip install langchain-core"):
        to_langchain_tools(ctx)
