"""Parts of an index go: by hand, by eviction, by a restart of the server. Python answers, and a new one is built."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from tests.proxy import proxied
from tests.search.place import SEARCHING, Place, assert_right, engine_of, is_right, place, questions, rows_of, stored
from tests.servers import RealServer, start_server
from tests.wait import until
from toolstash import RedisStore
from toolstash.contracts import Address
from toolstash.errors import StoreUnavailableError, ToolstashError
from toolstash.query.index import TextView
from toolstash.query.questions import Search
from toolstash.query.terms import parse_query
from toolstash.store import index_builder, index_life

ROWS = rows_of(1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small workspaces are indexed too, and a worker tries again at once."""
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 20)
    monkeypatch.setattr(index_life, "ASKED_FROM_ROWS", 20)
    monkeypatch.setattr(index_life, "TRY_AGAIN_SECONDS", 0.0)


async def drop_index(there: Place) -> None:
    for name in await there.indexes():
        await there.client.execute_command("FT.DROPINDEX", name)


async def drop_index_with_documents(there: Place) -> None:
    for name in await there.indexes():
        await there.client.execute_command("FT.DROPINDEX", name, "DD")


async def drop_a_document(there: Place) -> None:
    await there.client.delete((await there.keys("doc"))[3])


async def drop_all_documents(there: Place) -> None:
    await there.client.delete(*await there.keys("doc"))


async def drop_shape(there: Place) -> None:
    await there.client.delete(*await there.keys("shape"))


async def drop_list_of_indexes(there: Place) -> None:
    await there.client.delete(*await there.keys("indexes"))


LOSSES = [
    drop_index,
    drop_index_with_documents,
    drop_a_document,
    drop_all_documents,
    drop_shape,
    drop_list_of_indexes,
]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
async def test_a_part_is_lost(lose: Callable[[Place], Awaitable[None]]) -> None:
    async with place() as there:
        one, other, new = there.store(), there.store(), there.store()
        at = await stored(one, "w", ROWS, index="lazy")
        assert await one._indexes.build(at, TextView.of(None))
        for store in (one, other):
            await assert_right(store, at, ROWS)
            assert await engine_of(store, at) == "redisearch"
        await lose(there)
        for store in (other, new, one):
            await assert_right(store, at, ROWS)
        for store in (one, other, new):
            await until(lambda store=store: is_indexed(store, at), what="a new index answers")
            await assert_right(store, at, ROWS)
        await one.sweep_expired()
        await settled(there, at)
        await one.drop(at)
        await there.nothing_is_left()


async def is_indexed(store: RedisStore, at: Address) -> bool:
    return await engine_of(store, at) == "redisearch"


async def settled(there: Place, at: Address) -> None:
    """Waits until each index has its documents and each document its index."""

    async def is_settled() -> bool:
        indexes, documents = await there.indexes(), await there.keys("doc")
        listed = await there.client.hlen(f"{there.prefix}:{{{at.space}}}:{at.workspace_id}:indexes")
        shapes = len(await there.keys("shape"))
        return len(documents) == len(ROWS) * len(indexes) and len(indexes) == listed == shapes

    await until(is_settled, what="indexes and documents belong together")


async def test_an_index_that_breaks_often_is_not_built_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_life, "TRY_AGAIN_SECONDS", 600.0)
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS, index="lazy")
        await engine_of(store, at)
        await until(lambda: is_indexed(store, at))
        await drop_index(there)
        for _ in range(5):
            assert await engine_of(store, at) == "python"
            await store._indexes.settle()
        assert await there.left() == []


@pytest.fixture(scope="module")
def full_server() -> Iterator[RealServer]:
    server = start_server(SEARCHING, "--maxmemory-policy", "allkeys-lru")
    yield server
    server.stop()


async def test_documents_are_evicted(full_server: RealServer) -> None:
    async with place(full_server.url) as there:
        store = there.store()
        ats = [await stored(store, f"w{number}", rows_of(number, 300)) for number in range(5)]
        for at in ats:
            assert await store._indexes.build(at, TextView.of(None))
        documents = len(await there.keys("doc"))
        used = (await there.client.info("memory"))["used_memory"]
        try:
            await there.client.config_set("maxmemory", int(used * 0.97))
            for number in range(2_000):
                await there.client.set(f"{there.prefix}:filler:{number}", "x" * 300)
                if number % 200 == 0:
                    await right_or_gone(store, ats)
                    with suppress(ToolstashError):
                        await store._indexes.build(ats[number // 400], TextView.of(None))
            assert len(await there.keys("doc")) < documents
            await right_or_gone(store, ats)
        finally:
            await there.client.config_set("maxmemory", 0)
        for at in ats:  # the registry may be gone too, so clear() need not find them
            await store.drop(at)
        await store._indexes.settle()
        await store.sweep_expired()
        assert await there.indexes() == []


async def right_or_gone(store: RedisStore, ats: list[Address]) -> None:
    """Each workspace is whole, or as good as gone; never shorter."""
    for number, at in enumerate(ats):
        for question in questions():
            try:
                reading = await store.ask(at, question)
            except ToolstashError:
                continue
            assert is_right(reading.data, rows_of(number, 300), question)


async def test_a_server_that_is_full_gets_no_index(full_server: RealServer) -> None:
    async with place(full_server.url) as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        assert await store._indexes.ability() is not None
        await store._indexes.settle()
        await there.client.config_set("maxmemory-policy", "noeviction")
        try:
            await there.client.config_set("maxmemory", 1)
            with pytest.raises(StoreUnavailableError):
                await store._indexes.build(at, TextView.of(None))
            await assert_right(store, at, ROWS)
            assert await there.left() == []
        finally:
            await there.client.config_set("maxmemory", 0)
            await there.client.config_set("maxmemory-policy", "allkeys-lru")


KEEPING = {"aof": ["--appendonly", "yes", "--appendfsync", "always"], "rdb": ["--save", "3600 1000000"], "none": []}


@pytest.mark.parametrize("kept", KEEPING)
async def test_the_server_is_killed_and_comes_back(kept: str) -> None:
    server = start_server(SEARCHING, *KEEPING[kept])
    rows = rows_of(1, 4_000)
    try:
        async with place(server.url) as there:
            store, new = there.store(), there.store()
            at = await stored(store, "w", rows, index="lazy")
            brief = await stored(store, "brief", rows_of(2, 500), ttl=600.0)
            for one in (at, brief):
                assert await store._indexes.build(one, TextView.of(None))
            await assert_right(store, at, rows)
            if kept == "rdb":
                await there.client.save()
            server.restart()
            await there.client.connection_pool.disconnect()
            if kept == "none":
                for store in there.stores:
                    with pytest.raises(ToolstashError, match="not found"):
                        await store.ask(at, questions()[0])
                    await store._indexes.settle()
                assert await there.left() == []
                return
            for _ in range(5):
                await assert_right(store, at, rows)
                await assert_right(new, at, rows)
            await until(lambda: is_indexed(new, at), what="an index answers")
            await store.clear()
            await there.nothing_is_left()
    finally:
        server.stop()


async def test_a_question_is_cancelled() -> None:
    async with place() as there, proxied(there.url) as proxy:
        store = there.store(proxy.url)
        at = await stored(store, "w", ROWS)
        other = await stored(store, "other", rows_of(2))
        for one in (at, other):
            assert await store._indexes.build(one, TextView.of(None))
        proxy.delay = 0.002
        for delay in range(60):
            asking = [asyncio.create_task(store.ask(at, question)) for question in questions()]
            await asyncio.wait(asking, timeout=delay * 0.0005)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            question = questions()[delay % 5]
            assert is_right((await store.ask(other, question)).data, rows_of(2), question)
        assert await engine_of(store, at) == "redisearch"
        await store.drop(other)
        await store.drop(at)
        await there.nothing_is_left()


async def test_a_question_is_over_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolstash.store.search_index.SEARCH_SECONDS", 0.05)
    monkeypatch.setattr(index_life, "SLOW_SECONDS", 0.5)
    async with place() as there, proxied(there.url) as proxy:
        store = there.store(proxy.url)
        at = await stored(store, "w", ROWS)
        assert await store._indexes.build(at, TextView.of(None))
        assert await engine_of(store, at) == "redisearch"
        proxy.delay = 0.1
        await assert_right(store, at, ROWS)
        assert await engine_of(store, at) == "python"
        proxy.delay = 0.0
        await until(lambda: is_indexed(store, at), what="the index answers again")
        await assert_right(store, at, ROWS)
        quick = there.store(proxy.url, command_timeout_seconds=0.3)
        assert await engine_of(quick, at) == "redisearch"
        proxy.delay = 0.7
        for question in questions():
            with pytest.raises(StoreUnavailableError):
                await quick.ask(at, question)
        proxy.delay = 0.0
        await assert_right(quick, at, ROWS)


async def test_there_are_too_many_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_builder, "MOST_INDEXES", 3)
    monkeypatch.setattr(index_life, "SWEEP_SECONDS", 0.0)
    async with place() as there:
        store = there.store()
        ats = [await stored(store, f"w{number}", rows_of(number), index="lazy") for number in range(5)]
        built = [await store._indexes.build(at, TextView.of(None)) for at in ats]
        assert built == [True, True, True, False, False]
        for number, at in enumerate(ats):
            await assert_right(store, at, rows_of(number))
            assert await engine_of(store, at) == ("redisearch" if number < 3 else "python")
        await there.client.delete(*[f"{there.prefix}:{{shared}}:w0:{family}" for family in ("meta", "indexes")])
        await until(lambda: is_indexed(store, ats[4]), what="a dead index made room")


async def test_a_question_of_other_letters_is_no_other_index() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w:{x}*", ROWS)
        assert await store._indexes.build(at, TextView.of(None))
        answer = (await store.ask(at, Search(parse_query("w3"), None, 100))).data
        assert answer.engine == "redisearch"
        await store.sweep_expired()
        assert len(await there.indexes()) == 1
        assert await engine_of(store, at) == "redisearch"


async def test_searches_of_ever_other_fields_do_not_fill_the_server() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", [{f"f{field}": f"word{row}" for field in range(6)} for row in range(30)])
        for field in range(6):
            question = Search(parse_query("word3"), [f"f{field}"], 100)
            built = await store._indexes.build(at, TextView.of([f"f{field}"]))
            answer = (await store.ask(at, question)).data
            assert (answer.total, answer.engine) == (1, "redisearch" if built else "python")
            assert built == (field < index_builder.MOST_VIEWS)
        assert len(await there.indexes()) == index_builder.MOST_VIEWS
