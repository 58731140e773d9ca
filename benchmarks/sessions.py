"""P12: what a call costs as there are more sessions, each with a workspace, and more worker processes."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis

from benchmarks.indexed import server_bytes, server_seconds
from benchmarks.plot import draw
from benchmarks.processes import CORES, PROCESSES, Pace, Share, processes, share_of, together
from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import LIFE_SECONDS, PREFIX, TYPE
from toolstash import Ctx, RedisStore
from toolstash.toolsets import paginator
from toolstash.wire.keys import label_of, space_of_session

SIZES = (1, 10, 100, 1_000, 10_000)
ROWS = 50
CALLS = 300
STORED_AT_ONCE = 16
WORKERS_SESSIONS = 1_000
WORKERS_SECONDS = 1.5
PLOT = Path("benchmarks/plots/sessions.svg")
WORKERS_PLOT = Path("benchmarks/plots/workers.svg")

Jobs = Mapping[str, Callable[[int], Awaitable[Any]]]


def make_ctx(store: RedisStore) -> Ctx:
    """One keyed producer of 50 rows, and pages that may be changed."""
    ctx, rows = Ctx(store, default_ttl=LIFE_SECONDS, require_session=True), make_rows(ROWS)
    tools: Any = paginator(ctx, TYPE, mutations=True)

    @ctx.producer(workspace_type=TYPE, toolsets=[tools], key=TYPE)
    async def load_papers() -> list[dict[str, Any]]:
        """Load papers."""
        return rows

    return ctx


def jobs_of(ctx: Ctx, sessions: int) -> Jobs:
    """What is measured; each call belongs to one of the sessions, or to a new one."""
    pick, row, fresh = random.Random(7), make_rows(1), itertools.count()
    run = secrets.token_hex(4)

    async def ask(tool: str, session: str, **arguments: Any) -> None:
        answer = await ctx.adispatch_tool_call(tool, arguments, session_id=session)
        assert "error" not in answer, answer

    def some() -> str:
        return _session(pick.randrange(sessions))

    async def page(turn: int) -> None:
        session = some()
        await ask(f"{TYPE}_paginate", session, workspace_id=_id_in(session), page=turn % 5)

    async def append(_: int) -> None:
        session = some()
        await ask(f"{TYPE}_append_items", session, workspace_id=_id_in(session), items=row)

    async def store(_: int) -> None:
        await ask("load_papers", some())

    async def listing(_: int) -> None:
        session = some()
        with ctx.session(session):
            assert await ctx.list_workspaces() == [_id_in(session)]

    async def first_call(_: int) -> None:
        await ask("load_papers", f"new {run} {next(fresh)}")

    return {
        "page": page,
        "append": append,
        "store and notice": store,
        "list of a session": listing,
        "first call of a new session": first_call,
    }


def _session(number: int) -> str:
    return f"session {number}"


def _id_in(session: str) -> str:
    return TYPE + label_of(space_of_session(session))


async def sessions(url: str, _: int) -> list[Table]:
    """One worker beside more and more sessions; then more and more workers beside 1,000 sessions."""
    async with Redis.from_url(url) as client, RedisStore(url, prefix=PREFIX) as store:
        try:
            grown = await _by_sessions(client, url, store)
        finally:
            await _remove(client)
        try:
            await _fill(make_ctx(store), 0, WORKERS_SESSIONS)
            return [grown, await _by_workers(client, url)]
        finally:
            await _remove(client)


async def _remove(client: Redis) -> None:
    async for key in client.scan_iter(f"{PREFIX}:*", count=5_000):
        await client.unlink(key)


async def _fill(ctx: Ctx, first: int, end: int) -> None:
    numbers = iter(range(first, end))

    async def one_after_another() -> None:
        for number in numbers:
            await ctx.adispatch_tool_call("load_papers", session_id=_session(number))

    await asyncio.gather(*(one_after_another() for _ in range(STORED_AT_ONCE)))


async def _by_sessions(client: Redis, url: str, store: RedisStore) -> Table:
    table = Table("P12", f"cost as sessions grow, each with {ROWS} rows (ratios against {SIZES[0]} session)")
    lines: dict[str, list[tuple[float, float]]] = {}
    filling, filled = make_ctx(store), 0
    weights: list[tuple[int, float]] = []
    for size in SIZES:
        held = await server_bytes(client)
        await _fill(filling, filled, size)
        weights.append((size, (await server_bytes(client) - held) / (size - filled)))
        filled = size
        measured = await _measured(client, url, size)
        for work, cost in measured.items():
            cpu = f"CPU {cost.worker * 1e6:,.0f} µs + the server's {cost.server * 1e6:,.0f} µs"
            table.add(work, f"{size:,} sessions", cost.median, f"p99 {cost.p99 * 1e3:.1f} ms, {cpu}")
            lines.setdefault(f"{work}: time", []).append((size, cost.median))
            lines.setdefault(f"{work}: CPU", []).append((size, cost.worker + cost.server))
    table.add("server's memory a session", "the rows as JSON", _json_bytes(), unit="bytes")
    for size, weight in weights[2:]:  # of fewer, other memory of the server is too much of it
        table.add("server's memory a session", f"{size:,} sessions", weight, unit="bytes")
    draw(PLOT, "Cost of a call as sessions grow", lines, across_name="sessions")
    return table


def _json_bytes() -> int:
    return sum(len(orjson.dumps(row)) for row in make_rows(ROWS))


@dataclass(frozen=True, slots=True)
class _Cost:
    """Median and p99 of the time of a call, and seconds of processor that it took here and in the server."""

    median: float
    p99: float
    worker: float
    server: float


async def _measured(client: Redis, url: str, size: int) -> dict[str, _Cost]:
    """The costs by work, of a fresh worker.

    It notes the access of each workspace once a minute, off the path: of a few sessions that is a few notes, of 1,000
    and more one with nearly each call (about 90 µs of processor).
    """
    found: dict[str, _Cost] = {}
    async with RedisStore(url, prefix=PREFIX) as store:
        for work, call in jobs_of(make_ctx(store), size).items():
            await call(0)
            seconds: list[float] = []
            used, used_here = await server_seconds(client), time.process_time()
            for turn in range(CALLS):
                started = time.perf_counter()
                await call(turn)
                seconds.append(time.perf_counter() - started)
            used_here = time.process_time() - used_here
            used = await server_seconds(client) - used
            cuts = statistics.quantiles(seconds, n=100)
            found[work] = _Cost(cuts[49], cuts[98], used_here / CALLS, used / CALLS)
    return found


async def _by_workers(client: Redis, url: str) -> Table:
    title = f"cost of a call by 1 to 8 worker processes beside {WORKERS_SESSIONS:,} sessions ({CORES} cores)"
    table, lines = Table("P12", title), dict[str, list[tuple[float, float]]]()
    with processes() as pool:
        for work in ("page", "append", "store and notice", "list of a session"):
            for count in PROCESSES:
                used, shares = await server_seconds(client), list[Share]()
                paces: list[Pace] = []
                for _ in range(2):
                    told = await together(pool, count, _work, work, url)
                    paces.append(Pace.of(told))
                    shares += told
                calls = sum(len(share.seconds) for share in shares)
                server, pace = (await server_seconds(client) - used) / calls, Pace.median(paces)
                costs = {"worker": pace.processor_per_call, "server": server}
                rate = f"{pace.calls_per_second:,.0f} calls/s, p50 {pace.p50 * 1e3:.2f}, p99 {pace.p99 * 1e3:.2f} ms"
                for where, cost in costs.items():
                    note = rate if where == "worker" else ""
                    table.add(f"{work}, {where}'s CPU", f"{count} processes", cost, note)
                    lines.setdefault(f"{work}: {where}'s CPU", []).append((count, cost))
    draw(WORKERS_PLOT, "Processor time of a call by worker processes", lines, across_name="processes")
    return table


def _work(_: int, starts_at: float, work: str, url: str) -> Share:
    """In a process: one caller does the same work for a while."""

    async def measure() -> Share:
        async with RedisStore(url, prefix=PREFIX) as store:
            call = jobs_of(make_ctx(store), WORKERS_SESSIONS)[work]
            return await share_of(call, callers=1, starts_at=starts_at, seconds=WORKERS_SECONDS)

    return asyncio.run(measure())
