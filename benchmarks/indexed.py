"""Workspaces with search indexes, and the same questions asked of the same indexes by hand."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis
from tests.servers import RealServer, start_server

from benchmarks.sides import LIFE_SECONDS, PREFIX, TYPE
from toolstash import RedisStore
from toolstash.contracts import Address, WorkspaceMeta
from toolstash.query.columns import Column
from toolstash.query.index import TextView
from toolstash.store.payload import Payload
from toolstash.store.search_index import view_name

SERVER = "redis-8.2"
HITS = 20
ENDING = ("DIALECT", "2", "TIMEOUT", "0")

Words = Sequence[str]
Ask = Callable[[], Awaitable[Any]]


class NoSearchServerError(Exception):
    """There is no server with the search module on this machine."""


def new_searching_server() -> RealServer:
    """A server with the search module, for one measurement: `stop` it.

    Raises:
        NoSearchServerError: This machine has none.
    """
    try:
        return start_server(SERVER)
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:
        raise NoSearchServerError(missing) from None


@cache
def searching_url() -> str:
    """A server with the search module, the same for the whole run.

    Raises:
        NoSearchServerError: This machine has none.
    """
    return new_searching_server().unix_url


async def put(store: RedisStore, rows: Sequence[Any]) -> Address:
    """Stores rows as a workspace that gets no index by itself."""
    at = store.place(None, TYPE, None)
    await store.replace(WorkspaceMeta(at.workspace_id, TYPE, ttl=LIFE_SECONDS, index="never"), Payload(rows))
    return at


@asynccontextmanager
async def filled(url: str, rows: Sequence[Any]) -> AsyncGenerator[tuple[RedisStore, Address]]:
    """A store with one workspace of these rows, without an index; all is removed at the end."""
    async with RedisStore(url, prefix=PREFIX) as store:
        try:
            yield store, await put(store, rows)
        finally:
            await store.clear()


async def build(store: RedisStore, at: Address, text: TextView | None) -> None:
    """Builds an index, which must succeed."""
    assert await store._indexes.build(at, text), "there is no index"


@dataclass(frozen=True, slots=True)
class Bare:
    """One index, its rows and a client: what somebody has who writes the query by hand."""

    client: Redis
    index: str
    rows: str
    columns: Mapping[str, Column]

    async def first_rows(self, *words: str) -> list[Any]:
        """The rows that an FT.AGGREGATE names, fetched in one more trip."""
        reply = await self.client.execute_command("FT.AGGREGATE", self.index, *words, *ENDING)
        numbers = [dict(zip(row[::2], row[1::2], strict=True))[b"n"] for row in reply[1:]]
        pipeline = self.client.pipeline(transaction=False)
        for number in numbers:
            pipeline.lindex(self.rows, number)
        return [orjson.loads(row) for row in await pipeline.execute()]

    async def groups(self, *words: str) -> list[dict[bytes, bytes]]:
        """The groups of an FT.AGGREGATE."""
        reply = await self.client.execute_command("FT.AGGREGATE", self.index, *words, *ENDING)
        return [dict(zip(row[::2], row[1::2], strict=True)) for row in reply[1:]]


@asynccontextmanager
async def by_hand(url: str, store: RedisStore, at: Address, text: TextView | None) -> AsyncGenerator[Bare]:
    """The index of that view and a redis-py client."""
    found = await store._indexes._reader.find(at)
    assert found is not None
    index = next(index for index in found.indexes if index.view == view_name(text))
    shape = await store._indexes._reader._shape(at, index)
    assert shape is not None
    keys = store._keys.workspace(at)
    rows = f"{keys.stem}rows:{index.version.partition('.')[0]}"
    async with Redis.from_url(url, protocol=2) as client:
        yield Bare(client, keys.index(index.build), rows, shape.columns)


def ranked(clause: str) -> Words:
    """The words of a search whose ties keep the order of the rows."""
    order = ("SORTBY", "4", "@__score", "DESC", "@n", "ASC")
    return (clause, "ADDSCORES", "SCORER", "BM25STD", *order, "LIMIT", "0", str(HITS))


async def taking_turns(ways: Mapping[str, Ask], *, calls: int) -> dict[str, float]:
    """Median seconds of a call of each way: they take turns, so that noise meets all of them."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for call in range(calls + 1):
        for way, ask in ways.items():
            started = time.perf_counter()
            await ask()
            if call:  # the first one connects, and loads scripts
                seconds[way].append(time.perf_counter() - started)
    return {way: statistics.median(times) for way, times in seconds.items()}


async def server_bytes(client: Redis) -> int:
    """What the server holds, once all that was let go is freed."""
    while int((await client.info("memory"))["lazyfree_pending_objects"]):
        await client.ping()
    return int((await client.info("memory"))["used_memory"])


async def server_seconds(client: Redis) -> float:
    """Seconds of processor that the server has used."""
    told = await client.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


async def indexing_seconds(client: Redis, index: str) -> float:
    """Seconds that the search module says it spent on putting documents into an index."""
    reply = await client.execute_command("FT.INFO", index)
    return float(dict(zip(reply[::2], reply[1::2], strict=True))[b"total_indexing_time"]) / 1000
