"""A Redis Cluster: slots that move, nodes that restart, cancelled and lost replies, search on the node of a key."""

from __future__ import annotations

import asyncio
import random
import secrets
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
import redis
import redis.asyncio
import trustme
from redis.asyncio import SSLConnection

from tests.proxy import Proxy, proxied
from tests.servers import RealCluster, RealServer, shared_cluster, shared_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError, WorkspaceMeta
from toolstash.store.base import BaseStore
from toolstash.store.payload import Payload
from toolstash.toolsets import paginator
from toolstash.wire import keys as layout
from toolstash.wire.faults import CommandRefused
from toolstash.wire.source import source_of_url


@pytest.fixture
def prefix() -> str:
    return f"t{secrets.token_hex(5)}"


@pytest.fixture
def cluster() -> RealCluster:
    return shared_cluster()


@pytest.fixture(scope="module")
def shaken() -> Iterator[RealCluster]:
    """A cluster whose slots move and whose nodes end."""
    made = RealCluster("--appendonly", "yes", "--appendfsync", "always")
    yield made
    made.stop()


class Fronted:
    """A cluster whose nodes are all reached through proxies; `client()` is what knows of them."""

    def __init__(self, proxies: dict[int, Proxy]) -> None:
        self.proxies = proxies

    def place(self, address: tuple[str, int]) -> tuple[str, int]:
        port = self.proxies[address[1]].url.rpartition(":")[2] if address[1] in self.proxies else address[1]
        return "127.0.0.1", int(port)

    def client(self, **arguments: Any) -> redis.asyncio.RedisCluster:
        first = self.place(("127.0.0.1", next(iter(self.proxies))))
        return redis.asyncio.RedisCluster(*first, address_remap=self.place, **arguments)

    @property
    def trips(self) -> int:
        return sum(proxy.trips for proxy in self.proxies.values())

    def set(self, **values: Any) -> None:
        for proxy in self.proxies.values():
            for name, value in values.items():
                setattr(proxy, name, value)


@pytest.fixture
async def fronted(cluster: RealCluster) -> AsyncIterator[Fronted]:
    async with AsyncExitStack() as stack:
        yield Fronted({node.port: await stack.enter_async_context(proxied(node.url)) for node in cluster.nodes})


async def put(store: BaseStore, payload: object, name: str = "w", **meta: Any) -> WorkspaceMeta:
    return (await store.replace(WorkspaceMeta(name, "papers", **meta), Payload(payload))).meta


def base_of(prefix: str, session: str | None = None) -> str:
    return layout.Keys(prefix).base(layout.space_of_session(session))


def another(cluster: RealCluster, node: RealServer) -> RealServer:
    return next(one for one in cluster.nodes if one is not node)


async def test_sessions_spread_over_the_nodes(cluster: RealCluster, prefix: str) -> None:
    async with Ctx(RedisStore(cluster.url, prefix=prefix)) as ctx:
        ids: dict[str, str] = {}
        for session in [f"s{number}" for number in range(24)]:
            with ctx.session(session):
                ids[session] = (await ctx.store_workspace([session] * 1_000, workspace_type="a")).workspace_id
        owners = {cluster.owner(base_of(prefix, session)).port for session in ids}
        assert owners == {node.port for node in cluster.nodes}
        assert await ctx.list_workspaces() == list(ids.values())
        async with RedisStore(cluster.url, prefix=prefix) as other:
            for session, workspace_id in ids.items():
                assert await other.get_items(workspace_id) == [session] * 1_000
        await ctx.clear()
        await ctx.store.aclose()


async def test_a_session_is_registered_before_its_workspace_is_published(fronted: Fronted, prefix: str) -> None:
    sessions_node = shared_cluster().owner(layout.Keys(prefix).sessions).port
    elsewhere = next(
        name for name in map(str, range(100)) if shared_cluster().owner(base_of(prefix, name)).port != sessions_node
    )
    async with RedisStore(fronted.client(), prefix=prefix, command_timeout_seconds=0.4) as store:
        await put(store, [0], "warm")
        fronted.proxies[sessions_node].delay = 30
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            await put(store, [1], session_id=elsewhere)
        fronted.set(delay=0)
        ctx = Ctx(store)
        with ctx.session(elsewhere):
            assert await ctx.list_workspaces() == ["warm"]
        await put(store, [1], session_id=elsewhere)
        with ctx.session(elsewhere):
            assert await ctx.list_workspaces() == ["warm", "w"]


async def test_a_slot_that_moves_is_followed(shaken: RealCluster, prefix: str) -> None:
    base = base_of(prefix)
    target = another(shaken, shaken.owner(base))
    async with RedisStore(shaken.url, prefix=prefix, command_timeout_seconds=10) as store:
        await put(store, list(range(5_000)))
        await put(store, [1], "other")
        shaken.begin_to_move(base, target)
        assert await store.get_page("w", 0, 2) == [0, 1]
        assert shaken.move_keys(base, target, but=":w:") > 0
        assert await store.get_page("other", 0, 10) == [1]
        assert await store.get_page("w", 0, 2) == [0, 1]
        waiting = asyncio.gather(store.append_items("w", [5_000]), store.get_items("other"), put(store, [2], "third"))
        assert shaken.move_keys(base, target) > 0
        assert await store.get_page("w", 0, 2) == [0, 1]
        shaken.end_move(base, target)
        assert (await waiting)[:2] == [5_001, [1]]
        assert await store.get_items("w") == list(range(5_001))
        assert await store.append_items("w", [5_001]) == 5_002
        assert shaken.command(target, "EXISTS", f"{base}w:meta") == 1
        assert await store.list_workspaces() == ["w", "other", "third"]
        await store.clear()


async def test_calls_of_all_kinds_survive_a_map_that_is_old(shaken: RealCluster, prefix: str) -> None:
    base = base_of(prefix)
    async with RedisStore(shaken.url, prefix=prefix) as store:
        await put(store, list(range(5_000)))
        calls = {
            "run": lambda: store.append_items("w", [0]),
            "run_all": lambda: put(store, list(range(5_000))),
            "together": lambda: store.get_items("w"),
            "command": store.list_workspaces,
            "pipelined": lambda: store._connections.pipelined(
                base, [("SET", f"{base}x", 1), ("GET", f"{base}x")], seconds=3
            ),
        }
        answers: dict[str, Any] = {}
        for name, call in calls.items():
            target = another(shaken, shaken.owner(base))
            shaken.begin_to_move(base, target)
            shaken.move_keys(base, target)
            shaken.end_move(base, target)
            answers[name] = await call()
        assert answers["run"] == 5_001
        assert answers["together"] == list(range(5_000))
        assert answers["command"] == ["w"]
        assert answers["pipelined"] == [b"OK", b"1"]


async def test_a_restarted_node_is_waited_for(shaken: RealCluster, prefix: str) -> None:
    node = shaken.owner(base_of(prefix))
    async with RedisStore(shaken.url, prefix=prefix, command_timeout_seconds=15) as store:
        await put(store, [1, 2, 3])
        node.kill()
        waiting = asyncio.gather(store.get_items("w"), put(store, [5], "other"))
        await asyncio.wait({waiting}, timeout=0.5)
        assert not waiting.done()
        node.start()  # from this thread: the system ends it together with the thread that started it
        assert (await waiting)[0] == [1, 2, 3]
        assert await store.append_items("w", [4]) == 4
    await until(shaken.is_ok, what="the cluster is whole again")


async def test_a_replica_that_takes_over_is_found(prefix: str) -> None:
    cluster = RealCluster("--cluster-node-timeout", "1000")
    primary = cluster.owner(base_of(prefix))
    replica = cluster.add_replica(primary)
    async with RedisStore(cluster.url, prefix=prefix, command_timeout_seconds=15) as store:
        await put(store, list(range(1_000)))
        cluster.command(replica, "CLUSTER", "FAILOVER")
        while cluster.command(replica, "ROLE")[0] != b"master":
            assert await store.get_items("w") == list(range(1_000))
        assert await store.append_items("w", [0]) == 1_001
        await until(lambda: cluster.follows(primary), what="the old primary follows")
        replica.kill()
        assert await store.append_items("w", [0]) == 1_002
        assert cluster.command(primary, "ROLE")[0] == b"master"
    cluster.stop()


async def test_any_node_is_enough_to_find_the_others(shaken: RealCluster, prefix: str) -> None:
    hosts = f"redis+cluster://127.0.0.1:1,127.0.0.1:{shaken.nodes[2].port}"
    async with RedisStore(hosts, prefix=prefix) as store:
        for number in range(8):
            assert (await put(store, [number], session_id=f"s{number}")).session_id == f"s{number}"
        assert len(await store.list_workspaces()) == 8
        await store.clear()


async def test_a_cluster_that_is_gone_is_a_short_error_for_the_model(prefix: str) -> None:
    cluster = RealCluster()
    async with Ctx(RedisStore(cluster.url, prefix=prefix, command_timeout_seconds=0.5)) as ctx:
        paginator(ctx, "a")
        ref = await ctx.store_workspace([1], workspace_type="a")
        cluster.stop()
        refusal = await ctx.adispatch_tool_call("a_count", {"workspace_id": ref.workspace_id})
        assert "did not answer" in refusal["error"]
        assert not any(str(node.port) in str(refusal) for node in cluster.nodes)
        await ctx.store.aclose()


async def test_cancelled_calls_never_leave_their_reply_to_the_next(fronted: Fronted, prefix: str) -> None:
    async with RedisStore(fronted.client(), prefix=prefix, max_connections=8) as store:
        ids = [(await put(store, [n] * 20, f"w{n}", session_id=f"s{n % 6}")).workspace_id for n in range(20)]
        spaces = [layout.space_of_session(f"s{n % 6}") for n in range(20)]
        fronted.set(delay=0.01)
        pick = random.Random(1)

        async def page(number: int) -> list[int]:
            at = layout.Address(spaces[number % 20], ids[number % 20])
            return (await store.read(at, 0, 10)).data

        async def cancelled(number: int) -> None:
            with anyio.move_on_after(pick.random() * 0.03):
                await page(number)
            with anyio.move_on_after(pick.random() * 0.03):
                await store._connections.pipelined("x", [("ECHO", number), ("ECHO", number)], seconds=3)

        for start in range(0, 600, 50):
            await asyncio.gather(*(cancelled(number) for number in range(start, start + 50)))
        fronted.set(delay=0)
        for start in range(0, 600, 50):
            pages = await asyncio.gather(*(page(n) for n in range(start, start + 50)))
            assert pages == [[n % 20] * 10 for n in range(start, start + 50)]
            echoes = await asyncio.gather(
                *(store._connections.pipelined("x", [("ECHO", n)], seconds=3) for n in range(start, start + 50))
            )
            assert echoes == [[str(n).encode()] for n in range(start, start + 50)]
        await store.clear()


async def test_a_lost_reply_never_writes_twice(fronted: Fronted, prefix: str) -> None:
    async with RedisStore(fronted.client(), prefix=prefix) as store:
        await put(store, [0])
        for number in range(1, 11):
            fronted.set(lose_replies=1)
            assert await store.append_items("w", [number]) == number + 1
        assert sum(proxy.lost for proxy in fronted.proxies.values()) >= 10
        fronted.set(lose_replies=0)
        assert await store.get_items("w") == list(range(11))


async def test_a_frozen_cluster_does_not_hold_callers(fronted: Fronted, prefix: str) -> None:
    async with RedisStore(fronted.client(), prefix=prefix, command_timeout_seconds=0.3) as store:
        await put(store, [1])
        fronted.set(delay=30)
        with pytest.raises(StoreUnavailableError, match="did not answer within"):
            await asyncio.wait_for(store.get_items("w"), 5)


async def test_a_look_is_one_round_trip(fronted: Fronted, prefix: str) -> None:
    async with Ctx(RedisStore(fronted.client(), prefix=prefix)) as ctx:
        paginator(ctx, "rows")
        ref = await ctx.store_workspace(list(range(5_000)), workspace_type="rows")
        page = {"workspace_id": ref.workspace_id, "page": 400}
        await ctx.adispatch_tool_call("rows_paginate", page)
        await until(lambda: not ctx.store._background._tasks, what="the access is noted")  # type: ignore[attr-defined]
        before = fronted.trips
        assert "error" not in await ctx.adispatch_tool_call("rows_paginate", page)
        assert fronted.trips - before == 1
        await ctx.store.aclose()


async def test_nodes_that_lost_their_scripts_get_them_again(cluster: RealCluster, prefix: str) -> None:
    async with RedisStore(cluster.url, prefix=prefix) as store:
        for number in range(6):
            for node in cluster.nodes:
                cluster.command(node, "SCRIPT", "FLUSH")
            await put(store, list(range(3_000)), session_id=f"s{number}")
            cluster.command(cluster.owner(base_of(prefix, f"s{number}")), "SCRIPT", "FLUSH")
            at = layout.Address(layout.space_of_session(f"s{number}"), "w")
            assert (await store.read(at)).data == list(range(3_000))
        assert len(await store.list_workspaces()) == 6
        await store.clear()


async def test_search_goes_to_the_node_of_its_key(cluster: RealCluster, prefix: str) -> None:
    async with RedisStore(cluster.url, prefix=prefix) as store:
        for session in ("a", "b", "c", "d", "e"):
            base = base_of(prefix, session)
            index = f"{base}idx"
            made, stored, hits, refused = await store._connections.pipelined(
                index,
                [
                    ("FT.CREATE", index, "PREFIX", 1, f"{base}doc:", "SCHEMA", "t", "TEXT"),
                    ("HSET", f"{base}doc:1", "t", f"hello {session}"),
                    ("FT.SEARCH", index, "hello", "RETURN", 1, "t", "DIALECT", 2),
                    ("FT.SEARCH", f"{base}none", "hello"),
                ],
                seconds=5,
            )
            assert (made, stored) == (b"OK", 1)
            assert hits == [1, f"{base}doc:1".encode(), [b"t", f"hello {session}".encode()]]
            assert isinstance(refused, CommandRefused)
            assert "no such index" in refused.message
            holding = [node for node in cluster.nodes if index.encode() in cluster.command(node, "FT._LIST")]
            assert holding == [cluster.owner(base)]
            await store._connections.pipelined(index, [("FT.DROPINDEX", index, "DD")], seconds=5)


async def test_a_plain_server_takes_pipelines_too(prefix: str) -> None:
    async with RedisStore(shared_server("redis-8.2").url, prefix=prefix) as store:
        run = store._connections.pipelined
        replies = await run("any", [("INCR", f"{prefix}:n"), ("NO-SUCH",), ("GET", f"{prefix}:n")], seconds=3)
        assert (replies[0], replies[2]) == (1, b"1")
        assert isinstance(replies[1], CommandRefused)
        assert "unknown command" in replies[1].message
        with pytest.raises(StoreUnavailableError, match="within 0.1 s"):
            await run("any", [("BLPOP", f"{prefix}:none", 2), ("GET", f"{prefix}:n")], seconds=0.1)
        assert await run("any", [("PING",)], seconds=3) == [b"PONG"]
        assert await run("any", [("UNLINK", f"{prefix}:n")], seconds=3) == [1]


async def test_a_pipeline_is_sent_once_and_ends_in_time(fronted: Fronted, prefix: str) -> None:
    async with RedisStore(fronted.client(), prefix=prefix) as store:
        key = f"{base_of(prefix)}n"
        assert await store._connections.pipelined(key, [("INCR", key)], seconds=3) == [1]
        fronted.set(lose_replies=1)
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            await store._connections.pipelined(key, [("INCR", key)], seconds=3)
        fronted.set(lose_replies=0)
        assert await store._connections.pipelined(key, [("GET", key)], seconds=3) == [b"2"]
        fronted.set(delay=30)
        with pytest.raises(StoreUnavailableError, match="within 0.2 s"):
            await store._connections.pipelined(key, [("GET", key)], seconds=0.2)
        fronted.set(delay=0)
        assert await store._connections.pipelined(key, [("PING",)], seconds=3) == [b"PONG"]


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
async def test_of_an_asyncio_client_only_the_settings_are_taken(
    cluster: RealCluster, prefix: str, protocol: int, decode: bool
) -> None:
    first = cluster.nodes[0]
    client = redis.asyncio.RedisCluster("127.0.0.1", first.port, decode_responses=decode, protocol=protocol)
    async with RedisStore(client, prefix=prefix) as store:
        await put(store, [{"é": 1}])
        assert await store.get_items("w") == [{"é": 1}]
        await store.clear()
    assert client.get_nodes() == []


@pytest.mark.parametrize("decode", [True, False])
async def test_of_a_blocking_client_only_the_settings_are_taken(
    cluster: RealCluster, prefix: str, decode: bool
) -> None:
    with redis.RedisCluster("127.0.0.1", cluster.nodes[0].port, decode_responses=decode) as client:
        async with RedisStore(client, prefix=prefix) as store:
            await put(store, [{"é": 1}])
            assert await store.get_items("w") == [{"é": 1}]
            await store.clear()


async def test_users_with_few_rights(cluster: RealCluster, prefix: str) -> None:
    rights = [f"~{prefix}*", "+@all", "-@admin", "-@dangerous", "+cluster|slots", "-command"]
    for node in cluster.nodes:
        cluster.command(node, "ACL", "SETUSER", prefix, "reset", "on", ">pass,word", *rights)
    hosts = cluster.url.partition("://")[2]
    async with RedisStore(f"redis+cluster://{prefix}:pass%2Cword@{hosts}", prefix=prefix) as store:
        for session in ("a", "b", None):
            await put(store, [1], session_id=session)
        assert len(await store.list_workspaces()) == 3
        await store.clear()
    async with RedisStore(f"redis+cluster://{prefix}:hunter2@{hosts}", prefix=prefix) as store:
        with pytest.raises(StoreUnavailableError, match="refused access") as refusal:
            await store.list_workspaces()
    assert "hunter2" not in str(refusal.value.to_llm_dict())
    for node in cluster.nodes:
        cluster.command(node, "ACL", "DELUSER", prefix)


@pytest.mark.parametrize("make", [redis.asyncio.RedisCluster, redis.RedisCluster])
async def test_tls_with_a_private_authority(cluster: RealCluster, prefix: str, tmp_path: Path, make: Any) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(proxied(node.url, tls=context)) for node in cluster.nodes]
        front = Fronted(dict(zip([node.port for node in cluster.nodes], proxies, strict=True)))
        host, port = front.place(("127.0.0.1", cluster.nodes[0].port))
        arguments = {"ssl": True, "ssl_ca_certs": str(tmp_path / "ca.pem"), "address_remap": front.place}
        client = await asyncio.to_thread(make, host, port, **arguments)
        async with RedisStore(client, prefix=prefix) as store:
            for session in ("a", "b", "c"):
                await put(store, [1, 2, 3], session_id=session)
            assert len(await store.list_workspaces()) == 3
            await store.clear()
        if make is redis.RedisCluster:
            await asyncio.to_thread(client.close)


def test_what_a_url_says() -> None:
    source = source_of_url("rediss+cluster://me:p%40ss@h1:7001,h2,[::1]:7003/0?ssl_check_hostname=no")
    assert source.nodes == (("h1", 7001), ("h2", 6379), ("::1", 7003))
    assert source.connection_class is SSLConnection
    assert source.arguments == {"username": "me", "password": "p@ss", "ssl_check_hostname": False}
    assert source.described == "rediss+cluster://…@h1:7001,h2,[::1]:7003/0"


@pytest.mark.parametrize("rest", ["", "h:1/1", "h:1,", "h:1?db=2", "u:hunter2@/"])
def test_urls_without_hosts_or_with_a_database_are_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="known forms") as refusal:
        source_of_url(f"redis+cluster://{rest}")
    assert "hunter2" not in str(refusal.value)


async def test_the_wrong_kind_of_url_says_so(cluster: RealCluster, prefix: str) -> None:
    elsewhere = another(cluster, cluster.owner(base_of(prefix)))
    async with RedisStore(elsewhere.url, prefix=prefix) as store:
        with pytest.raises(StoreUnavailableError, match=r"begin with redis\+cluster://"):
            await put(store, [1])
    plain = shared_server("redis-8.2").url.replace("redis://", "redis+cluster://")
    async with RedisStore(plain, prefix=prefix) as store:
        with pytest.raises(StoreUnavailableError, match="is not a Redis Cluster"):
            await put(store, [1])


def test_loops_come_and_go_without_warnings(cluster: RealCluster, prefix: str) -> None:
    code = f"""
import asyncio, gc, os, warnings
warnings.simplefilter("error")
from toolstash import Ctx
ctx = Ctx({cluster.url!r}, prefix={prefix!r})
async def work():
    for session in "abcdef":
        with ctx.session(session):
            await ctx.store_workspace([1], workspace_type="a")
for _ in range(2):
    asyncio.run(work())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work())
    loop.close()
assert len(ctx.blocking.list_workspaces()) == 24
pid = os.fork()
if pid == 0:
    os._exit(0 if len(ctx.blocking.list_workspaces()) == 24 and len(asyncio.run(ctx.list_workspaces())) == 24 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert len(ctx.blocking.list_workspaces()) == 24
ctx.store.blocking.aclose()
gc.collect()
print("fine")
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("fine", "")
