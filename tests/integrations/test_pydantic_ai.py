"""Pydantic AI: agents with the tools of a Ctx; whatever arguments a model sends, the run goes on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from tests.integrations.conftest import PARALLEL
from toolstash import Answer, Ctx
from toolstash.integrations.pydantic_ai import to_pydantic_ai_tools


def agent(ctx: Ctx, *calls: tuple[str, Any], **options: Any) -> Agent[None, str]:
    """An agent whose model makes these calls in its first turn and is done in its second."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        parts = [ToolCallPart(name, args, tool_call_id=f"p{at}") for at, (name, args) in enumerate(calls)]
        return ModelResponse(parts=parts)

    return Agent(FunctionModel(model), tools=to_pydantic_ai_tools(ctx, **options))


def results(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_an_agent_reads_what_the_ctx_says(tools_ctx: Ctx) -> None:
    await tools_ctx.adispatch_tool_call("load_papers", {"count": 3})
    of = {"workspace_id": "papers_3"}
    arguments = {
        "good": ("papers_filter_by", {**of, "field": "year", "value": 2002, "limit": None}),
        "text": ("papers_pipe", json.dumps({**of, "steps": '[{"limit": 1}]'})),
        "list": ("papers_count", "[1]"),
        "broken": ("papers_count", '{"workspace_id'),
        "none": ("papers_count", None),
        "wrong": ("papers_count", {**of, "oops": 1}),
        "failed": ("fail", {}),
        "blank": ("echo", {"value": ""}),
        "halves": ("echo", '{"value": ["\\ud834"]}'),
    }
    run = await agent(tools_ctx, *arguments.values()).run("go")
    assert run.output == "done"
    read = dict(zip(arguments, (part.content for part in results(run.all_messages())), strict=True))
    assert json.loads(read["good"])["total_matches"] == 1
    assert json.loads(read["text"])["count"] == 1
    for name in ("list", "broken", "none", "wrong", "failed"):
        assert json.loads(read[name])["suggested_action"]
    assert (read["blank"], read["halves"]) == ("(no text)", '["\\ud834"]')
    assert run.all_messages_json()


@pytest.fixture
def own_loop() -> Iterator[None]:
    """An event loop for `run_sync`, which would leave one of its own open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


@pytest.mark.usefixtures("own_loop")
def test_sync_code(sync_ctx: Ctx) -> None:
    run = agent(sync_ctx, *(("meet", {"n": n}) for n in range(PARALLEL)), timeout=30).run_sync("go")
    assert [part.content for part in results(run.all_messages())] == ['{"met":0}', '{"met":1}', '{"met":2}']
    assert [part.tool_call_id for part in results(run.all_messages())] == ["p0", "p1", "p2"]


async def test_a_model_that_calls_every_tool(tools_ctx: Ctx) -> None:
    tools = to_pydantic_ai_tools(tools_ctx, toolsets=["papers"], workspace_id="papers_1")
    await tools_ctx.adispatch_tool_call("load_papers", {"count": 1})
    run = await Agent(TestModel(), tools=tools).run("go")
    read = {part.tool_name: json.loads(part.content) for part in results(run.all_messages())}
    assert list(read) == [tool.name for tool in tools]
    assert read["papers_count"]["count"] == 1


async def test_schemas_are_those_of_the_ctx(tools_ctx: Ctx) -> None:
    for tool, exported in zip(to_pydantic_ai_tools(tools_ctx), tools_ctx.get_tools(), strict=True):
        function, shown = exported["function"], tool.tool_def
        assert (shown.name, shown.description) == (function["name"], function["description"])
        assert shown.parameters_json_schema == function["parameters"]
    assert [tool.name for tool in to_pydantic_ai_tools(tools_ctx, names=["ask"])] == ["ask"]


async def test_limits_and_sessions_reach_the_calls(tools_ctx: Ctx) -> None:
    calls = [("load_papers", {"count": 200}), ("ask", {})]
    run = await agent(tools_ctx, *calls, session_id="ann", max_content_length=300).run("go")
    notice, waiting = (part.content for part in results(run.all_messages()))
    assert len(notice) <= 300
    with tools_ctx.session("ann"):
        assert [call.call_id for call in await tools_ctx.pending_calls()] == [json.loads(waiting)["call_id"]]
    with tools_ctx.session("bob"):
        assert await tools_ctx.list_workspaces() == []
    answered = agent(tools_ctx, ("ask", {}), wait_for=lambda request: Answer(request.id, ok=True, data=1))
    assert results((await answered.run("go")).all_messages())[0].content == '{"answered":1}'


def test_without_the_package(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ImportError, match="pip install pydantic-ai-slim"):
        to_pydantic_ai_tools(ctx)
