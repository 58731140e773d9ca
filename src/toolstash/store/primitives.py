"""The five primitives of a store, its life, and who sees which workspace.

Each primitive is atomic: a reader sees a workspace before a write or after it, never between. They take an `Address`;
which addresses a caller may see is settled here, once, for every store.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from toolstash.blocking import Blocking
from toolstash.contracts import SHARED_SPACE, Address, WorkspaceMeta
from toolstash.errors import InvalidArgumentError, WorkspaceNotFoundError
from toolstash.store.arguments import checked_id
from toolstash.store.changes import Change
from toolstash.store.flights import Ticket
from toolstash.store.payload import Payload
from toolstash.store.session import current_session
from toolstash.wire import keys as layout


@dataclass(frozen=True, slots=True)
class ReplaceRule:
    """Which workspace may be replaced: one of this type, made by one of these producers.

    A leader of a flight shows its `ticket`, without which nobody is asked for one.
    """

    workspace_type: str
    producers: tuple[str, ...]
    ticket: Ticket | None = None


class Replaced(NamedTuple):
    """What `replace` did: the new meta, and the ids that made room for it."""

    meta: WorkspaceMeta
    dropped: list[str]


class Reading(NamedTuple):
    """Meta and data of one moment: rows, a dict, a piece of text, or a value."""

    meta: WorkspaceMeta
    data: Any


class StorePrimitives(ABC):
    """What a store implements. Open on first use; close with `async with` or `aclose()`."""

    note_when_missing = ""
    """Said to the model when a workspace is missing, where the store knows a reason."""

    # The primitives

    @abstractmethod
    async def replace(
        self,
        meta: WorkspaceMeta,
        payload: Payload,
        replace_if: ReplaceRule | None = None,
    ) -> Replaced:
        """Stores a payload whole, in the place of what the address of `meta` held.

        Of `meta` the id, type, ttl, session, producer, extra, lineage and limits count; shape, counts, version and
        times are the store's. `replace_if` is checked in the same step as the write.

        Raises:
            WorkspaceConflictError: `replace_if` does not allow it; the old workspace stays.
            OvertakenError: The flight of the ticket is no longer the one that makes this workspace.
            PayloadTooLargeError, UnstorableValueError: From the payload; nothing is stored.
            QuotaExceededError: The payload alone is above what its session may hold.
        """

    @abstractmethod
    async def read(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        """A stretch of a workspace with its meta: rows of a list, fields of a dict, code points of a text.

        A stretch past the end is shorter or empty; a bare value comes whole. `read(at, 0, 0)` asks for meta alone.

        Raises:
            WorkspaceNotFoundError: Nothing is there.
            WorkspaceExpiredError: It was there and its time is over, or a part of it is lost.
        """

    @abstractmethod
    async def mutate(self, at: Address, change: Change, expected_version: str | None = None) -> WorkspaceMeta:
        """Changes rows of a list in one step; returns the new meta (counts and version are exact).

        Raises:
            VersionConflictError: The workspace is not at `expected_version`.
            InvalidArgumentError: An index is out of range, or a patched row is not a dict.
            WorkspaceShapeMismatchError: Not a list.
            PayloadTooLargeError: Above the workspace's own limits; nothing is changed.
            UnstorableValueError: A row has no JSON form; nothing is changed.
        """

    @abstractmethod
    async def drop(self, at: Address) -> bool:
        """Removes a workspace; whether there was one."""

    @abstractmethod
    async def list(
        self, spaces: Sequence[str] | None = None, workspace_type: str | None = None
    ) -> builtins.list[Address]:
        """Live workspaces of some spaces (None for all), oldest first."""

    # Life

    @property
    def blocking(self) -> Any:
        """The async methods for sync code: `store.blocking.get_items(id)`."""
        return Blocking(self)

    async def aclose(self) -> None:  # noqa: B027 - a store need not hold anything open
        """Lets go of what the store holds open."""

    async def ping(self) -> float:
        """How long the store takes to answer, in seconds."""
        return 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Who sees what

    async def locate(self, workspace_id: Any) -> Address:
        """Where the workspace of that id lives for the current session.

        Raises:
            InvalidArgumentError: Not a non-empty string.
            WorkspaceNotFoundError: The id belongs to another session.
        """
        name = checked_id(workspace_id)
        _, label = layout.split_label(name)
        if not label:
            return Address(SHARED_SPACE, name)
        session = current_session()
        if session is None:
            space = await self.find_space(label)
        else:
            own = layout.space_of_session(session)
            space = own if label == layout.label_of(own) else None
        if space is None:
            raise self.missing(name)
        return Address(space, name)

    async def find_space(self, label: str) -> str | None:
        """The space whose ids end in `label`; None if no workspace is in it."""
        for address in await self.list():
            if layout.label_of(address.space) == label:
                return address.space
        return None

    def place(self, workspace_id: str | None, workspace_type: str, session_id: str | None) -> Address:
        """Where a new workspace goes, with its full id; a random id if none is given.

        Raises:
            InvalidArgumentError: The id ends like one of a session that is not the current one.
        """
        space = layout.space_of_session(session_id)
        if workspace_id is None:
            return Address(space, layout.random_id(workspace_type, space))
        name = checked_id(workspace_id)
        body, label = layout.split_label(name)
        if label and label != layout.label_of(space):
            raise InvalidArgumentError(
                f"The workspace id '{name:.150}' ends like one of another session.",
                argument="workspace_id",
                suggested_action="Choose an id that does not end in '@' and 12 hexadecimal digits.",
            )
        return Address(space, body + layout.label_of(space))

    def visible_spaces(self) -> builtins.list[str] | None:
        """The current session's space and the shared one; None (all) outside any session."""
        session = current_session()
        return None if session is None else [layout.space_of_session(session), SHARED_SPACE]

    def missing(self, workspace_id: str) -> WorkspaceNotFoundError:
        """The error for a workspace that is not there for this caller."""
        note = f" {self.note_when_missing}" if self.note_when_missing else ""
        return WorkspaceNotFoundError(
            f"Workspace '{workspace_id:.150}' not found.{note}", workspace_id=workspace_id[:150]
        )
