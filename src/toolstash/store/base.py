"""What a store is, and how to write another one.

A store implements five primitives (`replace`, `read`, `mutate`, `drop`, `list`), each atomic: a reader sees a
workspace before a write or after it, never between. They take an `Address`; which addresses a caller may see is
settled here, once, for every store. The rest are conveniences over the primitives; override one where the store
can do it faster.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_changes
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

from toolstash.blocking import Blocking
from toolstash.contracts import SHARED_SPACE, Address, WorkspaceMeta
from toolstash.errors import (
    InvalidArgumentError,
    VersionConflictError,
    WorkspaceNotFoundError,
)
from toolstash.store.arguments import checked_id, few_enough, whole
from toolstash.store.payload import Payload
from toolstash.store.refusals import require_list
from toolstash.store.session import current_session
from toolstash.wire import keys as layout

READ_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class ReplaceRule:
    """Which workspace may be replaced: one of this type, made by one of these producers."""

    workspace_type: str
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quota:
    """What one space may hold; the oldest other workspaces make room. None for no bound."""

    max_workspaces: int | None = None
    max_bytes: int | None = None


class Replaced(NamedTuple):
    """What `replace` did: the new meta, and the ids that made room for it."""

    meta: WorkspaceMeta
    dropped: list[str]


class Reading(NamedTuple):
    """Meta and data of one moment: rows, a dict, a piece of text, or a value."""

    meta: WorkspaceMeta
    data: Any


@dataclass(frozen=True, slots=True)
class Append:
    """Adds rows at the end."""

    rows: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Update:
    """Puts a row in the place of the one at `index`."""

    index: int
    row: Any


@dataclass(frozen=True, slots=True)
class Patch:
    """Sets top-level fields of the row at `index`, which must be a dict."""

    index: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes the rows at `indices`, all counted before the removal."""

    indices: Sequence[int]


Change = Append | Update | Patch | Delete


class BaseStore(ABC):
    """A place for workspaces. Open on first use; close with `async with` or `aclose()`."""

    note_when_missing = ""
    """Said to the model when a workspace is missing, where the store knows a reason."""

    # The primitives

    @abstractmethod
    async def replace(
        self,
        meta: WorkspaceMeta,
        payload: Payload,
        replace_if: ReplaceRule | None = None,
        *,
        quota: Quota = Quota(),
    ) -> Replaced:
        """Stores a payload whole, in the place of what the address of `meta` held.

        Of `meta` the id, type, ttl, session, producer, extra, lineage and limits count; shape, counts, version and
        times are the store's. `replace_if` is checked in the same step as the write.

        Raises:
            WorkspaceConflictError: `replace_if` does not allow it; the old workspace stays.
            PayloadTooLargeError, UnstorableValueError: From the payload; nothing is stored.
            QuotaExceededError: The payload alone is above the quota.
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

    # Conveniences

    async def read_names(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        """Like `read` of a dict, but only the names of its fields, as a list."""
        meta, data = await self.read(at, start, stop)
        return Reading(meta, [*data] if isinstance(data, dict) else data)

    async def read_fields(self, at: Address, names: Sequence[str]) -> Reading:
        """The named fields of a dict that are there; an empty dict for another shape."""
        meta, data = await self.read(at)
        held = cast(dict[str, Any], data) if isinstance(data, dict) else {}
        fields = {name: held[name] for name in names if name in held}
        return Reading(meta, fields)

    async def init_workspace(self, meta: WorkspaceMeta) -> WorkspaceMeta:
        """Makes an empty workspace of the meta's id, type and shape, in the place of what was there."""
        empty = cast(dict[str, Any], {"list": [], "dict": {}, "scalar": ""})[meta.data_shape]
        session = meta.session_id if meta.session_id is not None else current_session()
        at = self.place(meta.workspace_id, meta.workspace_type, session)
        placed = with_changes(meta, workspace_id=at.workspace_id, session_id=session)
        return (await self.replace(placed, Payload(empty))).meta

    async def set_items(self, workspace_id: str, payload: Any) -> WorkspaceMeta:
        """Replaces the data of a workspace that exists; its time to live starts anew."""
        meta = await self.get_meta(workspace_id)
        if meta is None:
            raise self.missing(workspace_id)
        return (await self.replace(meta, await Payload.of(payload))).meta

    async def get_items(self, workspace_id: str) -> Any:
        """The whole of a workspace: rows, dict, text or value."""
        return (await self.read(await self.locate(workspace_id))).data

    async def iter_items(self, workspace_id: str) -> AsyncIterator[Any]:
        """The rows of a list one by one, read in chunks.

        Raises:
            VersionConflictError: The workspace changed on the way.
        """
        at = await self.locate(workspace_id)
        start, version = 0, ""
        while True:
            meta, rows = await self.read(at, start, start + READ_ROWS)
            require_list(meta)
            if version and meta.version != version:
                raise VersionConflictError(
                    f"Workspace '{workspace_id:.150}' changed while it was read.", version=meta.version
                )
            version = meta.version
            for row in rows:
                yield row
            start += len(rows)
            if not rows or start >= meta.item_count:
                return

    async def get_meta(self, workspace_id: str) -> WorkspaceMeta | None:
        """The meta of a workspace; None if there is none for this caller."""
        try:
            return (await self.read(await self.locate(workspace_id), 0, 0)).meta
        except WorkspaceNotFoundError:
            return None

    async def count_items(self, workspace_id: str) -> int:
        """Rows, keys, or 1."""
        return (await self.read(await self.locate(workspace_id), 0, 0)).meta.item_count

    async def get_page(self, workspace_id: str, offset: int, limit: int) -> Any:
        """`limit` rows (fields, code points) from `offset` on.

        Raises:
            InvalidArgumentError: A negative offset or limit.
        """
        whole("offset", offset)
        whole("limit", limit)
        return (await self.read(await self.locate(workspace_id), offset, offset + limit)).data

    async def list_workspaces(self, workspace_type: str | None = None) -> builtins.list[str]:
        """Ids of the live workspaces that the caller sees, oldest first."""
        found = await self.list(self.visible_spaces(), workspace_type)
        return [address.workspace_id for address in found]

    async def drop_workspace(self, workspace_id: str) -> bool:
        """Removes a workspace; False if the caller sees none of that id."""
        try:
            return await self.drop(await self.locate(workspace_id))
        except WorkspaceNotFoundError:
            return False

    async def clear(self) -> None:
        """Removes the current session's workspaces; outside any session, all of them."""
        spaces = self.visible_spaces()
        for address in await self.list(None if spaces is None else spaces[:1]):
            await self.drop(address)

    async def sweep_expired(self) -> builtins.list[str]:
        """Ids that expired since the last sweep, where a store keeps count of them."""
        return []

    async def append_items(
        self, workspace_id: str, new_items: Sequence[Any], *, expected_version: str | None = None
    ) -> int:
        """Adds rows; the new count. The time to live goes on as it was.

        Raises:
            InvalidArgumentError: Not a sequence of rows (a text or a dict is one row: put it in a list), or more than
                10,000 of them.
        """
        if isinstance(new_items, (str, bytes, Mapping)):
            raise InvalidArgumentError("The rows to append come in a list.", argument="items")
        rows = few_enough("items", new_items)
        return (await self.mutate(await self.locate(workspace_id), Append(rows), expected_version)).item_count

    async def update_item(
        self, workspace_id: str, index: int, item: Any, *, expected_version: str | None = None
    ) -> WorkspaceMeta:
        """Puts another row in the place of one."""
        change = Update(whole("index", index), item)
        return await self.mutate(await self.locate(workspace_id), change, expected_version)

    async def patch_item(
        self, workspace_id: str, index: int, fields: Mapping[str, Any], *, expected_version: str | None = None
    ) -> WorkspaceMeta:
        """Sets top-level fields of a row."""
        change = Patch(whole("index", index), fields)
        return await self.mutate(await self.locate(workspace_id), change, expected_version)

    async def delete_items(
        self, workspace_id: str, indices: Sequence[int], *, expected_version: str | None = None
    ) -> int:
        """Removes rows by index; the new count."""
        at = await self.locate(workspace_id)
        change = Delete([whole("indices", index) for index in few_enough("indices", indices)])
        return (await self.mutate(at, change, expected_version)).item_count
