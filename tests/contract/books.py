"""Calls at one step or another of their way, for tests of the places where they are kept."""

from __future__ import annotations

import time
from dataclasses import replace as with_changes
from typing import Any

from toolstash import BaseStore, RedisStore
from toolstash.asking import Answer, Request
from toolstash.contracts import Address
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import CallBook, Noted
from toolstash.store.local_calls import LocalCalls
from toolstash.wire import keys as layout
from toolstash.wire.keys import space_of_session

DAY = 86_400.0
RUNNING = CallRecord(tool="deploy", arguments={"to": "prod"}, owner="w1", inbox="in1")
ODD = {"big": 2**200, "lone": "\ud800", "rows": [{"": None}], "f": 1.5e300, "é": "\u0000"}


def address(name: str = "call_1", session: str | None = None) -> Address:
    space = space_of_session(session)
    return Address(space, name + layout.label_of(space))


async def swapped(book: CallBook, at: Address, record: CallRecord | None) -> Noted:
    """What is known of a call after its record was put in the place of what was there."""
    assert await book.swap(at, await book.look(at), record)
    return await book.look(at)


async def suspended(book: CallBook, at: Address, expires_at: str | None = None, **parts: Any) -> Noted:
    seen = await book.look(at)
    request = Request(f"q_{at.workspace_id}", "approval", "May I?", expiresAt=expires_at)
    record = with_changes(RUNNING, **parts).suspended(request, seen.now)
    assert await book.swap(at, seen, record)
    return await book.look(at)


async def answered(book: CallBook, at: Address, owner: str = "") -> Noted:
    seen = await suspended(book, at)
    return await swapped(book, at, yes(seen, owner))


def yes(seen: Noted, owner: str = "") -> CallRecord:
    assert seen.record is not None
    assert seen.record.request is not None
    return seen.record.answered(Answer(seen.record.request.id, ok=True), seen.now, owner=owner)


async def life_of(store: BaseStore, at: Address) -> float:
    """For how many seconds a record is kept."""
    if isinstance(store, RedisStore):
        return await pttl(store, store._keys.workspace(at).call)
    assert isinstance(store.calls, LocalCalls)
    return store.calls._calls[at].gone_at - time.time()


async def pttl(store: RedisStore, key: str) -> float:
    return await store._connections.command("PTTL", key) / 1000


def of_calls(events: Any) -> list[tuple[str, str]]:
    return [(event.kind, event.call_id) for event in events if event.call_id]
