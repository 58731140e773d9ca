"""The frozen values that the layers hand to each other. Imports nothing from above.

Call            what goes down: a tool's name and raw arguments, and whose call it is
Outcome         what comes up: a value, or a refusal that the model can act on
Address         where a workspace lives: its space (a session, or the shared space) and its id
Limits          how large a workspace may become
WorkspaceMeta   what is known of a stored workspace
WorkspaceRef    the notice that a model reads in place of the data
Hit             a row that was found, with its place
Event           what happened to a workspace, or to a call
Progress        how far a call is
Stats           what a store holds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from toolstash.asking import Request

DataShape = Literal["list", "dict", "scalar"]

IndexMode = Literal["eager", "lazy", "never"]
"""When a list gets a search index, on servers that can: as soon as it is stored, when it is asked, or not at all."""

SHARED_SPACE = "shared"
"""The space of workspaces that belong to no session."""


Status = Literal["done", "declined", "expired", "cancelled", "interrupted", "timeout"]
"""How a call ended: with what its tool gave, or why without."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as it arrived: nothing in it has been checked yet.

    Attributes:
        tool: The name as the model wrote it.
        arguments: A mapping, JSON text of an object, or None for no arguments.
        session_id: Whose call it is; None: the session that is active.
        timeout: Seconds that it may take; None for no bound.
        signal: Whatever has an `is_set()`: once set, the call is cancelled.
        wait_for: Who answers at once if the tool asks: a function of a `Request`, async or not.
        call_id: A name for the call that no other one may have; None: a new one.
    """

    tool: str
    arguments: Any = None
    session_id: str | None = None
    timeout: float | None = None
    signal: Any = None
    wait_for: Callable[[Request], Any] | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to.

    `is_error` tells a refusal from a row that happens to have an `error` field. `request` is of a call that is
    suspended; `status` says why a call has no result of its tool.
    """

    value: Any
    is_error: bool = False
    request: Request | None = None
    status: Status = "done"


@dataclass(frozen=True, slots=True)
class Address:
    """A workspace's place: `space` is `SHARED_SPACE` or the 32 hex digits of a session."""

    space: str
    workspace_id: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a workspace for as long as it lives: rows (or keys), and bytes as encoded. None for no bound.

    The others bound its session (or all that is outside any): the oldest other workspaces make room for it.
    """

    max_items: int | None = None
    max_bytes: int | None = None
    max_session_workspaces: int | None = None
    max_session_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceMeta:
    """What is known of a workspace.

    Times are Unix seconds by the store's clock; `ttl` is in seconds, None for a workspace that stays.
    `item_count` is rows for a list, top-level keys for a dict, 1 for a scalar. `chars` is the length in
    code points of the text, or of the rows as JSON. `version` changes with every write and never returns.
    `non_finite` is how many NaN and infinite numbers were stored as null. `limits` bound every later write, by any
    worker. `index` says when a list gets a search index.
    """

    workspace_id: str
    workspace_type: str
    data_shape: DataShape = "list"
    producer_fn: str = ""
    producer_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ttl: float | None = None
    session_id: str | None = None
    lineage: tuple[str, ...] = ()
    limits: Limits = Limits()
    index: IndexMode = "lazy"
    item_count: int = 0
    chars: int = 0
    non_finite: int = 0
    version: str = ""
    created_at: float = 0.0
    last_accessed_at: float = 0.0

    @property
    def expires_at(self) -> float | None:
        """When the workspace goes, in Unix seconds; None if it stays."""
        return None if self.ttl is None else self.created_at + self.ttl

    @property
    def is_expired(self) -> bool:
        """Whether the time to live is over by this machine's clock."""
        return self.expires_at is not None and time.time() > self.expires_at


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that was found. `index` is its place in the workspace; a search also has a score and a snippet."""

    index: int
    item: Any
    score: float | None = None
    snippet: str = ""


EventKind = Literal["created", "replaced", "changed", "dropped", "suspended", "answered", "progress", "cancel", "ended"]

EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)
"""The first four tell of workspaces, the others of calls."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is: `done` of `total`, in whatever unit, and what it is at."""

    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a session.

    `id` is a place to go on from: `watch(after=event.id)`. `version` is the workspace's after the event (before it,
    for "dropped"). `call_id` and `progress` are of calls. `at` is Unix seconds by the store's clock. What has no
    meaning for a kind is "" (None for `progress`).
    """

    id: str
    kind: EventKind
    workspace_id: str = ""
    workspace_type: str = ""
    version: str = ""
    call_id: str = ""
    at: float = 0.0
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """What a store holds of what the caller sees.

    `bytes` are those of the rows as encoded; `chars_kept_out` is how many characters the live workspaces have, which
    would be in a model's context otherwise. `sessions` counts those that have a live workspace.
    """

    sessions: int = 0
    workspaces: int = 0
    bytes: int = 0
    pending_calls: int = 0
    chars_kept_out: int = 0


@dataclass(frozen=True, slots=True)
class WorkspaceRef:
    """A stored workspace described for a model: `to_dict()` is the notice, `to_compact()` one line."""

    workspace_id: str
    workspace_type: str
    item_count: int
    data_shape: DataShape
    chars: int
    message: str = ""
    status: str = "workspace_ready"
    producer_fn: str = ""
    item_schema: Mapping[str, Any] | None = None
    preview: Any = None
    available_tools: Sequence[str] = ()
    next_steps: Sequence[str] = ()
    expires_in_seconds: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def sample_fields(self) -> list[str]:
        """Names of the fields that the schema lists."""
        return list((self.item_schema or {}).get("properties", {}))

    def to_dict(self) -> dict[str, Any]:
        """The notice as the model reads it; parts with nothing to say are left out."""
        notice: dict[str, Any] = {
            "status": self.status,
            "workspace_id": self.workspace_id,
            "workspace_type": self.workspace_type,
            "item_count": self.item_count,
            "data_shape": self.data_shape,
            "chars": self.chars,
            "message": self.message,
        }
        optional = {
            "item_schema": self.item_schema,
            "preview": self.preview,
            "available_tools": list(self.available_tools),
            "next_steps": list(self.next_steps),
            "expires_in_seconds": self.expires_in_seconds,
            "metadata": dict(self.metadata),
        }
        return notice | {key: part for key, part in optional.items() if part not in (None, [], {}, "")}

    def to_compact(self) -> str:
        """One line: status, id, size and tools."""
        tools = ", ".join(tool.partition("(")[0] for tool in self.available_tools)
        return f"{self.status} | id={self.workspace_id} | {self.item_count} items | tools: {tools}"
