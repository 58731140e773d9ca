"""Tool sets: named groups of tools that explore a workspace."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from toolstash.asking import ToolResult
from toolstash.blocking import AsyncTool, in_event_loop
from toolstash.contracts import DataShape, WorkspaceMeta
from toolstash.query.questions import Question
from toolstash.schema.function import FunctionSchema, function_name
from toolstash.schema.names import tool_name
from toolstash.schema.resolve import function_behind
from toolstash.store.base import BaseStore
from toolstash.store.primitives import Reading
from toolstash.tools.calling import call
from toolstash.tools.checks import check_shape, check_type
from toolstash.tools.tool_context import ContextParameter, ToolContext, context_parameter, supplied

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

AnyTool = AsyncTool[..., Any]


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool as the dispatch knows it.

    Attributes:
        safe: Whether a dispatch turns exceptions into values for the model.
        is_builtin: Whether it answers with plain JSON.
        idempotent: Whether a resumed call may run again after a worker was lost in the middle of it.
        context_name: The parameter that takes the `ToolContext`; None where there is none.
    """

    name: str
    run: AnyTool
    schema: FunctionSchema
    data_shape: DataShape | None = None
    toolset: ToolSet | None = None
    workspace_type: str | None = None
    safe: bool = True
    is_builtin: bool = False
    idempotent: bool = False
    context_name: str | None = None

    async def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Runs the tool with checked arguments, as `schema.checked` gives them, and the context of its call."""
        if self.context_name is None:
            return await self.run(**arguments)
        return await self.run(**{**arguments, self.context_name: context})

    @property
    def origin(self) -> tuple[str, str]:
        """Where the function behind the tool was defined."""
        function = function_behind(getattr(self.run, "__wrapped__", self.run))
        return getattr(function, "__module__", ""), getattr(function, "__qualname__", self.name)


class ToolSet:
    """Tools that explore workspaces of one type.

    Args:
        name: What tool names start with; the workspace type that the tools accept, unless `enforce_type` is False.
        enforce_type: Whether workspaces of other types are refused.
        safe: Whether a dispatch turns exceptions of the tools into values for the model.
        data_shape: The shape that the tools read; a tool may have its own. None: any.
    """

    def __init__(
        self, name: str, *, enforce_type: bool = True, safe: bool = True, data_shape: DataShape | None = None
    ) -> None:
        if not name:
            raise ValueError("a tool set needs a name")
        self.name = name
        self.enforce_type = enforce_type
        self.safe = safe
        self.data_shape: DataShape | None = data_shape
        self.entries: dict[str, ToolEntry] = {}
        self.searched_fields: Sequence[str] | None = None
        """The only fields that the set's search looks into, its pipelines too; None: all."""
        self._ctx: Ctx | None = None

    @property
    def workspace_type(self) -> str | None:
        """The type of workspace that the tools accept; None: any."""
        return self.name if self.enforce_type else None

    @property
    def tools(self) -> dict[str, AnyTool]:
        """The callables by name: `await tools["papers_paginate"](workspace_id, page=0)`."""
        return {name: entry.run for name, entry in self.entries.items()}

    @property
    def tool_names(self) -> list[str]:
        """Names in the order of registration."""
        return list(self.entries)

    @property
    def store(self) -> Any:
        """The store: to await in async tools; in sync tools, which run in a thread, the same methods block.

        Raises:
            RuntimeError: The tool set belongs to no Ctx yet.
        """
        store = self._attached().store
        return store if in_event_loop() else store.blocking

    def room(self, chars: int) -> int:
        """`chars`, or less where the Ctx lets a result be smaller than that."""
        return int(min(chars, self._attached().answer_chars))

    def attach(self, ctx: Ctx) -> None:
        """Makes the tools those of a Ctx; `Ctx.add_toolset` does it.

        Raises:
            ValueError: The tool set belongs to another Ctx.
        """
        if self._ctx is not None and self._ctx is not ctx:
            raise ValueError(f"the tool set '{self.name}' belongs to another Ctx")
        self._ctx = ctx

    def tool_name_of(self, name: str) -> str:
        """What a tool of this set is called: `papers_paginate` for `paginate` in the set `papers`."""
        return tool_name(self.name, name)

    def tool(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        validate_workspace: bool = True,
        output_hint: str | None = None,
        schema_extra: Mapping[str, Mapping[str, Any]] | None = None,
        data_shape: DataShape | None = None,
        idempotent: bool = False,
    ) -> Any:
        """Registers a function, async or not, as a tool: `@ts.tool` or `@ts.tool(name=…)`.

        Args:
            name: The tool's whole name; `{set}_{function}` by default.
            validate_workspace: Check `workspace_id` (there, visible, type, shape) before the function runs.
            output_hint: Said with every result, as `{"result": …, "_hint": …}`; `{workspace_id}` is filled in.
            schema_extra: Further JSON Schema by parameter.
            data_shape: The shape that this tool reads, where it differs from the set's.
            idempotent: Whether a resumed call may run again after a worker was lost in the middle of it.

        Raises:
            ValueError: `schema_extra` names an unknown parameter, the name is taken, or there are two `ToolContext`s.
        """

        def register(function: Callable[..., Any], full_name: str | None = None) -> AnyTool:
            shape: DataShape | None = data_shape or self.data_shape
            chosen = self.tool_name_of(function_name(function)) if full_name is None else tool_name(full_name)
            context = context_parameter(function)
            hidden = {context.name} if context is not None else set[str]()
            schema = FunctionSchema.of(function, name=chosen, hidden=hidden, schema_extra=schema_extra)
            body: Callable[..., Awaitable[Any]] = partial(call, function)
            if validate_workspace and any(parameter.name == "workspace_id" for parameter in schema.parameters):
                body = self._validated(body, inspect.signature(function), shape)
            if context is not None:
                body = _with_context(body, context)
            if output_hint is not None:
                body = _hinted(body, output_hint)
            entry = ToolEntry(
                chosen,
                AsyncTool(body, like=function),
                schema,
                shape,
                self,
                self.workspace_type,
                self.safe,
                idempotent=idempotent,
                context_name=context.name if context is not None else None,
            )
            self._add(entry)
            return entry.run

        return register(name) if callable(name) else partial(register, full_name=name)

    def add_builtin(
        self,
        function: Callable[..., Awaitable[Any]],
        data_shape: DataShape,
        *,
        output_hint: str | None = None,
        schema_extra: Mapping[str, Mapping[str, Any]] | None = None,
        note: str = "",
    ) -> None:
        """Registers an async function that checks its workspace itself and answers with plain JSON."""
        name = self.tool_name_of(function.__name__)
        body = function if output_hint is None else _hinted(function, output_hint)
        schema = FunctionSchema.of(function, name=name, schema_extra=schema_extra, note=note)
        tool = AsyncTool(body, like=function)
        self._add(ToolEntry(name, tool, schema, data_shape, self, self.workspace_type, self.safe, is_builtin=True))

    def to_tool_schemas(self, workspace_id: str | None = None) -> list[dict[str, Any]]:
        """The tools in OpenAI form; with an id, `workspace_id` admits only that one."""
        enums = None if workspace_id is None else {"workspace_id": [workspace_id]}
        return [entry.schema.to_openai(enums=enums) for entry in self.entries.values()]

    def bind(self, workspace_id: str) -> BoundToolSet:
        """The same tools with the workspace filled in."""
        return BoundToolSet(self, workspace_id)

    async def checked(
        self, read: Callable[[BaseStore, Any], Awaitable[Reading]], workspace_id: str, shape: DataShape | None = None
    ) -> Reading:
        """Runs a read of the store on a workspace that must be of this set's type and shape."""
        store = self._attached().store
        reading = await read(store, await store.locate(workspace_id))
        self._check(reading.meta, shape or self.data_shape)
        return reading

    async def ask(self, workspace_id: str, question: Question[Any]) -> Reading:
        """Asks a question of a list workspace that must be of this set's type: others are refused unread."""
        store = self._attached().store
        return await store.ask(await store.locate(workspace_id), question, lambda meta: self._check(meta, "list"))

    def _check(self, meta: WorkspaceMeta, shape: DataShape | None) -> None:
        check_type(meta, self.workspace_type, "tool")
        check_shape(meta, shape, lambda: self._tools_for(meta.data_shape))

    def _tools_for(self, shape: DataShape) -> str:
        names = [name for name, entry in self.entries.items() if (entry.data_shape or self.data_shape) in (None, shape)]
        return f"Use {', '.join(names[:6])} instead." if names else ""

    def _validated(
        self, body: Callable[..., Awaitable[Any]], signature: inspect.Signature, shape: DataShape | None
    ) -> Callable[..., Awaitable[Any]]:
        optional = signature.parameters["workspace_id"].default is None

        async def run(*args: Any, **kwargs: Any) -> Any:
            workspace_id = cast(str | None, signature.bind(*args, **kwargs).arguments.get("workspace_id"))
            if workspace_id is not None or not optional:
                await self.checked(lambda store, at: store.read(at, 0, 0), workspace_id or "", shape)
            return await body(*args, **kwargs)

        return run

    def _add(self, entry: ToolEntry) -> None:
        if self._ctx is not None:
            self._ctx.register(entry)
        self.entries[entry.name] = entry

    def _attached(self) -> Ctx:
        if self._ctx is None:
            raise RuntimeError(f"the tool set '{self.name}' belongs to no Ctx: call ctx.add_toolset(toolset) first")
        return self._ctx


class BoundToolSet:
    """The tools of a set with one workspace filled in: `await bound.papers_paginate(page=0)`."""

    def __init__(self, toolset: ToolSet, workspace_id: str) -> None:
        self.name = toolset.name
        self.workspace_id = workspace_id
        self._toolset = toolset
        self.tools = {name: _with_workspace(entry, workspace_id) for name, entry in toolset.entries.items()}

    @property
    def tool_names(self) -> list[str]:
        """Names in the order of registration."""
        return list(self.tools)

    def __getattr__(self, name: str) -> AnyTool:
        tools: dict[str, AnyTool] = self.__dict__.get("tools", {})
        if name not in tools:
            raise AttributeError(f"no tool '{name}' in this set; there are {', '.join(tools)}")
        return tools[name]

    def to_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools in OpenAI form, without `workspace_id`."""
        return [entry.schema.to_openai(leave_out={"workspace_id"}) for entry in self._toolset.entries.values()]


class Factory(Protocol):
    """Puts the tools of a built-in set into a ToolSet."""

    def __call__(self, toolset: ToolSet) -> None: ...


@dataclass(frozen=True, slots=True)
class ToolSetSpec:
    """A tool set that takes its name from the producer it is given to."""

    ctx: Ctx
    fill: Factory
    enforce_type: bool

    def named(self, name: str) -> ToolSet:
        """The tool set of that name, with these tools in it."""
        toolset = self.ctx.toolset(name, enforce_type=self.enforce_type)
        self.fill(toolset)
        return toolset


def make_toolset(ctx: Ctx, name: str | None, fill: Factory, *, enforce_type: bool) -> ToolSet | ToolSetSpec:
    """What a factory returns: the set, or a spec where the name is still to come."""
    spec = ToolSetSpec(ctx, fill, enforce_type)
    return spec if name is None else spec.named(name)


def _with_workspace(entry: ToolEntry, workspace_id: str) -> AnyTool:
    """The tool with the workspace filled in; one that takes none stays as it is."""
    names = [parameter.name for parameter in entry.schema.parameters]
    if "workspace_id" not in names:
        return entry.run
    kind = inspect.signature(entry.run).parameters["workspace_id"].kind
    if names[0] == "workspace_id" and kind is not inspect.Parameter.KEYWORD_ONLY:
        return AsyncTool(partial(entry.run, workspace_id), like=entry.run)
    return AsyncTool(partial(entry.run, workspace_id=workspace_id), like=entry.run)


def _with_context(body: Callable[..., Awaitable[Any]], parameter: ContextParameter) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        with supplied(parameter, args, kwargs) as (positional, named):
            return await body(*positional, **named)

    return run


def _hinted(body: Callable[..., Awaitable[Any]], hint: str) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        result: Any = await body(*args, **kwargs)
        if isinstance(result, ToolResult):
            return result
        if isinstance(result, dict) and "error" in result and "suggested_action" in result:
            return cast(dict[str, Any], result)
        workspace_id = kwargs["workspace_id"] if "workspace_id" in kwargs else next(iter(args), "")
        return {"result": cast(Any, result), "_hint": hint.replace("{workspace_id}", str(workspace_id))}

    return run
