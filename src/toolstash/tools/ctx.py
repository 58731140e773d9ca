"""`Ctx`: registers producers and tools, runs calls, and keeps the store."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, ParamSpec, Self

from toolstash.asking import Request
from toolstash.blocking import AsyncTool, run_blocking
from toolstash.contracts import Call, IndexMode, Limits, WorkspaceMeta, WorkspaceRef
from toolstash.schema.function import function_name
from toolstash.schema.names import tool_name
from toolstash.store.base import BaseStore
from toolstash.store.factory import store_of
from toolstash.store.payload import Payload
from toolstash.store.primitives import ReplaceRule
from toolstash.store.session import session_scope
from toolstash.tools.calls import Calls
from toolstash.tools.catalog import Catalog
from toolstash.tools.consumer import DERIVED_TYPE, Consumer, Output
from toolstash.tools.control import check_call_id, check_resolver, check_signal, checked_timeout
from toolstash.tools.dispatch import dispatch
from toolstash.tools.options import UNSET, check_options, check_result_bound, checked_index, checked_meta, checked_ttl
from toolstash.tools.producer import Key, Producer, materialize, public_arguments
from toolstash.tools.storing import Storing
from toolstash.tools.toolset import ToolEntry, ToolSet, ToolSetSpec

P = ParamSpec("P")


class Ctx(Catalog, Calls):
    """Keeps large tool results in a store and gives a model notices and tools in their place.

    Args:
        store: A store, or the URL of one. None: `TOOLSTASH_URL`, else a private embedded server.
        default_ttl: Seconds that a workspace lives, counted from storing. None: until dropped.
        default_notify: Whether producers return the notice as a dict (True) or a `WorkspaceRef`.
        max_items: Rows (or keys) of one workspace. None: no bound.
        max_bytes: Bytes of one workspace as encoded. None: no bound.
        max_result_chars: Characters of the JSON of one dispatched result. None: no bound.
        safe: Whether exceptions of producers come back from a dispatch as values.
        prefix: What every key in Redis starts with. None: `TOOLSTASH_PREFIX`, else "toolstash".
        inline_below_chars: Results below this many characters of JSON are returned as they are. 0: never.
        require_session: Whether a call without a session is refused, as a server wants it.
        max_workspaces_per_session: The oldest make room above it. None: no bound.
        max_bytes_per_session: The oldest make room above it. None: no bound.

    Raises:
        ValueError: An option is out of range, or the URL or prefix cannot be used.
    """

    def __init__(
        self,
        store: BaseStore | str | None = None,
        *,
        default_ttl: float | None = None,
        default_notify: bool = True,
        max_items: int | None = None,
        max_bytes: int | None = 256_000_000,
        max_result_chars: int | None = 60_000,
        safe: bool = True,
        prefix: str | None = None,
        inline_below_chars: int = 0,
        require_session: bool = False,
        max_workspaces_per_session: int | None = None,
        max_bytes_per_session: int | None = None,
    ) -> None:
        check_options(default_ttl, inline_below_chars, max_items=max_items, max_bytes=max_bytes)
        check_options(None, 0, workspaces=max_workspaces_per_session, session_bytes=max_bytes_per_session)
        check_result_bound(max_result_chars)
        opened = store if isinstance(store, BaseStore) else store_of(store, prefix)
        Calls.__init__(self, opened, require_session=require_session)
        Catalog.__init__(self, safe=safe)
        self._owns_store = not isinstance(store, BaseStore)
        self.max_result_chars = max_result_chars
        self._default_ttl = default_ttl
        self._default_notify = default_notify
        limits = Limits(max_items, max_bytes, max_workspaces_per_session, max_bytes_per_session)
        self.storing = Storing(self.store, limits, inline_below_chars)

    # Registering

    def producer(
        self,
        *misplaced: Any,
        workspace_type: str = "",
        toolsets: ToolSet | ToolSetSpec | Sequence[ToolSet | ToolSetSpec] | None = None,
        key: Key | None = None,
        transform: Callable[[Any], Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        ttl: float | None = UNSET,
        notify: bool | None = None,
        index: IndexMode = "lazy",
        idempotent: bool = False,
    ) -> Callable[[Callable[P, Any]], AsyncTool[P, Any]]:
        """Makes a function's results be stored. The decorated function is awaited, or called as `.blocking(…)`.

        Args:
            workspace_type: What kind of data it is, such as "papers".
            toolsets: The tools that explore it.
            key: A template over the parameters (`"papers_{query}"`) or a callable that gets them as a dict: equal
                ids replace each other. None: a new random id for each call.
            transform: Applied to the result before it is stored; a stream is collected for it first.
            meta: Said in the notice and kept with the workspace.
            ttl: Seconds to live; None: until dropped. Left out: the Ctx's.
            notify: Whether the notice comes as a dict; None: the Ctx's.
            index: When rows get a search index: "eager", once stored, "lazy", once asked (if many), or "never".
            idempotent: Whether a resumed call may run again after a worker was lost in the middle of it.

        Raises:
            ValueError: The key names no parameter, a tool set is of another type, the name is taken, or there are two
                `ToolContext`s.
        """
        if misplaced:
            raise TypeError("write @ctx.producer(workspace_type=…) with parentheses")
        if not workspace_type or not isinstance(workspace_type, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("workspace_type is a non-empty string such as 'papers'")

        def decorate(function: Callable[P, Any]) -> AsyncTool[P, Any]:
            producer = Producer(
                ctx=self,
                function=function,
                workspace_type=workspace_type,
                toolsets=materialize(toolsets, workspace_type),
                key=key,
                transform=transform,
                meta=checked_meta(meta),
                ttl=checked_ttl(self.lifetime_of(ttl)),
                notify=self._default_notify if notify is None else notify,
                index=checked_index(index),
            )
            schema = producer.schema()
            tool = AsyncTool[P, Any](producer.run, like=function)
            entry = ToolEntry(schema.name, tool, schema, safe=self.safe, idempotent=idempotent)
            self.register(replace(entry, context_name=producer.context_name))
            self.producers[schema.name] = producer
            return tool

        return decorate

    def consumer(
        self,
        workspace_type: str | None = None,
        *,
        produces: str | None = None,
        produces_toolsets: ToolSet | ToolSetSpec | Sequence[ToolSet | ToolSetSpec] | None = None,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
        ttl: float | None = UNSET,
        expose: bool = True,
        idempotent: bool = False,
    ) -> Callable[[Callable[..., Any]], AsyncTool[..., Any]]:
        """Makes a function that reads a workspace callable by a model. It may store a new one with `emit`.

        The parameter annotated `ConsumerContext` (or named `ctx` or `forge_ctx`) is supplied and hidden from models.

        Args:
            workspace_type: The type of workspace that it reads; None: any.
            produces: The type of what it emits.
            produces_toolsets: The tools that explore what it emits.
            name: The tool's name; None: the function's.
            meta: Kept with what it emits and said in the notice.
            ttl: Seconds that what it emits lives; None: until dropped. Left out: the Ctx's.
            expose: False keeps it out of schemas and dispatch, for your own code only.
            idempotent: Whether a resumed call may run again after a worker was lost in the middle of it.

        Raises:
            ValueError: Tool sets without `produces`, or the name is taken.
        """
        if callable(workspace_type):
            raise TypeError("write @ctx.consumer() with parentheses")
        if produces_toolsets is not None and produces is None:
            raise ValueError("produces_toolsets needs produces: the type of what the consumer emits")

        def decorate(function: Callable[..., Any]) -> AsyncTool[..., Any]:
            title = tool_name(name or function_name(function))
            toolsets = None if produces_toolsets is None else materialize(produces_toolsets, produces or "")
            kept = UNSET if ttl is UNSET else checked_ttl(ttl)
            output = Output(title, produces or DERIVED_TYPE, toolsets, checked_meta(meta), kept)
            consumer = Consumer(ctx=self, function=function, workspace_type=workspace_type, output=output)
            tool = AsyncTool(consumer.run, like=function)
            if expose:
                schema = consumer.schema(title, produces)
                entry = ToolEntry(title, tool, schema, workspace_type=workspace_type, safe=self.safe)
                self.register(replace(entry, idempotent=idempotent, context_name=consumer.context_name))
                self.exposed_consumers.add(title)
            self.consumers.append(consumer)
            return tool

        return decorate

    # Calling

    async def adispatch_tool_call(
        self,
        name: str,
        arguments: Any = None,
        *,
        session_id: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the limit of the call, in the seed's word
        signal: Any = None,
        wait_for: Callable[[Request], Any] | None = None,
        call_id: str | None = None,
    ) -> Any:
        """Runs a model's tool call and returns what the model should read. Mistakes come back as values.

        A call that was stopped gives `{"error", "status": "timeout" | "cancelled", "call_id", "suggested_action"}`, one
        that waits for a person `{"status": "pending", "call_id", "request", "suggested_action"}`.

        Args:
            name: The tool, as the model wrote it.
            arguments: A mapping, or JSON text of an object; None for none.
            session_id: Whose call it is; None: the session that is active here, if any.
            timeout: Seconds that the call may take, waiting here included; what resumes it later has as many again.
            signal: An event, or whatever has an `is_set()`: once it is set, the call is cancelled.
            wait_for: Answers at once what the tool asks: a function, async or not, from a `Request` to an `Answer`
                (or None for no answer). None: the call is left in the store, to be answered from anywhere.
            call_id: A name for this call; no other one of its session may have it. None: a new one.

        Raises:
            SessionRequiredError: `require_session` and no session, or an empty session id.
            ValueError, TypeError: `timeout` is no number, `signal` cannot be asked, `wait_for` not called, or `call_id`
                no name.
            RuntimeError: The Ctx is closed.
        """
        check_signal(signal)
        check_resolver(wait_for)
        check_call_id(call_id)
        call = Call(name, arguments, session_id, checked_timeout(timeout), signal, wait_for, call_id)
        with self.running():
            return (await dispatch(self, call)).value

    def dispatch_tool_call(
        self,
        name: str,
        arguments: Any = None,
        *,
        session_id: str | None = None,
        timeout: float | None = None,
        signal: Any = None,
        wait_for: Callable[[Request], Any] | None = None,
        call_id: str | None = None,
    ) -> Any:
        """`adispatch_tool_call` for sync code. Raises RuntimeError inside a running event loop."""
        return run_blocking(
            self.adispatch_tool_call,
            name,
            arguments,
            session_id=session_id,
            timeout=timeout,
            signal=signal,
            wait_for=wait_for,
            call_id=call_id,
        )

    def session(self, session_id: str | None) -> AbstractContextManager[None]:
        """A `with` block in which everything belongs to that session. Follows tasks and worker threads.

        Raises:
            SessionRequiredError: The id is empty.
        """
        return session_scope(session_id)

    # Workspaces

    async def store_workspace(
        self,
        payload: Any,
        *,
        workspace_type: str,
        workspace_id: str | None = None,
        toolsets: ToolSet | ToolSetSpec | Sequence[ToolSet | ToolSetSpec] | None = None,
        producer_fn: str = "",
        producer_kwargs: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        ttl: float | None = UNSET,
        replace_if: ReplaceRule | None = None,
    ) -> WorkspaceRef:
        """Stores data as a producer would and describes it.

        Args:
            payload: Rows, a dict, text, a value, or a stream of rows.
            toolsets: The tools to name, as of a producer; None: those of its producers, and the set of that name.
            replace_if: Which workspace of that id may be replaced; None: any of the caller's own.

        Raises:
            WorkspaceConflictError, PayloadTooLargeError, UnstorableValueError, QuotaExceededError,
            StoreUnavailableError: Nothing was stored.
        """
        with self.running():
            self.check_session()
            draft = WorkspaceMeta(
                workspace_id=workspace_id or "",
                workspace_type=workspace_type,
                producer_fn=producer_fn,
                producer_kwargs=public_arguments(producer_kwargs or {}),
                extra=checked_meta(meta),
                ttl=checked_ttl(self.lifetime_of(ttl)),
            )
            named = (
                self.toolsets_for_type(workspace_type) if toolsets is None else materialize(toolsets, workspace_type)
            )
            return await self.storing.put(draft, await Payload.of(payload), named, replace_if)

    def lifetime_of(self, ttl: float | None) -> float | None:
        """A time to live in seconds, the Ctx's own where none is given."""
        return self._default_ttl if ttl is UNSET else ttl

    @property
    def answer_chars(self) -> float:
        """What a tool's answer may have of the bound of a result: room for its other keys is taken off."""
        return math.inf if self.max_result_chars is None else self.max_result_chars - 1_500

    # Life

    async def aclose(self) -> None:
        """Waits for running calls, then closes the store if this Ctx made it. Later calls raise RuntimeError.

        Raises:
            RuntimeError: Called from inside a call of this Ctx, which it would wait for.
        """
        self.end_watching()
        await self._lifetime.end()
        await self.overseer.settle()
        if self._owns_store:
            await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
