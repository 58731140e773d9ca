"""Watchers live through faults: each acknowledged write is heard of once, in order."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from asyncio.subprocess import PIPE
from contextlib import aclosing

import pytest
import redis.asyncio

from tests.chaos.ledger import put
from tests.proxy import proxied
from tests.servers import RealServer, shared_cluster, shared_server, start_server
from tests.wait import until
from toolstash import Ctx, Event, RedisStore, StoreUnavailableError


class Heard:
    """What a watcher has heard, in a task of its own."""

    def __init__(self, ctx: Ctx, session: str | None = None) -> None:
        self.events: list[Event] = []
        with ctx.session(session):
            self._watching = ctx.watch(after="0")
        self.task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        async with aclosing(self._watching) as events:
            async for event in events:
                self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event.workspace_id.partition("@")[0] for event in self.events]

    async def of(self, count: int) -> list[str]:
        """Waits for so many events; the workspaces that they are of."""
        await until(lambda: len(self.events) >= count or self.task.done(), within=40, what=f"{count} events")
        assert not self.task.done(), self.task.exception()
        return self.names

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def stored(store: RedisStore, name: str) -> None:
    """Stores a workspace; again, where the store did not answer in time."""
    while True:
        with contextlib.suppress(StoreUnavailableError):
            await put(store, [1], name)
            return


async def test_a_restart_of_the_server(prefix: str) -> None:
    server = start_server("valkey", "--appendonly", "yes", "--appendfsync", "always")
    try:
        async with RedisStore(server.url, prefix=prefix) as store:
            heard = Heard(Ctx(store))
            for turn in range(3):
                for number in range(5):
                    await stored(store, f"w{turn}-{number}")
                await asyncio.to_thread(server.restart)
            await stored(store, "last")
            names = await heard.of(16)
            assert names == [*(f"w{turn}-{number}" for turn in range(3) for number in range(5)), "last"]
            await heard.end()
    finally:
        server.stop()


async def test_connections_that_are_killed(prefix: str) -> None:
    server = shared_server("redis-8.2")
    async with RedisStore(server.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(server.url) as client:
        heard = Heard(Ctx(store))
        await put(store, [1], "first")
        await heard.of(1)
        for number in range(20):
            await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await stored(store, f"w{number}")
        names = await heard.of(21)
        assert list(dict.fromkeys(names)) == ["first", *(f"w{number}" for number in range(20))]
        await heard.end()


async def test_a_cluster_tells_too(prefix: str) -> None:
    async with RedisStore(shared_cluster().url, prefix=prefix) as store:
        ctx = Ctx(store)
        heard = {name: Heard(ctx, name) for name in ("one", "two", "three", "four")}
        for name in heard:
            with ctx.session(name):
                await ctx.store_workspace([1], workspace_type="rows", workspace_id=f"of-{name}", ttl=60)
        await ctx.store_workspace([1], workspace_type="rows", workspace_id="shared", ttl=60)
        for name, one in heard.items():
            assert sorted(await one.of(2)) == sorted([f"of-{name}", "shared"])
            await one.end()


async def test_an_outage_that_lasts_is_told(prefix: str) -> None:
    server = start_server("valkey")
    try:
        async with RedisStore(server.url, prefix=prefix, command_timeout_seconds=0.2) as store:
            heard = Heard(Ctx(store))
            await put(store, [1], "first")
            await heard.of(1)
            server.kill()
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(heard.task, 30)
            with pytest.raises(StoreUnavailableError):
                await anext(Ctx(store).watch())
    finally:
        server.stop()


async def names_of_clients(server: RealServer, client: redis.asyncio.Redis) -> list[str]:
    listed = await client.client_list()
    return [one["cmd"] for one in listed]


async def test_many_watchers_of_a_session_share_one_connection_and_leave_none(prefix: str) -> None:
    server = shared_server("valkey")
    async with redis.asyncio.Redis.from_url(server.url) as client, RedisStore(server.url, prefix=prefix) as store:
        ctx = Ctx(store)
        before = (await names_of_clients(server, client)).count("xread")
        watchers = [Heard(ctx, "one") for _ in range(30)]

        async def reading() -> int:
            return (await names_of_clients(server, client)).count("xread") - before

        async def two_read() -> bool:
            return await reading() == 2

        with ctx.session("one"):
            await ctx.store_workspace([1], workspace_type="rows", workspace_id="w", ttl=60)
        for watcher in watchers:
            await watcher.of(1)
        await until(two_read, what="one connection for the session, one for what is shared")
        for watcher in watchers:
            await watcher.end()

        async def none_reads() -> bool:
            return await reading() <= 0

        await until(none_reads, what="nobody listens any more")
        assert [watcher.names for watcher in watchers] == [["w"]] * 30


async def test_a_slow_network_loses_no_event(prefix: str) -> None:
    async with proxied(shared_server("valkey").url) as proxy:
        proxy.delay = 0.05
        async with RedisStore(proxy.url, prefix=prefix) as store:
            heard = Heard(Ctx(store))
            await asyncio.gather(*(put(store, [1], f"w{number}") for number in range(200)))
            assert sorted(await heard.of(200)) == sorted(f"w{number}" for number in range(200))
            assert len(heard.events) == 200
            await heard.end()


async def test_watchers_that_are_cancelled_twice_leave_nothing(prefix: str) -> None:
    server = shared_server("valkey")
    async with redis.asyncio.Redis.from_url(server.url) as client, RedisStore(server.url, prefix=prefix) as store:
        ctx = Ctx(store)
        await put(store, [1])
        for turns in range(12):
            task = asyncio.ensure_future(anext(ctx.watch()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        async def nobody_listens() -> bool:
            tasks = [task for task in asyncio.all_tasks() if "_Listener" in repr(task)]
            reading = [one for one in await client.client_list() if one["cmd"] == "xread"]
            return not tasks and not reading

        await until(nobody_listens, what="nobody listens any more")
        assert store._listeners._listeners == {}


PROGRAM = """
import asyncio, sys, time
from toolstash import Ctx

async def main():
    async with Ctx(sys.argv[1], prefix=sys.argv[2]) as ctx:
        await ctx.store_workspace([1], workspace_type="rows", workspace_id="w", ttl=60)
        if sys.argv[3] == "named":
            events = ctx.watch(after="0")
            async for event in events:
                print(event.kind)
                break
        else:
            async for event in ctx.watch(after="0"):
                print(event.kind)
                break

started = time.monotonic()
asyncio.run(main())
ctx = Ctx(sys.argv[1], prefix=sys.argv[2])
for event in ctx.blocking.watch(after="0"):
    print(event.kind)
    break
ctx.blocking.aclose()
assert time.monotonic() - started < 2.5, "leaving took long"
"""


@pytest.mark.parametrize("way", ["named", "unnamed"])
async def test_leaving_the_loop_is_quiet_and_quick(way: str, prefix: str) -> None:
    words = (sys.executable, "-W", "always", "-c", PROGRAM, shared_server("redis-8.2").url, prefix, way)
    process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=PIPE)
    shown, complaints = await process.communicate()
    assert complaints.decode() == ""
    assert shown.decode().split() == ["created", "created"]


async def test_closing_in_another_loop_ends_watching_too(prefix: str) -> None:
    store = RedisStore(shared_server("valkey").url, prefix=prefix)
    ctx = Ctx(store)
    started = threading.Event()

    def watch() -> str:
        events = ctx.blocking.watch(after="0")
        started.set()
        try:
            return next(events).kind
        except RuntimeError as error:
            return str(error)

    thread = asyncio.create_task(asyncio.to_thread(watch))
    await asyncio.to_thread(started.wait)
    await until(lambda: len(store._listeners._listeners) == 1, what="it listens")
    await until(lambda: all(one.signals for one in store._listeners._listeners.values()))
    await store.aclose()
    assert await asyncio.wait_for(thread, 10) == "the store was closed while it was watched"
    await asyncio.to_thread(store.blocking.aclose)


async def test_what_the_server_refuses_for_good_is_told(prefix: str) -> None:
    server = shared_server("valkey")
    async with redis.asyncio.Redis.from_url(server.url) as client:
        rights = (f"~{prefix}:*", "+@all", "-@admin", "-@dangerous", "-xrange")
        await client.execute_command("ACL", "SETUSER", prefix, "reset", "on", ">word", *rights)
        url = f"redis://{prefix}:word@127.0.0.1:{server.port}"
        async with RedisStore(url, prefix=prefix, command_timeout_seconds=0.3) as store:
            await put(store, [1])
            with pytest.raises(StoreUnavailableError, match="refused"):
                await asyncio.wait_for(anext(Ctx(store).watch(after="0")), 20)
        await client.execute_command("ACL", "DELUSER", prefix)
