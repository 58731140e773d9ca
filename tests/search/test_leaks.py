"""Builders are killed, stores closed and loops ended at any moment: nothing of an index outlives its workspace."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.search.place import (
    SEARCHING,
    Place,
    assert_right,
    engine_of,
    place,
    questions,
    rows_of,
    start_worker,
    stored,
)
from tests.servers import start_server
from tests.wait import until
from toolstash import Ctx, RedisStore
from toolstash.contracts import Address, Limits, WorkspaceMeta
from toolstash.query.index import TextView
from toolstash.store import index_builder, index_life
from toolstash.store.changes import Append
from toolstash.store.payload import Payload

ROWS = rows_of(1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small workspaces are indexed too, in small steps, and a worker tries again at once."""
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 20)
    monkeypatch.setattr(index_life, "ASKED_FROM_ROWS", 20)
    monkeypatch.setattr(index_life, "TRY_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(index_builder, "CHUNK_DOCUMENTS", 10)
    monkeypatch.setattr(index_builder, "UNLINKED_AT_ONCE", 20)


async def is_indexed(store: RedisStore, at: Address) -> bool:
    return await engine_of(store, at) == "redisearch"


@pytest.mark.parametrize("mode", ["halt-writing", "halt-before-publishing"])
@pytest.mark.parametrize("ttl", [None, 600.0])
async def test_a_builder_is_killed(mode: str, ttl: float | None) -> None:
    async with place() as there:
        one, other = there.store(), there.store()
        at = await stored(one, "w", ROWS, index="lazy", ttl=ttl)
        worker = await start_worker(there, mode, "w")
        assert [await worker.line(), await worker.line()] == ["ready", "halted"]
        await worker.kill()
        dead = await there.indexes()
        assert len(dead) == 1
        assert len(await there.keys("doc")) > 0
        for store in (one, other, one):
            await assert_right(store, at, ROWS)
            assert await engine_of(store, at) == "python"
            await store._indexes.settle()
        await other.sweep_expired()
        assert dead[0] in await there.indexes(), "as long as the lease runs, a builder may be alive"
        assert await there.end_leases() == 1
        for store in (one, other):
            await until(lambda store=store: is_indexed(store, at), what="another worker has built an index")
            await assert_right(store, at, ROWS)
        await other.sweep_expired()
        assert dead[0] not in await there.indexes()
        assert len(await there.keys("doc")) == len(ROWS) * len(await there.indexes())
        await assert_right(one, at, ROWS)
        assert await is_indexed(one, at)
        await one.drop(at)
        await there.nothing_is_left()


async def test_a_builder_is_killed_and_nobody_asks_again() -> None:
    async with place() as there:
        at = await stored(there.store(), "w", ROWS)
        worker = await start_worker(there, "halt-writing", "w")
        assert [await worker.line(), await worker.line()] == ["ready", "halted"]
        await worker.kill()
        assert await there.end_leases() == 1
        await there.stores[0].drop(at)
        assert await there.keys("doc") != []
        newcomer = there.store()
        other = await stored(newcomer, "other", ROWS)
        await assert_right(newcomer, other, ROWS)
        await there.nothing_is_left()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "and the server restarts"])
async def test_a_worker_is_killed_while_it_takes_an_index_away(is_restarted: bool) -> None:
    server = start_server(SEARCHING, "--appendonly", "yes", "--appendfsync", "always")
    try:
        async with place(server.url) as there:
            store = there.store()
            await stored(store, "w", ROWS)
            worker = await start_worker(there, "halt-unlinking", "w")
            assert [await worker.line(), await worker.line()] == ["ready", "halted"]
            await worker.kill()
            assert 0 < len(await there.keys("doc")) < len(ROWS)
            if is_restarted:
                server.restart()
                await there.client.connection_pool.disconnect()
            await store.sweep_expired()
            assert await there.left() == []
    finally:
        server.stop()


async def test_a_loop_ends_while_a_build_runs() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        worker = await start_worker(there, "end-while-building", "w")
        assert await worker.line() == "ready"
        assert await worker.ended() == (0, "")
        await there.end_leases()
        await store.sweep_expired()
        assert await there.left() == []
        await assert_right(store, at, ROWS)


@pytest.mark.parametrize("chunks", [0, 1, 2, 4])
async def test_a_store_is_closed_while_a_build_runs(chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = asyncio.Event()
    put = index_builder._Build._put
    done = 0

    async def held(build: index_builder._Build, *args: object) -> bool:
        nonlocal done
        done += 1
        if done <= chunks:
            return await put(build, *args)  # type: ignore[arg-type]
        working = asyncio.ensure_future(put(build, *args))  # type: ignore[arg-type]
        reached.set()
        return await working

    monkeypatch.setattr(index_builder._Build, "_put", held)
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        meta = (await store.read(at, 0, 0)).meta
        store.build_index_later(at, meta.version, None)
        await reached.wait()
        await store.aclose()
        assert await there.left() == []


async def test_a_write_that_comes_late_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[bool] = []
    put, take_away = index_builder._Build._put, index_builder.IndexBuilder._take_away
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        written = asyncio.Event()
        builds: list[tuple[index_builder._Build, list[list[str]]]] = []

        async def noted(build: index_builder._Build, documents: list[list[str]], first: int) -> bool:
            if documents:
                builds.append((build, documents))
                written.set()
            return await put(build, documents, first)

        async def then_late(builder: index_builder.IndexBuilder, *args: object) -> None:
            await take_away(builder, *args)  # type: ignore[arg-type]
            late.append(await put(*builds[0], 0))

        monkeypatch.setattr(index_builder._Build, "_put", noted)
        monkeypatch.setattr(index_builder.IndexBuilder, "_take_away", then_late)
        building = asyncio.create_task(store._indexes.build(at, TextView.of(None)))
        await written.wait()
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert late == [False]
        assert await there.left() == []


async def test_a_ctx_and_its_store_are_closed_at_any_moment_of_a_build() -> None:
    pick = random.Random(5)
    async with place() as there:
        for _ in range(25):
            async with there.store() as store, Ctx(store) as ctx:
                rows = rows_of(1, 300)

                @ctx.producer(workspace_type="papers", index="eager")
                async def load(rows: list[object] = rows) -> list[object]:
                    return rows

                await load()
                wanted = pick.randrange(200)
                await until(lambda wanted=wanted: _has_documents(there, wanted), within=5)
            left = await there.left()
            assert [key for key in left if ":building:" in key] == []
            assert len(await there.keys("doc")) in (0, 300)
            assert len(await there.keys("doc")) == 300 * len(await there.indexes())
            async with there.store() as next_store:
                await next_store.clear()
            await there.nothing_is_left()


async def _has_documents(there: Place, count: int) -> bool:
    return len(await there.keys("doc")) >= count


async def test_a_worker_that_never_asks_takes_indexes_away() -> None:
    async with place() as there:
        asker, writer = there.store(), there.store()
        for number in range(4):
            at = await stored(asker, f"w{number}", ROWS)
            assert await asker._indexes.build(at, TextView.of(None))
        await writer.drop(await writer.locate("w0"))
        await until(lambda: _count(there, 3))
        await writer.replace(WorkspaceMeta("w1", "t"), Payload(rows_of(2)))
        await until(lambda: _count(there, 2))
        await writer.replace(WorkspaceMeta("w4", "t", limits=Limits(max_session_workspaces=2)), Payload(rows_of(2)))
        await until(lambda: _count(there, 0))
        await there.nothing_is_left()


async def _count(there: Place, indexes: int) -> bool:
    return len(await there.indexes()) == indexes


async def test_nothing_is_left_after_a_life_of_many_workspaces() -> None:
    async with place() as there:
        stores = [there.store(), there.store()]
        foreign = f"{there.prefix}2:{{shared}}:w:idx:all_00"
        await there.client.execute_command("FT.CREATE", foreign, "PREFIX", 1, f"{foreign}:", "SCHEMA", "n", "NUMERIC")
        for number in range(24):
            store, other = stores[number % 2], stores[(number + 1) % 2]
            session = [None, "a|b", "*"][number % 3]
            ttl = [None, 600.0][number % 2]
            at = await stored(store, f"w{number}", rows_of(number), session_id=session, ttl=ttl)
            for text in (None, TextView.of(None), TextView.of(["t"]))[: number % 4]:
                assert await other._indexes.build(at, text)
            if number % 5 == 0:
                await other.mutate(at, Append(ROWS))
                await assert_right(store, at, rows_of(number) + ROWS)
            if number % 7 == 0:
                await store.drop(at)
        assert len(await there.indexes()) > 20
        await stores[0].clear()
        for store in stores:
            await store._indexes.settle()
        assert await there.left() == []
        for key in await there.keys():
            assert key.rpartition(":")[2] in ("created", "expiring", "sessions") or await there.client.pttl(key) > 0
        await stores[1].sweep_expired()
        assert foreign.encode() in await there.client.execute_command("FT._LIST")
        await there.client.execute_command("FT.DROPINDEX", foreign)


async def test_a_question_that_cannot_be_planned_builds_no_index_again() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS, index="lazy")
        assert await store._indexes.build(at, TextView.of(None))
        before = await there.left()
        for question in questions():
            await store.ask(at, question)
            await store.search_items("w", "ed fo")
            await store._indexes.settle()
        assert await there.left() == before
