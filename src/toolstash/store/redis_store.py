"""Workspaces in Redis or Valkey. How the keys lie is in `wire/keys.py`; what each script does, in `wire/lua/`."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from toolstash.contracts import SHARED_SPACE, Address, WorkspaceMeta
from toolstash.errors import StoreUnavailableError, VersionConflictError
from toolstash.settings import Settings
from toolstash.store import records, refusals
from toolstash.store.base import (
    Append,
    BaseStore,
    Change,
    Delete,
    Patch,
    Quota,
    Reading,
    Replaced,
    ReplaceRule,
)
from toolstash.store.codec import Tally, decode, encode, pack, unpack
from toolstash.store.cpu import on_cpu
from toolstash.store.payload import Limits, Payload
from toolstash.store.records import Record
from toolstash.wire import keys as layout
from toolstash.wire import scripts
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys, WorkspaceKeys
from toolstash.wire.source import source_of_client, source_of_url

FIRST_ROWS = 200
CHUNK_ROWS = 2_000
CHUNK_BYTES = 1_000_000
PAGE_OF_IDS = 500
CHUNKS_IN_FLIGHT = 4
INLINE_BYTES = 256_000
TOUCH_SECONDS = 60.0
SESSION_SPARE_SECONDS = 120
RESTARTS = 3
PATCH_TRIES = 8


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
        self._touched: dict[Address, float] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._spaces: dict[str, str] = {}
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
        *,
        quota: Quota = Quota(),
    ) -> Replaced:
        at = Address(layout.space_of_session(meta.session_id), meta.workspace_id)
        keys = self._keys.workspace(at)
        generation = layout.new_generation()
        async with self._kept_alive(keys, payload, generation):
            last_chunks = await self._put_chunks(keys, payload, generation)
        commit = records.commit_of(meta, payload, generation, replace_if, quota)
        calls = [
            *last_chunks,
            *self._registration(at.space, meta.ttl),
            scripts.commit(keys, self._keys.stem(at.space), scripts.new_operation(), commit),
        ]
        reply = (await self._connections.run_all(calls))[-1]
        words = reply.split(b"\n")
        if words[0] != b"ok":
            raise _refused(words, meta, quota)
        created = int(words[1]) / 1e6
        stored = records.stored_meta(meta, payload, f"{generation}.0", created)
        return Replaced(stored, [layout.decode_id(part.decode()) for part in words[2:] if part])

    async def _put_chunks(self, keys: WorkspaceKeys, payload: Payload, generation: str) -> list[scripts.ScriptCall]:
        """Sends all chunks but the last few, which go together with the commit.

        While some are on their way, the next are encoded.
        """
        waiting: list[scripts.ScriptCall] = []
        sending: asyncio.Task[None] | None = None
        first = 0
        try:
            async with aclosing(payload.chunks()) as chunks:
                async for chunk in chunks:
                    if len(waiting) >= CHUNKS_IN_FLIGHT or (waiting and payload.is_stream):
                        if sending is not None:
                            await sending
                        sending = asyncio.get_running_loop().create_task(self._put(waiting))
                        waiting = []
                    waiting.append(scripts.put(keys, payload.kind, generation, first, chunk.documents))
                    first += chunk.parts
            if sending is not None:
                await sending
        finally:
            if sending is not None and not sending.done():
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        return waiting

    async def _put(self, calls: list[scripts.ScriptCall]) -> None:
        if -1 in await self._connections.run_all(calls):
            raise StoreUnavailableError("The data store lost a part of the result while it was being written.")

    @asynccontextmanager
    async def _kept_alive(self, keys: WorkspaceKeys, payload: Payload, generation: str) -> AsyncGenerator[None]:
        """Renews the life of what a slow stream has written so far."""
        if not payload.is_stream:
            yield
            return
        task = asyncio.get_running_loop().create_task(self._keep_alive(keys, payload.kind, generation))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_alive(self, keys: WorkspaceKeys, kind: str, generation: str) -> None:
        while True:
            await anyio.sleep(layout.UNFINISHED_MS / 3000)
            await self._run(scripts.keep(keys, kind, generation))

    def _registration(self, space: str, ttl: float | None) -> list[scripts.ScriptCall]:
        """Notes a session's space just before its workspace, so that no workspace is without."""
        if space == SHARED_SPACE:
            return []
        expires_ms = None if ttl is None else int((time.time() + ttl + SESSION_SPARE_SECONDS) * 1000)
        return [scripts.register_session(self._keys.sessions, space, expires_ms)]

    async def mutate(self, at: Address, change: Change, expected_version: str | None = None) -> WorkspaceMeta:
        tries = 0
        while (reply := await self._mutate_once(at, change, expected_version))[0] == b"changed":
            tries += 1
            if tries == PATCH_TRIES:
                break
        if reply[0] != b"ok":
            raise await self._not_mutated(at, change, reply)
        return Record.of_reply(reply[1:], at).meta(at)

    async def _mutate_once(self, at: Address, change: Change, expected_version: str | None) -> list[bytes]:
        tally = Tally()
        limits = Limits() if isinstance(change, Delete) else change.limits
        if isinstance(change, Patch):
            words = await self._patch_words(at, change, tally)
        else:
            words = await on_cpu(lambda: _change_words(change, tally))
        call = scripts.mutate(
            self._keys.workspace(at),
            scripts.new_operation(),
            words,
            expected_version=expected_version,
            max_rows=limits.max_items,
            max_bytes=limits.max_bytes,
            codec=tally.codec,
        )
        return (await self._run(call)).split(b"\n")

    async def _patch_words(self, at: Address, change: Patch, tally: Tally) -> list[Any]:
        record, documents, _ = await self._read_once(at, max(change.index, 0), max(change.index, 0) + 1)
        refusals.require_list(record.meta(at))
        if not documents or change.index < 0:
            raise refusals.no_such_index(change.index, record.count)
        row = decode(documents[0], record.codec)
        if not isinstance(row, dict):
            raise refusals.not_an_object(change.index)
        merged = row | dict(change.fields)  # pyright: ignore[reportUnknownVariableType]
        return ["swap", change.index, documents[0], encode(merged, tally, row=change.index)]

    async def _not_mutated(self, at: Address, change: Change, reply: list[bytes]) -> Exception:
        found = (await self.read(at, 0, 0)).meta  # raises when it is gone
        if reply[0] == b"kind":
            refusals.require_list(found)
        if reply[0] == b"version":
            return refusals.wrong_version(at, reply[1].decode())
        if reply[0] == b"range":
            return refusals.no_such_index(_index_out_of(change, int(reply[1])), int(reply[1]))
        if reply[0] in (b"rows", b"bytes") and not isinstance(change, Delete):
            size = int(reply[1])
            change.limits.check(size if reply[0] == b"rows" else 0, size if reply[0] == b"bytes" else 0)
        return VersionConflictError(
            f"Workspace '{at.workspace_id:.150}' is being changed by others; nothing was written.",
            version=found.version,
        )

    async def drop(self, at: Address) -> bool:
        return (
            await self._run(scripts.drop(self._keys.workspace(at), self._keys.stem(at.space), scripts.new_operation()))
            == b"1"
        )

    # Reading

    async def read(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        for _ in range(RESTARTS + 1):
            record, items, values = await self._read_once(at, start, stop)
            wanted = record.parts_between(start, stop)
            if len(items) < wanted and not await self._read_rest(at, record, start, items, values, wanted):
                continue
            self._touch_later(at)
            meta = record.meta(at)
            if record.bytes < INLINE_BYTES or sum(map(len, items)) + sum(map(len, values)) < INLINE_BYTES:
                return Reading(meta, record.data(items, values, start, stop))
            return Reading(meta, await on_cpu(lambda r=record, i=items, v=values: r.data(i, v, start, stop)))
        raise StoreUnavailableError(
            f"Workspace '{at.workspace_id:.150}' is being changed over and over; it could not be read whole."
        )

    async def read_names(self, at: Address, start: int = 0, stop: int | None = None) -> Reading:
        reply = await self._run(scripts.read_names(self._keys.workspace(at), start, stop, max_bytes=64 * CHUNK_BYTES))
        record = self._record(at, reply)
        self._touch_later(at)
        return Reading(record.meta(at), [decode(name, record.codec) for name in reply[2]])

    async def read_fields(self, at: Address, names: Sequence[str]) -> Reading:
        # A name has one JSON form in each codec; both are asked for where they differ.
        forms = {form: name for name in names for form in records.name_forms(name)}
        reply = await self._run(scripts.read_fields(self._keys.workspace(at), list(forms)))
        record = self._record(at, reply)
        self._touch_later(at)
        found = zip(forms.values(), reply[2], strict=False)
        return Reading(
            record.meta(at), {name: decode(value, record.codec) for name, value in found if value is not None}
        )

    async def _read_once(self, at: Address, start: int, stop: int | None) -> tuple[Record, list[bytes], list[bytes]]:
        end = start + FIRST_ROWS * layout.PIECE_CHARS if stop is None else stop
        reply = await self._run(scripts.read(self._keys.workspace(at), start, end))
        return self._record(at, reply), reply[2], reply[3] if len(reply) > 3 else []

    async def _read_rest(
        self, at: Address, record: Record, start: int, items: list[bytes], values: list[bytes], wanted: int
    ) -> bool:
        """Reads on until `wanted` parts are there; False when the workspace changed meanwhile."""
        keys = self._keys.workspace(at)
        first_part = record.first_part(start)
        while len(items) < wanted:
            position = first_part + len(items)
            if record.kind == "fields" or record.is_skewed:
                unit = layout.PIECE_CHARS if record.kind == "text" else 1
                call = scripts.read(keys, position * unit, (first_part + wanted) * unit)
                reply = await self._run(call)
                again = self._record(at, reply)
                more, more_values = reply[2], reply[3]
            else:
                end = min(position + CHUNK_ROWS, first_part + wanted) - 1
                part = scripts.part_keys(keys, record.kind, record.generation)[0]
                (generation, revision), more = await self._connections.together(
                    [("HMGET", keys.meta, "gen", "rev"), ("LRANGE", part, position, end)]
                )
                again = record.at_version(generation, revision)
                more_values = []
            if again is None or again.version != record.version or not more:
                return False
            items += more
            values += more_values
        return True

    async def _run(self, call: scripts.ScriptCall) -> Any:
        return await self._connections.run(call)

    def _record(self, at: Address, reply: list[Any]) -> Record:
        if reply[0] == 1:
            return Record.of_reply(reply[1], at)
        if not reply[1]:
            raise self.missing(at.workspace_id)
        raise refusals.expired(at, unpack(reply[1])["producer"])

    def _touch_later(self, at: Address) -> None:
        """Notes the access off the path, at most once a minute per worker and workspace."""
        now = time.monotonic()
        if now - self._touched.get(at, -math.inf) < TOUCH_SECONDS:
            return
        if len(self._touched) > 10_000:
            self._touched.clear()
        self._touched[at] = now
        task = asyncio.get_running_loop().create_task(self._touch(at))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _touch(self, at: Address) -> None:
        call = scripts.touch(self._keys.workspace(at))
        try:
            await self._run(call)
        except StoreUnavailableError:
            self._touched.pop(at, None)

    # The registry

    async def list(self, spaces: Sequence[str] | None = None, workspace_type: str | None = None) -> list[Address]:
        type_json = b"" if workspace_type is None else pack(workspace_type)
        found: list[tuple[int, Address]] = []
        for space in await self._all_spaces() if spaces is None else spaces:
            offset, more = 0, 1
            while more:
                call = scripts.list_page(
                    self._keys.created(space), self._keys.stem(space), offset, PAGE_OF_IDS, type_json
                )
                more, *pairs = await self._run(call)
                found += [
                    (int(float(at_us)), Address(space, layout.decode_id(part.decode())))
                    for part, at_us in zip(pairs[::2], pairs[1::2], strict=True)
                ]
                offset += PAGE_OF_IDS
        return [address for _, address in sorted(found, key=lambda pair: pair[0])]

    async def find_space(self, label: str) -> str | None:
        if label not in self._spaces:
            for space in await self._all_spaces():
                self._spaces[layout.label_of(space)] = space
        return self._spaces.get(label)

    async def _all_spaces(self) -> list[str]:
        members = await self._connections.command("ZRANGE", self._keys.sessions, 0, -1)
        return [SHARED_SPACE, *(member.decode() for member in members)]

    async def sweep_expired(self) -> list[str]:
        """Ids of workspaces that expired or were evicted since the last sweep; their registry entries go."""
        visible = self.visible_spaces()
        swept: list[str] = []
        for space in await self._all_spaces() if visible is None else visible[:1]:
            offset = 0
            while offset >= 0:
                call = scripts.sweep_page(
                    self._keys.created(space),
                    self._keys.expiring(space),
                    self._keys.stem(space),
                    offset,
                    PAGE_OF_IDS,
                )
                offset, *parts = await self._run(call)
                swept += [layout.decode_id(part.decode()) for part in parts]
        return swept

    # Life

    async def ping(self) -> float:
        started = time.perf_counter()
        await self._connections.command("PING")
        return time.perf_counter() - started

    async def aclose(self) -> None:
        """Closes the connections of this event loop; a private embedded store's data goes with it."""
        own = [task for task in self._background if task.get_loop() is asyncio.get_running_loop()]
        await asyncio.gather(*own, return_exceptions=True)
        if self.is_private and self._connections.is_open:
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


def _change_words(change: Change, tally: Tally) -> list[Any]:
    if isinstance(change, Append):
        return ["append", *(encode(row, tally, row=place) for place, row in enumerate(change.rows))]
    if isinstance(change, Delete):
        return ["delete", *change.indices]
    assert not isinstance(change, Patch)
    return ["update", change.index, encode(change.row, tally, row=change.index)]


def _index_out_of(change: Change, count: int) -> int:
    if isinstance(change, Delete):
        return next((index for index in change.indices if not 0 <= index < count), -1)
    return -1 if isinstance(change, Append) else change.index


def _refused(words: list[bytes], meta: WorkspaceMeta, quota: Quota) -> Exception:
    if words[0] == b"conflict":
        return refusals.conflict(meta, unpack(words[1]), unpack(words[2]))
    if words[0] == b"quota":
        return refusals.over_quota(quota.max_bytes)
    return StoreUnavailableError("The data store lost a part of the result while it was being written.")
