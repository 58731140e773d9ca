"""Servers with all, some or nothing of the search module, and users who may use all, some or nothing of it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.proxy import proxied
from tests.search.engines import by_python
from tests.servers import RealServer, shared_server, start_server
from toolstash import Ctx, RedisStore
from toolstash.query.conditions import compile_leaf
from toolstash.query.questions import FieldValues, Filter, Question, Search, Sort
from toolstash.query.terms import parse_query
from toolstash.store.search_ability import Ability
from toolstash.toolsets import filter_set, paginator, text_search

ROWS = [{"n": number % 9, "t": f"red fox {number}", "k": "ab"[number % 2]} for number in range(40)]
QUESTIONS: list[Question[Any]] = [
    Search(parse_query("fox 7"), None, 10),
    Search(parse_query("no-such"), None, 10),
    Filter(compile_leaf("n", "$gte", 4), 10),
    Sort("n", True, 10),
    FieldValues("k", 5),
]
MANAGED = "+@all -@admin -module -config -keys -flushdb -ft.create -ft.search -ft.aggregate -ft._list -ft.info"
"""The rights of a user of a managed Redis where search is not part of the plan."""


@pytest.fixture
def prefix() -> str:
    return f"a{secrets.token_hex(5)}"


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What toolstash logs, from INFO on."""
    caplog.set_level(logging.INFO, logger="toolstash")
    return caplog


def said(told: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and text of each line."""
    return [(line.levelname, line.getMessage()) for line in told.records if line.name == "toolstash"]


@asynccontextmanager
async def opened(url_or_client: Any, prefix: str) -> AsyncIterator[RedisStore]:
    """A store that takes its workspaces away at the end."""
    store = RedisStore(url_or_client, prefix=prefix)
    try:
        yield store
        await store.clear()
    finally:
        await store.aclose()


async def ask_all(store: RedisStore, *, rows: Sequence[Any] = ROWS, workspace_id: str = "w") -> list[str]:
    """Asks each question, checks that the answer is Python's, and says which engine gave it."""
    at = await store.locate(workspace_id)
    engines: list[str] = []
    for question in QUESTIONS:
        by_index = await store._indexes.answer(at, question, lambda _: None)
        answer = (await store.ask(at, question)).data
        expected = by_python([*rows], question)
        if isinstance(question, FieldValues):
            assert (answer.total, answer.values) == (expected.total, expected.values)
        else:
            assert answer.total == expected.total
            assert [hit.index for hit in answer.hits] == [hit.index for hit in expected.hits]
            assert [hit.item for hit in answer.hits] == [hit.item for hit in expected.hits]
        engines.append("python" if by_index is None else "redisearch")
    return engines


BY_INDEX = ["redisearch", "python", "redisearch", "redisearch", "redisearch"]
"""Who answers QUESTIONS where there is an index: no hit at all is Python's, which then looks for parts of words."""
BY_PYTHON = ["python"] * 5


async def put(store: RedisStore, *, index: bool = True) -> bool:
    """The workspace "w"; whether it has an index."""
    await Ctx(store).store_workspace(ROWS, workspace_type="t", workspace_id="w")
    return index and await store.build_index("w")


async def test_an_index_is_used_on_every_server_that_can(search_store: RedisStore) -> None:
    assert await search_store._indexes.ability() == Ability(0.5)
    assert await put(search_store)
    assert await ask_all(search_store) == BY_INDEX


async def test_a_plain_server_is_told_of_once(prefix: str, told: pytest.LogCaptureFixture) -> None:
    async with opened(shared_server("valkey").url, prefix) as store:
        assert not await put(store)
        for _ in range(5):
            assert await ask_all(store) == BY_PYTHON
    assert said(told) == [("INFO", "the data store has no search module: Python answers all questions")]


async def test_fakeredis_has_no_search(prefix: str, told: pytest.LogCaptureFixture) -> None:
    import fakeredis

    async with opened(fakeredis.FakeAsyncRedis(), prefix) as store:
        assert not await put(store)
        for _ in range(2):
            assert await ask_all(store) == BY_PYTHON
    assert said(told) == [("INFO", "the data store has no search module: Python answers all questions")]


@asynccontextmanager
async def user(server: RealServer, rights: str) -> AsyncIterator[str]:
    """The URL of a user with these rights."""
    name = f"u{secrets.token_hex(4)}"
    async with redis.asyncio.Redis.from_url(server.url) as client:
        await client.execute_command("ACL", "SETUSER", name, "reset", "on", ">word", *rights.split())
        yield f"redis://{name}:word@127.0.0.1:{server.port}"
        await client.execute_command("ACL", "DELUSER", name)


@pytest.mark.parametrize("name", ["redis-8.2", "valkey-search"])
async def test_f17_a_user_without_search_rights_has_all_the_rest(
    name: str, prefix: str, told: pytest.LogCaptureFixture
) -> None:
    async with user(shared_server(name), f"{MANAGED} ~{prefix}:*") as url, opened(url, prefix) as store:
        ctx = Ctx(store)
        for factory in (paginator, text_search, filter_set):
            factory(ctx, "t")
        with ctx.session("alice"):
            ref = await ctx.store_workspace(ROWS, workspace_type="t")

            async def call(tool: str, **arguments: Any) -> Any:
                return await ctx.adispatch_tool_call(f"t_{tool}", {"workspace_id": ref.workspace_id, **arguments})

            for _ in range(3):
                found = await call("search", query="fox 7")
                assert (found["engine"], found["matches"][0]["index"], found["total_matches"]) == ("python", 7, 40)
                assert (await call("filter_by", field="k", value="a"))["total_matches"] == 20
                assert (await call("paginate"))["result"]["items"][0] == ROWS[0]
            assert not await store.build_index(ref.workspace_id)
            await ctx.sweep_expired()
            assert await ctx.drop_workspace(ref.workspace_id)
        await Ctx(store).store_workspace(ROWS, workspace_type="t", workspace_id="w")
        assert await ask_all(store) == BY_PYTHON
    ((level, text),) = said(told)
    assert level == "WARNING"
    assert text.startswith("the data store's user may not use its search commands")
    assert "module" not in text


@pytest.mark.parametrize("lacking", ["ft.aggregate", "ft.info", "ft._list", "ft.search", "ft.dropindex"])
async def test_a_user_with_some_search_rights_leaves_no_index_behind(
    lacking: str, prefix: str, told: pytest.LogCaptureFixture
) -> None:
    server = shared_server("redis-8.2")
    async with user(server, f"+@all -{lacking} ~{prefix}:*") as url, opened(url, prefix) as store:
        assert not await put(store)
        assert await ask_all(store) == BY_PYTHON
    ((level, text),) = said(told)
    assert level == "WARNING"
    assert "may not use its search commands" in text
    async with redis.asyncio.Redis.from_url(server.url) as client:
        names = [name for name in await client.execute_command("FT._LIST") if prefix.encode() in name]
        assert lacking == "ft.dropindex" or names == []
        for name in names:
            await client.execute_command("FT.DROPINDEX", name)
        assert [key async for key in client.scan_iter(f"{prefix}:*:doc:*")] == []


@pytest.mark.parametrize("name", ["redis-8.2", "valkey-search"])
@pytest.mark.parametrize("rights", ["+@all", "+@all -@admin -@dangerous +info -module -config -keys"])
async def test_a_user_of_one_prefix_may_search_in_it(
    rights: str, name: str, prefix: str, told: pytest.LogCaptureFixture
) -> None:
    async with user(shared_server(name), f"{rights} ~{prefix}:*") as url, opened(url, prefix) as store:
        assert await put(store)
        assert await ask_all(store) == BY_INDEX
        await store.sweep_expired()
        assert await ask_all(store) == BY_INDEX
    assert said(told) == []


async def test_a_look_alike_without_texts_is_told_of_once(prefix: str, told: pytest.LogCaptureFixture) -> None:
    async with proxied(shared_server("redis-8.2").url) as proxy:
        proxy.requests[b"$4\r\nTEXT\r\n"] = b"$4\r\nTXET\r\n"
        proxy.replies[b"Invalid field type for field `t`"] = b"Unknown argument `TEXT`"
        async with opened(proxy.url, prefix) as store:
            assert not await put(store)
            for _ in range(3):
                assert await ask_all(store) == BY_PYTHON
    assert said(told) == [
        ("WARNING", "the data store's search lacks what is needed: Python answers (Unknown argument `TEXT`)")
    ]


async def test_where_only_ranking_differs_the_rest_is_asked(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_ranking(*_: Any) -> Ability:
        return Ability(None)

    monkeypatch.setattr("toolstash.store.index_life.probe", no_ranking)
    async with opened(shared_server("redis-8.2").url, prefix) as store:
        await put(store, index=False)
        await store.build_index("w")
        assert await ask_all(store) == ["python", "python", "redisearch", "redisearch", "redisearch"]


CLIENTS = {
    "RESP 3": lambda url: redis.asyncio.Redis.from_url(url, protocol=3),
    "RESP 3, text": lambda url: redis.asyncio.Redis.from_url(url, protocol=3, decode_responses=True),
    "RESP 2, text": lambda url: redis.asyncio.Redis.from_url(url, protocol=2, decode_responses=True),
    "sync, RESP 3": lambda url: redis.Redis.from_url(url, protocol=3),
}


@pytest.mark.parametrize("kind", CLIENTS)
async def test_whatever_client_is_the_source_an_index_is_used(kind: str, prefix: str) -> None:
    async with opened(CLIENTS[kind](shared_server("redis-8.2").url), prefix) as store:
        assert await put(store)
        assert await ask_all(store) == BY_INDEX


async def copy_all(source: RealServer, target: RealServer, prefix: str) -> int:
    """Copies the keys under a prefix as a replica has them."""
    async with (
        redis.asyncio.Redis.from_url(source.url) as here,
        redis.asyncio.Redis.from_url(target.url) as there,
    ):
        keys = [key async for key in here.scan_iter(f"{prefix}:*")]
        for key in keys:
            await there.restore(key, max(0, await here.pttl(key)), await here.dump(key))
        return len(keys)


async def test_a_failover_to_a_server_without_the_module_and_back(prefix: str, told: pytest.LogCaptureFixture) -> None:
    searching, plain = shared_server("redis-8.2"), start_server("redis-8.2-plain")
    async with proxied(searching.url) as proxy, opened(proxy.url, prefix) as store:
        assert await put(store)
        assert await ask_all(store) == BY_INDEX
        assert await copy_all(searching, plain, prefix) > len(ROWS)
        await proxy.point_to(plain.url)
        for _ in range(3):
            assert await ask_all(store) == BY_PYTHON
        assert said(told) == [("INFO", "the data store has no search module: Python answers all questions")]
        await proxy.point_to(searching.url)
        assert await ask_all(store) == BY_PYTHON, "what a server can do is asked again only when it can less"
    plain.stop()
