"""LangChain and LangGraph: each tool of a Ctx as a `StructuredTool`. Needs the package langchain-core."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from toolstash.blocking import run_blocking
from toolstash.integrations.content import content_of
from toolstash.integrations.turns import CallOptions, Resolver, ToolCall, run_calls
from toolstash.tools.ctx import Ctx
from toolstash.tools.toolset import ToolSet

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool


def to_langchain_tools(
    ctx: Ctx,
    *,
    workspace_id: str | None = None,
    toolsets: Sequence[str | ToolSet] | None = None,
    names: Sequence[str] | None = None,
    session_id: str | None = None,
    timeout: float | None = None,
    wait_for: Resolver | None = None,
    max_content_length: int | None = None,
) -> list[StructuredTool]:
    """The tools of a Ctx for an agent or for `bind_tools`, with `invoke` and `ainvoke`.

    The model sees the JSON Schema of the Ctx, and the Ctx checks the arguments. The content is what the model reads, a
    text or JSON; a `ToolMessage` has the value itself as its artifact, and the status "error" where the call failed.

    Args:
        workspace_id: The only workspace that the tools of tool sets admit; None: any.
        toolsets, names: Only these tools, as in `Ctx.get_tools`; None: all.
        session_id: Whose calls they are; None: the session that is active where a tool is invoked, if any.
        timeout: Seconds that each call may take.
        wait_for: Answers at once what a tool asks; None: the call is left in the store, and its content is the
            suspended call.
        max_content_length: Characters of one content, from 20 on; a longer one is cut to valid JSON that says what is
            missing. None: no bound but the Ctx's `max_result_chars`.

    Raises:
        ImportError: langchain-core is not installed.
        ValueError, TypeError: An argument has no such form.
    """
    make = _tool_class()
    options = CallOptions(session_id, timeout, wait_for, max_content_length)
    return [
        _tool(make, ctx, tool["function"], options)
        for tool in ctx.get_tools(workspace_id, toolsets=toolsets, names=names)
    ]


def _tool(make: type[StructuredTool], ctx: Ctx, function: dict[str, Any], options: CallOptions) -> StructuredTool:
    from langchain_core.tools import ToolException

    async def ainvoke(arguments: Any) -> tuple[str, Any]:
        (outcome,) = await run_calls(ctx, [ToolCall(None, function["name"], arguments)], options)
        content = content_of(outcome, options.max_content_length)
        if outcome.is_error:
            raise ToolException(content)
        return content, outcome.value

    def invoke(arguments: Any) -> tuple[str, Any]:
        return run_blocking(ainvoke, arguments)

    return make(
        name=function["name"],
        description=function["description"],
        args_schema={"properties": {}, **function["parameters"]},
        func=invoke,
        coroutine=ainvoke,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


@cache
def _tool_class() -> type[StructuredTool]:
    try:
        from langchain_core.tools import StructuredTool
    except ImportError as error:
        raise ImportError("to_langchain_tools needs LangChain: pip install langchain-core") from error

    class StashTool(StructuredTool):
        """Takes its arguments as one value: LangChain's own names, such as `config`, are free for tools then."""

        def _to_args_and_kwargs(
            self, tool_input: Any, tool_call_id: str | None
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return (tool_input,), {}

    return StashTool
