"""Workspaces in this process: for unit tests, and the reference that the Redis store is compared with.

Rows are kept encoded, as in Redis, so that nobody's list is aliased and every value comes back in its JSON form.
"""

from __future__ import annotations

import builtins
import math
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from typing import Any

from toolstash.contracts import SHARED_SPACE, Address, Event, Limits, Stats, WorkspaceMeta
from toolstash.errors import VersionConflictError, WorkspaceNotFoundError
from toolstash.store import refusals
from toolstash.store.base import READ_ROWS, BaseStore, Check
from toolstash.store.changes import Change, Edits, edits_of, merged
from toolstash.store.codec import Codec, Tally, decode, encode, encode_many
from toolstash.store.cpu import on_cpu
from toolstash.store.flights import LocalFlights, Ticket
from toolstash.store.local_calls import LocalCalls
from toolstash.store.memory_events import MemoryEvents
from toolstash.store.payload import Payload
from toolstash.store.primitives import Reading, Replaced, ReplaceRule
from toolstash.store.signal import Listening
from toolstash.store.snapshot import Snapshot, Snapshots
from toolstash.wire import keys as layout


@dataclass
class _Workspace:
    meta: WorkspaceMeta
    payload: Payload
    documents: list[bytes]
    codec: Codec
    revision: int = 0
    edits: int = 0

    @property
    def bytes(self) -> int:
        return sum(map(len, self.documents))

    def documents_between(self, start: int, stop: int | None) -> list[bytes]:
        if self.payload.kind == "fields":
            return self.documents[2 * start : None if stop is None else 2 * stop]
        return self.documents[start:stop]


@dataclass
class _Space:
    live: dict[str, _Workspace] = field(default_factory=dict[str, _Workspace])
    gone: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    swept: list[str] = field(default_factory=list[str])


class MemoryStore(BaseStore):
    """Workspaces of one process, gone with it.

    Args:
        max_workspaces: How many a session may hold; above it the least recently used one goes. None: no bound.
    """

    note_when_missing = "This store is in the memory of one process: workspaces of others are not in it."

    def __init__(self, max_workspaces: int | None = None) -> None:
        if max_workspaces is not None and max_workspaces < 1:
            raise ValueError(f"max_workspaces must be at least 1, not {max_workspaces}")
        self._max_workspaces = max_workspaces
        self._spaces: dict[str, _Space] = {}
        self._lock = threading.Lock()
        self._snapshots = Snapshots()
        self._events = MemoryEvents()
        self.calls = LocalCalls(self._events)
        self._flights = _Flights(self)
        self.flights = self._flights

    async def replace(
        self,
        meta: WorkspaceMeta,
        payload: Payload,
        replace_if: ReplaceRule | None = None,
    ) -> Replaced:
        documents: list[bytes] = []
        async for chunk in payload.chunks(meta.limits):
            documents += chunk.documents
        now = time.time()
        stored = with_changes(
            meta,
            data_shape=payload.shape,
            item_count=payload.count,
            chars=payload.tally.chars,
            non_finite=payload.tally.non_finite,
            version=f"{layout.new_generation()}.0",
            created_at=now,
            last_accessed_at=now,
        )
        workspace = _Workspace(stored, payload, documents, payload.tally.codec)
        at = Address(layout.space_of_session(meta.session_id), meta.workspace_id)
        with self._lock:
            space = self._spaces.setdefault(at.space, _Space())
            self._expire(space)
            old = space.live.get(meta.workspace_id)
            if replace_if is not None and self._is_overtaken(at, replace_if.ticket, old):
                raise refusals.overtaken(meta)
            if old is not None and replace_if is not None and not _allows(replace_if, old.meta):
                raise refusals.conflict(meta, old.meta.workspace_type, old.meta.producer_fn)
            _check_session_bytes(meta.limits, documents)
            space.live.pop(meta.workspace_id, None)
            space.live[meta.workspace_id] = workspace
            space.swept = [name for name in space.swept if name != meta.workspace_id]
            expires_at = stored.expires_at or math.inf
            space.gone[meta.workspace_id] = (meta.producer_fn, expires_at + layout.GONE_MS / 1000)
            dropped = self._make_room(at, meta.limits)
            self._events.tell(at.space, "created" if old is None else "replaced", stored)
        return Replaced(stored, dropped)

    def _is_overtaken(self, at: Address, ticket: Ticket | None, old: _Workspace | None) -> bool:
        if ticket is None or self._flights.holder(at) == ticket.token:
            return False
        return self._flights.holder(at) != "" or _generation(old) not in ("", ticket.generation)

    def _make_room(self, newest: Address, limits: Limits) -> list[str]:
        space = self._spaces[newest.space]
        dropped: list[str] = []

        def drop(name: str) -> None:
            self._events.tell(newest.space, "dropped", space.live.pop(name).meta)
            space.gone.pop(name, None)
            dropped.append(name)

        while len(space.live) > (self._max_workspaces or len(space.live)):
            others = [item for item in space.live.items() if item[0] != newest.workspace_id]
            drop(min(others, key=lambda item: item[1].meta.last_accessed_at)[0])
        for name in [name for name in space.live if name != newest.workspace_id]:
            total = sum(workspace.bytes for workspace in space.live.values())
            enough_places = len(space.live) <= (limits.max_session_workspaces or len(space.live))
            if enough_places and total <= (total if limits.max_session_bytes is None else limits.max_session_bytes):
                break
            drop(name)
        return dropped

    async def read(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        with self._lock:
            workspace = self._live(at)
            if workspace.payload.kind == "text":
                last = None if stop is None else -(-stop // layout.PIECE_CHARS)
                documents = workspace.documents[start // layout.PIECE_CHARS : last]
            else:
                documents = workspace.documents_between(start, stop)
            meta, kind, codec = workspace.meta, workspace.payload.kind, workspace.codec
            if kind == "value":
                documents = workspace.documents
        values = [decode(document, codec) for document in documents]
        if kind == "rows":
            return Reading(meta, values)
        if kind == "fields":
            return Reading(meta, dict(zip(values[::2], values[1::2], strict=True)))
        if kind == "value":
            return Reading(meta, values[0])
        offset = start % layout.PIECE_CHARS
        text = "".join(values)
        return Reading(meta, text[offset:] if stop is None else text[offset : offset + max(0, stop - start)])

    async def mutate(self, at: Address, change: Change, expected_version: str | None = None) -> WorkspaceMeta:
        return await on_cpu(lambda: self._mutate(at, change, expected_version))

    def _mutate(self, at: Address, change: Change, expected_version: str | None) -> WorkspaceMeta:
        with self._lock:
            workspace = self._live(at)
            refusals.require_list(workspace.meta)
            if expected_version is not None and expected_version != workspace.meta.version:
                raise refusals.wrong_version(at, workspace.meta.version)
            edits = edits_of(change, len(workspace.documents))
            tally = Tally()
            documents = _changed(workspace, edits, tally)
            if edits.grows:
                refusals.check_limits(workspace.meta.limits, len(documents), sum(map(len, documents)))
                _check_session_bytes(workspace.meta.limits, documents)
            workspace.documents = documents
            workspace.revision += 1
            workspace.edits += edits.cleared or bool(edits.replaced or edits.patched or edits.removed)
            if tally.codec == "json":
                workspace.codec = "json"
            generation = workspace.meta.version.partition(".")[0]
            workspace.meta = with_changes(
                workspace.meta,
                item_count=len(documents),
                chars=sum(map(_chars, documents)),
                non_finite=workspace.meta.non_finite + tally.non_finite,
                version=f"{generation}.{workspace.revision}",
            )
            if edits.grows:
                self._make_room(at, with_changes(workspace.meta.limits, max_session_workspaces=None))
            self._events.tell(at.space, "changed", workspace.meta)
            return workspace.meta

    async def read_table(self, at: Address, check: Check = refusals.require_list) -> tuple[WorkspaceMeta, Snapshot]:
        with self._lock:
            workspace = self._live(at)
            check(workspace.meta)
            version = workspace.meta.version
            snapshot = self._snapshots.get(at, version)
            if snapshot is None:
                snapshot = Snapshot(workspace.documents, workspace.codec, workspace.bytes)
                self._snapshots.put(at, version, snapshot)
            return workspace.meta, snapshot

    def after_question(self) -> None:
        self._snapshots.trim()

    async def iter_items(self, workspace_id: str) -> AsyncGenerator[Any]:
        """The rows of a list as they are now, one by one; rows appended meanwhile are left out.

        Raises:
            VersionConflictError: Rows were changed or deleted on the way.
        """
        at = await self.locate(workspace_id)
        meta, snapshot = await self.read_table(at)
        with self._lock:
            began = self._live(at)
            edits = began.edits
        for start in range(0, len(snapshot), READ_ROWS):
            if began.edits != edits or not self._is_there(at):
                raise VersionConflictError(
                    f"Workspace '{workspace_id:.150}' was changed while it was read.", version=meta.version
                )
            for row in snapshot.rows_at(range(start, min(start + READ_ROWS, len(snapshot)))):
                yield row
        self._snapshots.trim()

    def _is_there(self, at: Address) -> bool:
        with self._lock:
            return at.workspace_id in self._spaces.get(at.space, _Space()).live

    async def drop(self, at: Address) -> bool:
        self._snapshots.forget(at)
        with self._lock:
            space = self._spaces.get(at.space, _Space())
            self._expire(space)
            space.gone.pop(at.workspace_id, None)
            workspace = space.live.pop(at.workspace_id, None)
            if workspace is not None:
                self._events.tell(at.space, "dropped", workspace.meta)
        return workspace is not None

    async def list(
        self, spaces: Sequence[str] | None = None, workspace_type: str | None = None
    ) -> builtins.list[Address]:
        with self._lock:
            found: list[tuple[float, Address]] = []
            for name in self._spaces if spaces is None else spaces:
                space = self._spaces.get(name, _Space())
                self._expire(space)
                found += [
                    (workspace.meta.created_at, Address(name, workspace_id))
                    for workspace_id, workspace in space.live.items()
                    if workspace_type in (None, workspace.meta.workspace_type)
                ]
        return [address for _, address in sorted(found, key=lambda pair: pair[0])]

    async def find_space(self, label: str) -> str | None:
        with self._lock:
            space = next((space for space in self._spaces if layout.label_of(space) == label), None)
        return space or await self.calls.find_space(label)

    async def sweep_expired(self) -> builtins.list[str]:
        visible = self.visible_spaces()
        swept: list[str] = []
        with self._lock:
            for name in [*self._spaces] if visible is None else visible[:1]:
                space = self._spaces.get(name, _Space())
                self._expire(space)
                swept += space.swept
                space.swept = []
        return swept

    async def stats(self) -> Stats:
        visible = self.visible_spaces()
        pending = await self.calls.count_waiting(None if visible is None else visible[:1])
        with self._lock:
            names = [*self._spaces] if visible is None else visible
            spaces = {name: self._spaces[name] for name in names if name in self._spaces}
            for space in spaces.values():
                self._expire(space)
            held = [workspace for space in spaces.values() for workspace in space.live.values()]
            return Stats(
                sessions=sum(bool(space.live) and name != SHARED_SPACE for name, space in spaces.items()),
                workspaces=len(held),
                bytes=sum(workspace.bytes for workspace in held),
                pending_calls=pending,
                chars_kept_out=sum(workspace.meta.chars for workspace in held),
            )

    def generation_of(self, at: Address) -> str:
        """The generation of a workspace; "" if there is none."""
        return _generation(self._spaces.get(at.space, _Space()).live.get(at.workspace_id))

    def listening(self, spaces: Sequence[str]) -> Listening:
        return self._events.listening()

    async def aclose(self) -> None:
        """Ends what watches; the data stays as long as the store."""
        self._events.close()

    async def events_after(self, space: str, place: str, limit: int) -> Sequence[Event]:
        return self._events.after(space, place, limit)

    def _expire(self, space: _Space) -> None:
        for name in [name for name, workspace in space.live.items() if workspace.meta.is_expired]:
            del space.live[name]
            space.swept.append(name)
        now = time.time()
        for name in [name for name, (_, until) in space.gone.items() if until < now]:
            del space.gone[name]

    def _live(self, at: Address) -> _Workspace:
        space = self._spaces.get(at.space, _Space())
        self._expire(space)
        workspace = space.live.get(at.workspace_id)
        if workspace is None:
            raise self._absent(at, space)
        workspace.meta = with_changes(workspace.meta, last_accessed_at=time.time())
        return workspace

    def _absent(self, at: Address, space: _Space) -> WorkspaceNotFoundError:
        if at.workspace_id in space.gone:
            return refusals.expired(at, space.gone[at.workspace_id][0])
        return self.missing(at.workspace_id)


class _Flights(LocalFlights):
    """The leases of a memory store, which knows the generations of its workspaces."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    def generation_of(self, at: Address) -> str:
        return self._store.generation_of(at)


def _generation(workspace: _Workspace | None) -> str:
    return "" if workspace is None else workspace.meta.version.partition(".")[0]


def _check_session_bytes(limits: Limits, documents: Sequence[bytes]) -> None:
    if limits.max_session_bytes is not None and sum(map(len, documents)) > limits.max_session_bytes:
        raise refusals.over_quota(limits.max_session_bytes)


def _allows(rule: ReplaceRule, held: WorkspaceMeta) -> bool:
    return held.workspace_type == rule.workspace_type and held.producer_fn in rule.producers


def _chars(document: bytes) -> int:
    return len(document) if document.isascii() else len(document.decode())


def _changed(workspace: _Workspace, edits: Edits, tally: Tally) -> list[bytes]:
    documents = [] if edits.cleared else [*workspace.documents]
    for position, row in edits.replaced.items():
        documents[position] = encode(row, tally, row=position)
    for position, fields in edits.patched.items():
        row = merged(decode(documents[position], workspace.codec), fields, position)
        documents[position] = encode(row, tally, row=position)
    kept = [document for position, document in enumerate(documents) if position not in edits.removed]
    return kept + encode_many(edits.added, tally, first_row=0)
