"""toolstash keeps large tool results out of a model's context and in Redis, where every worker can query them.

    Ctx                 registers producers and tools, runs calls (`Forge` is another name for it)
    ToolSet             tools that explore a workspace; BoundToolSet: the same with the workspace filled in
    ConsumerContext     what a consumer reads rows with and stores its result with
    RedisStore          workspaces on a server that all workers share; MemoryStore: in this process
    BaseStore           what a store is, to write another one
    WorkspaceMeta       what is known of a workspace; WorkspaceRef: the notice that a model reads; Hit: a row found
    Tool                a tool made of a JSON Schema and a function; ToolResult: what a tool may return
    ToolContext         what a running call knows of itself: its signal, the time left, answers
    pending             makes the result of a tool that waits for an answer; auth_required: for a page to visit
    Request             what a call that waits asks, found by `pending_of`; Answer: what it is answered
    PendingCall         a call that waits for an answer; ResumedCall: one that a worker went on with
    Event               what happened, from `ctx.watch()`; Progress: how far a call is; Stats: what a store holds
    chunk_text          text to rows; split_sections, split_markdown_sections
    current_session     the session that is active here; session_scope: makes one active

Errors are in `toolstash.errors`, all under `ToolstashError`. Names load on first use: the import itself is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolstash.asking import (
        Answer,
        PendingCall,
        Request,
        ResumedCall,
        ToolResult,
        auth_required,
        pending,
        pending_of,
    )
    from toolstash.contracts import Event, Hit, Progress, Stats, WorkspaceMeta, WorkspaceRef
    from toolstash.errors import (
        AlreadyAnsweredError,
        AnswerMismatchError,
        AnswerRefusedError,
        CallEndedError,
        CallExistsError,
        CallExpiredError,
        CallNotFoundError,
        InvalidArgumentError,
        PayloadTooLargeError,
        PipelineError,
        ProducerFailedError,
        QuotaExceededError,
        SessionRequiredError,
        StoreUnavailableError,
        ToolstashError,
        UnstorableValueError,
        VersionConflictError,
        WorkspaceConflictError,
        WorkspaceExpiredError,
        WorkspaceNotFoundError,
        WorkspaceShapeMismatchError,
        WorkspaceTypeMismatchError,
    )
    from toolstash.query.splitting import chunk_text, split_markdown_sections, split_sections
    from toolstash.store.base import BaseStore
    from toolstash.store.memory_store import MemoryStore
    from toolstash.store.redis_store import RedisStore
    from toolstash.store.session import current_session, session_scope
    from toolstash.tools.consumer import ConsumerContext
    from toolstash.tools.ctx import Ctx
    from toolstash.tools.ctx import Ctx as Forge
    from toolstash.tools.tool import Tool
    from toolstash.tools.tool_context import ToolContext
    from toolstash.tools.toolset import BoundToolSet, ToolSet

_HOMES = {
    "toolstash.asking": (
        "Answer",
        "PendingCall",
        "Request",
        "ResumedCall",
        "ToolResult",
        "auth_required",
        "pending",
        "pending_of",
    ),
    "toolstash.contracts": ("Event", "Hit", "Progress", "Stats", "WorkspaceMeta", "WorkspaceRef"),
    "toolstash.errors": (
        "AlreadyAnsweredError",
        "AnswerMismatchError",
        "AnswerRefusedError",
        "CallEndedError",
        "CallExistsError",
        "CallExpiredError",
        "CallNotFoundError",
        "InvalidArgumentError",
        "PayloadTooLargeError",
        "PipelineError",
        "ProducerFailedError",
        "QuotaExceededError",
        "SessionRequiredError",
        "StoreUnavailableError",
        "ToolstashError",
        "UnstorableValueError",
        "VersionConflictError",
        "WorkspaceConflictError",
        "WorkspaceExpiredError",
        "WorkspaceNotFoundError",
        "WorkspaceShapeMismatchError",
        "WorkspaceTypeMismatchError",
    ),
    "toolstash.query.splitting": ("chunk_text", "split_markdown_sections", "split_sections"),
    "toolstash.store.base": ("BaseStore",),
    "toolstash.store.memory_store": ("MemoryStore",),
    "toolstash.store.redis_store": ("RedisStore",),
    "toolstash.store.session": ("current_session", "session_scope"),
    "toolstash.tools.consumer": ("ConsumerContext",),
    "toolstash.tools.ctx": ("Ctx",),
    "toolstash.tools.tool": ("Tool",),
    "toolstash.tools.tool_context": ("ToolContext",),
    "toolstash.tools.toolset": ("BoundToolSet", "ToolSet"),
}
_home_of = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AlreadyAnsweredError",
    "Answer",
    "AnswerMismatchError",
    "AnswerRefusedError",
    "BaseStore",
    "BoundToolSet",
    "CallEndedError",
    "CallExistsError",
    "CallExpiredError",
    "CallNotFoundError",
    "ConsumerContext",
    "Ctx",
    "Event",
    "Forge",
    "Hit",
    "InvalidArgumentError",
    "MemoryStore",
    "PayloadTooLargeError",
    "PendingCall",
    "PipelineError",
    "ProducerFailedError",
    "Progress",
    "QuotaExceededError",
    "RedisStore",
    "Request",
    "ResumedCall",
    "SessionRequiredError",
    "Stats",
    "StoreUnavailableError",
    "Tool",
    "ToolContext",
    "ToolResult",
    "ToolSet",
    "ToolstashError",
    "UnstorableValueError",
    "VersionConflictError",
    "WorkspaceConflictError",
    "WorkspaceExpiredError",
    "WorkspaceMeta",
    "WorkspaceNotFoundError",
    "WorkspaceRef",
    "WorkspaceShapeMismatchError",
    "WorkspaceTypeMismatchError",
    "auth_required",
    "chunk_text",
    "current_session",
    "pending",
    "pending_of",
    "session_scope",
    "split_markdown_sections",
    "split_sections",
]


def __getattr__(name: str) -> Any:
    if name == "Forge":
        return __getattr__("Ctx")
    try:
        home = _home_of[name]
    except KeyError:
        raise AttributeError(f"module 'toolstash' has no attribute '{name}'") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
