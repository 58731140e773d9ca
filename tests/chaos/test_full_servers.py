"""A server without memory refuses writes cleanly (noeviction), or evicts parts, whose workspaces are gone (F18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions

from tests.chaos.ledger import TTL, lasting, put
from tests.servers import NAMES, RealServer, start_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError, WorkspaceNotFoundError
from toolstash.asking import Answer, Request
from toolstash.contracts import Address
from toolstash.store.call_record import CallRecord, Ending
from toolstash.store.calls import Lease
from toolstash.toolsets import paginator
from toolstash.wire.keys import space_of_session

ROW = "x" * 5_000
BIG = 6_000  # rows: 30 MB


@pytest.fixture(params=NAMES)
def full(request: pytest.FixtureRequest) -> Iterator[RealServer]:
    """A server that refuses writes above 20 MB."""
    made = start_server(request.param, "--maxmemory", "20mb", "--maxmemory-policy", "noeviction")
    yield made
    made.stop()


@pytest.fixture(params=NAMES)
def forgetful(request: pytest.FixtureRequest) -> Iterator[RealServer]:
    """A server that evicts whatever was not used for longest, above 12 MB."""
    made = start_server(request.param, "--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru")
    yield made
    made.stop()


async def stream(rows: int) -> AsyncIterator[str]:
    for number in range(rows):
        yield f"{number}{ROW}"


async def unpublished(client: redis.asyncio.Redis, store: RedisStore) -> list[bytes]:
    """Rows that belong to no workspace."""
    keys = [key async for key in client.scan_iter(f"{store.prefix}:*:rows:*")]
    metas = [key async for key in client.scan_iter(f"{store.prefix}:*:meta")]
    generations = {await client.hget(key, "gen") for key in metas}
    return [key for key in keys if key.rpartition(b":")[2] not in generations]


async def _is_tidy(client: redis.asyncio.Redis, store: RedisStore) -> bool:
    return await unpublished(client, store) == []


@pytest.mark.parametrize("kind", ["list", "stream"])
async def test_a_result_that_does_not_fit_is_refused_and_reads_go_on(full: RealServer, prefix: str, kind: str) -> None:
    async with RedisStore(full.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(full.url) as client:
        ctx = Ctx(store)
        tools = paginator(ctx, "papers")

        @ctx.producer(workspace_type="papers", toolsets=tools, key="big", ttl=TTL)
        async def load() -> Any:
            return stream(BIG) if kind == "stream" else [f"{number}{ROW}" for number in range(BIG)]

        with ctx.session("alice"):
            old = await ctx.store_workspace(["old"] * 100, workspace_type="papers", ttl=TTL)
            for _ in range(2):
                told = await ctx.adispatch_tool_call("load")
                assert told["error"] == "The data store is full; nothing was stored."
                assert "Ask for less data" in told["suggested_action"]
                assert await store.get_items(old.workspace_id) == ["old"] * 100
                assert await ctx.list_workspaces() == [old.workspace_id]
            page = await ctx.adispatch_tool_call("papers_paginate", {"workspace_id": old.workspace_id})
            assert "error" not in page
            assert await lasting(client, prefix) == []


async def test_what_a_refused_store_wrote_goes_at_once(full: RealServer, prefix: str) -> None:
    """So that others have the memory again, and not only in two minutes."""
    async with RedisStore(full.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(full.url) as client:
        await put(store, ["old"], "w")
        for rows in ([f"{number}{ROW}" for number in range(BIG)], stream(BIG)):
            with pytest.raises(StoreUnavailableError, match="full"):
                await put(store, rows, "w")
            await until(lambda: _is_tidy(client, store), within=5, what="what the refused store wrote is gone")
        assert (await put(store, [ROW] * 1_000, "half")).item_count == 1_000


async def test_rows_are_added_until_the_server_is_full(full: RealServer, prefix: str) -> None:
    """An append that is refused adds nothing, also not a part of its rows; dropping makes room."""
    async with RedisStore(full.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(full.url) as client:
        ctx = Ctx(store)
        with ctx.session("alice"):
            ref = await ctx.store_workspace([ROW] * 10, workspace_type="a", ttl=TTL)
            other = await ctx.store_workspace([ROW] * 200, workspace_type="a", ttl=TTL)
            count = 10
            with pytest.raises(StoreUnavailableError, match="full; nothing was stored"):
                for _ in range(100):
                    count = await store.append_items(ref.workspace_id, [ROW] * 100)
            assert 500 < count < 10_000
            assert await store.get_items(ref.workspace_id) == [ROW] * count
            meta = await store.get_meta(ref.workspace_id)
            assert meta is not None
            assert (meta.item_count, meta.version.partition(".")[2]) == (count, str((count - 10) // 100))
            await _drop(store, other.workspace_id)
            await until(lambda: _has_room(client), what="the memory is free again")
            assert await store.append_items(ref.workspace_id, ["more"]) == count + 1
            assert await store.list_workspaces() == [ref.workspace_id]
            assert await lasting(client, prefix) == []


async def test_the_last_workspace_of_a_session_is_dropped_from_a_full_server(full: RealServer, prefix: str) -> None:
    async with RedisStore(full.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(full.url) as client:
        ctx = Ctx(store)
        with ctx.session("alice"):
            ref = await ctx.store_workspace([1], workspace_type="a", ttl=TTL)
            for size in (200_000, 1_000):
                with pytest.raises(redis.exceptions.OutOfMemoryError):
                    for number in range(500):
                        await client.set(f"{prefix}x{size}:{number}", "x" * size, ex=600)
            await _drop(store, ref.workspace_id)
            assert await store.list_workspaces() == []
            assert await store.sweep_expired() == []


async def _drop(store: RedisStore, workspace_id: str) -> None:
    assert await store.drop_workspace(workspace_id) is True


async def _has_room(client: redis.asyncio.Redis) -> bool:
    info = await client.info("memory")
    return info["used_memory"] < info["maxmemory"] - 200_000


async def test_what_is_evicted_is_gone_and_never_shorter(forgetful: RealServer, prefix: str) -> None:
    """Far more is stored than there is room for, by many sessions; whatever is read is whole or gone."""
    payloads: dict[str, Any] = {
        "list": [{"n": number, "pad": "x" * 100} for number in range(1_500)],
        "dict": {f"name {number}": "x" * 100 for number in range(1_000)},
        "text": "é" * 60_000,
        "value": 5,
    }
    sessions = [f"session {number}" for number in range(8)]
    async with (
        RedisStore(forgetful.url, prefix=prefix) as store,
        redis.asyncio.Redis.from_url(forgetful.url) as client,
    ):
        ctx = Ctx(store)
        known: list[tuple[str, str, str]] = []
        seen = {"whole": 0, "gone": 0}

        async def read(session: str, kind: str, name: str) -> None:
            with ctx.session(session):
                try:
                    found = await store.get_items(name)
                except WorkspaceNotFoundError:
                    seen["gone"] += 1
                    return
            assert found == payloads[kind]
            seen["whole"] += 1

        async def live(session: str) -> None:
            for turn in range(16):
                kind = [*payloads][turn % len(payloads)]
                with ctx.session(session):
                    try:
                        ref = await ctx.store_workspace(payloads[kind], workspace_type="a", ttl=TTL)
                    except StoreUnavailableError as lost:
                        seen["gone"] += "lost a part" in str(lost)
                        continue
                known.append((session, kind, ref.workspace_id))
                for one in known[-3:] + known[: len(known) // 2 : 9]:
                    await read(*one)

        await asyncio.gather(*(live(session) for session in sessions))
        for one in known:
            await read(*one)
        assert seen["whole"] > 30
        assert seen["gone"] > 30
        assert (await client.info("stats"))["evicted_keys"] > 50
        assert await lasting(client, prefix) == []
        for session in sessions:  # whatever was lost of the books, it goes on
            with ctx.session(session):
                ref = await ctx.store_workspace([1], workspace_type="a", ttl=TTL)
                assert ref.workspace_id in await ctx.list_workspaces()
                assert await store.get_items(ref.workspace_id) == [1]
                await ctx.sweep_expired()
                for name in await ctx.list_workspaces():
                    assert await store.get_meta(name) is not None or await store.drop_workspace(name)
        assert await lasting(client, prefix) == []


@pytest.mark.parametrize("lost", ["created", "expiring", "sessions"])
async def test_lost_books_are_opened_again(forgetful: RealServer, prefix: str, lost: str) -> None:
    """Without its registry a workspace is read as before; what is stored next is listed, and swept, again."""
    async with (
        RedisStore(forgetful.url, prefix=prefix) as store,
        RedisStore(forgetful.url, prefix=prefix) as stranger,
        redis.asyncio.Redis.from_url(forgetful.url) as client,
    ):
        ctx = Ctx(store)
        with ctx.session("alice"):
            first = await ctx.store_workspace([1], workspace_type="a", ttl=TTL)
            (key,) = [key async for key in client.scan_iter(f"{prefix}:*{lost}")]
            await client.unlink(key)
            assert await store.get_items(first.workspace_id) == [1]
            assert await store.append_items(first.workspace_id, [2]) == 2
            second = await ctx.store_workspace([3], workspace_type="a", ttl=TTL)
            assert second.workspace_id in await ctx.list_workspaces()
            assert await ctx.sweep_expired() == []
        assert await stranger.get_items(second.workspace_id) == [3]
        assert second.workspace_id in await stranger.list_workspaces()
        assert await lasting(client, prefix) == []
        with ctx.session("alice"):
            assert await ctx.drop_workspace(first.workspace_id)
            assert await ctx.drop_workspace(second.workspace_id)
            assert await ctx.list_workspaces() == []


async def test_calls_go_on_where_no_new_ones_fit(full: RealServer, prefix: str) -> None:
    """On a full server nothing new is suspended; what waits is answered, held, cancelled and ended."""
    async with RedisStore(full.url, prefix=prefix) as store, redis.asyncio.Redis.from_url(full.url) as client:
        book, space = store.calls, space_of_session("alice")
        places = [Address(space, f"call_{number}") for number in range(3)]

        async def suspend(at: Address) -> None:
            seen = await book.look(at)
            record = CallRecord(tool="t").suspended(Request("q", "approval", "May I?"), seen.now)
            assert await book.swap(at, seen, record)

        for at in places:
            await suspend(at)
        await client.config_set("maxmemory", 1)
        for new in (Address(space, "new"), Address("shared", "new")):
            with pytest.raises(StoreUnavailableError, match="full"):
                await suspend(new)
            assert (await book.look(new)).record is None

        at = places[0]
        seen = await book.look(at)
        assert seen.record is not None
        answered = seen.record.answered(Answer("q", ok=True), seen.now, owner="w", inbox="in")
        assert await book.swap(at, seen, answered, in_time=True)
        await book.put_off(at, 5)
        await book.call_back("in", at.workspace_id)
        assert await book.keep([Lease(at, "w")]) == [(await book.look(at)).revision]
        assert await book.swap(at, await book.look(at), answered.ended(Ending("done", value=1)))
        await book.strike(at)
        for other in places[1:]:
            seen = await book.look(other)
            assert seen.record is not None
            assert await book.swap(other, seen, seen.record.cancelled(seen.now, is_held=False))
        assert await book.count_waiting(None) == 0
        assert await lasting(client, prefix) == []
