"""P12: what work costs as workspaces grow, on a server with the search module."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.indexed import build, new_searching_server
from benchmarks.plot import draw
from benchmarks.report import Table, timed
from benchmarks.rows import WORDS, make_rows
from benchmarks.sides import PREFIX, TYPE, ask, out_of_collections, worker
from toolstash import Ctx, RedisStore
from toolstash.contracts import Address
from toolstash.query.index import TextView

SIZES = (1_000, 10_000, 100_000, 1_000_000)
REPEATED = 100_000
"""Rows of larger workspaces repeat, so that this process does not fill up."""

SECONDS = 600.0
CALLS = 200
PLOT = Path("benchmarks/plots/growing.svg")
WORDS_ASKED = cycle(WORDS)
"""Each search looks for another word, each in 8 of 10 rows: an answer that is remembered would be no search."""

Job = Callable[[], Awaitable[float]]


@dataclass
class _Growth:
    """Seconds by work and number of rows. What the time does not allow is left out, and said."""

    ends_at: float
    seconds: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])
    took: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    guesses: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    async def measure(self, work: str, rows: int, job: Job) -> bool:
        """Measures a job if it will probably be done in time; it is taken to grow as the rows do."""
        before, seconds = self.took.get(work, (rows, 0.0))
        started, guess = time.perf_counter(), seconds * rows / before
        if started + guess > self.ends_at:
            self.guesses[work] = (rows, guess)
            return False
        self.seconds.setdefault(work, {})[rows] = await job()
        self.took[work] = (rows, time.perf_counter() - started)
        return True

    def table(self) -> Table:
        """A line for each size, the ratio against the smallest."""
        table = Table("P12", f"cost as a workspace grows (ratios against {SIZES[0]:,} rows)")
        for work, by_rows in self.seconds.items():
            for rows, seconds in by_rows.items():
                table.add(work, f"{rows:,} rows", seconds)
        for work, (rows, guess) in self.guesses.items():
            table.add(work, f"{rows:,} rows", guess, "NOT MEASURED, a guess: there was no time left")
        return table


async def growing(_: str, runs: int) -> list[Table]:
    """Storing, pages, appends, notices, searches, groups and index builds from 1,000 to a million rows."""
    growth = _Growth(time.perf_counter() + SECONDS)
    for rows in SIZES:
        await _measure(growth, rows, min(3, runs))
    draw(PLOT, "Cost as a workspace grows", {work: [*by.items()] for work, by in growth.seconds.items()})
    return [growth.table()]


async def _measure(growth: _Growth, rows: int, runs: int) -> None:
    """All work at one size, on a server that goes with it: to take away a million documents takes long."""
    server = new_searching_server()
    payload = make_rows(min(rows, REPEATED)) * max(1, rows // REPEATED)
    try:
        with out_of_collections():
            async with RedisStore(server.unix_url, prefix=PREFIX) as store, worker(server.unix_url) as ctx:
                at = await _stored(growth, store, payload, runs if rows <= REPEATED else 1)
                if at is not None:
                    await _asked(growth, ctx, store, at, rows, runs)
    finally:
        server.stop()


async def _stored(growth: _Growth, store: RedisStore, payload: list[Any], runs: int) -> Address | None:
    """Stores the workspace; what is not the store's own part is the notice's."""
    ctx, replaced, notices, ids = Ctx(store, max_bytes=None), [0.0], list[float](), list[str]()
    replace = store.replace

    async def timed_replace(*given: Any, **named: Any) -> Any:
        started = time.perf_counter()
        result = await replace(*given, **named)
        replaced.append(time.perf_counter() - started)
        return result

    store.replace = timed_replace  # type: ignore[method-assign]

    @ctx.producer(workspace_type=TYPE, key=TYPE, ttl=None, index="never")
    async def load_papers() -> list[dict[str, Any]]:
        """Load papers."""
        return payload

    async def job() -> float:
        seconds: list[float] = []
        for _ in range(runs):
            started = time.perf_counter()
            ids.append((await load_papers())["workspace_id"])
            seconds.append(time.perf_counter() - started)
            notices.append(seconds[-1] - replaced[-1])
        return statistics.median(seconds)

    if not await growth.measure("store", len(payload), job):
        return None
    growth.seconds.setdefault("notice", {})[len(payload)] = statistics.median(notices)
    return await store.locate(ids[-1])


async def _asked(growth: _Growth, ctx: Ctx, store: RedisStore, at: Address, rows: int, runs: int) -> None:
    about = {"workspace_id": at.workspace_id}
    group = partial(ask, ctx, "aggregate", **about, group_by="year", metrics={"n": "count"})

    async def search() -> Any:
        return await ask(ctx, "search", **about, query=next(WORDS_ASKED))

    pages = [call * 7_919 % (rows // 10) for call in range(CALLS)]
    await growth.measure(
        "page of 10",
        rows,
        partial(_each, [partial(ask, ctx, "paginate", **about, page=page, size=10) for page in pages]),
    )
    await growth.measure("search, Python's first", rows, partial(timed, search, runs=1))
    await growth.measure("search, Python's second", rows, partial(timed, search, runs=runs))
    if await growth.measure("index build", rows, partial(timed, partial(build, store, at, TextView.of(None)), runs=1)):
        assert (await search())["engine"] == "redisearch"
        await growth.measure("search by the index", rows, partial(timed, search, runs=3 * runs))
        await growth.measure("group_by by the index", rows, partial(timed, group, runs=3 * runs))
    row = make_rows(1)
    await growth.measure(
        "append one row", rows, partial(_each, [partial(store.append_items, at.workspace_id, row)] * CALLS)
    )


async def _each(calls: list[Callable[[], Awaitable[Any]]]) -> float:
    """Median seconds of a call."""
    return statistics.median([await timed(call, runs=1) for call in calls])
