"""P2: pages from 100,000 rows by 1 to 8 processes at once, beside as many bare clients."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis

from benchmarks.plot import draw
from benchmarks.processes import CORES, PROCESSES, Pace, Share, processes, share_of, together
from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import ask, stored, worker
from benchmarks.storing import by_hand

ROWS = 100_000
CALLERS = (1, 8)
SECONDS = 1.5
PLOT = Path("benchmarks/plots/paging.svg")
BARE, OURS = "LRANGE + decode by redis-py", "toolstash adispatch"


async def paging_by_processes(url: str, runs: int) -> list[Table]:
    """Throughput and times of both ways, which take turns; each process has its own connections."""
    rows = make_rows(ROWS)
    await by_hand(url, rows)
    table = Table("P2", f"one page of 10 from {ROWS:,} rows, by several processes ({CORES} cores, the server's too)")
    lines: dict[str, list[tuple[float, float]]] = {}
    async with stored(url, rows) as (workspace_id,):
        del rows
        with processes() as pool:
            for callers in CALLERS:
                for count in PROCESSES:
                    rounds: dict[str, list[Pace]] = {BARE: [], OURS: []}
                    for _ in range(min(3, runs)):
                        for way, paces in rounds.items():
                            shares = await together(pool, count, _pages, way, url, workspace_id, callers)
                            paces.append(Pace.of(shares))
                    _add(table, lines, count, callers, {way: Pace.median(paces) for way, paces in rounds.items()})
    draw(PLOT, f"One page of 10 by 1 to 8 processes on {CORES} cores", lines, across_name="processes")
    return [table]


def _add(
    table: Table, lines: dict[str, list[tuple[float, float]]], count: int, callers: int, paces: dict[str, Pace]
) -> None:
    work = f"{count} × {callers} callers"
    bare = paces[BARE]
    for way, pace in paces.items():
        share = f"{pace.calls_per_second / bare.calls_per_second:.2f} of the bare client's" if way == OURS else ""
        table.add(f"{work}, throughput", way, pace.calls_per_second, share, unit="calls/s")
        short = "bare" if way == BARE else "toolstash"
        lines.setdefault(f"{short}, {callers} each: time / calls", []).append((count, 1 / pace.calls_per_second))
        if callers == max(CALLERS):
            lines.setdefault(f"{short}, {callers} each: p99", []).append((count, pace.p99))
    for name in ("p50", "p99", "processor_per_call"):
        for way, pace in paces.items():
            table.add(f"{work}, {name.replace('_', ' ')}", way, getattr(pace, name))


def _pages(_: int, starts_at: float, way: str, url: str, workspace_id: str, callers: int) -> Share:
    """In a process: so many callers page for a while."""
    measure = _bare if way == BARE else partial(_ours, workspace_id=workspace_id)
    return asyncio.run(measure(url, callers=callers, starts_at=starts_at))


async def _bare(url: str, **how: Any) -> Share:
    async with Redis.from_url(url, max_connections=max(CALLERS)) as client:

        async def call(turn: int) -> None:
            start = _page(turn) * 10
            rows = [orjson.loads(row) for row in await client.lrange("floor", start, start + 9)]
            assert len(rows) == 10

        return await share_of(call, seconds=SECONDS, **how)


async def _ours(url: str, *, workspace_id: str, **how: Any) -> Share:
    async with worker(url) as ctx:

        async def call(turn: int) -> None:
            answer = await ask(ctx, "paginate", workspace_id=workspace_id, page=_page(turn), size=10)
            assert len(answer["result"]["items"]) == 10

        return await share_of(call, seconds=SECONDS, **how)


def _page(turn: int) -> int:
    return turn * 7 % (ROWS // 10 - 1)
