"""`Tool`: a tool made of a name, a JSON Schema and a function of the arguments, as other libraries know it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolstash.blocking import AsyncTool
from toolstash.schema.json_schema import JsonFunctionSchema
from toolstash.schema.names import tool_name
from toolstash.schema.resolve import function_behind
from toolstash.tools.calling import call
from toolstash.tools.tool_context import ContextParameter, ToolContext, supplied
from toolstash.tools.toolset import ToolEntry

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _missing(*_: Any) -> Any:
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool that takes its arguments as one dict. `ctx.add_tool(tool)` registers it.

    Attributes:
        name: At most 40 characters of `A-Z a-z 0-9 _ -`, the first one a letter or "_".
        description: What a model reads of it.
        input_schema: The JSON Schema of its arguments, `{"type": "object", …}`; models are shown it unchanged.
        source: Where it comes from, in any word; for the program alone.
        execute: Called with the arguments as a dict and the `ToolContext`, or with the dict alone if it takes one
            argument. An `async def` is awaited; a `def` runs in a worker thread, its context blocking. It returns
            data or a `ToolResult`.
        idempotent: Whether a resumed call may run again after a worker was lost in the middle of it.

    Raises:
        ValueError: The name would have to be changed, or the schema is none of an object.
        TypeError: `execute` is no function of one or two arguments.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    source: str = "custom"
    execute: Callable[..., Any] = _missing
    idempotent: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or tool_name(self.name) != self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(
                "a tool's name is 1 to 40 characters of A-Z a-z 0-9 _ -, the first a letter or _, "
                f"not {self.name!r:.80}"
            )
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the description of '{self.name}' is text, not {type(self.description).__name__}")
        takes_context(self.execute, self.name)
        self.schema()

    def schema(self) -> JsonFunctionSchema:
        """What a model is told of it."""
        try:
            return JsonFunctionSchema.of_json(self.name, self.description, self.input_schema)
        except ValueError as error:
            raise ValueError(f"the input_schema of '{self.name}': {error}") from None


@dataclass(frozen=True, slots=True)
class WholeEntry(ToolEntry):
    """A tool that takes its arguments as one dict."""

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Runs the tool with checked arguments, as `schema.checked` gives them, and the context of its call."""
        return await self.run(dict(arguments), context)

    @property
    def origin(self) -> tuple[str, str]:
        """Where the function was defined; one made inside another function is like no other."""
        execute: Any = getattr(self.run, "__wrapped__", self.run)
        name = getattr(execute, "__qualname__", "")
        if inspect.isfunction(execute) and "<" not in name:
            return execute.__module__, name
        return type(execute).__module__, f"{name or type(execute).__qualname__} at {id(execute):x}"


def entry_of(tool: Tool, *, safe: bool) -> WholeEntry:
    """The tool as the dispatch knows it. Called from Python: `await run({"steps": 3})`."""
    execute = tool.execute
    behind = function_behind(execute)
    parameter = ContextParameter("ctx", inspect.iscoroutinefunction(behind), position=1)
    has_context = takes_context(execute, tool.name)

    async def run(args: Mapping[str, Any], ctx: ToolContext | None = None) -> Any:
        with supplied(parameter, (), {"ctx": ctx}) as (_, named):
            return await call(execute, dict(args), *([named["ctx"]] if has_context else []))

    return WholeEntry(tool.name, AsyncTool(run, like=execute), tool.schema(), safe=safe, idempotent=tool.idempotent)


def takes_context(execute: Any, name: str) -> bool:
    """Whether the function of a tool takes a context after its arguments.

    Raises:
        TypeError: It is no function of one or two arguments, or it yields.
    """
    if not callable(execute) or execute is _missing:
        raise TypeError(f"'{name}' needs execute: a function (args, ctx) or (args)")
    behind = function_behind(execute)
    if inspect.isgeneratorfunction(behind) or inspect.isasyncgenfunction(behind):
        raise TypeError(f"execute of '{name}' yields; it returns its result instead")
    try:
        parameters = list(inspect.signature(execute).parameters.values())
    except ValueError:
        raise TypeError(f"execute of '{name}' does not say what it takes: wrap it in a function (args)") from None
    places = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    is_open = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    needed = [parameter for parameter in places if parameter.default is inspect.Parameter.empty]
    named = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is inspect.Parameter.empty]
    if len(needed) > 2 or named or not (places or is_open):
        raise TypeError(f"execute of '{name}' is called as execute(args, ctx) or execute(args)")
    return len(places) >= 2 or is_open
