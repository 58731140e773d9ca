"""P2: one page of 10 from 100,000 rows through the dispatch; alone and with 64 callers."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis

from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.storing import by_hand
from toolstash import Ctx, RedisStore
from toolstash.toolsets import paginator

ROWS = 100_000
CALLS = 3_000
CALLERS = 64


async def paging(url: str, runs: int) -> list[Table]:
    """Pages at spread-out places; the floor is a bare LRANGE and decode by redis-py."""
    rows = make_rows(ROWS)
    await by_hand(url, rows)
    table = Table("P2", "one page of 10 from 100,000 rows (time per call)")
    client = Redis.from_url(url, max_connections=CALLERS)
    async with client, Ctx(RedisStore(url), default_ttl=600) as ctx:
        notice = await ctx.store_workspace(
            rows,
            workspace_type="papers",
            toolsets=[paginator(ctx, "papers")],  # type: ignore[list-item]
        )

        async def bare(page: int) -> None:
            [orjson.loads(row) for row in await client.lrange("floor", page * 10, page * 10 + 9)]

        async def ours(page: int) -> None:
            arguments = {"workspace_id": notice.workspace_id, "page": page, "size": 10}
            answer = await ctx.adispatch_tool_call("papers_paginate", arguments)
            assert len(answer["result"]["items"]) == 10

        for callers in (1, CALLERS):
            work = f"{callers} caller{'s' if callers > 1 else ''}"
            rounds = [(await per_call(bare, callers), await per_call(ours, callers)) for _ in range(1 + runs)][1:]
            for way, times in zip(
                ("LRANGE + decode by redis-py", "toolstash adispatch"), zip(*rounds, strict=True), strict=True
            ):
                seconds = statistics.median(times)
                table.add(work, way, seconds, f"{1 / seconds:,.0f} calls/s")
        await ctx.store.aclose()
    table.add("1 caller", "ctxtual SQLiteStore", _ctxtual_pages(rows))
    return [table]


async def per_call(work: Callable[[int], Awaitable[None]], callers: int) -> float:
    """Seconds per call when `callers` call at once."""
    pages = iter(range(CALLS))

    async def caller() -> None:
        for page in pages:
            await work(page * 7 % (ROWS // 10 - 1))

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return (time.perf_counter() - started) / CALLS


def _ctxtual_pages(rows: list[dict[str, Any]]) -> float:
    import ctxtual
    from ctxtual.utils import paginator as their_paginator

    with tempfile.TemporaryDirectory() as folder:
        store = ctxtual.SQLiteStore(str(Path(folder) / "bench.db"))
        ctx = ctxtual.Ctx(store=store)

        @ctx.producer(workspace_type="papers", toolsets=[their_paginator(ctx)])
        def load_papers() -> list[dict[str, Any]]:
            """Load papers."""
            return rows

        workspace = load_papers()["workspace_id"]
        started = time.perf_counter()
        for page in range(300):
            ctx.dispatch_tool_call("papers_paginate", {"workspace_id": workspace, "page": page * 7, "size": 10})
        seconds = (time.perf_counter() - started) / 300
        store.close()
    return seconds
