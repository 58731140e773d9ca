"""Builds indexes off the critical path, and takes them away when they are no longer wanted.

One worker builds, under a lease that it renews with every chunk. The index is empty at first; documents come in the
order of the rows, in small chunks with pauses as long as each took, so that other commands get their turn. Only when
the index has all rows is it made known, and only if the workspace is still the version that it was made of.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from toolstash.contracts import Address, WorkspaceMeta
from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.query.index import Documents, IndexDraft, IndexShape, TextView, slices_of
from toolstash.query.search import B
from toolstash.query.table import Table
from toolstash.store.codec import pack
from toolstash.store.cpu import on_cpu
from toolstash.store.search_ability import Ability
from toolstash.store.search_index import Index, IndexReader, view_name
from toolstash.wire import keys as layout
from toolstash.wire import scripts, search
from toolstash.wire.connection import Connections
from toolstash.wire.faults import CommandRefused
from toolstash.wire.keys import Keys, WorkspaceKeys

MOST_INDEXES = 200
"""Live indexes under one prefix: each costs the server about 100 KB and some work for every key that is written."""

MOST_VIEWS = 3
"""Indexes of one workspace: a model that searches other fields with every call does not fill the server with them."""

COMMAND_SECONDS = 10.0
ENDING_SECONDS = 5.0
MOST_BYTES_A_BYTE = 20
"""What the server may hold of an index for each byte of the rows: 5 to 6 is usual, but every odd word costs much."""

FREE_BYTES = 50_000_000
WEIGHED_EVERY_ROWS = 5_000
CHUNK_DOCUMENTS = 100
CHUNK_CHARS = 200_000
UNLINKED_AT_ONCE = 1_000
KEPT_AT_ONCE = 2_000
_END = object()

ReadTable = Callable[[Address], Awaitable[tuple[WorkspaceMeta, Table]]]


class TooDearError(ToolstashError):
    """An index of this version would take many times the memory of the rows."""

    def __init__(self, version: str) -> None:
        super().__init__("A search index would take many times the memory of the rows: there will be none.")
        self.version = version


class IndexBuilder:
    """Builds and retires indexes for one store."""

    def __init__(self, connections: Connections, keys: Keys, reader: IndexReader, read_table: ReadTable) -> None:
        self._connections = connections
        self._keys = keys
        self._reader = reader
        self._read_table = read_table

    async def build(self, at: Address, text: TextView | None, ability: Ability) -> bool:
        """Builds an index of a workspace's present version.

        False where another worker builds it, where there are enough, or where the workspace changed meanwhile.

        Raises:
            StoreUnavailableError: The server does not answer, or refuses a command.
            WorkspaceNotFoundError, WorkspaceShapeMismatchError: There is no such list.
            TooDearError: The index would take many times the memory of the rows.
        """
        if not await self._has_room(at):
            return False
        meta, table = await self._read_table(at)
        view = view_name(text)
        build = _Build(
            self._connections, self._keys.workspace(at), view, f"{view}_{layout.new_generation()}", meta, table
        )
        if not len(table):
            return False
        try:
            if not await build.begin():
                return False
            replaced = await build.run(text if ability.b is not None else None, ability.b or B)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(ToolstashError), anyio.move_on_after(ENDING_SECONDS):
                await self._give_up(at, build)
            raise
        if replaced is None:
            await self._give_up(at, build)
        for index in Index.of_entries([view.encode(), replaced] if replaced else []):
            await self.retire(at, index)
        return replaced is not None

    async def is_building(self, at: Address, text: TextView | None) -> bool:
        """Whether some worker builds an index of these texts."""
        lease = self._keys.workspace(at).building(view_name(text))
        return await self._connections.command("EXISTS", lease) == 1

    async def _give_up(self, at: Address, build: _Build) -> None:
        """The lease goes first: a write that is still under way to the server must not come after the cleaning."""
        await self._connections.run(scripts.release(build.keys, build.meta.version, build.view, build.name))
        await self.retire(at, Index(build.view, build.name, build.meta.version, len(build.table)))

    async def clean(self, at: Address) -> None:
        """Retires the indexes of a workspace that are of older versions; of one that is gone, all."""
        found = await self._reader.find(at)
        if found is not None:
            stale = found.stale
        else:
            flat = await self._connections.command("HGETALL", self._keys.workspace(at).indexes)
            stale = Index.of_entries(flat)
        for index in stale:
            await self.retire(at, index)

    async def retire(self, at: Address, index: Index) -> None:
        """Takes an index and its documents away."""
        keys = self._keys.workspace(at)
        await self._connections.run(scripts.retire_index(keys, index.view, index.build))
        await self._take_away(keys, index.build, index.rows)

    async def sweep(self) -> int:
        """Takes away indexes under the prefix that belong to no workspace and to no builder; how many."""
        swept = 0
        for at, build in await self._our_indexes():
            if not await self._is_wanted(at, build):
                keys = self._keys.workspace(at)
                asking = [search.last_document(keys.index(build))]
                (told,) = await self._connections.pipelined(keys.meta, asking, seconds=COMMAND_SECONDS)
                rows = 0 if isinstance(told, CommandRefused) else search.rows_covered(told)
                await self.retire(at, Index(build.partition("_")[0], build, "", rows))
                swept += 1
        return swept

    async def _is_wanted(self, at: Address, build: str) -> bool:
        view = build.partition("_")[0]
        builder = await self._connections.command("GET", self._keys.workspace(at).building(view))
        if builder is not None and builder.startswith(build.encode() + b" "):
            return True
        found = await self._reader.find(at)
        return found is not None and any(index.build == build for index in found.ready(view))

    async def _our_indexes(self) -> list[tuple[Address, str]]:
        names: list[bytes] = []
        for reply in await self._connections.everywhere(search.list_all(), seconds=COMMAND_SECONDS):
            names += [] if isinstance(reply, CommandRefused) else reply
        found = (self._keys.address_of_index(name.decode("utf-8", "replace")) for name in names)
        return [pair for pair in found if pair is not None]

    async def _has_room(self, at: Address) -> bool:
        found = await self._reader.find(at)
        has_some = found is not None and len(found.ready("")) >= MOST_VIEWS
        return not has_some and len(await self._our_indexes()) < MOST_INDEXES

    async def _take_away(self, keys: WorkspaceKeys, build: str, rows: int) -> None:
        """Documents first: as long as some are left, their index tells a sweep of them."""
        for first in range(0, rows, UNLINKED_AT_ONCE):
            started = time.monotonic()
            last = min(first + UNLINKED_AT_ONCE, rows)
            names = [f"{keys.documents(build)}{number}" for number in range(first, last)]
            await self._connections.command("UNLINK", *names)
            await anyio.sleep(time.monotonic() - started)
        await self._connections.pipelined(keys.meta, [search.drop(keys.index(build))], seconds=COMMAND_SECONDS)


@dataclass(frozen=True, slots=True)
class _Build:
    """One index in the making."""

    connections: Connections
    keys: WorkspaceKeys
    view: str
    name: str
    meta: WorkspaceMeta
    table: Table

    async def begin(self) -> bool:
        """Takes the lease; False where another worker has it, or the workspace changed."""
        call = scripts.begin_index(self.keys, self.meta.version, self.view, self.name)
        return (await self.connections.run(call)) == 1

    async def run(self, text: TextView | None, server_b: float) -> bytes | None:
        """Builds it and makes it known: the entry that it replaces, b"" for none; None if it is no longer wanted."""
        shape = await self._shape(text)
        if shape is None:
            return None
        expires_at = self.meta.expires_at
        life = None if expires_at is None else max(1.0, expires_at - time.time())
        await self._search(search.create(self.keys, self.name, shape.schema(), life))
        if not await self._fill(Documents(shape, server_b)) or not await self._keep():
            return None
        told = await self._search(search.info(self.keys.index(self.name)))
        if search.document_count(told) != len(self.table):
            return None
        document = pack(shape.to_json())
        call = scripts.publish_index(self.keys, self.meta.version, self.view, self.name, len(self.table), document)
        reply = await self.connections.run(call)
        return reply[1] if reply[0] == 1 else None

    async def _shape(self, text: TextView | None) -> IndexShape | None:
        """What the index will hold; None if it is no longer wanted."""
        draft = IndexDraft(self.table, text)
        slices = draft.slices()
        renewed = time.monotonic()
        while await on_cpu(lambda: next(slices, _END), is_long=True) is not _END:
            if time.monotonic() - renewed > layout.LEASE_MS / 5000:
                renewed = time.monotonic()
                if not await self._put([], 0):
                    return None
        return draft.shape()

    async def _fill(self, documents: Documents) -> bool:
        """Writes all documents; False if the index is no longer wanted. While some are written, the next are made."""
        slices = slices_of(self.table)
        making = asyncio.create_task(on_cpu(lambda: _next_documents(slices, documents), is_long=True))
        try:
            while (part := await making) is not None:
                making = asyncio.create_task(on_cpu(lambda: _next_documents(slices, documents), is_long=True))
                if not await self._write(*part):
                    return False
                if part[0] % WEIGHED_EVERY_ROWS == 0:
                    await self._weigh(part[0] / len(self.table))
            return True
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)

    async def _write(self, first: int, documents: Sequence[list[str]]) -> bool:
        """Writes some documents in chunks, with pauses."""
        for chunk in _chunks(documents):
            started = time.monotonic()
            if not await self._put(chunk, first):
                return False
            first += len(chunk)
            await anyio.sleep(time.monotonic() - started)
        return True

    async def _weigh(self, share: float) -> None:
        """Raises TooDearError where an index of that share of the rows has become too large."""
        told = await self._search(search.info(self.keys.index(self.name)))
        if search.memory_bytes(told) > FREE_BYTES + MOST_BYTES_A_BYTE * share * self.meta.chars:
            raise TooDearError(self.meta.version)

    async def _keep(self) -> bool:
        """Lets the documents of a workspace that stays live as long as it; False if they are no longer wanted."""
        if self.meta.ttl is not None:
            return True
        for first in range(0, len(self.table), KEPT_AT_ONCE):
            count = min(KEPT_AT_ONCE, len(self.table) - first)
            call = scripts.keep_documents(self.keys, self.meta.version, self.view, self.name, first, count)
            if (await self.connections.run(call)) != 1:
                return False
        return True

    async def _put(self, documents: Sequence[Sequence[str]], first: int) -> bool:
        call = scripts.put_documents(self.keys, self.meta.version, self.view, self.name, documents, first)
        return (await self.connections.run(call)) == 1

    async def _search(self, command: search.Command) -> Any:
        (reply,) = await self.connections.pipelined(self.keys.meta, [command], seconds=COMMAND_SECONDS)
        if isinstance(reply, CommandRefused):
            raise StoreUnavailableError(f"The data store could not build a search index ({reply.message[:200]}).")
        return reply


def _next_documents(slices: Iterator[tuple[int, Any]], documents: Documents) -> tuple[int, list[list[str]]] | None:
    part = next(slices, None)
    return None if part is None else (part[0], documents.of_rows(*part))


def _chunks(documents: Sequence[list[str]]) -> Iterator[Sequence[list[str]]]:
    """The documents in stretches of at most 100, and of about 200,000 characters."""
    first = chars = 0
    for place, document in enumerate(documents):
        if place - first >= CHUNK_DOCUMENTS or chars > CHUNK_CHARS:
            yield documents[first:place]
            first, chars = place, 0
        chars += sum(map(len, document))
    yield documents[first:]
