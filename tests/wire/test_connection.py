"""Connections: pools per loop, bounded waiting, cancelled and lost replies, restarts (F13-F15, F19, F20)."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import ssl
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import fakeredis
import pytest
import redis
import redis.asyncio
import trustme

from tests.proxy import Proxy, proxied
from tests.servers import NAMES, RealServer, shared_server, start_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError, WorkspaceMeta
from toolstash.contracts import Address
from toolstash.store.base import BaseStore
from toolstash.store.payload import Payload
from toolstash.toolsets import paginator
from toolstash.wire import keys as layout
from toolstash.wire import scripts


@pytest.fixture
def prefix() -> str:
    return f"t{secrets.token_hex(5)}"


@pytest.fixture
def server() -> RealServer:
    return shared_server("valkey")


@pytest.fixture
async def proxy(server: RealServer) -> AsyncIterator[Proxy]:
    async with proxied(server.url) as made:
        yield made


async def put(store: BaseStore, payload: object, name: str = "w", **meta: Any) -> WorkspaceMeta:
    return (await store.replace(WorkspaceMeta(name, "papers", **meta), Payload(payload))).meta


async def test_cancelled_calls_never_leave_their_reply_to_the_next(proxy: Proxy, prefix: str) -> None:
    async with RedisStore(proxy.url, prefix=prefix, max_connections=8) as store:
        for number in range(20):
            await put(store, [number] * 20, f"w{number}")
        proxy.delay = 0.01
        pick = random.Random(1)

        async def cancelled_read(number: int) -> None:
            with anyio.move_on_after(pick.random() * 0.03):
                await store.get_page(f"w{number % 20}", 0, 10)

        for start in range(0, 1_000, 50):
            await asyncio.gather(*(cancelled_read(number) for number in range(start, start + 50)))
        proxy.delay = 0.0
        for start in range(0, 1_000, 50):
            pages = await asyncio.gather(*(store.get_page(f"w{n % 20}", 0, 10) for n in range(start, start + 50)))
            assert pages == [[n % 20] * 10 for n in range(start, start + 50)]


def test_three_loops_in_a_row_share_one_ctx(server: RealServer, prefix: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ctx = Ctx(RedisStore(server.url, prefix=prefix))
        asyncio.run(_store_once(ctx))
        for _ in range(3):
            assert asyncio.run(ctx.list_workspaces()) == ["w"]
        assert ctx.blocking.list_workspaces() == ["w"]
        ctx.store.blocking.aclose()


async def _store_once(ctx: Ctx) -> None:
    await ctx.store_workspace([1], workspace_type="a", workspace_id="w")


def test_a_loop_that_ends_without_shutting_down_leaves_no_warning(server: RealServer, prefix: str) -> None:
    code = f"""
import asyncio, gc, warnings
warnings.simplefilter("error")
from toolstash import Ctx
ctx = Ctx({server.url!r}, prefix={prefix!r})
for _ in range(3):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(ctx.ping())
    loop.close()
asyncio.run(ctx.ping())
gc.collect()
print("fine")
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_uses_connections_of_its_own(server: RealServer, prefix: str) -> None:
    code = f"""
import asyncio, os, warnings
warnings.simplefilter("error")
from toolstash import Ctx
ctx = Ctx({server.url!r}, prefix={prefix!r})
ctx.blocking.store_workspace([1], workspace_type="a", workspace_id="w")
pid = os.fork()
if pid == 0:
    ok = ctx.blocking.list_workspaces() == ["w"] and asyncio.run(ctx.list_workspaces()) == ["w"]
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
assert ctx.blocking.list_workspaces() == ["w"]
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


async def test_a_full_pool_waits_and_names_its_setting(proxy: Proxy, prefix: str) -> None:
    async with RedisStore(proxy.url, prefix=prefix, max_connections=2) as store:
        await put(store, list(range(50)))
        pages = await asyncio.gather(*(store.get_page("w", n % 50, 1) for n in range(200)))
        assert pages == [[n % 50] for n in range(200)]
    async with RedisStore(proxy.url, prefix=prefix, max_connections=1, wait_seconds=0.05) as store:
        proxy.delay = 0.5
        results = await asyncio.gather(*(store.get_page("w", 0, 1) for _ in range(3)), return_exceptions=True)
        refusals = [result for result in results if isinstance(result, StoreUnavailableError)]
        assert len(refusals) == 2
        assert "max_connections=1" in str(refusals[0])


async def test_a_lost_reply_never_writes_twice(proxy: Proxy, prefix: str) -> None:
    async with RedisStore(proxy.url, prefix=prefix) as store:
        first = await put(store, [0])
        for number in range(1, 21):
            proxy.lose_replies = 1
            assert await store.append_items("w", [number]) == number + 1
        proxy.lose_replies = 2
        again = await put(store, list(range(21)))
        proxy.lose_replies = 1
        assert await store.drop_workspace("w") is True
        assert await store.drop_workspace("w") is False
        assert proxy.lost == 23
        assert first.version != again.version
        proxy.lose_replies = 1
        await put(store, list(range(5_000)))
        assert await store.get_items("w") == list(range(5_000))


@pytest.mark.parametrize("name", NAMES)
async def test_flushed_scripts_are_sent_again(name: str, prefix: str) -> None:
    url = shared_server(name).url
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        for number in range(1, 6):
            await client.script_flush()
            await put(store, list(range(3_000)))
            await client.script_flush()
            assert await store.append_items("w", [number]) == 3_001
            await client.script_flush()
            assert len(await store.get_items("w")) == 3_001


async def test_a_restart_within_the_time_limit_is_survived(prefix: str) -> None:
    server = start_server("valkey", "--appendonly", "yes", "--appendfsync", "always")
    async with RedisStore(server.url, prefix=prefix, command_timeout_seconds=10) as store:
        await put(store, [1, 2, 3])
        restarting = asyncio.ensure_future(asyncio.to_thread(server.restart))
        while not restarting.done():
            assert await store.get_items("w") == [1, 2, 3]
        await restarting
        assert await store.append_items("w", [4]) == 4
    server.stop()


async def test_a_server_that_is_gone_is_a_short_error_for_the_model(prefix: str) -> None:
    server = start_server("valkey")
    async with Ctx(RedisStore(server.url, prefix=prefix, command_timeout_seconds=0.3)) as ctx:
        paginator(ctx, "a")
        ref = await ctx.store_workspace([1], workspace_type="a")
        server.stop()
        refusal = await ctx.adispatch_tool_call("a_count", {"workspace_id": ref.workspace_id})
        assert "did not answer" in refusal["error"]
        assert "Try again" in refusal["suggested_action"]
        assert str(server.port) not in str(refusal)
        await ctx.store.aclose()


async def test_a_frozen_server_does_not_hold_callers(server: RealServer, proxy: Proxy, prefix: str) -> None:
    async with RedisStore(proxy.url, prefix=prefix, command_timeout_seconds=0.3) as store:
        await put(store, [1])
        proxy.delay = 30
        with pytest.raises(StoreUnavailableError, match="did not answer within"):
            await asyncio.wait_for(store.get_items("w"), 5)


async def test_a_full_server_refuses_cleanly_and_reads_go_on(prefix: str) -> None:
    server = start_server("redis-6.2", "--maxmemory", "20mb", "--maxmemory-policy", "noeviction")
    async with RedisStore(server.url, prefix=prefix) as store:
        await put(store, ["old"] * 100)
        for name in ("w", "other"):
            with pytest.raises(StoreUnavailableError, match="full; nothing was stored"):
                await put(store, [f"{number:0>5000}" for number in range(6_000)], name)
        assert await store.get_items("w") == ["old"] * 100
        assert await store.list_workspaces() == ["w"]
        async with redis.asyncio.Redis.from_url(server.url) as client:
            lasting = [key async for key in client.scan_iter("*rows:*") if await client.ttl(key) == -1]
        assert len(lasting) == 1
    server.stop()


async def test_an_evicted_part_is_gone_and_not_shorter(server: RealServer, prefix: str) -> None:
    async with RedisStore(server.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(server.url) as client:
        for payload in ([1, 2, 3], {"a": 1, "b": 2}, "text" * 5_000, 5):
            await put(store, payload, producer_fn="load")
            for family in ("rows", "text", "names", "fields"):
                keys = [
                    key async for key in client.scan_iter(f"{prefix}:*:w:{family}:*") if await client.ttl(key) == -1
                ]
                if keys:
                    await client.unlink(*keys)
                    break
            with pytest.raises(StoreUnavailableError.__mro__[1], match="has expired") as gone:
                await store.get_items("w")
            assert "load()" in gone.value.suggested_action
        await put(store, [1])
        await client.unlink(f"{prefix}:{{shared}}:w:meta")
        with pytest.raises(StoreUnavailableError.__mro__[1], match="has expired"):
            await store.get_page("w", 0, 1)
        assert await store.sweep_expired() == ["w"]


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("make", [redis.Redis, redis.asyncio.Redis])
async def test_of_a_client_only_the_settings_are_taken(
    server: RealServer, prefix: str, make: Any, protocol: int, decode: bool
) -> None:
    client = make.from_url(server.url, db=3, decode_responses=decode, protocol=protocol)
    async with RedisStore(client, prefix=prefix) as store:
        await put(store, [{"é": 1}])
        assert await store.get_items("w") == [{"é": 1}]
        await store.clear()
    assert getattr(client.connection_pool, "_created_connections", 0) in (0, [], {})


@pytest.mark.parametrize("make", [fakeredis.FakeRedis, fakeredis.FakeAsyncRedis])
async def test_fake_clients_work_for_unit_tests(make: Any) -> None:
    async with RedisStore(make()) as store:
        await put(store, {"a": [1]}, ttl=60.0)
        assert await store.get_items("w") == {"a": [1]}


async def test_unix_sockets_and_passwords(prefix: str) -> None:
    server = start_server("redis-8.2", "--requirepass", "s3cret")
    url = f"unix://:s3cret@{server.socket_path}?db=2"
    async with RedisStore(url, prefix=prefix) as store:
        await put(store, [1])
        assert await store.get_items("w") == [1]
    async with RedisStore(f"redis://:wrong@127.0.0.1:{server.port}") as store:
        with pytest.raises(StoreUnavailableError, match="refused access") as refusal:
            await store.list_workspaces()
    assert "wrong" not in str(refusal.value.to_llm_dict())
    server.stop()


@pytest.mark.parametrize(
    "url",
    ["http://x", "redis+cluster://", "redis+sentinel://h:1", "localhost:6379", "redis:/x", "rediss+cluster://h/3"],
)
def test_other_urls_are_refused_at_construction(url: str) -> None:
    with pytest.raises(ValueError, match="known forms"):
        RedisStore(url)


def test_secrets_of_a_url_are_not_repeated() -> None:
    with pytest.raises(ValueError, match="known forms") as refusal:
        RedisStore("http://user:hunter2@host/1")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("client", [object(), 5, redis.asyncio.RedisCluster])
def test_other_clients_are_refused_at_construction(client: Any) -> None:
    with pytest.raises(TypeError, match="URL"):
        RedisStore(client)


async def test_one_round_trip_for_each_look(proxy: Proxy, prefix: str) -> None:
    from toolstash.toolsets import kv_reader, text_content

    async with Ctx(RedisStore(proxy.url, prefix=prefix)) as ctx:
        sets = {"rows": paginator(ctx, "rows"), "dict": kv_reader(ctx, "dict"), "text": text_content(ctx, "text")}
        payloads: dict[str, Any] = {"rows": [{"n": n} for n in range(5_000)], "dict": {"a": 1}, "text": "x" * 500_000}
        for session in (None, "someone"):
            with ctx.session(session):
                ids = {
                    kind: (await ctx.store_workspace(payloads[kind], workspace_type=kind)).workspace_id for kind in sets
                }
                calls = [
                    ("rows_paginate", {"page": 400}),
                    ("rows_count", {}),
                    ("rows_get_item", {"index": 4_999}),
                    ("rows_get_slice", {"start": 100, "end": 200}),
                    ("dict_get_keys", {}),
                    ("dict_get_value", {"key": "a"}),
                    ("text_read_page", {"page": 100}),
                ]
                for _ in range(2):  # the first round also loads the scripts and notes the access
                    for tool, arguments in calls:
                        workspace = ids[tool.partition("_")[0]]
                        await until(lambda: not ctx.store._background._tasks, what="the access is noted")  # type: ignore[attr-defined]
                        before = proxy.trips
                        answer = await ctx.adispatch_tool_call(tool, {"workspace_id": workspace, **arguments})
                        trips = proxy.trips - before
                        assert answer == 1 or "error" not in answer
                assert trips == 1
                for tool, arguments in calls:
                    before = proxy.trips
                    await ctx.adispatch_tool_call(tool, {"workspace_id": ids[tool.partition("_")[0]], **arguments})
                    assert (tool, proxy.trips - before) == (tool, 1)
        await ctx.store.aclose()


async def test_after_a_flush_a_session_is_known_again(server: RealServer, prefix: str) -> None:
    async with RedisStore(server.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(server.url) as client:
        ctx = Ctx(store)
        for _ in range(2):
            with ctx.session("conversation"):
                ref = await ctx.store_workspace([1], workspace_type="a")
            assert await ctx.list_workspaces() == [ref.workspace_id]
            await client.unlink(*[key async for key in client.scan_iter(f"{prefix}:*")])


async def test_a_private_embedded_store_takes_its_data_with_it() -> None:
    store = RedisStore("embedded:")
    await put(store, [1, 2, 3])
    async with RedisStore("embedded:") as other:
        assert await other.list_workspaces() == []
        socket = other._connections._pools[asyncio.get_running_loop()].client.connection_pool.connection_kwargs["path"]
        await store.aclose()
        async with redis.asyncio.Redis(unix_socket_path=socket) as client:
            assert [key async for key in client.scan_iter(f"{store.prefix}:*")] == []


def test_a_password_in_the_query_of_a_url_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="known forms") as refusal:
        RedisStore("valkey://host?password=hunter2")
    assert "hunter2" not in str(refusal.value)


async def test_tls_with_a_private_authority(server: RealServer, prefix: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with proxied(server.url, tls=context) as proxy:
        async with RedisStore(f"{proxy.url}?ssl_ca_certs={tmp_path / 'ca.pem'}", prefix=prefix) as store:
            await put(store, [1, 2, 3], ttl=60.0)
            assert await store.get_items("w") == [1, 2, 3]
        async with RedisStore(proxy.url, prefix=prefix, command_timeout_seconds=0.5) as store:
            with pytest.raises(StoreUnavailableError):
                await store.get_items("w")


async def test_a_late_repeat_on_a_busy_workspace_still_does_its_work_once(proxy: Proxy, prefix: str) -> None:
    async with (
        RedisStore(proxy.url, prefix=prefix) as slow,
        RedisStore(proxy.url, prefix=prefix) as busy,
        redis.asyncio.Redis.from_url(proxy.url) as client,
    ):
        await put(slow, [0])
        keys, operation = slow._keys.workspace(await slow.locate("w")), scripts.new_operation()
        row = scripts.RowChange(clears=False, replaced=[], removed=[], added=[b'"mine"'])
        change = scripts.mutate(keys, operation, row, expected_version=None, codec="orjson", non_finite=0)
        first = await slow._connections.run(change)
        for number in range(100):
            await busy.append_items("w", [number])
        assert await slow._connections.run(change) == first
        assert (await busy.get_items("w")).count("mine") == 1
        old = await put(slow, ["old"])
        repeated = [key async for key in client.scan_iter(f"{keys.stem}op:*")]
        lives = [await client.pttl(key) for key in repeated]
        assert lives
        assert all(0 < life <= layout.OPS_MS for life in lives)
        await put(busy, ["new"])
        assert old.version != (await busy.get_meta("w")).version  # type: ignore[union-attr]
        await busy.clear()


async def test_a_session_without_workspaces_is_let_go(server: RealServer, prefix: str) -> None:
    async with RedisStore(server.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(server.url) as client:
        ctx = Ctx(store)
        for number in range(5):
            with ctx.session(f"s{number}"):
                await ctx.store_workspace([1], workspace_type="a")
                if number:
                    await ctx.clear()
        scores = await client.zrange(f"{prefix}:sessions", 0, -1, withscores=True)
        assert sum(score == float("inf") for _, score in scores) == 1
        assert len(await ctx.list_workspaces()) == 1
        await ctx.clear()


def test_a_fork_that_closes_leaves_the_parents_private_data() -> None:
    code = """
import asyncio, os, warnings
warnings.simplefilter("error")
from toolstash import Ctx
ctx = Ctx("embedded:")
ctx.blocking.store_workspace([1], workspace_type="a", workspace_id="w")
pid = os.fork()
if pid == 0:
    async def child():
        ok = await ctx.list_workspaces() == ["w"]
        await ctx.aclose()
        return ok
    os._exit(0 if asyncio.run(child()) else 1)
assert os.waitpid(pid, 0)[1] == 0
assert ctx.blocking.list_workspaces() == ["w"]
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


def test_a_command_may_not_outlast_the_memory_of_its_repeats() -> None:
    with pytest.raises(ValueError, match="at most 30"):
        RedisStore("redis://127.0.0.1:1", command_timeout_seconds=31)


async def test_a_repeat_of_taking_a_lease_still_leads(proxy: Proxy, prefix: str) -> None:
    async with RedisStore(proxy.url, prefix=prefix) as store:
        at = Address("shared", "w")
        proxy.lose_replies = 1
        assert (await store.flights.join(at, "mine", "digest", followed="lost")).role == "leading"
        assert proxy.lost == 1
        assert (await store.flights.join(at, "other", "digest", followed="lost")).leader == "mine"
        await store.flights.land(at, "mine", b"outcome")
        assert (await store.flights.join(at, "other", "digest", followed="mine")).outcome == b"outcome"
