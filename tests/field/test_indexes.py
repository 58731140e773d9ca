"""What search indexes do in other software: F5, F7, F9, F12, F18 and F21 of the field's reports, with an index."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from tests.contract.conftest import IndexedStore
from tests.field.test_searching import call, stored
from tests.servers import shared_server, start_server
from tests.wait import until
from toolstash import BaseStore, RedisStore
from toolstash.errors import StoreUnavailableError

SEARCHING = "redis-8.2"


@pytest.fixture
async def indexed() -> AsyncIterator[IndexedStore]:
    """A store where every list has an index."""
    store = IndexedStore(shared_server(SEARCHING).url, f"f{secrets.token_hex(5)}")
    yield store
    await store.clear()
    await store.aclose()


@pytest.mark.parametrize("bad", [["N/A", "", None], [True, [], {}], [2**64, -(2**53) - 1, "1"], [float("nan")] * 3])
async def test_f7_one_bad_number_takes_no_row_out(store: BaseStore, bad: list[Any]) -> None:
    rows = [{"price": number, "t": "lamp"} for number in range(100)] + [{"price": value, "t": "lamp"} for value in bad]
    ctx, ws = await stored(store, rows)
    answer = await call(ctx, "search", ws, query="lamp", max_results=1)
    assert answer["total_matches"] == 103
    assert (await call(ctx, "filter_by", ws, field="price", value=50, operator="gte"))["total_matches"] >= 50
    assert (await call(ctx, "sort_by", ws, field="price"))["total"] == 103
    counted = await call(ctx, "pipe", ws, steps=[{"filter": {"t": "lamp"}}, {"count": True}])
    assert counted == {"count": 103}


async def test_f9_the_same_total_every_time(indexed: IndexedStore) -> None:
    ctx, ws = await stored(indexed, [{"t": f"word{number % 7} common", "n": number} for number in range(20_000)])
    totals = [(await call(ctx, "search", ws, query="common", max_results=1))["total_matches"] for _ in range(20)]
    assert totals == [20_000] * 20
    count = [{"filter": {"n": {"$gte": 5}}}, {"search": "common"}, {"count": True}]
    counts = [(await call(ctx, "pipe", ws, steps=count))["count"] for _ in range(20)]
    assert counts == [19_995] * 20
    assert indexed.answered == {"Search": 20, "Pipe": 20}


async def test_f9_an_index_that_is_too_slow_is_not_waited_for(
    indexed: IndexedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, ws = await stored(indexed, [{"t": "common", "n": number} for number in range(2_000)])
    assert (await call(ctx, "search", ws, query="common"))["engine"] == "redisearch"
    monkeypatch.setattr("toolstash.store.search_index.SEARCH_SECONDS", 0.0)
    for _ in range(5):
        answer = await ctx.adispatch_tool_call("t_search", {"workspace_id": ws, "query": "common"})
        assert (answer["engine"], answer["total_matches"]) == ("python", 2_000)


SYNTAX = ['") | (@secret:*', "*", "a|b", "x} @session:{y", '"', "\\", "$ne", "a\nb", "@t:(secret)", "=>{$weight:0}"]


@pytest.mark.parametrize("value", SYNTAX)
async def test_f5_nothing_is_read_as_a_query_of_the_index(indexed: IndexedStore, value: str) -> None:
    ctx = (await stored(indexed, [{"a": "secret"}]))[0]
    with ctx.session("other"):
        await ctx.store_workspace([{"a": value, value: "hidden"}], workspace_type="t")
    with ctx.session(value):
        rows = [{"a": value, value: value}, {"a": "secret", value: "z"}, {"a": [value]}]
        ws = (await ctx.store_workspace(rows, workspace_type="t", workspace_id=value)).workspace_id
        piped = await call(ctx, "pipe", ws, steps=[{"filter": {"a": {"$ne": value}}}, {"count": True}])
        assert piped == {"count": 1}
        assert [hit["index"] for hit in (await call(ctx, "filter_by", ws, field="a", value=value))["results"]] == [0, 2]
        assert indexed.answered == {"Pipe": 1, "Filter": 1}
        assert (await call(ctx, "search", ws, query="hidden"))["total_matches"] == 0
        either = await ctx.adispatch_tool_call("t_search", {"workspace_id": ws, "query": f"secret {value}"})
        assert 1 in [match["index"] for match in either["matches"]]
        grouped = await call(ctx, "pipe", ws, steps=[{"filter": {"a": "secret"}}, {"group_by": "a"}])
        assert grouped["items"] == [{"a": "secret", "count": 1}]


async def test_f12_a_row_of_5_mb_does_not_hold_the_loop(indexed: IndexedStore) -> None:
    long = "word " * 1_000_000 + "common"
    ctx, ws = await stored(indexed, [{"t": "common"}] * 50 + [{"t": long}] + [{"t": "common"}] * 50)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - began)

    watching = asyncio.create_task(watch())
    answers = [await call(ctx, "search", ws, query=query, max_results=100) for query in ("common", "words")]
    watching.cancel()
    assert [answer["total_matches"] for answer in answers] == [101, 1]
    assert [answer["engine"] for answer in answers] == ["redisearch"] * 2
    assert answers[1]["matches"][0]["index"] == 50
    assert all(len(match["snippet"]) < 170 for answer in answers for match in answer["matches"])
    assert longest < 1


async def test_f18_a_full_server_builds_no_index_and_reads_go_on() -> None:
    server = start_server(SEARCHING, "--maxmemory-policy", "noeviction")
    async with RedisStore(server.url, prefix="full") as store, redis.asyncio.Redis.from_url(server.url) as client:
        ctx, ws = await stored(store, [{"t": f"common {number}", "n": number} for number in range(2_000)])
        assert await store.build_index(ws)
        wide = await ctx.store_workspace([{"t": f"{row:0>4000} common"} for row in range(3_000)], workspace_type="t")
        used = (await client.info("memory"))["used_memory"]
        await client.config_set("maxmemory", used + 300_000)
        with pytest.raises(StoreUnavailableError, match="full"):
            await store.build_index(wide.workspace_id)
        for workspace_id, engine, total in ((ws, "redisearch", 2_000), (wide.workspace_id, "python", 3_000)):
            answer = await ctx.adispatch_tool_call("t_search", {"workspace_id": workspace_id, "query": "common"})
            assert (answer["engine"], answer["total_matches"]) == (engine, total)
        documents = [key async for key in client.scan_iter("full:*:doc:*", count=1_000)]
        assert len(documents) == 2_000, "what the second index had is gone again"
    server.stop()


async def keys_without_ttl(url: str, prefix: str) -> list[bytes]:
    async with redis.asyncio.Redis.from_url(url) as client:
        return [key async for key in client.scan_iter(f"{prefix}:*", count=1_000) if await client.pttl(key) == -1]


async def test_f21_all_that_an_index_has_expires_with_its_workspace(indexed: IndexedStore) -> None:
    url = shared_server(SEARCHING).url
    ctx, ws = await stored(indexed, [{"t": f"common {number}"} for number in range(300)], ttl=60)
    await ctx.store_workspace([{"t": "x"}] * 50, workspace_type="t", workspace_id=ws, ttl=60)
    await indexed.append_items(ws, [{"t": "y"}])
    assert await indexed.build_index(ws, ["t"])
    with ctx.session("s"):
        await ctx.store_workspace([{"t": "x"}] * 50, workspace_type="t", ttl=60)
    building = asyncio.create_task(indexed.build_index(ws))
    await asyncio.sleep(0)
    building.cancel()
    await asyncio.gather(building, return_exceptions=True)
    assert await keys_without_ttl(url, indexed.prefix) == []
    await stored(indexed, [{"t": f"common {number}"} for number in range(50)], ttl=0.5)

    async def documents() -> list[bytes]:
        async with redis.asyncio.Redis.from_url(url) as client:
            return [key async for key in client.scan_iter(f"{indexed.prefix}:*:doc:*", count=1_000)]

    await until(lambda: _fewer(documents, 50 + 51 + 50), what="the documents of the short-lived one are gone")
    assert await keys_without_ttl(url, indexed.prefix) == []
    await ctx.clear()


async def _fewer(count: Any, most: int) -> bool:
    return len(await count()) <= most


async def test_f21_a_workspace_that_stays_leaves_nothing_when_it_is_dropped(indexed: IndexedStore) -> None:
    url = shared_server(SEARCHING).url
    _, ws = await stored(indexed, [{"t": f"common {number}"} for number in range(300)], ttl=None)
    assert len(await keys_without_ttl(url, indexed.prefix)) > 300
    await indexed.drop_workspace(ws)
    await indexed._indexes.settle()
    left = await keys_without_ttl(url, indexed.prefix)
    assert left == []
