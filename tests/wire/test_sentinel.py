"""A service behind Redis Sentinel: planned and unplanned changes of the primary, dead and hanging sentinels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
import trustme
from redis.asyncio.sentinel import SentinelManagedSSLConnection

from tests.proxy import proxied
from tests.sentinels import SERVICE, RealService
from tests.servers import start_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError, WorkspaceMeta
from toolstash.store.base import BaseStore
from toolstash.store.payload import Payload
from toolstash.toolsets import paginator
from toolstash.wire.source import source_of_client, source_of_url


@pytest.fixture
def prefix() -> str:
    return f"t{secrets.token_hex(5)}"


@pytest.fixture(scope="module")
def running() -> Iterator[RealService]:
    made = RealService()
    yield made
    made.stop()


@pytest.fixture
def service(running: RealService) -> RealService:
    """The service when everybody is where he belongs."""
    running.until_settled()
    return running


async def put(store: BaseStore, payload: object, name: str = "w", **meta: Any) -> WorkspaceMeta:
    return (await store.replace(WorkspaceMeta(name, "papers", **meta), Payload(payload))).meta


def pool_of(store: RedisStore) -> Any:
    return next(iter(store._connections._pools.values())).client.connection_pool  # type: ignore[union-attr]


def seen_elsewhere(store: RedisStore, remap: Callable[[tuple[str, int]], tuple[str, int]]) -> RedisStore:
    """Lets a store find the primary where `remap` says."""
    store._connections.source = replace(store._connections.source, address_remap=remap)
    return store


def hosts_of(service: RealService) -> str:
    return ",".join(f"127.0.0.1:{one.port}" for one in service.sentinels)


def in_a_loop_that_is_cut_off(work: Callable[..., Any], *arguments: Any) -> Any:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work(*arguments))
    finally:
        loop.close()


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """The port of somebody who listens and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_a_store_lies_on_the_primary(service: RealService, prefix: str) -> None:
    async with Ctx(RedisStore(f"{service.url}/2", prefix=prefix)) as ctx:
        paginator(ctx, "rows")
        with ctx.session("ann"):
            ref = await ctx.store_workspace(list(range(1_000)), workspace_type="rows")
            page = await ctx.adispatch_tool_call(
                "rows_paginate", {"workspace_id": ref.workspace_id, "page": 49, "size": 20}
            )
        assert page["result"]["items"] == list(range(980, 1_000))
        with redis.Redis(port=service.primary.port, db=2) as client:
            assert list(client.scan_iter(f"{prefix}:*")) != []
        await ctx.clear()
        await ctx.store.aclose()


async def test_without_a_primary_the_model_reads_a_short_error(prefix: str) -> None:
    lonely = RealService()
    async with Ctx(RedisStore(lonely.url, prefix=prefix, command_timeout_seconds=0.5)) as ctx:
        paginator(ctx, "a")
        ref = await ctx.store_workspace([1], workspace_type="a")
        for server in lonely.servers:
            server.kill()
        for _ in range(2):
            started = time.monotonic()
            refusal = await ctx.adispatch_tool_call("a_count", {"workspace_id": ref.workspace_id})
            assert "did not answer" in refusal["error"]
            assert time.monotonic() - started < 10
        for sentinel in lonely.sentinels:
            sentinel.kill()
        again = await ctx.adispatch_tool_call("a_count", {"workspace_id": ref.workspace_id})
        assert "did not answer" in again["error"]
        assert len(again["error"]) < 120
        assert not any(str(one.port) in str(again) for one in (*lonely.servers, *lonely.sentinels))
        await ctx.store.aclose()
    lonely.stop()


async def test_dead_and_silent_sentinels_are_passed_over(service: RealService, prefix: str) -> None:
    alive = service.sentinels[2].port
    async with silent() as port:
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{port},127.0.0.1:{alive}/{SERVICE}"
        async with RedisStore(url, prefix=prefix, command_timeout_seconds=6) as store:
            await put(store, [1])
            assert await asyncio.gather(*(store.get_items("w") for _ in range(50))) == [[1]] * 50
            first = pool_of(store).sentinel_manager._servers[0]
            assert first.connection_pool.connection_kwargs["port"] == alive  # who answered is asked first
            await store.clear()
        async with RedisStore(f"redis+sentinel://127.0.0.1:{port}/{SERVICE}", command_timeout_seconds=0.4) as store:
            started = time.monotonic()
            with pytest.raises(StoreUnavailableError, match="did not answer within"):
                await store.list_workspaces()
            assert time.monotonic() - started < 5


async def test_a_primary_is_not_left_because_its_sentinels_are_silent(service: RealService, prefix: str) -> None:
    async with RedisStore(service.url, prefix=prefix, command_timeout_seconds=1) as store:
        await put(store, [1])
        for sentinel in service.sentinels:
            sentinel.signal(signal.SIGSTOP)
        try:
            for _ in range(3):
                pool_of(store)._looked_at = 0.0
                assert await store.get_items("w") == [1]
        finally:
            for sentinel in service.sentinels:
                sentinel.signal(signal.SIGCONT)
        await store.clear()


async def test_an_unknown_service_is_named(service: RealService) -> None:
    url = f"redis+sentinel://u:hunter2@{hosts_of(service)}/paper"
    async with RedisStore(url, command_timeout_seconds=30) as store:
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="know no service 'paper'") as refusal:
            await store.list_workspaces()
        assert time.monotonic() - started < 10
        assert "hunter2" not in str(refusal.value.to_llm_dict())


async def test_what_is_no_sentinel_says_so(service: RealService) -> None:
    async with RedisStore(f"redis+sentinel://127.0.0.1:{service.primary.port}/{SERVICE}") as store:
        with pytest.raises(StoreUnavailableError, match="is not a sentinel"):
            await store.list_workspaces()


async def test_sentinels_have_an_account_of_their_own(service: RealService, prefix: str) -> None:
    for sentinel in service.sentinels:
        rights = ("-@all", "+sentinel|get-master-addr-by-name", "+sentinel|master")
        assert sentinel.command("ACL", "SETUSER", "asker", "reset", "on", ">a:b", *rights) == b"OK"
    service.command(service.primary, "ACL", "SETUSER", prefix, "reset", "on", ">w@rd", f"~{prefix}:*", "+@all")

    def url(password: str) -> str:
        account = f"sentinel_username=asker&sentinel_password={password}"
        return f"redis+sentinel://{prefix}:w%40rd@{hosts_of(service)}/{SERVICE}?{account}"

    async with RedisStore(url("a%3Ab"), prefix=prefix) as store:
        await put(store, [1])
        assert await store.get_items("w") == [1]
        await store.clear()
    async with RedisStore(url("hunter2"), prefix=prefix) as store:
        with pytest.raises(StoreUnavailableError, match="sentinels of the data store refused access") as refusal:
            await store.list_workspaces()
        assert "hunter2" not in f"{refusal.value.to_llm_dict()} {store._connections.source.described}"
    for sentinel in service.sentinels:
        sentinel.command("ACL", "SETUSER", "asker", "-sentinel|get-master-addr-by-name")
    async with RedisStore(url("a%3Ab"), prefix=prefix) as store:
        with pytest.raises(StoreUnavailableError, match="sentinels of the data store refused access"):
            await store.list_workspaces()
    service.command(service.primary, "ACL", "DELUSER", prefix)
    for sentinel in service.sentinels:
        sentinel.command("ACL", "DELUSER", "asker")


@pytest.mark.parametrize("name", ["redis-6.2", "redis-8.2-plain", "valkey"])
async def test_a_write_that_came_to_a_replica_goes_to_the_primary(service: RealService, prefix: str, name: str) -> None:
    first = start_server(name)
    second = start_server(name, "--replicaof", "127.0.0.1", str(first.port))
    await until(lambda: service.follows(second), what="the replica has everything")
    places = iter([second.port])

    def stale(_: tuple[str, int]) -> tuple[str, int]:
        return "127.0.0.1", next(places, first.port)

    async with seen_elsewhere(RedisStore(service.url, prefix=prefix), stale) as store:
        await put(store, [1])
        assert await store.get_items("w") == [1]
    with redis.Redis(port=first.port) as client:
        assert list(client.scan_iter(f"{prefix}:*:rows:*")) != []
    first.stop()
    second.stop()


async def test_a_primary_that_lost_its_replicas_is_waited_for(service: RealService, prefix: str) -> None:
    async with RedisStore(service.url, prefix=prefix) as store:
        await put(store, [1])
        service.command(service.primary, "CONFIG", "SET", "min-replicas-to-write", "2")
        waiting = asyncio.ensure_future(store.append_items("w", [2]))
        await asyncio.wait({waiting}, timeout=0.3)
        assert not waiting.done()
        service.command(service.primary, "CONFIG", "SET", "min-replicas-to-write", "0")
        assert await waiting == 2
        await store.clear()


async def test_cancelled_calls_never_leave_their_reply_to_the_next(service: RealService, prefix: str) -> None:
    pick = random.Random(1)
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxied(service.primary.url))
        port = int(proxy.url.rpartition(":")[2])
        store = seen_elsewhere(RedisStore(service.url, prefix=prefix, max_connections=8), lambda _: ("127.0.0.1", port))
        await stack.enter_async_context(store)
        for number in range(20):
            await put(store, [number] * 20, f"w{number}")
        proxy.delay = 0.01

        async def cancelled(number: int) -> None:
            with anyio.move_on_after(pick.random() * 0.03):
                await store.get_items(f"w{number % 20}")

        for start in range(0, 300, 50):
            await asyncio.gather(*(cancelled(number) for number in range(start, start + 50)))
        proxy.delay = 0
        for start in range(0, 300, 50):
            whole = await asyncio.gather(*(store.get_items(f"w{n % 20}") for n in range(start, start + 50)))
            assert whole == [[n % 20] * 20 for n in range(start, start + 50)]
        await store.clear()


async def test_many_new_connections_ask_once_at_a_time(service: RealService, prefix: str) -> None:
    async with RedisStore(service.url, prefix=prefix) as store:
        await put(store, [1])
        client = next(iter(store._connections._pools.values())).client
        await client.forget_idle()
        assert await asyncio.gather(*(store.get_items("w") for _ in range(60))) == [[1]] * 60
        askers = client._sentinels._servers
        assert len({id(one) for one in askers}) == 3
        assert sum(len(one.connection_pool._available_connections) for one in askers) == 1
        await store.clear()


@pytest.mark.parametrize("library", [redis.sentinel, redis.asyncio.sentinel])
async def test_of_a_client_only_the_settings_are_taken(service: RealService, prefix: str, library: Any) -> None:
    hosts = [("127.0.0.1", one.port) for one in service.sentinels]
    manager = library.Sentinel(
        hosts, min_other_sentinels=2, sentinel_kwargs={"decode_responses": True}, force_master_ip="127.0.0.1"
    )
    client = manager.master_for(SERVICE, db=1, decode_responses=True)
    async with RedisStore(client, prefix=prefix) as store:
        await put(store, [{"é": 1}])
        assert await store.get_items("w") == [{"é": 1}]
        with redis.Redis(port=service.primary.port, db=1) as plain:
            assert list(plain.scan_iter(f"{prefix}:*")) != []
        await store.clear()
    assert [len(one.connection_pool._available_connections) for one in (client, *manager.sentinels)] == [0] * 4
    with pytest.raises(TypeError, match="master_for"):
        source_of_client(manager.slave_for(SERVICE))
    lonely = library.Sentinel(hosts, min_other_sentinels=5)
    async with RedisStore(lonely.master_for(SERVICE), command_timeout_seconds=0.3) as store:
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            await store.list_workspaces()


async def test_tls_with_a_private_authority(service: RealService, prefix: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with AsyncExitStack() as stack:
        urls = [f"redis://127.0.0.1:{one.port}" for one in service.sentinels] + [service.primary.url]
        proxies = [await stack.enter_async_context(proxied(url, tls=context)) for url in urls]
        *sentinels, primary = [proxy.url.removeprefix("rediss://") for proxy in proxies]
        url = f"rediss+sentinel://{','.join(sentinels)}/{SERVICE}?ssl_ca_certs={tmp_path / 'ca.pem'}"
        port = int(primary.rpartition(":")[2])
        async with seen_elsewhere(RedisStore(url, prefix=prefix), lambda _: ("127.0.0.1", port)) as store:
            await put(store, [1, 2, 3])
            assert await store.get_items("w") == [1, 2, 3]
            assert await asyncio.to_thread(in_a_loop_that_is_cut_off, store.get_items, "w") == [1, 2, 3]
            await store.clear()
        assert store._connections._pools == {}


def test_what_a_url_says() -> None:
    source = source_of_url(
        "rediss+sentinel://me:p%40ss@h1:7001,h2,[::1]:7003/my%20papers/3"
        "?ssl_check_hostname=no&sentinel_username=you&sentinel_password=a%26b&socket_keepalive=yes"
    )
    assert (source.service, source.nodes) == ("my papers", ())
    assert source.connection_class is SentinelManagedSSLConnection
    shared = {"ssl_check_hostname": False, "socket_keepalive": True}
    assert source.arguments == {"username": "me", "password": "p@ss", "db": 3, **shared}
    account = {"username": "you", "password": "a&b"}
    assert [one.arguments for one in source.sentinels] == [
        {"host": host, "port": port, **account, **shared} for host, port in [("h1", 7001), ("h2", 26379), ("::1", 7003)]
    ]
    assert source.described == "rediss+sentinel://…@h1:7001,h2,[::1]:7003/my%20papers/3"


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "h:1",
        "h:1/",
        "/papers",
        "h:1,/papers",
        "h:1/papers/x",
        "h:1/papers/1/2",
        "h:1/papers/-1",
        "u:hunter2@/papers",
    ]
    + ["h:1/papers?db=x&password=hunter2", "u:hunter2", "u:hunter2/papers", "u:hunter2?@h:1/papers", "u:h?hunter2@h/p"],
)
def test_malformed_urls_are_refused_with_the_known_forms(rest: str) -> None:
    for scheme in ("redis+sentinel", "rediss+sentinel"):
        with pytest.raises(ValueError, match=r"known forms: .*redis\+sentinel://host:port,host:port/service") as fault:
            RedisStore(f"{scheme}://{rest}")
        assert "hunter2" not in f"{fault.value} {fault.value.__cause__}"


def test_loops_come_and_go_without_warnings(service: RealService, prefix: str) -> None:
    code = f"""
import asyncio, gc, os, warnings
warnings.simplefilter("error")
from toolstash import Ctx
ctx = Ctx({service.url!r}, prefix={prefix!r})
async def work():
    for session in "abcdef":
        with ctx.session(session):
            await ctx.store_workspace([1], workspace_type="a")
for _ in range(3):
    asyncio.run(work())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work())
    loop.close()
assert len(ctx.blocking.list_workspaces()) == 36
pid = os.fork()
if pid == 0:
    os._exit(0 if len(ctx.blocking.list_workspaces()) == 36 and len(asyncio.run(ctx.list_workspaces())) == 36 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert len(ctx.blocking.list_workspaces()) == 36
ctx.store.blocking.aclose()
gc.collect()
print("fine")
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


async def test_a_primary_that_is_killed_is_replaced_and_comes_back_as_replica(
    service: RealService, prefix: str
) -> None:
    old, ahead = service.primary, service.replica
    async with RedisStore(service.url, prefix=prefix, command_timeout_seconds=20) as store:
        await put(store, list(range(1_000)))
        await until(service.replicated, what="the replica has everything")
        old.kill()
        assert await store.append_items("w", [1]) == 1_001
        assert service.is_primary(ahead)
        old.start()
        await until(lambda: service.follows(old), within=40, what="the old primary follows")
        for number in range(20):
            assert await store.append_items("w", [2]) == 1_002 + number
        await until(service.replicated, what="the replica has everything")
        with redis.Redis(port=old.port) as client, pytest.raises(redis.exceptions.ReadOnlyError):
            client.set(f"{prefix}:x", 1)
        await store.clear()


async def test_a_primary_that_hangs_holds_nobody_once_it_is_replaced(service: RealService, prefix: str) -> None:
    old, ahead = service.primary, service.replica
    async with RedisStore(service.url, prefix=prefix, command_timeout_seconds=10) as store:
        await put(store, [0])
        await asyncio.gather(*(store.get_items("w") for _ in range(20)))
        await until(service.replicated, what="the replica has everything")
        os.kill(old.pid, signal.SIGSTOP)
        try:
            await until(lambda: service.is_moved_to(ahead), within=30, what="a primary")
            assert await asyncio.gather(*(store.get_items("w") for _ in range(20))) == [[0]] * 20
            assert await store.append_items("w", [1]) == 2
        finally:
            os.kill(old.pid, signal.SIGCONT)
        assert await store.get_items("w") == [0, 1]
        await store.clear()


async def test_calls_go_on_while_the_primary_is_changed(service: RealService, prefix: str) -> None:
    """Tears nothing: each reader sees one whole workspace, and what was acknowledged and copied is there afterwards."""
    ahead = service.replica
    async with RedisStore(service.url, prefix=prefix, command_timeout_seconds=15) as store:
        await put(store, ["old"] * 50_000)
        await put(store, [{"n": n} for n in range(100)], "kept")
        await until(service.replicated, what="the replica has everything")
        over = asyncio.Event()

        async def read() -> set[str]:
            found: set[str] = set()
            while not over.is_set():
                whole = await store.get_items("w")
                assert (len(whole), len(set(whole))) == (50_000, 1)
                found.add(whole[0])
                assert await store.get_page("w", 49_990, 20) in (["old"] * 10, ["new"] * 10)
                assert len(await store.get_items("kept")) == 100
            return found

        async def write() -> None:
            while not over.is_set():
                with contextlib.suppress(StoreUnavailableError):  # one half on each server: not stored, and told so
                    await put(store, ["new"] * 50_000)

        working = asyncio.gather(read(), read(), write())
        service.begin_failover()
        await until(lambda: service.is_moved_to(ahead), within=30, what="another primary")
        over.set()
        await working

        async def has_moved() -> bool:
            await store.ping()
            return pool_of(store).master_address == ("127.0.0.1", ahead.port)

        await until(has_moved, within=3, what="the store has noticed")
        await put(store, ["last"] * 50_000)
        assert await store.get_items("w") == ["last"] * 50_000
        assert await store.get_items("kept") == [{"n": n} for n in range(100)]
        with redis.Redis(port=ahead.port) as client:
            assert list(client.scan_iter(f"{prefix}:*:w:rows:*")) != []
        await store.clear()
