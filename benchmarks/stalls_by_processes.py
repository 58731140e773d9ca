"""P8: event loops while each of 1 to 8 processes runs four pipelines at once."""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from pathlib import Path

from benchmarks.plot import draw
from benchmarks.processes import CORES, PROCESSES, processes, quantile, together
from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import stored, worker
from benchmarks.stalls import ROWS, asked, lateness

COUNTING_SECONDS = 3.0
PLOT = Path("benchmarks/plots/stalls.svg")
FLOOR, FIRST, SECOND = "a thread that counts", "toolstash, first questions", "toolstash, second questions"


async def stalls_by_processes(url: str, runs: int) -> list[Table]:
    """How late tasks wake in all processes together, beside processes in which one thread does nothing but count.

    The floor is what Python and a machine of so many cores do to any loop beside a busy thread.
    """
    title = f"event loops late, four pipelines over {ROWS:,} rows in each of several processes ({CORES} cores)"
    table, lines = Table("P8", title), dict[str, list[tuple[float, float]]]()
    async with stored(url, make_rows(ROWS)) as (workspace_id,):
        gc.collect()
        with processes() as pool:
            for count in PROCESSES:
                late: dict[str, list[float]] = {FLOOR: [], FIRST: [], SECOND: []}
                for _ in range(min(2, runs)):
                    for told in await together(pool, count, _counted):
                        late[FLOOR] += told
                    for first, second in await together(pool, count, _questions, url, workspace_id):
                        late[FIRST] += first
                        late[SECOND] += second
                _add(table, lines, count, late)
    draw(PLOT, f"Event loops late, 1 to 8 processes on {CORES} cores", lines, across_name="processes")
    return [table]


def _add(
    table: Table, lines: dict[str, list[tuple[float, float]]], count: int, late_by_way: dict[str, list[float]]
) -> None:
    ordered = {way: sorted(late) for way, late in late_by_way.items()}
    for name, share in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0)):
        for way, late in ordered.items():
            value = quantile(late, share)
            table.add(f"{count} processes, {name}", way, value, f"{len(late):,} ticks")
            if name != "p50":
                lines.setdefault(f"{way.removeprefix('toolstash, ')}: {name}", []).append((count, value))


def _counted(_: int, starts_at: float) -> list[float]:
    """In a process: a loop beside a thread that counts."""

    def count() -> None:
        number, ends_at = 0, time.perf_counter() + COUNTING_SECONDS
        while time.perf_counter() < ends_at:
            number += 1

    async def measure() -> list[float]:
        await asyncio.sleep(max(0.0, starts_at - time.time()))
        return await lateness(lambda: asyncio.to_thread(count))

    return asyncio.run(measure())


def _questions(_: int, starts_at: float, url: str, workspace_id: str) -> tuple[list[float], list[float]]:
    """In a process: a fresh worker is asked four questions at once, and then the same again."""

    async def measure() -> tuple[list[float], list[float]]:
        async with worker(url) as ctx:
            await asyncio.sleep(max(0.0, starts_at - time.time()))
            work = partial(asked, ctx, [workspace_id] * 4)
            return await lateness(work), await lateness(work)

    try:
        return asyncio.run(measure())
    finally:
        gc.collect()
