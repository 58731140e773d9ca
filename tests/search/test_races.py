"""Changes, expiry and other workers come in between at any moment: answers are those of the newest version, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.search.place import (
    Place,
    ask_or_gone,
    assert_right,
    engine_of,
    is_right,
    place,
    questions,
    rows_of,
    start_worker,
    stored,
)
from tests.wait import until
from toolstash import RedisStore, session_scope
from toolstash.contracts import Address, WorkspaceMeta
from toolstash.query.index import TextView
from toolstash.store import index_builder, index_life
from toolstash.store.changes import Append, Delete, Patch
from toolstash.store.payload import Payload

Rows = list[dict[str, Any]]
ROWS = rows_of(1)
OTHER = rows_of(2, 33)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small workspaces are indexed too, in small steps, and a worker tries again at once."""
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 20)
    monkeypatch.setattr(index_life, "ASKED_FROM_ROWS", 20)
    monkeypatch.setattr(index_life, "TRY_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(index_builder, "CHUNK_DOCUMENTS", 10)


class Gate:
    """Holds builds of this process after their second chunk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        put = index_builder._Build._put
        done = 0

        async def held(build: Any, *args: Any) -> bool:
            nonlocal done
            done += 1
            if done == 3:
                self.reached.set()
                await self.opened.wait()
            return await put(build, *args)

        monkeypatch.setattr(index_builder._Build, "_put", held)


async def append(store: RedisStore, at: Address, rows: Rows) -> Rows:
    await store.mutate(at, Append(rows_of(9, 5)))
    return rows + rows_of(9, 5)


async def patch(store: RedisStore, at: Address, rows: Rows) -> Rows:
    await store.mutate(at, Patch(3, {"t": "blue w3 w3 hen"}))
    return [*rows[:3], {**rows[3], "t": "blue w3 w3 hen"}, *rows[4:]]


async def delete(store: RedisStore, at: Address, rows: Rows) -> Rows:
    await store.mutate(at, Delete([0, 10]))
    return [row for place, row in enumerate(rows) if place not in (0, 10)]


async def replace(store: RedisStore, at: Address, rows: Rows) -> Rows:
    await store.replace(WorkspaceMeta(at.workspace_id, "t"), Payload([*OTHER]))
    return OTHER


async def replace_with_a_life(store: RedisStore, at: Address, rows: Rows) -> Rows:
    await store.replace(WorkspaceMeta(at.workspace_id, "t", ttl=300.0), Payload([*OTHER]))
    return OTHER


async def drop_and_store(store: RedisStore, at: Address, rows: Rows) -> Rows:
    assert await store.drop(at)
    return await replace(store, at, rows)


Changing = Callable[[RedisStore, Address, Rows], Awaitable[Rows]]
changes = pytest.mark.parametrize(
    "change", [append, patch, delete, replace, replace_with_a_life, drop_and_store], ids=lambda change: change.__name__
)


async def only_whole_indexes(there: Place, rows: int) -> None:
    """Waits until there is one index for each view, with a document for each row, and nothing else of indexes."""

    async def is_so() -> bool:
        views = [name.rpartition(":")[2].partition("_")[0] for name in await there.indexes()]
        families = [await there.keys(family) for family in ("doc", "shape", "indexes", "building")]
        return len({*views}) == len(views) >= 1 and [*map(len, families)] == [rows * len(views), len(views), 1, 0]

    await until(is_so, what="one index for each view is left")


async def asked_until_indexed(store: RedisStore, at: Address) -> None:
    async def is_indexed() -> bool:
        return await engine_of(store, at) == "redisearch"

    await until(is_indexed, what="the index answers")


@changes
async def test_a_change_during_a_build(change: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place() as there:
        builder, other = there.store(), there.store()
        at = await stored(builder, "w", ROWS, index="lazy")
        gate = Gate(monkeypatch)
        building = asyncio.create_task(builder._indexes.build(at, TextView.of(None)))
        await gate.reached.wait()
        await assert_right(other, at, ROWS)
        rows = await change(other, at, ROWS)
        await assert_right(other, at, rows)
        await assert_right(builder, at, rows)
        gate.opened.set()
        assert await building
        await asked_until_indexed(other, at)
        await assert_right(other, at, rows)
        await assert_right(builder, at, rows)
        await builder._indexes.settle()
        await other._indexes.settle()
        await builder.sweep_expired()
        await assert_right(builder, at, rows)
        await asked_until_indexed(builder, at)
        await builder.drop(at)
        await there.nothing_is_left()


@changes
async def test_a_change_after_a_build(change: Changing) -> None:
    async with place() as there:
        one, other = there.store(), there.store()
        at = await stored(one, "w", ROWS, index="lazy")
        assert await one._indexes.build(at, TextView.of(None))
        for store in (one, other):
            await asked_until_indexed(store, at)
            await assert_right(store, at, ROWS)
        rows = await change(one, at, ROWS)
        for store in (one, other, one, other):
            await assert_right(store, at, rows)
        for store in (one, other):
            await asked_until_indexed(store, at)
        await only_whole_indexes(there, len(rows))
        for store in (one, other):
            assert await engine_of(store, at) == "redisearch"
            await assert_right(store, at, rows)
        await other.drop(at)
        await there.nothing_is_left()


async def test_a_drop_during_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place() as there:
        builder, other = there.store(), there.store()
        at = await stored(builder, "w", ROWS)
        gate = Gate(monkeypatch)
        building = asyncio.create_task(builder._indexes.build(at, TextView.of(None)))
        await gate.reached.wait()
        await other.drop(at)
        assert await ask_or_gone(other, at, questions()[0]) is None
        gate.opened.set()
        assert not await building
        await there.nothing_is_left()


async def test_a_new_version_does_not_wait_for_the_builder_of_the_old(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place() as there:
        builder, other = there.store(), there.store()
        at = await stored(builder, "w", ROWS)
        gate = Gate(monkeypatch)
        building = asyncio.create_task(builder._indexes.build(at, TextView.of(None)))
        await gate.reached.wait()
        await replace(other, at, ROWS)
        assert await other._indexes.build(at, TextView.of(None))
        gate.opened.set()
        assert await building
        await only_whole_indexes(there, len(OTHER))
        await assert_right(builder, at, OTHER)
        assert await engine_of(builder, at) == "redisearch"


async def test_changes_and_questions_at_the_same_time() -> None:
    async with place() as there:
        writer, readers = there.store(), [there.store(), there.store()]
        at = await stored(writer, "w", rows_of(0), index="lazy")
        engines: list[str] = []
        newest = settled = 0

        async def read(store: RedisStore) -> None:
            while newest < 25 or "redisearch" not in engines[-6:]:
                for question in questions():
                    oldest = settled
                    answer = (await store.ask(at, question)).data
                    assert any(is_right(answer, rows_of(v), question) for v in range(oldest, newest + 1))
                    engines.append(getattr(answer, "engine", "python"))

        reading = [asyncio.create_task(read(store)) for store in readers]
        for version in range(1, 26):
            newest = version
            await writer.replace(WorkspaceMeta("w", "t"), Payload([*rows_of(version)]))
            settled, seen = version, len(engines)
            await until(lambda seen=seen: len(engines) > seen + 20 or any(task.done() for task in reading))
        await asyncio.wait_for(asyncio.gather(*reading), 20)
        assert {"python", "redisearch"} <= {*engines}
        await writer.drop(at)
        await there.nothing_is_left()


async def test_expiry_during_questions() -> None:
    async with place() as there:
        stores = [there.store(), there.store()]
        at = await stored(stores[0], "w", ROWS, ttl=1.0)
        assert await stores[0]._indexes.build(at, TextView.of(None))
        engines: set[str] = set()

        async def read(store: RedisStore) -> None:
            while True:
                for question in questions():
                    reading = await ask_or_gone(store, at, question)
                    if reading is None:
                        return
                    assert is_right(reading.data, ROWS, question)
                    engines.add(getattr(reading.data, "engine", "python"))

        await asyncio.wait_for(asyncio.gather(*map(read, stores * 2)), 20)
        assert "redisearch" in engines
        assert await there.keys("doc", "shape", "indexes", "building") == []
        await stores[1].sweep_expired()
        assert await there.indexes() == []


async def test_an_expired_workspace_needs_no_sweep() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS, ttl=0.7)
        assert await store._indexes.build(at, TextView.of(None))
        await store.aclose()
        assert len(await there.indexes()) == 1
        await there.nothing_is_left()


async def test_two_processes_build_the_same() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        workers = [await start_worker(there, "build-when-told", "w") for _ in range(2)]
        for worker in workers:
            assert await worker.line() == "ready"
        for worker in workers:
            assert worker.process.stdin is not None
            worker.process.stdin.write(b"now\n")
        assert "True" in [await worker.line() for worker in workers]
        for worker in workers:
            assert await worker.ended() == (0, "")
        await only_whole_indexes(there, len(ROWS))
        assert len(await there.indexes()) == 1
        await assert_right(store, at, ROWS)
        assert await engine_of(store, at) == "redisearch"


async def test_two_processes_build_two_views() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        workers = [await start_worker(there, "build-when-told", "w", *fields) for fields in ([], ["t"])]
        for worker in workers:
            assert await worker.line() == "ready"
        for worker in workers:
            assert worker.process.stdin is not None
            worker.process.stdin.write(b"now\n")
        assert [await worker.line() for worker in workers] == ["True", "True"]
        for worker in workers:
            assert await worker.ended() == (0, "")
        assert (len(await there.indexes()), len(await there.keys("doc"))) == (2, 2 * len(ROWS))
        await assert_right(store, at, ROWS)
        await store.drop(at)
        await there.nothing_is_left()


async def test_sessions_do_not_mix() -> None:
    sessions = ["a|b", "x} @g:{y", "*", "a", "b", None]
    async with place() as there:
        one, other = there.store(), there.store()
        places: list[tuple[Address, Rows]] = []
        for number, session in enumerate(sessions):
            rows = rows_of(number + 1, 40 + number)
            at = await stored(one, "w", rows, session_id=session)
            assert await one._indexes.build(at, TextView.of(None))
            places.append((at, rows))
        for store in (one, other):
            for session, (at, rows) in zip(sessions, places, strict=True):
                with session_scope(session):
                    await assert_right(store, at, rows)
                    assert await engine_of(store, at) == "redisearch"
                    hits = await store.search_items(at.workspace_id, "fox", max_results=1_000)
                assert [hit.item for hit in hits] == rows
        for session, (at, _) in zip(sessions[:3], places, strict=False):
            with session_scope(session):
                await other.drop_workspace(at.workspace_id)
        for at, rows in places[3:]:
            await assert_right(one, at, rows)
        await other.clear()
        await there.nothing_is_left()
