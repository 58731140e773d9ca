"""What many workers on one server run into in other software: F13 to F23, F42 and F43 of the field's reports.

Each case with its own small input; more of it is shown at length elsewhere:

| Case | Its input | At length |
|---|---|---|
| F13 wrong reply after a cancel | here | chaos/test_cancellations.py, wire/test_cluster.py, workers/test_uvicorn.py |
| F14 another event loop | workers/test_scripts.py: loops in a row, test clients | wire/test_connection.py |
| F15 a full pool | here | wire/test_connection.py::test_a_full_pool_waits_and_names_its_setting |
| F16 failover | chaos/test_promotions.py::test_writers_find_the_promoted_replica | wire/test_sentinel.py |
| F17 managed servers | search/test_abilities.py::test_f17_a_user_without_search_rights_has_all_the_rest | |
| F18 no memory | chaos/test_full_servers.py | field/test_indexes.py |
| F19 forgotten scripts | chaos/test_flushed_and_killed.py; here: a new node | wire/test_cluster.py |
| F20 kinds of URLs | here, at construction | wire/test_connection.py, test_cluster.py, test_sentinel.py: at work |
| F21 keys without expiry | here | house/test_key_leaks.py, chaos/test_killed_writers.py |
| F22 prefixes and ids | here: ids | contract/test_sessions.py, contract/test_doors.py: prefixes |
| F23 a fake server | contract/, on each of them | here: a small life |
| F42 a cache without identity | contract/test_flights.py: two sessions, two versions of a program | |
| F43 the other worker does not know | workers/test_uvicorn.py: four workers, no sticky sessions | |
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from typing import Any

import anyio
import fakeredis
import pytest
import redis.asyncio

from tests.chaos.ledger import lasting
from tests.chaos.writer import end_writer, start_writer
from tests.contract.conftest import BACK_ENDS
from tests.proxy import proxied
from tests.servers import NAMES, RealCluster, shared_cluster, shared_server
from tests.wait import until
from toolstash import Ctx, RedisStore, WorkspaceNotFoundError
from toolstash.toolsets import paginator
from toolstash.wire import keys as layout

TTL = 5.0


@pytest.fixture
def prefix() -> str:
    return f"f{secrets.token_hex(5)}"


async def pages(ctx: Ctx, sessions: dict[str, str], number: int) -> Any:
    """One page of the workspace of the session whose turn it is, as a model asks for it."""
    session = [*sessions][number % len(sessions)]
    answer = await ctx.adispatch_tool_call("a_paginate", {"workspace_id": sessions[session]}, session_id=session)
    return answer.get("result", answer)["items"]


async def some_sessions(ctx: Ctx, number: int) -> dict[str, str]:
    paginator(ctx, "a")
    sessions: dict[str, str] = {}
    for session in (f"s{one}" for one in range(number)):
        with ctx.session(session):
            sessions[session] = (await ctx.store_workspace([session] * 5, workspace_type="a", ttl=60.0)).workspace_id
    return sessions


async def test_f13_a_thousand_cancelled_pages_then_a_thousand_known_ones(prefix: str) -> None:
    async with (
        proxied(shared_server("redis-8.2").url) as proxy,
        RedisStore(proxy.url, prefix=prefix, wait_seconds=20) as store,
    ):
        ctx, pick = Ctx(store), random.Random(13)
        sessions = await some_sessions(ctx, 20)
        proxy.delay = 0.1

        async def hang_up(number: int) -> None:
            with anyio.move_on_after(pick.random() * 0.25):
                await pages(ctx, sessions, number)

        for start in range(0, 1_000, 250):
            await asyncio.gather(*(hang_up(number) for number in range(start, start + 250)))
        proxy.delay = 0.0
        found = await asyncio.gather(*(pages(ctx, sessions, number) for number in range(1_000)))
        assert found == [[f"s{number % 20}"] * 5 for number in range(1_000)]


async def test_f15_two_hundred_calls_share_two_connections(prefix: str) -> None:
    async with RedisStore(shared_server("valkey").url, prefix=prefix, max_connections=2, wait_seconds=20) as store:
        ctx = Ctx(store)
        sessions = await some_sessions(ctx, 10)
        found = await asyncio.gather(*(pages(ctx, sessions, number) for number in range(200)))
        assert found == [[f"s{number % 10}"] * 5 for number in range(200)]


async def test_f19_a_node_that_was_just_added_knows_no_script(prefix: str) -> None:
    cluster = RealCluster()
    base = layout.Keys(prefix).base("shared")
    async with RedisStore(cluster.url, prefix=prefix) as store:
        ctx = Ctx(store)
        ref = await ctx.store_workspace([0], workspace_type="a", ttl=60.0)
        added = cluster.add_node()
        cluster.begin_to_move(base, added)
        cluster.move_keys(base, added)
        cluster.end_move(base, added)
        assert cluster.owner(base) is added
        assert await asyncio.gather(*(store.append_items(ref.workspace_id, [n]) for n in range(20)))
        meta = await store.get_meta(ref.workspace_id)
        assert meta is not None
        assert (meta.item_count, meta.version.partition(".")[2]) == (21, "20")
        assert sorted(await store.get_items(ref.workspace_id)) == [0, *range(20)]
        await ctx.clear()
    cluster.stop()


@pytest.mark.parametrize("kind", ["redis://", "unix://", "redis+cluster://"])
async def test_f20_a_store_speaks_to_what_its_url_says(kind: str, prefix: str) -> None:
    server = shared_server("valkey")
    url = {"redis://": server.url, "unix://": server.unix_url}.get(kind) or shared_cluster().url
    assert url.startswith(kind)
    async with RedisStore(url, prefix=prefix) as store:
        ctx = Ctx(store)
        for session in ("a", "b", "c", "d"):  # on more than one node of a cluster
            with ctx.session(session):
                ref = await ctx.store_workspace([session], workspace_type="a", ttl=60.0)
                assert await store.get_items(ref.workspace_id) == [session]
        await ctx.clear()


@pytest.mark.parametrize(
    "url", ["rediss://h:1", "rediss+cluster://h:1", "redis+sentinel://h:1,h:2/service/0", "redis+x://h"]
)
def test_f20_a_url_is_understood_or_refused_at_construction(url: str) -> None:
    try:
        store = RedisStore(url)
    except ValueError as refusal:
        said = str(refusal)
        assert "known forms" in said
    else:
        assert url != "redis+x://h"
        assert store._source.described.startswith(url.partition("h:")[0])


async def test_f21_with_five_seconds_to_live_nothing_stays_for_ever(prefix: str) -> None:
    url = shared_server("valkey").url
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        ctx = Ctx(store)

        async def endless() -> AsyncIterator[str]:
            while True:
                yield "x" * 100_000

        with ctx.session("alice"):
            writing = asyncio.ensure_future(ctx.store_workspace(endless(), workspace_type="a", ttl=TTL))
            await until(lambda: _keys(client, f"{prefix}:*:rows:*"), what="a part of it is written")
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            short = await ctx.store_workspace([1], workspace_type="a", ttl=0.05)
            await until(lambda: _is_gone(store, short.workspace_id), what="it has expired")
            before = await _keys(client, f"{prefix}:*")
            for change in (store.append_items(short.workspace_id, [2]), store.patch_item(short.workspace_id, 0, {})):
                with pytest.raises(WorkspaceNotFoundError):
                    await change
            assert await _keys(client, f"{prefix}:*") <= before
            await ctx.store_workspace([1], workspace_type="a", ttl=TTL)
        await _killed_in_the_middle(url, prefix)
        assert await lasting(client, prefix) == []


async def _killed_in_the_middle(url: str, prefix: str) -> None:
    """A writer of another process that is killed while it writes."""
    process = await start_writer(url, prefix, 20_000)
    async with redis.asyncio.Redis.from_url(url) as client:
        known = await _keys(client, f"{prefix}:*:w:rows:*")
        await until(lambda: _more(client, f"{prefix}:*:w:rows:*", known), what="it writes again")
    await end_writer(process)


async def _keys(client: redis.asyncio.Redis, pattern: str) -> set[bytes]:
    return {key async for key in client.scan_iter(pattern)}


async def _more(client: redis.asyncio.Redis, pattern: str, known: set[bytes]) -> bool:
    return not await _keys(client, pattern) <= known


async def _is_gone(store: RedisStore, workspace_id: str) -> bool:
    return await store.get_meta(workspace_id) is None


@pytest.mark.parametrize("dropped", ["u1", "u1:x", "u10"])
async def test_f22_of_sessions_and_ids_that_look_alike_only_one_is_dropped(dropped: str, prefix: str) -> None:
    """Joined with a colon, each of these pairs of a session and an id reads like another one."""
    pairs = [("u1", "x:w"), ("u1:x", "w"), ("u10", "w"), ("u1", "0:w"), ("u1", "*"), ("u10", "x:w")]
    async with RedisStore(shared_server("valkey").url, prefix=prefix) as store:
        ctx = Ctx(store)
        ids: dict[tuple[str, str], str] = {}
        for pair in pairs:
            with ctx.session(pair[0]):
                ref = await ctx.store_workspace([*pair], workspace_type="a", workspace_id=pair[1], ttl=60.0)
                ids[pair] = ref.workspace_id
        gone = next(pair for pair in pairs if pair[0] == dropped)
        with ctx.session(dropped):
            assert await ctx.drop_workspace(ids[gone]) is True
        for pair in pairs:
            with ctx.session(pair[0]):
                if pair != gone:
                    assert await store.get_items(ids[pair]) == [*pair]
        assert len(await ctx.list_workspaces()) == len(pairs) - 1
        await ctx.clear()


def test_f23_the_contract_runs_on_the_fake_server_and_on_real_ones() -> None:
    """What the fake one cannot do is listed where it is left out: search (search/test_abilities.py)."""
    assert {"fakeredis", "valkey", "redis-8.2", "redis-6.2", "cluster"} <= {*BACK_ENDS}
    assert {*NAMES} <= {*BACK_ENDS}


async def test_f23_a_small_life_is_the_same_on_each_of_them(prefix: str) -> None:
    lives: list[Any] = []
    for place in (fakeredis.FakeAsyncRedis(), *(shared_server(name).url for name in NAMES)):
        async with RedisStore(place, prefix=prefix) as store:
            ctx = Ctx(store)
            ref = await ctx.store_workspace([{"a": [], "n": 2**53 + 1}, {}], workspace_type="a", ttl=60.0)
            name = ref.workspace_id
            life: list[Any] = [await store.append_items(name, [None, 1.5])]
            life.append((await store.patch_item(name, 1, {"é": []})).item_count)
            life += [await store.delete_items(name, [0]), await store.get_items(name), ref.item_count]
            life += [await store.drop_workspace(name), await store.drop_workspace(name), await store.list_workspaces()]
            lives.append(life)
    assert lives == [lives[0]] * 4
    assert lives[0][3] == [{"é": []}, None, 1.5]
