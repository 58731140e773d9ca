"""A replica is promoted while producers and appenders write (F16): behind an address that then leads elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis
import redis.asyncio

from tests.chaos.ledger import TTL, Ledger, Whole, appenders, lasting, put
from tests.proxy import proxied
from tests.servers import RealServer, start_server
from tests.wait import until, until_sync
from toolstash import Ctx, RedisStore, WorkspaceNotFoundError
from toolstash.wire import scripts

ROWS = 50_000


class Pair:
    """A primary and its replica."""

    def __init__(self, name: str) -> None:
        self.primary = start_server(name, "--repl-diskless-sync-delay", "0")
        self.replica = start_server(name, "--repl-diskless-sync-delay", "0")
        self.order(self.replica, "REPLICAOF", "127.0.0.1", self.primary.port)
        until_sync(lambda: self.role(self.replica, b"master_link_status:up"), what="the replica follows")

    def order(self, server: RealServer, *words: object) -> bytes:
        with redis.Redis(port=server.port) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def role(self, server: RealServer, words: bytes) -> bool:
        return words in self.order(server, "INFO", "replication")

    def offset(self, server: RealServer) -> bytes:
        lines = self.order(server, "INFO", "replication").split(b"\r\n")
        return next(line for line in lines if line.startswith(b"master_repl_offset"))

    def swap(self) -> None:
        """Promotes the replica when it has all that was acknowledged; the old primary follows it."""
        self.order(self.primary, "CLIENT", "PAUSE", 10_000, "WRITE")
        until_sync(lambda: self.offset(self.primary) == self.offset(self.replica), what="the replica has everything")
        self.order(self.replica, "REPLICAOF", "NO", "ONE")
        self.order(self.primary, "REPLICAOF", "127.0.0.1", self.replica.port)
        self.order(self.primary, "CLIENT", "UNPAUSE")
        self.primary, self.replica = self.replica, self.primary

    def stop(self) -> None:
        self.primary.stop()
        self.replica.stop()


@pytest.fixture(params=["valkey", "redis-6.2"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(request.param)
    yield made
    made.stop()


async def test_writers_find_the_promoted_replica(pair: Pair, prefix: str) -> None:
    async with (
        proxied(pair.primary.url) as proxy,
        RedisStore(proxy.url, prefix=prefix, command_timeout_seconds=10) as store,
    ):
        ctx = Ctx(store)
        started, go_on = asyncio.Event(), asyncio.Event()

        async def rows() -> AsyncIterator[dict[str, int]]:
            for number in range(ROWS):
                yield {"n": number}
                if number == ROWS // 3:
                    started.set()
                    await go_on.wait()

        seen: list[str] = []

        async def watch() -> None:
            while not producing.done():
                try:
                    seen.append(str(len(await store.get_items("big"))))
                except WorkspaceNotFoundError:
                    seen.append("none")

        log = await put(store, ["first"], "log")
        ledger, whole = Ledger(), Whole()
        await put(store, [{"same": 1}] * 3_000, "still")
        producing = asyncio.ensure_future(ctx.store_workspace(rows(), workspace_type="a", workspace_id="big", ttl=TTL))
        watching = asyncio.ensure_future(watch())
        appending = asyncio.ensure_future(appenders(ledger, store, {None: log.workspace_id}, writers=20, rows=30))
        await started.wait()
        await until(lambda: len(ledger.acknowledged) > 30, what="appenders are at work")
        await asyncio.to_thread(pair.swap)
        go_on.set()  # into a server that takes no writes any more
        await whole.look(lambda: store.get_items("still"), 3_000)
        await proxy.point_to(pair.primary.url)
        ref = await producing
        await asyncio.gather(watching, appending)
        assert ref.item_count == ROWS
        assert (await store.get_items("big"))[:: ROWS - 1] == [{"n": 0}, {"n": ROWS - 1}]
        assert {*seen} <= {"none", str(ROWS)}
        assert "none" in seen
        assert len(ledger.acknowledged) == 600
        ledger.check((await store.get_items("log"))[1:])
        await whole.look(lambda: store.get_items("still"), 3_000)
        assert (whole.reads >= 1, whole.wrong) == (True, [])
        async with redis.asyncio.Redis.from_url(pair.primary.url) as client:
            assert await lasting(client, prefix) == []


async def test_a_repeat_finds_its_first_result_on_the_promoted_server(pair: Pair, prefix: str) -> None:
    """The reply of a write is lost, and the server that gave it is replaced before the write is repeated."""
    async with proxied(pair.primary.url) as proxy, RedisStore(proxy.url, prefix=prefix) as store:
        meta = await put(store, [0])
        keys = store._keys.workspace(await store.locate("w"))
        row = scripts.RowChange(clears=False, replaced=[], removed=[], added=[b"1"])
        change = scripts.mutate(
            keys, scripts.new_operation(), row, expected_version=meta.version, codec="orjson", non_finite=0
        )
        first = await store._connections.run(change)
        await asyncio.to_thread(pair.swap)
        await proxy.point_to(pair.primary.url)
        assert await store._connections.run(change) == first
        assert await store.get_items("w") == [0, 1]


async def test_a_server_that_stays_read_only_is_told_within_the_time_limit(pair: Pair, prefix: str) -> None:
    async with RedisStore(pair.primary.url, prefix=prefix, command_timeout_seconds=1.0) as store:
        await put(store, [0])
        await asyncio.to_thread(pair.swap)
        ledger = Ledger()
        await ledger.append(store, "w", "never")
        (told,) = ledger.errors
        assert told.endswith("(it takes no writes at the moment).")
        assert await store.get_items("w") == [0]
        await asyncio.to_thread(pair.order, pair.replica, "REPLICAOF", "NO", "ONE")
        assert await store.append_items("w", [1]) == 2
