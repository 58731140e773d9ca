"""P1: storing rows."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis

from benchmarks.report import Table, timed
from benchmarks.rows import make_rows
from toolstash import Ctx, RedisStore
from toolstash.toolsets import paginator

CHUNK = 2_000


async def storing(url: str, runs: int) -> list[Table]:
    """Stores 10,000 and 100,000 rows by hand, through a producer, and with ctxtual's stores."""
    time_table = Table("P1", "store rows, notice returned")
    for count in (10_000, 100_000):
        rows = make_rows(count)
        work = f"{count:,} rows"
        time_table.add(work, "redis-py + orjson by hand", await timed(partial(by_hand, url, rows), runs=runs))
        time_table.add(work, "toolstash", await timed(partial(ours, url, rows), runs=runs))
        time_table.add(work, "ctxtual SQLiteStore", await timed(partial(ctxtual_sqlite, rows), runs=1))
        time_table.add(work, "ctxtual MemoryStore", await timed(partial(ctxtual_memory, rows), runs=1))
    return [time_table]


async def by_hand(url: str, rows: list[dict[str, Any]]) -> None:
    """The floor: encode, pipelined RPUSH in chunks, an expiry."""
    client = Redis.from_url(url)
    async with client:
        await client.delete("floor")
        for start in range(0, len(rows), 4 * CHUNK):
            pipeline = client.pipeline(transaction=False)
            for at in range(start, min(start + 4 * CHUNK, len(rows)), CHUNK):
                pipeline.rpush("floor", *(orjson.dumps(row) for row in rows[at : at + CHUNK]))
            await pipeline.execute()
        await client.expire("floor", 600)


async def ours(url: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A producer call, from the function's return to the notice."""
    async with Ctx(RedisStore(url), default_ttl=600) as ctx:

        @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx)], key="papers")
        async def load_papers() -> list[dict[str, Any]]:
            """Load papers."""
            return rows

        notice = await load_papers()
        await ctx.store.aclose()
        return notice


async def ctxtual_sqlite(rows: list[dict[str, Any]]) -> None:
    """The same producer on ctxtual's persistent store."""
    import ctxtual

    with tempfile.TemporaryDirectory() as folder:
        _ctxtual_store(ctxtual.SQLiteStore(str(Path(folder) / "bench.db")), rows)


async def ctxtual_memory(rows: list[dict[str, Any]]) -> None:
    """The same producer on ctxtual's in-process store."""
    import ctxtual

    _ctxtual_store(ctxtual.MemoryStore(), rows)


def _ctxtual_store(store: Any, rows: list[dict[str, Any]]) -> None:
    import ctxtual

    ctx = ctxtual.Ctx(store=store)

    @ctx.producer(workspace_type="papers")
    def load_papers() -> list[dict[str, Any]]:
        """Load papers."""
        return rows

    load_papers()
    store.close()
