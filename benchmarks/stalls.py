"""P8: how long pipelines hold the event loop."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import MEMORY, SQLITE, TYPE, ask, peer_ctx, stored, worker
from toolstash import Ctx

ROWS = 100_000
TICK = 0.001
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    (
        "pipe",
        {"steps": [{"filter": {"year": {"$gte": 2010}}}, {"sort": {"field": "score", "order": "desc"}}, {"limit": 10}]},
    ),
    (
        "pipe",
        {
            "steps": [
                {"flatten": "tags"},
                {"group_by": {"field": "tags", "metrics": {"n": "count", "average": "mean:citations"}}},
                {"sort": {"field": "average", "order": "desc"}},
            ]
        },
    ),
    ("search", {"query": "sparse retrieval"}),
    ("aggregate", {"group_by": "author.country", "metrics": {"n": "count", "middle": "median:citations"}}),
]


async def stalls(url: str, runs: int) -> list[Table]:
    """How late a task wakes from `asyncio.sleep(0.001)` while four questions are answered at once."""
    table = Table("P8", f"event loop late while four pipelines over {ROWS:,} rows run (ratios against p50)")
    payloads = [make_rows(ROWS)]
    async with stored(url, *payloads * 4) as ids:
        payloads.clear()
        gc.collect()
        _add(table, "nothing runs", await lateness(lambda: asyncio.sleep(1)))
        first: list[float] = []
        second: list[float] = []
        apart: list[float] = []
        for _ in range(runs):
            async with worker(url) as ctx:
                first += await lateness(lambda ctx=ctx: asked(ctx, ids[:1] * 4))
                second += await lateness(lambda ctx=ctx: asked(ctx, ids[:1] * 4))
            gc.collect()  # what the worker held is let go here, and not while the next one is measured
            async with worker(url) as ctx:
                apart += await lateness(lambda ctx=ctx: asked(ctx, ids))
            gc.collect()
    _add(table, "toolstash, first questions", first)
    _add(table, "toolstash, second questions", second)
    _add(table, "toolstash, four workspaces, first", apart)
    await _add_peers(table)
    return [table]


async def asked(ctx: Ctx, ids: list[str]) -> None:
    """Asks the four questions at once, each of a workspace of its own or all of one."""
    asked = [ask(ctx, tool, workspace_id=at, **more) for at, (tool, more) in zip(ids, QUESTIONS, strict=True)]
    await asyncio.gather(*asked)


async def lateness(work: Callable[[], Awaitable[object]]) -> list[float]:
    """Seconds by which each tick came late until the work was done."""
    late: list[float] = []
    is_done = False

    async def tick() -> None:
        while not is_done:
            started = time.perf_counter()
            await asyncio.sleep(TICK)
            late.append(max(0.0, time.perf_counter() - started - TICK))

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    await work()
    is_done = True
    await ticker
    return late


def _add(table: Table, work: str, late: list[float]) -> None:
    cuts = statistics.quantiles(late, n=100, method="inclusive") if len(late) > 1 else late * 99
    table.add(work, "p50", cuts[49], f"{len(late):,} ticks")
    table.add(work, "p99", cuts[98])
    table.add(work, "worst", max(late))


async def _add_peers(table: Table) -> None:
    import ctxtual

    with tempfile.TemporaryDirectory() as folder:
        for way, store in ((MEMORY, ctxtual.MemoryStore()), (SQLITE, ctxtual.SQLiteStore(str(Path(folder) / "b.db")))):
            ctx = peer_ctx(store)
            at = ctx.store_workspace(make_rows(ROWS), workspace_type=TYPE).workspace_id
            _add(table, way, await lateness(lambda ctx=ctx, at=at: asked(ctx, [at] * 4)))
            store.close()
