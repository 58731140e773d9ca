"""Workspaces in Redis or Valkey. How the keys lie is in `wire/keys.py`; what each script does, in `wire/lua/`."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace as with_changes
from typing import Any

from toolstash.contracts import Address, Event, Stats, WorkspaceMeta
from toolstash.errors import VersionConflictError
from toolstash.query.index import TextView
from toolstash.query.questions import Question
from toolstash.settings import Settings
from toolstash.store import records, refusals
from toolstash.store.background import Background
from toolstash.store.base import BaseStore, Check
from toolstash.store.changes import Batch, Change, Edits, edits_of, edits_of_one, merged
from toolstash.store.codec import Tally, encode, encode_many
from toolstash.store.cpu import on_cpu
from toolstash.store.index_life import IndexLife
from toolstash.store.listeners import Listeners
from toolstash.store.payload import Payload
from toolstash.store.primitives import Reading, Replaced, ReplaceRule
from toolstash.store.records import Record
from toolstash.store.redis_calls import RedisCalls
from toolstash.store.redis_flights import RedisFlights
from toolstash.store.redis_reader import RedisReader
from toolstash.store.redis_writer import GenerationWriter
from toolstash.store.registry import Registry
from toolstash.store.signal import Signal
from toolstash.store.snapshot import Snapshot, Snapshots
from toolstash.wire import keys as layout
from toolstash.wire import scripts
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys
from toolstash.wire.source import source_of_client, source_of_url

MUTATE_TRIES = 8
META_END = 1 + len(scripts.META_FIELDS)

logger = logging.getLogger("toolstash")


class RedisStore(BaseStore):
    """Workspaces on a server that every worker shares.

    Args:
        url_or_client: `redis://…`, `rediss://…`, `unix://…`, `embedded:`, `embedded:<directory>`, or a redis-py
            client, of which only the settings are taken. None: `TOOLSTASH_URL`, else `embedded:`.
        prefix: What every key starts with. None: `TOOLSTASH_PREFIX`, else "toolstash".
        max_connections: Connections per process and event loop.
        wait_seconds: How long a call waits for a free one.
        command_timeout_seconds: How long one command may take, repeats included.

    Raises:
        ValueError: The URL or the prefix cannot be used.
        TypeError: Neither a URL nor a client.
    """

    def __init__(
        self,
        url_or_client: Any = None,
        *,
        prefix: str | None = None,
        max_connections: int = 64,
        wait_seconds: float = 5.0,
        command_timeout_seconds: float = 5.0,
    ) -> None:
        given_url = url_or_client if isinstance(url_or_client, str) else None
        settings = Settings.from_environment(
            url=given_url,
            prefix=prefix,
            max_connections=max_connections,
            wait_seconds=wait_seconds,
            command_timeout_seconds=command_timeout_seconds,
        )
        use_url = url_or_client is None or given_url is not None
        source = source_of_url(settings.url) if use_url else source_of_client(url_or_client)
        name_space = f"{settings.prefix}:{secrets.token_hex(4)}" if source.is_private else settings.prefix
        self._keys = Keys(name_space)
        self._source = source
        self._connections = Connections(source, settings)
        self._background = Background()
        self._reader = RedisReader(self._connections, self._keys, self.missing, self._background)
        self._snapshots = Snapshots()
        self._indexes = IndexLife(self._connections, self._keys, self.read_table)
        self._registry = Registry(self._connections, self._keys)
        self._listeners = Listeners(self._connections, self._keys)
        self.flights = RedisFlights(self._connections, self._keys)
        self.calls = RedisCalls(self._connections, self._keys, self._registry)
        self._made_in = os.getpid()
        if source.is_private:
            self.note_when_missing = "This store is private to one process: workspaces of others are not in it."

    @property
    def prefix(self) -> str:
        """What every key of this store starts with."""
        return self._keys.prefix

    @property
    def is_private(self) -> bool:
        """Whether only this process can see the data."""
        return self._source.is_private

    # Writing

    async def replace(
        self,
        meta: WorkspaceMeta,
        payload: Payload,
        replace_if: ReplaceRule | None = None,
    ) -> Replaced:
        at = Address(layout.space_of_session(meta.session_id), meta.workspace_id)
        keys = self._keys.workspace(at)
        async with GenerationWriter(self._connections, self._background, keys, payload) as writer:
            last_chunks = await writer.write(meta.limits)
            commit = records.commit_of(meta, payload, writer.generation, replace_if)
            calls = [
                *last_chunks,
                *self._registry.registration(at.space, meta.ttl),
                scripts.commit(keys, scripts.new_operation(), commit),
            ]
            words = (await self._connections.run_all(calls))[-1].split(b"\n")
            if words[0] != b"ok":
                raise refusals.of_commit(words, meta)
        stored_at, is_indexed = words[1].split(b" ")
        self._indexes.replaced([at] if is_indexed == b"1" else [])
        dropped = self._made_room(at, words[2:])
        return Replaced(records.stored_meta(meta, payload, f"{writer.generation}.0", int(stored_at) / 1e6), dropped)

    def _made_room(self, at: Address, lines: Sequence[bytes]) -> list[str]:
        """The ids of workspaces that went to make room (see writing.lua); their indexes go too."""
        pairs = [line.decode().split(" ") for line in lines]
        dropped = [layout.decode_id(part) for part, _ in pairs]
        indexed = [name for name, (_, is_indexed) in zip(dropped, pairs, strict=True) if is_indexed == "1"]
        self._indexes.replaced([Address(at.space, name) for name in indexed])
        if dropped:
            logger.info("to make room for %s, the oldest workspaces went: %s", at.workspace_id, ", ".join(dropped))
        return dropped

    async def mutate(self, at: Address, change: Change, expected_version: str | None = None) -> WorkspaceMeta:
        tries = 0
        while True:
            edits, version = await self._edits(at, change)
            reply = await self._mutate_once(at, edits, expected_version or version)
            if reply[0] == b"ok":
                meta_fields, dropped = reply[1:META_END], reply[META_END:]
                self._made_room(at, dropped)
                return Record.of_reply(meta_fields, at).meta(at)
            tries += 1
            is_stale = reply[0] == b"changed" or (reply[0] == b"version" and expected_version is None)
            if not is_stale or tries == MUTATE_TRIES:
                raise await self._not_mutated(at, edits, reply)

    async def _edits(self, at: Address, change: Change) -> tuple[Edits, str | None]:
        """What a change comes to, and the version for which that is so (None for any)."""
        if not isinstance(change, Batch):
            return edits_of_one(change), None
        record = (await self._reader.first(at, 0, 0)).record
        refusals.require_list(record.meta(at))
        return await on_cpu(lambda: edits_of(change, record.count)), record.version

    async def _mutate_once(self, at: Address, edits: Edits, version: str | None) -> list[bytes]:
        tally = Tally()
        before = await self._reader.rows_before(at, list(edits.patched)) if edits.patched else []
        call = scripts.mutate(
            self._keys.workspace(at),
            scripts.new_operation(),
            await on_cpu(lambda: _row_change(edits, before, tally)),
            expected_version=version,
            codec=tally.codec,
            non_finite=tally.non_finite,
        )
        return (await self._connections.run(call)).split(b"\n")

    async def _not_mutated(self, at: Address, edits: Edits, reply: list[bytes]) -> Exception:
        found = (await self.read(at, 0, 0)).meta  # raises when it is gone
        if reply[0] == b"kind":
            refusals.require_list(found)
        if reply[0] == b"version":
            return refusals.wrong_version(at, reply[1].decode())
        if reply[0] == b"range":
            count = int(reply[1])
            return refusals.no_such_index(edits.out_of_range(count) or 0, count)
        if reply[0] in (b"rows", b"bytes"):
            size = int(reply[1])
            refusals.check_limits(found.limits, size if reply[0] == b"rows" else 0, size if reply[0] == b"bytes" else 0)
        if reply[0] == b"quota":
            return refusals.over_quota(int(reply[1]))
        return VersionConflictError(
            f"Workspace '{at.workspace_id:.150}' is being changed by others; nothing was written.",
            version=found.version,
        )

    async def drop(self, at: Address) -> bool:
        self._snapshots.forget(at)
        call = scripts.drop(self._keys.workspace(at), scripts.new_operation())
        existed, is_indexed, left = (await self._connections.run(call)).split()
        self._indexes.replaced([at] if is_indexed == b"1" else [])
        if left == b"0":
            await self._registry.let_go(at.space)
        return existed == b"1"

    # Reading

    async def read(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        return await self._reader.read(at, start, stop)

    async def read_table(self, at: Address, check: Check = refusals.require_list) -> tuple[WorkspaceMeta, Snapshot]:
        async with self._snapshots.loading(at):
            record = (await self._reader.first(at, 0, 0)).record
            check(record.meta(at))
            snapshot = self._snapshots.get(at, record.version)
            if snapshot is None:
                record, documents = await self._reader.documents(at)
                check(record.meta(at))
                snapshot = Snapshot(documents, record.codec, record.bytes)
                self._snapshots.put(at, record.version, snapshot)
        self._reader.touch_later(at)
        return record.meta(at), snapshot

    async def ask(self, at: Address, question: Question[Any], check: Check = refusals.require_list) -> Reading:
        reading = await self._indexes.answer(at, question, check)
        if reading is not None:
            self._reader.touch_later(at)
            return reading
        reading = await super().ask(at, question, check)
        self._indexes.python_answered(at, reading.meta, question)
        return reading

    def after_question(self) -> None:
        self._snapshots.trim()

    async def build_index(self, workspace_id: str, fields: Sequence[str] | None = None) -> bool:
        await super().build_index(workspace_id, fields)  # refuses what can have none
        return await self._indexes.build(await self.locate(workspace_id), TextView.of(fields))

    def build_index_later(self, at: Address, version: str, fields: Sequence[str] | None) -> None:
        self._indexes.build_later(at, version, TextView.of(fields))

    async def iter_items(self, workspace_id: str) -> AsyncGenerator[Any]:
        """The rows of a list as they are now, one by one, read in chunks; rows appended meanwhile are left out.

        Raises:
            VersionConflictError: Rows were changed or deleted on the way.
        """
        async with aclosing(self._reader.rows(await self.locate(workspace_id))) as rows:
            async for row in rows:
                yield row

    async def read_names(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        return await self._reader.read_names(at, start, stop)

    async def read_fields(self, at: Address, names: Sequence[str]) -> Reading:
        return await self._reader.read_fields(at, names)

    # The registry

    async def list(self, spaces: Sequence[str] | None = None, workspace_type: str | None = None) -> list[Address]:
        return await self._registry.list(spaces, workspace_type)

    async def find_space(self, label: str) -> str | None:
        return await self._registry.find_space(label)

    async def sweep_expired(self) -> list[str]:
        """Ids of workspaces that expired or were evicted since the last sweep; their registry entries go."""
        visible = self.visible_spaces()
        swept: list[str] = []
        for space in await self._registry.all_spaces() if visible is None else visible[:1]:
            swept += await self._registry.sweep(space)
        await self._indexes.sweep()
        return swept

    async def stats(self) -> Stats:
        visible = self.visible_spaces()
        pending = await self.calls.count_waiting(None if visible is None else visible[:1])
        return with_changes(await self._registry.stats(visible), pending_calls=pending)

    # Events

    @property
    def outage_seconds(self) -> float:
        return self._listeners.outage_seconds

    def listening(self, spaces: Sequence[str]) -> AbstractAsyncContextManager[Signal]:
        return self._listeners.listening(spaces)

    async def last_place(self, space: str) -> str:
        return await self._listeners.last_place(space)

    async def events_after(self, space: str, place: str, limit: int) -> Sequence[Event]:
        return await self._listeners.events_after(space, place, limit)

    # Life

    async def socket_path(self) -> str:
        """Where the embedded server listens, for other clients that should use it as well; it is started for that.

        Raises:
            ValueError: This store is on a server of your own, whose address you know.
        """
        return await self._connections.embedded_socket()

    async def ping(self) -> float:
        started = time.perf_counter()
        await self._connections.command("EXISTS", self._keys.sessions)  # PING would answer users without rights too
        return time.perf_counter() - started

    async def aclose(self) -> None:
        """Closes the connections of this event loop.

        A private embedded store's data goes with it, unless this is a fork: the parent may still want it.
        """
        await self._listeners.settle()
        await self._indexes.settle()
        await self._background.settle()
        self._snapshots.clear()
        if self.is_private and self._connections.is_open and os.getpid() == self._made_in:
            await self._forget_everything()
        await self._connections.aclose()

    async def _forget_everything(self) -> None:
        cursor = b"0"
        while True:
            cursor, found = await self._connections.command(
                "SCAN", cursor, "MATCH", self._keys.pattern(), "COUNT", 1000
            )
            if found:
                await self._connections.command("UNLINK", *found)
            if cursor in (b"0", 0):
                return


def _row_change(edits: Edits, before: Sequence[tuple[bytes, Any]], tally: Tally) -> scripts.RowChange:
    """The edits with their rows encoded. `before` are the rows to be patched, as documents and as values."""
    replaced = [(position, b"", encode(row, tally, row=position)) for position, row in edits.replaced.items()]
    for (position, fields), (document, row) in zip(edits.patched.items(), before, strict=True):
        replaced.append((position, document, encode(merged(row, fields, position), tally, row=position)))
    added = encode_many(edits.added, tally, first_row=0)
    return scripts.RowChange(clears=edits.cleared, replaced=replaced, removed=sorted(edits.removed), added=added)
