"""Books of who wrote what: an acknowledged row must be there once, a row whose writer got an error at most once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import redis.asyncio

from toolstash import StoreUnavailableError, WorkspaceMeta
from toolstash.store.base import BaseStore
from toolstash.store.payload import Payload
from toolstash.store.session import session_scope

TTL = 600.0


async def put(store: BaseStore, payload: object, name: str = "w", **meta: Any) -> WorkspaceMeta:
    """Stores a workspace that lives ten minutes, in a session or in none."""
    at = store.place(name, "papers", meta.get("session_id"))
    return (await store.replace(WorkspaceMeta(at.workspace_id, "papers", ttl=TTL, **meta), Payload(payload))).meta


class Ledger:
    """The rows that writers sent, by what they were told."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.unsure: list[str] = []
        self.errors: Counter[str] = Counter()

    async def append(self, store: BaseStore, workspace_id: str, row: str) -> None:
        """Appends a row that nobody else sends and notes the outcome."""
        self.unsure.append(row)
        try:
            await store.append_items(workspace_id, [row])
        except StoreUnavailableError as error:
            self.errors[str(error)] += 1
        else:
            self.unsure.remove(row)
            self.acknowledged.append(row)

    def check(self, rows: list[str]) -> None:
        """Fails unless the rows are those of the books."""
        times = Counter(rows)
        assert [row for row in self.acknowledged if times[row] != 1] == []
        assert [row for row in self.unsure if times[row] > 1] == []
        assert set(times) <= {*self.acknowledged, *self.unsure}


async def appenders(ledger: Ledger, store: BaseStore, ids: dict[str | None, str], *, writers: int, rows: int) -> None:
    """Many writers at once, each appending numbered rows one by one to the workspace of its session in turn."""
    sessions = list(ids)

    async def writer(number: int) -> None:
        session = sessions[number % len(sessions)]
        with session_scope(session):
            for row in range(rows):
                await ledger.append(store, ids[session], f"{number}-{row}")

    await asyncio.gather(*(writer(number) for number in range(writers)))


class Whole:
    """Reads of workspaces whose rows must all say the same; counts them and notes what was wrong."""

    def __init__(self) -> None:
        self.reads = 0
        self.wrong: list[str] = []

    async def look(self, read: Callable[[], Coroutine[Any, Any, list[Any]]], count: int) -> None:
        """One read that is whole, or told to be impossible just now."""
        try:
            rows = await read()
        except StoreUnavailableError:
            return
        self.reads += 1
        if len(rows) != count or len({str(row) for row in rows}) != 1:
            self.wrong.append(f"{len(rows)} rows, of {len({str(row) for row in rows})} kinds")


async def lasting(client: redis.asyncio.Redis, prefix: str) -> list[str]:
    """Keys under the prefix that have no time to live."""
    return [key.decode() async for key in client.scan_iter(f"{prefix}:*") if await client.pttl(key) == -1]
