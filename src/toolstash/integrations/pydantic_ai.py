"""Pydantic AI: each tool of a Ctx as a `Tool`. Needs the package pydantic-ai, or pydantic-ai-slim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from toolstash.integrations.content import content_of
from toolstash.integrations.turns import CallOptions, Resolver, ToolCall, run_calls
from toolstash.schema.jsontext import JsonTextError, read_json
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet

if TYPE_CHECKING:
    from pydantic_ai import Tool

_WHOLE: Final = "\0arguments"
"""Where arguments stand that are no object; no parameter has this name."""


def to_pydantic_ai_tools(
    ctx: Ctx,
    *,
    workspace_id: str | None = None,
    toolsets: Sequence[str | ToolSet] | None = None,
    names: Sequence[str] | None = None,
    session_id: str | None = None,
    timeout: float | None = None,
    wait_for: Resolver | None = None,
    max_content_length: int | None = None,
) -> list[Tool[Any]]:
    """The tools of a Ctx for `Agent(tools=…)`.

    The model sees the JSON Schema of the Ctx, and the Ctx checks the arguments. A result is what the model reads, a
    text or JSON; mistakes are results too, and use up none of the agent's retries.

    Args:
        workspace_id: The only workspace that the tools of tool sets admit; None: any.
        toolsets, names: Only these tools, as in `Ctx.get_tools`; None: all.
        session_id: Whose calls they are; None: the session that is active where the agent runs, if any.
        timeout: Seconds that each call may take.
        wait_for: Answers at once what a tool asks; None: the call is left in the store, and its result is the
            suspended call.
        max_content_length: Characters of one result, from 20 on; a longer one is cut to valid JSON that says what is
            missing. None: no bound but the Ctx's `max_result_chars`.

    Raises:
        ImportError: Pydantic AI is not installed.
        ValueError, TypeError: An argument has no such form.
    """
    make = _tool_class()
    options = CallOptions(session_id, timeout, wait_for, max_content_length)

    return [
        _tool(make, ctx, tool["function"], options)
        for tool in ctx.get_tools(workspace_id, toolsets=toolsets, names=names)
    ]


def _tool_class() -> type[Tool[Any]]:
    try:
        from pydantic_ai import Tool
    except ImportError as error:
        raise ImportError("to_pydantic_ai_tools needs Pydantic AI: pip install pydantic-ai-slim") from error
    return Tool[Any]


def _tool(make: type[Tool[Any]], ctx: Ctx, function: Mapping[str, Any], options: CallOptions) -> Tool[Any]:
    async def run(**arguments: Any) -> str:
        given = arguments.get(_WHOLE, arguments)
        (outcome,) = await run_calls(ctx, [ToolCall(None, function["name"], given)], options)
        return content_of(outcome, options.max_content_length)

    tool = make.from_schema(run, function["name"], function["description"], function["parameters"])
    cast(Any, tool.function_schema).validator = _AnyArguments()
    return tool


class _AnyArguments:
    """Lets everything through that a model sends: the Ctx says what is wrong with it, and no retry is used up."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002 - pydantic's name
        text = input if isinstance(input, str) else input.decode("utf-8", "replace")
        try:
            return self.validate_python(read_json(text))
        except JsonTextError:
            return {_WHOLE: text}

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:  # noqa: A002 - pydantic's name
        return cast("dict[str, Any]", input) if isinstance(input, dict) else {_WHOLE: input}
