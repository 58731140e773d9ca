"""Thousands of calls are cancelled at any moment: no reply goes to another caller, no connection is lost (F13)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
import redis.asyncio

from tests.chaos.ledger import TTL, lasting
from tests.proxy import Proxy, proxied
from tests.servers import RealServer, shared_server, start_server
from tests.wait import until
from toolstash import Ctx, RedisStore
from toolstash.blocking import run_blocking
from toolstash.toolsets import paginator, text_search

SESSIONS = [f"session {number}" for number in range(16)]
CONNECTIONS = 5
ROWS = 40
PLACES = {"valkey": "", "redis-8.2": "", "valkey with a password and a database": "?db=3"}
"""Servers, and what their URL ends in: the last one's connections begin with two commands of their own."""


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> Any:
    """A server of these tests' own, so that its clients can be counted, and what its URL ends in."""
    name: str = request.param
    ending = PLACES[name]
    options = ("--requirepass", "s3cret") if ending else ()
    server = start_server(name.partition(" ")[0], *options)
    yield server, ending
    server.stop()


@pytest.fixture
async def proxy(place: tuple[RealServer, str]) -> AsyncIterator[Proxy]:
    async with proxied(place[0].url) as made:
        if place[1]:
            made.url = made.url.replace("://", "://:s3cret@") + place[1]
        yield made


class Callers:
    """Calls of all kinds from many sessions, each of whose rows name their session."""

    def __init__(self, ctx: Ctx) -> None:
        self.ctx = ctx
        paginator(ctx, "rows", mutations=True)
        text_search(ctx, "rows")
        self.ids: dict[str, str] = {}
        self.scratch: dict[str, list[str]] = {session: [] for session in SESSIONS}
        self.wrong: list[Any] = []
        self.most_in_use = 0

    async def prepare(self) -> None:
        for session in SESSIONS:
            with self.ctx.session(session):
                rows = [{"who": session, "n": number} for number in range(ROWS)]
                ref = await self.ctx.store_workspace(rows, workspace_type="rows", ttl=TTL)
                self.ids[session] = ref.workspace_id

    async def call(self, session: str, kind: str) -> None:
        """One call; what it answers must be of its own session."""
        mine = {"workspace_id": self.ids[session]}
        if kind == "paginate":
            answer = await self.dispatch(session, "rows_paginate", mine)
            self.check(session, answer.get("items", [answer]))
        elif kind == "search":
            answer = await self.dispatch(session, "rows_search", {**mine, "query": session.split()[1]})
            self.check(session, [match["item"] for match in answer.get("matches", [answer])])
        elif kind == "store":
            with self.ctx.session(session):
                ref = await self.ctx.store_workspace([{"who": session}], workspace_type="rows", ttl=TTL)
                self.scratch[session].append(ref.workspace_id)
        elif not self.scratch[session]:
            await self.call(session, "store")
        elif kind == "append":
            target = self.scratch[session][-1]
            await self.dispatch(session, "rows_append_items", {"workspace_id": target, "items": [{"who": session}]})
        else:
            with self.ctx.session(session):
                await self.ctx.drop_workspace(self.scratch[session].pop())

    async def dispatch(self, session: str, tool: str, arguments: dict[str, Any]) -> Any:
        return without_hint(await self.ctx.adispatch_tool_call(tool, arguments, session_id=session))

    def check(self, session: str, rows: list[Any]) -> None:
        self.most_in_use = max(self.most_in_use, in_use(self.ctx))
        if not rows or {row.get("who") for row in rows} != {session}:
            self.wrong.append((session, rows))

    async def cancelled(self, number: int, after: float) -> None:
        """One call that is cancelled in time, by a scope or by its task."""
        session, kind = SESSIONS[number % len(SESSIONS)], KINDS[number % len(KINDS)]
        if number % 2:
            with anyio.move_on_after(after):
                await self.call(session, kind)
            return
        task = asyncio.ensure_future(self.call(session, kind))
        await asyncio.wait({task}, timeout=after)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and task.exception() is not None:
            self.wrong.append(task.exception())

    async def known_reads(self, number: int) -> None:
        """That many calls that are left alone, a hundred at a time."""
        for start in range(0, number, 100):
            await asyncio.gather(
                *(
                    self.call(SESSIONS[n % len(SESSIONS)], "search" if n % 7 == 0 else "paginate")
                    for n in range(start, start + 100)
                )
            )


KINDS = ["paginate", "search", "store", "paginate", "append", "drop", "paginate"]


def without_hint(answer: dict[str, Any]) -> dict[str, Any]:
    return answer.get("result", answer)


def pool_of(ctx: Ctx) -> Any:
    """The connections of the only event loop that used this Ctx."""
    (pool,) = ctx.store._connections._pools.values()  # type: ignore[attr-defined]
    return pool


def in_use(ctx: Ctx) -> int:
    return len(pool_of(ctx).client.connection_pool._in_use_connections)


def assert_nothing_leaked(callers: Callers) -> None:
    pool = pool_of(callers.ctx)
    connections = pool.client.connection_pool
    assert pool.limiter.borrowed_tokens == 0
    assert pool.limiter.statistics().tasks_waiting == 0
    assert len(connections._in_use_connections) == 0
    assert len(connections._available_connections) <= CONNECTIONS
    assert 0 < callers.most_in_use <= CONNECTIONS


async def clients_at(url: str) -> int:
    async with redis.asyncio.Redis.from_url(url) as client:
        return len(await client.client_list())


async def test_cancelled_dispatches(place: tuple[RealServer, str], proxy: Proxy, prefix: str) -> None:
    pick = random.Random(13)
    async with RedisStore(proxy.url, prefix=prefix, max_connections=CONNECTIONS, wait_seconds=20) as store:
        callers = Callers(Ctx(store))
        await callers.prepare()
        proxy.delay = 0.002
        for start in range(0, 3_000, 100):
            await asyncio.gather(
                *(callers.cancelled(number, pick.random() * 0.08) for number in range(start, start + 100))
            )
        proxy.delay = 0.0
        await callers.known_reads(1_200)
        assert callers.wrong[:3] == []
        await store._background.settle()
        assert_nothing_leaked(callers)
        direct = proxy.url.replace(proxy.url.rpartition(":")[2], str(place[0].port) + place[1])
        await until(lambda: _few(direct), what="the server has no more clients than there may be")
        async with redis.asyncio.Redis.from_url(direct) as client:
            assert await lasting(client, prefix) == []


async def _few(url: str) -> bool:
    return await clients_at(url) <= CONNECTIONS + 1


@pytest.mark.parametrize("name", ["valkey", "redis-8.2"])
def test_cancelled_calls_behind_the_blocking_door(name: str, prefix: str) -> None:
    """Threads share the connections of the door's loop; some of their calls are cancelled in it."""
    server = shared_server(name)
    store = RedisStore(server.url, prefix=prefix, max_connections=CONNECTIONS, wait_seconds=20)
    callers = Callers(Ctx(store))
    callers_pick = random.Random(5)
    delays = [callers_pick.random() * 0.01 for _ in range(800)]
    run_blocking(callers.prepare)

    def work(number: int) -> None:
        run_blocking(callers.cancelled, number, delays[number])
        session = SESSIONS[number % len(SESSIONS)]
        answer = callers.ctx.dispatch_tool_call(
            "rows_paginate", {"workspace_id": callers.ids[session]}, session_id=session
        )
        callers.check(session, without_hint(answer)["items"])

    with ThreadPoolExecutor(16) as threads:
        assert len(list(threads.map(work, range(800)))) == 800
    assert callers.wrong[:3] == []
    run_blocking(store._background.settle)
    assert_nothing_leaked(callers)
    store.blocking.aclose()
