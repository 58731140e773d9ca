"""toolstash keeps large tool results out of a model's context and in Redis, where every worker can query them.

    Ctx                 registers producers and tools, runs calls (`Forge` is another name for it)
    ToolSet             tools that explore a workspace; BoundToolSet: the same with the workspace filled in
    ConsumerContext     what a consumer reads rows with and stores its result with
    RedisStore          workspaces on a server that all workers share; MemoryStore: in this process
    BaseStore           what a store is, to write another one
    WorkspaceMeta       what is known of a workspace; WorkspaceRef: the notice that a model reads; Hit: a row found
    Event               what happened, from `ctx.watch()`; Stats: what a store holds
    chunk_text          text to rows; split_sections, split_markdown_sections
    current_session     the session that is active here; session_scope: makes one active

Errors are in `toolstash.errors`, all under `ToolstashError`. Names load on first use: the import itself is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolstash.contracts import Event, Hit, Stats, WorkspaceMeta, WorkspaceRef
    from toolstash.errors import (
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
    from toolstash.tools.toolset import BoundToolSet, ToolSet

_HOMES = {
    "toolstash.contracts": ("Event", "Hit", "Stats", "WorkspaceMeta", "WorkspaceRef"),
    "toolstash.errors": (
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
    "toolstash.tools.toolset": ("BoundToolSet", "ToolSet"),
}
_home_of = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BaseStore",
    "BoundToolSet",
    "ConsumerContext",
    "Ctx",
    "Event",
    "Forge",
    "Hit",
    "InvalidArgumentError",
    "MemoryStore",
    "PayloadTooLargeError",
    "PipelineError",
    "ProducerFailedError",
    "QuotaExceededError",
    "RedisStore",
    "SessionRequiredError",
    "Stats",
    "StoreUnavailableError",
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
    "chunk_text",
    "current_session",
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
