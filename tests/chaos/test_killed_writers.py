"""Writers are killed at any moment: a reader sees one whole write, and nothing stays behind without an expiry."""

from __future__ import annotations

import asyncio
import random
import secrets

import pytest
import redis.asyncio

from tests.chaos.writer import end_writer, start_writer
from tests.servers import shared_server
from toolstash import RedisStore, WorkspaceMeta
from toolstash.store.payload import Payload
from toolstash.wire import keys as layout

WRITERS = 200
AT_ONCE = 8
ROWS = 5_000


async def one_writer(url: str, prefix: str, delay: float) -> None:
    """Starts a writer and kills it after its first write and a random moment more."""
    process = await start_writer(url, prefix, ROWS)
    killing = asyncio.Event()
    asyncio.get_running_loop().call_later(delay, killing.set)
    await killing.wait()
    await end_writer(process)


@pytest.mark.timeout(300)
async def test_a_reader_never_sees_a_mixture_and_nothing_stays() -> None:
    url, prefix, pick = shared_server("valkey").url, f"t{secrets.token_hex(5)}", random.Random(7)
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        await store.replace(WorkspaceMeta("w", "papers", ttl=300.0), Payload([{"writer": 0, "turn": 0}] * ROWS))
        done = asyncio.Event()
        pages = 0

        async def read() -> None:
            nonlocal pages
            while not done.is_set():
                start = pick.randrange(ROWS - 400)
                at = await store.locate("w")
                meta, rows = await store.read(at, start, start + 400)
                assert meta.item_count == ROWS
                assert len(rows) == 400
                assert len({(row["writer"], row["turn"]) for row in rows}) == 1
                pages += 1

        readers = [asyncio.ensure_future(read()) for _ in range(2)]
        gate = asyncio.Semaphore(AT_ONCE)

        async def killed() -> None:
            async with gate:
                await one_writer(url, prefix, pick.random() * 0.1)

        await asyncio.gather(*(killed() for _ in range(WRITERS)))
        done.set()
        await asyncio.gather(*readers)
        assert pages > WRITERS
        generation = str((await store.get_meta("w")).version).partition(".")[0]  # type: ignore[union-attr]
        most_ms = {"rows": layout.UNFINISHED_MS, "op": layout.OPS_MS, "retired": layout.RETIRED_MS}
        most_ms["gone"] = 300_000 + layout.GONE_MS
        async for key in client.scan_iter(f"{prefix}:*"):
            left = await client.pttl(key)
            family = key.decode().split(":w:")[-1].partition(":")[0]
            assert left != -1, f"{key} has no time to live"
            if family in most_ms and not key.decode().endswith(generation):
                assert left <= most_ms[family]
        await store.clear()
