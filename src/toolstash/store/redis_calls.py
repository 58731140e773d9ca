"""Calls that run or wait on the server that all workers share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from toolstash.contracts import Address, Progress
from toolstash.store import calls
from toolstash.store.call_record import KEPT_SECONDS, CallRecord
from toolstash.store.calls import WORK_SPACE, Lease, Noted, is_new_work, news_of, wakes_workers
from toolstash.store.codec import pack
from toolstash.store.registry import Registry
from toolstash.wire import call_scripts as scripts
from toolstash.wire import keys as layout
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys
from toolstash.wire.scripts import ScriptCall

RECORDS_AT_ONCE = 100
BYTES_AT_ONCE = 1_000_000
SCRIPTS_AT_ONCE = 200


class RedisCalls:
    """The calls of all workers. Times are the server's."""

    def __init__(self, connections: Connections, keys: Keys, registry: Registry) -> None:
        self._connections = connections
        self._keys = keys
        self._registry = registry
        self._due = keys.due(WORK_SPACE)

    async def look(self, at: Address) -> Noted:
        call = scripts.look_call(self._keys.workspace(at))
        document, revision, is_held, now_us = await self._connections.run(call)
        record = CallRecord.of_bytes(document) if document else None
        return Noted(record, int(revision), is_held == b"1", int(now_us) / 1e6)

    async def swap(self, at: Address, seen: Noted, record: CallRecord | None, *, in_time: bool = False) -> bool:
        """What is answered is noted as work before the swap, so that no fault in between can lose it."""
        swap = self._swap_call(at, seen, record, in_time=in_time)
        lease_ms = layout.FLIGHT_MS if record is not None and record.owner else 0
        before, is_work = self._registration(at, seen, record), is_new_work(seen.record, record)
        if is_work:
            before.append(self._set_due(at, lease_ms))
        if before:
            await self._connections.run_all(before)
        after = list[ScriptCall]()
        if wakes_workers(seen.record, record):  # due again: somebody may have looked meanwhile and put it off
            after = [self._set_due(at, lease_ms), self._wake(WORK_SPACE, "answered", at.workspace_id)]
        reply = (await self._connections.run_all([swap, *after]))[0]
        if reply == -1:
            raise calls.too_many_wait()
        is_done = reply == 1
        if is_done and is_work and lease_ms:  # it may have been due earlier
            await self.put_off(at, lease_ms / 1000)
        return is_done

    def _swap_call(self, at: Address, seen: Noted, record: CallRecord | None, *, in_time: bool) -> ScriptCall:
        swap = scripts.Swap(
            seen=seen.revision,
            revision=secrets.randbits(52) + 1,
            kind=news_of(seen.record, record) or "",
            in_time=seen.record.expires_at if in_time and seen.record is not None else None,
            record=None if record is None else _as_kept(record),
            most_waiting=calls.MOST_WAITING,
        )
        return scripts.swap_call(self._keys.workspace(at), self._keys.waiting(at.space), swap)

    def _registration(self, at: Address, seen: Noted, record: CallRecord | None) -> list[ScriptCall]:
        """Notes the space of a call when it is new and when it begins to wait."""
        if record is None or (seen.record is not None and record.state != "pending"):
            return []
        life = record.life_seconds(time.time(), layout.FLIGHT_MS / 1000)
        return self._registry.registration(at.space, max(life, KEPT_SECONDS))

    async def keep(self, leases: Sequence[Lease]) -> list[int]:
        kept = [scripts.keep_call(self._keys.workspace(lease.at), lease.owner) for lease in leases]
        return [int(revision) for revision in await self._run_many(kept)]

    async def leave(self, lease: Lease) -> None:
        await self._connections.run(scripts.leave_call(self._keys.workspace(lease.at), lease.owner))

    async def waiting(self, spaces: Sequence[str] | None) -> list[tuple[Address, CallRecord]]:
        listed = await self._registry.all_spaces() if spaces is None else spaces
        found: list[tuple[Address, CallRecord]] = []
        parts_of_spaces = await self._run_many([scripts.find_waiting(self._keys.waiting(space)) for space in listed])
        for space, parts in zip(listed, parts_of_spaces, strict=True):
            found += await self._waiting_of(space, parts)
        return sorted(found, key=lambda one: one[1].created_at)

    async def _waiting_of(self, space: str, parts: Sequence[bytes]) -> list[tuple[Address, CallRecord]]:
        found: list[tuple[Address, CallRecord]] = []
        key, base = self._keys.waiting(space), self._keys.base(space)
        while parts:
            some = parts[:RECORDS_AT_ONCE]
            call = scripts.read_calls(key, base, some, most_bytes=BYTES_AT_ONCE)
            now_us, *documents = await self._connections.run(call)
            for part, document in zip(some, documents, strict=False):  # fewer where they are large
                record = CallRecord.of_bytes(document) if document else None
                if record is not None and record.is_waiting(int(now_us) / 1e6):
                    found.append((Address(space, layout.decode_id(part.decode())), record))
            parts = parts[len(documents) :]
        return found

    async def count_waiting(self, spaces: Sequence[str] | None) -> int:
        listed = await self._registry.all_spaces() if spaces is None else spaces
        return sum(await self._run_many([scripts.count_waiting(self._keys.waiting(space)) for space in listed]))

    async def work(self, limit: int, offset: int = 0) -> list[Address]:
        _, *found = await self._connections.run(scripts.find_due(self._due, limit, offset))
        pairs = [work.decode().split(" ") for work in found]
        return [Address(space, layout.decode_id(part)) for space, part in pairs]

    async def next_work_seconds(self) -> float | None:
        first, *_ = await self._connections.run(scripts.find_due(self._due, 0))
        return int(first) / 1000 if first else None

    async def put_off(self, at: Address, seconds: float) -> None:
        await self._connections.run(scripts.put_off(self._due, self._work(at), int(seconds * 1000)))

    async def strike(self, at: Address) -> None:
        await self._connections.command("ZREM", self._due, self._work(at))

    async def find_space(self, label: str) -> str | None:
        return await self._registry.find_space(label)

    async def tell(self, at: Address, progress: Progress) -> None:
        message = pack(progress.message)
        keys, events = self._keys.workspace(at), self._keys.events(at.space)
        await self._connections.run(scripts.tell_progress(keys, events, progress.done, progress.total, message))

    async def call_back(self, inbox: str, call_id: str) -> None:
        await self._connections.run(self._wake(inbox, "cancel", call_id))

    def _wake(self, space: str, kind: str, call_id: str) -> ScriptCall:
        return scripts.wake(self._keys.events(space), kind, layout.encode_id(call_id))

    def _set_due(self, at: Address, in_ms: int) -> ScriptCall:
        return scripts.set_due(self._due, self._work(at), in_ms)

    def _work(self, at: Address) -> str:
        return f"{at.space} {layout.encode_id(at.workspace_id)}"

    async def _run_many(self, scripted: Sequence[ScriptCall]) -> list[Any]:
        replies: list[Any] = []
        for first in range(0, len(scripted), SCRIPTS_AT_ONCE):
            replies += await self._connections.run_all(scripted[first : first + SCRIPTS_AT_ONCE])
        return replies


def _as_kept(record: CallRecord) -> scripts.Record:
    life = record.life_seconds(record.expires_at, layout.FLIGHT_MS / 1000)  # the server adds for how long it waits
    return scripts.Record(
        document=record.to_bytes(),
        owner=record.owner,
        life_ms=int(life * 1000),
        waits_until=record.expires_at if record.state == "pending" else None,
    )
