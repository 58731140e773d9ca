"""Consumers: functions that read one workspace and may store another one made of it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolstash.blocking import Blocking, in_event_loop
from toolstash.contracts import WorkspaceMeta
from toolstash.schema.function import FunctionSchema, function_name
from toolstash.schema.resolve import function_behind, resolved_hints
from toolstash.store.payload import Payload
from toolstash.store.primitives import ReplaceRule
from toolstash.tools.calling import call
from toolstash.tools.checks import check_type
from toolstash.tools.options import UNSET, checked_meta, checked_ttl
from toolstash.tools.producer import materialize
from toolstash.tools.tool_context import ContextParameter, context_parameter, supplied
from toolstash.tools.toolset import ToolSet, ToolSetSpec

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

MOST_ANCESTORS = 50
DERIVED_TYPE = "derived"
_CONTEXT_NAMES = ("ctx", "forge_ctx")


@dataclass(frozen=True, slots=True)
class Output:
    """How a consumer's result is kept, where `emit` says nothing else."""

    producer_fn: str = "emit"
    workspace_type: str = DERIVED_TYPE
    toolsets: Sequence[ToolSet] | None = None
    meta: Mapping[str, Any] | None = None
    ttl: float | None = UNSET


class ConsumerContext:
    """What a consumer works with: the rows of its workspace, and a way to store what it made of them.

    An `async def` consumer awaits the methods; a `def` consumer gets them blocking. Made by hand for a unit test:
    `ConsumerContext(ctx, workspace_id)`, and `.blocking` of it for a `def` consumer.

    Args:
        ctx: Where workspaces are stored.
        workspace_id: The workspace that `get_items` and `iter_items` read by default.
    """

    def __init__(self, ctx: Ctx, workspace_id: str = "", *, output: Output = Output()) -> None:
        self.workspace_id = workspace_id
        self._ctx = ctx
        self._output = output
        self._sources: dict[str, None] = dict.fromkeys([workspace_id] if workspace_id else [])

    @property
    def store(self) -> Any:
        """The store: to await in async code; in a worker thread the same methods block."""
        store = self._ctx.store
        return store if in_event_loop() else store.blocking

    @property
    def blocking(self) -> Any:
        """The same with blocking methods, for sync code."""
        return Blocking(self)

    async def get_items(self, workspace_id: str | None = None) -> Any:
        """The whole of a workspace: rows, dict, text or value.

        Raises:
            WorkspaceNotFoundError: Not there for this caller.
        """
        return await self._ctx.store.get_items(self._source(workspace_id))

    async def iter_items(self, workspace_id: str | None = None) -> AsyncIterator[Any]:
        """The rows of a list one by one, read in chunks.

        Raises:
            VersionConflictError: Rows were changed or deleted on the way.
        """
        async for row in self._ctx.store.iter_items(self._source(workspace_id)):
            yield row

    async def emit(
        self,
        payload: Any,
        *,
        workspace_type: str | None = None,
        workspace_id: str | None = None,
        toolsets: ToolSet | ToolSetSpec | Sequence[ToolSet | ToolSetSpec] | None = None,
        meta: Mapping[str, Any] | None = None,
        ttl: float | None = UNSET,
    ) -> dict[str, Any]:
        """Stores a result and gives its notice. Its lineage names the workspaces that were read.

        Args:
            payload: Rows, a dict, text, a value, or a stream of rows.
            workspace_type: None: what the consumer `produces`, else "derived".
            workspace_id: None: a random one. An explicit one replaces only what this consumer has made.
            toolsets: The tools to name; None: those of the consumer, or of that type.
            meta: Added to the consumer's own.
            ttl: Seconds to live, None for no end; left out: the consumer's, else the Ctx's.

        Raises:
            WorkspaceConflictError, PayloadTooLargeError, UnstorableValueError, QuotaExceededError,
            StoreUnavailableError: Nothing was stored.
        """
        output = self._output
        chosen = workspace_type or output.workspace_type
        if toolsets is None and chosen == output.workspace_type:
            toolsets = output.toolsets
        lineage = await self._lineage()
        derived_from = {"derived_from": lineage[-1]} if lineage else {}
        draft = WorkspaceMeta(
            workspace_id=workspace_id or "",
            workspace_type=chosen,
            producer_fn=output.producer_fn,
            extra=checked_meta(derived_from | dict(output.meta or {}) | dict(meta or {})),
            ttl=self._ctx.lifetime_of(output.ttl if ttl is UNSET else checked_ttl(ttl)),
            lineage=lineage,
        )
        rule = ReplaceRule(chosen, (output.producer_fn,))
        found = self._ctx.toolsets_for_type(chosen) if toolsets is None else materialize(toolsets, chosen)
        ref = await self._ctx.storing.put(draft, await Payload.of(payload), found, rule)
        return ref.to_dict()

    def _source(self, workspace_id: str | None) -> str:
        chosen = self.workspace_id if workspace_id is None else workspace_id
        self._sources.setdefault(chosen)
        return chosen

    async def _lineage(self) -> tuple[str, ...]:
        """The ancestors of what was read, then what was read, the input last."""
        store = self._ctx.store
        names = [name for name in self._sources if name != self.workspace_id] + [self.workspace_id]
        metas = [await store.get_meta(name) for name in names if name]
        return lineage_of([meta for meta in metas if meta is not None])


def lineage_of(sources: Sequence[WorkspaceMeta]) -> tuple[str, ...]:
    """The ancestors of what was read, then what was read; each once, the nearest last, 50 at most."""
    names = [name for meta in sources for name in (*meta.lineage, meta.workspace_id)]
    latest_first = dict.fromkeys(reversed(names))
    return tuple(reversed(latest_first))[-MOST_ANCESTORS:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer's function, what it reads, and how its result is kept."""

    ctx: Ctx
    function: Callable[..., Any]
    workspace_type: str | None
    output: Output
    signature: inspect.Signature = field(init=False)
    context_parameter: str | None = field(init=False)
    tool_context: ContextParameter | None = field(init=False)

    def __post_init__(self) -> None:
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise TypeError(f"{function_name(self.function)}() yields; a consumer passes a generator to `emit` instead")
        signature = inspect.signature(self.function)
        object.__setattr__(self, "signature", signature)
        object.__setattr__(self, "tool_context", context_parameter(self.function))
        object.__setattr__(self, "context_parameter", _context_parameter(self.function, signature, self.context_name))

    @property
    def context_name(self) -> str | None:
        """The parameter that takes the `ToolContext`; None where there is none."""
        return self.tool_context.name if self.tool_context is not None else None

    def schema(self, name: str, produces: str | None) -> FunctionSchema:
        """What a model is told of it."""
        hidden = {name for name in (self.context_parameter, self.context_name) if name is not None}
        note = f"Stores its result as a new workspace of type '{produces}' and returns a notice." if produces else ""
        return FunctionSchema.of(self.function, name=name, hidden=hidden, note=note)

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Checks the workspace, then calls the function with a ConsumerContext.

        Raises:
            WorkspaceNotFoundError, WorkspaceTypeMismatchError: The function did not run.
        """
        with self.ctx.running():
            self.ctx.check_session()
            with supplied(self.tool_context, args, kwargs) as (positional, named):
                return await self._run(self._bind(positional, named))

    async def _run(self, bound: inspect.BoundArguments) -> Any:
        workspace_id = bound.arguments.get("workspace_id")
        if "workspace_id" in self.signature.parameters and workspace_id is not None:
            store = self.ctx.store
            meta = (await store.read(await store.locate(workspace_id), 0, 0)).meta
            check_type(meta, self.workspace_type, "consumer")
            workspace_id = meta.workspace_id
        if self.context_parameter is not None and self.context_parameter not in bound.arguments:
            context = ConsumerContext(self.ctx, workspace_id or "", output=self.output)
            is_async = inspect.iscoroutinefunction(function_behind(self.function))
            bound.arguments[self.context_parameter] = context if is_async else context.blocking
        bound.apply_defaults()
        ordered = {name: bound.arguments[name] for name in self.signature.parameters if name in bound.arguments}
        bound.arguments = ordered
        return await call(self.function, *bound.args, **bound.kwargs)

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments without the context, which nobody passes (but may)."""
        bound = self.signature.bind_partial(*args, **kwargs)
        missing = [
            name
            for name, parameter in self.signature.parameters.items()
            if name not in bound.arguments
            and name != self.context_parameter
            and parameter.default is inspect.Parameter.empty
            and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        ]
        if missing:
            raise TypeError(f"{function_name(self.function)}() misses the arguments {', '.join(missing)}")
        return bound


def _context_parameter(
    function: Callable[..., Any], signature: inspect.Signature, tool_context: str | None
) -> str | None:
    """The parameter that takes the context: the one annotated ConsumerContext, or named `ctx` or `forge_ctx`.

    One that takes a `ToolContext` does not, whatever its name.
    """
    hints = resolved_hints(function)
    for name in signature.parameters:
        if hints.get(name) is ConsumerContext:
            return name
    names = (name for name in _CONTEXT_NAMES if name != tool_context)
    return next((name for name in names if name in signature.parameters), None)
