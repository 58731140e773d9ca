"""What OpenAI's APIs return, as dicts and as the SDK's own objects."""

from __future__ import annotations

import json
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

Made = tuple[str, Any]
"""The name of a tool and its arguments, as text or as what becomes JSON text."""


def arguments_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def chat(*calls: Made, sdk: bool = True, finish_reason: str = "tool_calls", extra: Any = ()) -> Any:
    """A completion with these calls, their ids c0, c1, …"""
    tool_calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": arguments_text(arguments)}}
        for at, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": [*extra, *tool_calls]}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    data = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return ChatCompletion.model_validate(data) if sdk else data


def function_item(at: int, name: str, arguments: Any, status: str = "completed") -> dict[str, Any]:
    text = arguments_text(arguments)
    named = {"id": f"fc{at}", "call_id": f"c{at}", "name": name}
    return {"type": "function_call", "arguments": text, "status": status, **named}


def response(*calls: Made, sdk: bool = True, extra: Any = ()) -> Any:
    """A response of the Responses API with these calls, their call ids c0, c1, …"""
    output = [*extra, *(function_item(at, name, arguments) for at, (name, arguments) in enumerate(calls))]
    data = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return Response.model_validate(data) if sdk else data


def chunk(delta: dict[str, Any], finish_reason: str | None = None, *, index: int = 0, sdk: bool = True) -> Any:
    choice = {"index": index, "delta": delta, "finish_reason": finish_reason}
    data = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return ChatCompletionChunk.model_validate(data) if sdk else data
