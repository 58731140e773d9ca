"""The Responses API: function calls in, function call outputs out; and turns that are streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseOutputItemDoneEvent,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

from tests.integrations.openai_turns import chat, chunk, function_item, response
from toolstash import Ctx
from toolstash.integrations.openai import StreamedTurn, ahandle_tool_calls, handle_tool_calls, has_tool_calls

REASONING = {"type": "reasoning", "id": "rs", "summary": []}
CUSTOM = {"type": "custom_tool_call", "call_id": "k", "name": "shell", "input": "ls"}
SAID = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []}


@pytest.mark.parametrize("sdk", [True, False])
async def test_function_calls_become_outputs(tools_ctx: Ctx, sdk: bool) -> None:
    calls = (("echo", {"value": 1}), ("get_weather", {}), ("echo", "{"), ("echo", {"value": "x"}))
    turn = response(*calls, sdk=sdk, extra=[REASONING, CUSTOM, SAID])
    assert has_tool_calls(turn)
    outputs = await ahandle_tool_calls(tools_ctx, turn)
    for output in outputs:
        TypeAdapter(FunctionCallOutput).validate_python(output)
    assert [output["call_id"] for output in outputs] == ["c0", "c2", "c3"]
    assert {output["type"] for output in outputs} == {"function_call_output"}
    assert (outputs[0]["output"], outputs[2]["output"]) == ("1", "x")
    assert "not a JSON object" in json.loads(outputs[1]["output"])["error"]


def test_sync_code(sync_ctx: Ctx) -> None:
    assert handle_tool_calls(sync_ctx, response(("echo", {"value": 1})))[0]["output"] == "1"


@pytest.mark.parametrize("sdk", [True, False])
async def test_without_function_calls(tools_ctx: Ctx, sdk: bool) -> None:
    said = response(sdk=sdk, extra=[REASONING, SAID])
    assert not has_tool_calls(said)
    assert await ahandle_tool_calls(tools_ctx, said) == []
    assert has_tool_calls(response(sdk=sdk, extra=[CUSTOM]))


async def test_an_unfinished_item_is_not_run(tools_ctx: Ctx) -> None:
    turn = {"output": [function_item(0, "load_papers", "", "incomplete")]}
    assert "cut off" in (await ahandle_tool_calls(tools_ctx, turn))[0]["output"]
    assert await tools_ctx.list_workspaces() == []


def pieces(sdk: bool) -> list[Any]:
    """Two calls of a chat turn, in as many chunks as a server likes, and the usage at the end."""

    def call(index: int, arguments: str, **first: Any) -> dict[str, Any]:
        name = {"name": first.pop("name")} if "name" in first else {}
        return {"index": index, **first, "function": {**name, "arguments": arguments}}

    usage = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    deltas = [
        {"role": "assistant", "content": "let "},
        {"content": "me see"},
        {"tool_calls": [call(0, "", id="c0", type="function", name="echo")]},
        {"tool_calls": [call(0, '{"val'), call(1, '{"value"', id="c1", type="function", name="echo")]},
        {"tool_calls": [call(1, ": 2}"), call(0, 'ue": 1}')]},
    ]
    other = chunk({"tool_calls": [call(0, "{}", id="zz", name="echo")]}, index=1, sdk=sdk)
    end = [chunk({}, "tool_calls", sdk=sdk), usage]
    return [*(chunk(delta, sdk=sdk) for delta in deltas), other, *end]


@pytest.mark.parametrize("sdk", [True, False])
async def test_a_streamed_chat_turn(tools_ctx: Ctx, sdk: bool) -> None:
    turn = StreamedTurn()
    *before, last, usage = pieces(sdk)
    for one in before:
        turn.add(one)
        assert not has_tool_calls(turn)
        assert not turn.is_complete
    with pytest.raises(ValueError, match="not ended"):
        await ahandle_tool_calls(tools_ctx, turn)
    turn.add(last)
    turn.add(usage)
    assert turn.is_complete
    assert has_tool_calls(turn)
    whole = chat(("echo", '{"value": 1}'), ("echo", '{"value": 2}'), sdk=False)["choices"][0]["message"]
    assert turn.message == {**whole, "content": "let me see"}
    messages = await ahandle_tool_calls(tools_ctx, turn)
    assert [(one["tool_call_id"], one["content"]) for one in messages] == [("c0", "1"), ("c1", "2")]


async def test_servers_that_give_every_call_the_same_index(tools_ctx: Ctx) -> None:
    turn = StreamedTurn()
    for n in (1, 2):
        function = {"name": "echo", "arguments": json.dumps({"value": n})}
        turn.add(chunk({"tool_calls": [{"index": 0, "id": f"g{n}", "type": "function", "function": function}]}))
    turn.add(chunk({}, "stop"))
    messages = await ahandle_tool_calls(tools_ctx, turn)
    assert [(one["tool_call_id"], one["content"]) for one in messages] == [("g1", "1"), ("g2", "2")]


def test_a_streamed_answer_without_calls() -> None:
    turn = StreamedTurn()
    turn.add(chunk({"role": "assistant", "content": "hello"}))
    turn.add(chunk({}, "stop"))
    assert turn.is_complete
    assert not has_tool_calls(turn)
    assert turn.message == {"role": "assistant", "content": "hello"}
    assert turn.text == "hello"


def events(final_output: list[Any]) -> list[Any]:
    items = [REASONING, function_item(0, "echo", {"value": 1})]
    done = [
        ResponseOutputItemDoneEvent.model_validate(
            {"type": "response.output_item.done", "output_index": at, "sequence_number": 9, "item": item}
        )
        for at, item in reversed(list(enumerate(items)))
    ]
    delta = {"item_id": "fc0", "output_index": 1, "sequence_number": 2, "delta": '{"value'}
    said = {"content_index": 0, "delta": "hi", "item_id": "m", "logprobs": [], "output_index": 0, "sequence_number": 1}
    completed = {**response(sdk=False), "output": final_output}
    return [
        ResponseTextDeltaEvent.model_validate({"type": "response.output_text.delta", **said}),
        ResponseFunctionCallArgumentsDeltaEvent.model_validate(
            {"type": "response.function_call_arguments.delta", **delta}
        ),
        *done,
        ResponseCompletedEvent.model_validate(
            {"type": "response.completed", "sequence_number": 10, "response": completed}
        ),
    ]


@pytest.mark.parametrize("final_output", [[], [REASONING, function_item(0, "echo", {"value": 1})]])
async def test_a_streamed_response(tools_ctx: Ctx, final_output: list[Any]) -> None:
    turn = StreamedTurn()
    *before, last = events(final_output)
    for one in before:
        turn.add(one)
        assert not has_tool_calls(turn)
    assert turn.output == []
    turn.add(last)
    assert has_tool_calls(turn)
    assert [item.type for item in turn.output] == ["reasoning", "function_call"]
    assert await ahandle_tool_calls(tools_ctx, turn) == [
        {"type": "function_call_output", "call_id": "c0", "output": "1"}
    ]
