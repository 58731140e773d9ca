"""P11: what workspaces weigh in Redis, with and without an index, and what building an index costs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from redis.asyncio import Redis

from benchmarks.indexed import build, indexing_seconds, new_searching_server, put, server_bytes, server_seconds
from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import PREFIX, out_of_collections
from toolstash import Ctx, RedisStore
from toolstash.contracts import Address
from toolstash.query.index import TextView
from toolstash.store.search_index import view_name

ROWS = (10_000, 100_000)
CHUNK = 500
HAND = "hand"
BY_HAND = "by hand, hashes and index"
TEXTS, NUMBERS = ("title", "abstract", "name", "tags"), ("id", "year", "citations", "score")
SCHEMA = [
    *(word for name in TEXTS for word in (name, "TEXT")),
    *(word for name in NUMBERS for word in (name, "NUMERIC", "SORTABLE")),
    *("country", "TAG"),
]
VIEWS = {"toolstash, index of columns": None, "toolstash, index of all texts": TextView.of(None)}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one index takes: bytes with its documents; seconds until it is ready, of the server, and of indexing."""

    bytes: int
    wall: float
    server: float
    indexing: float


async def weighing(url: str, _: int) -> list[Table]:
    """Plain lists on the server of the other tables; indexes on one with the search module."""
    sizes = Table("P11", "bytes in Redis per stored byte (the rows as JSON are 1; with an index: list and index)")
    times = Table("P11", "building an index, per row (ratios against an index by hand of the same texts and numbers)")
    for count in ROWS:
        rows = make_rows(count)
        work = f"{count:,} rows"
        stored = sum(len(orjson.dumps(row)) for row in rows)
        plain = await _plain_bytes(url, rows)
        sizes.add(work, "the rows as JSON", stored, unit="bytes")
        sizes.add(work, "toolstash, plain list", plain, unit="bytes")
        for way, cost in (await _costs(rows)).items():
            sizes.add(work, way, plain + cost.bytes, unit="bytes")
            for what in ("wall", "server", "indexing"):
                times.add(f"{work}, {_NAMES[what]}", way, getattr(cost, what) / count)
    return [sizes, times]


_NAMES = {"wall": "wall time", "server": "server's CPU", "indexing": "indexing (FT.INFO)"}


async def _plain_bytes(url: str, rows: list[dict[str, Any]]) -> int:
    """MEMORY USAGE of every key of a fresh workspace."""
    client = Redis.from_url(url)
    async with client, RedisStore(url, prefix="weigh") as store:
        await Ctx(store).store_workspace(rows, workspace_type="papers", workspace_id="w")
        used = [await client.memory_usage(key, samples=0) async for key in client.scan_iter("weigh:*")]
        await store.clear()
    return sum(size or 0 for size in used)


async def _costs(rows: list[dict[str, Any]]) -> dict[str, Cost]:
    """Each on a server of its own: memory of an index that was dropped comes back late."""
    costs: dict[str, Cost] = {}
    for way in (BY_HAND, *VIEWS):
        server = new_searching_server()
        try:
            with out_of_collections():
                costs[way] = await _cost_of(way, server.unix_url, rows)
        finally:
            server.stop()
    return costs


async def _cost_of(way: str, url: str, rows: list[dict[str, Any]]) -> Cost:
    async with Redis.from_url(url, protocol=2) as client, RedisStore(url, prefix=PREFIX) as store:
        at = await put(store, rows)
        if way == BY_HAND:
            return await _cost(client, partial(_build_by_hand, client, rows), partial(_hand_indexing, client))
        indexing = partial(_our_indexing, client, store, at, VIEWS[way])
        return await _cost(client, partial(build, store, at, VIEWS[way]), indexing)


async def _cost(client: Redis, work: Callable[[], Awaitable[None]], indexing: Callable[[], Awaitable[float]]) -> Cost:
    held, used, started = await server_bytes(client), await server_seconds(client), time.perf_counter()
    await work()
    wall = time.perf_counter() - started
    used = await server_seconds(client) - used
    return Cost(await server_bytes(client) - held, wall, used, await indexing())


async def _our_indexing(client: Redis, store: RedisStore, at: Address, text: TextView | None) -> float:
    found = await store._indexes._reader.find(at)
    assert found is not None
    index = next(index for index in found.indexes if index.view == view_name(text))
    return await indexing_seconds(client, store._keys.workspace(at).index(index.build))


async def _hand_indexing(client: Redis) -> float:
    return await indexing_seconds(client, HAND)


async def _build_by_hand(client: Redis, rows: list[dict[str, Any]]) -> None:
    """One hash a row with its texts and numbers, in pipelines, into an index that is there already."""
    place = ("FT.CREATE", HAND, "ON", "HASH", "PREFIX", 1, f"{HAND}:", "SKIPINITIALSCAN", "STOPWORDS", 0)
    await client.execute_command(*place, "SCHEMA", *SCHEMA)
    for start in range(0, len(rows), CHUNK):
        pipeline = client.pipeline(transaction=False)
        for number, row in enumerate(rows[start : start + CHUNK], start):
            pipeline.hset(f"{HAND}:{number}", mapping=_hash(row))
        await pipeline.execute()


def _hash(row: dict[str, Any]) -> dict[str, Any]:
    plain = {name: row[name] for name in ("id", "title", "abstract", "year", "citations", "score")}
    return plain | row["author"] | {"tags": " ".join(row["tags"])}
