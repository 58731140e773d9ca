"""Readers beside writers, and registries with many members."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from toolstash import BaseStore, InvalidArgumentError, MemoryStore, VersionConflictError, WorkspaceMeta, session_scope
from toolstash.store.payload import Payload
from toolstash.store.session import current_session


async def put(store: BaseStore, payload: object, name: str = "w") -> WorkspaceMeta:
    session = current_session()
    at = store.place(name, "papers", session)
    draft = WorkspaceMeta(at.workspace_id, "papers", ttl=60.0, session_id=session)
    return (await store.replace(draft, Payload(payload))).meta


async def test_a_reader_of_many_rows_is_not_disturbed_by_appends(store: BaseStore) -> None:
    rows = [{"n": number} for number in range(20_000)]
    await put(store, rows)
    done = asyncio.Event()

    async def append() -> int:
        added = 0
        while not done.is_set():
            await store.append_items("w", [{"n": -1}])
            added += 1
        return added

    appending = asyncio.ensure_future(append())
    for _ in range(3):
        await asyncio.sleep(0)
        read = await store.get_items("w")
        assert read[:20_000] == rows
        assert all(row == {"n": -1} for row in read[20_000:])
        assert [row async for row in store.iter_items("w")][:20_000] == rows
    done.set()
    assert await appending > 0


async def test_a_reader_finishes_on_what_it_began_with(store: BaseStore) -> None:
    await put(store, [1] * 9_000)
    seen: list[Any] = []
    async for row in store.iter_items("w"):
        seen.append(row)
        if len(seen) == 100:
            if isinstance(store, MemoryStore):
                return  # its readers take a copy of a chunk only; the conflict test below holds for it
            await put(store, [2] * 50)
    assert seen == [1] * 9_000
    assert await store.get_items("w") == [2] * 50


async def test_a_reader_on_the_way_is_told_of_changed_rows(store: BaseStore) -> None:
    await put(store, [1] * 9_000)
    seen = 0
    with pytest.raises(VersionConflictError):
        async for _ in store.iter_items("w"):
            seen += 1
            if seen == 100:
                await store.update_item("w", 8_999, 5)
    assert 100 <= seen < 9_000


async def test_listing_more_than_a_chunk_while_some_are_stored_again(store: BaseStore) -> None:
    with session_scope("many"):
        ids = [(await put(store, [1], f"w{number:04d}")).workspace_id for number in range(1_100)]
        done = asyncio.Event()

        async def store_again() -> None:
            number = 0
            while not done.is_set():
                await put(store, [2], f"w{number % 1_100:04d}")
                number += 7

        storing = asyncio.ensure_future(store_again())
        for _ in range(5):
            assert sorted(await store.list_workspaces()) == ids
        done.set()
        await storing
        await store.clear()
        assert await store.list_workspaces() == []


async def test_one_change_has_a_bound(store: BaseStore) -> None:
    await put(store, [1])

    for change in (store.append_items("w", [1] * 10_001), store.delete_items("w", range(10_001))):
        with pytest.raises(InvalidArgumentError, match="at most 10,000 at once"):
            await change
    with pytest.raises(InvalidArgumentError, match="out of range"):
        await store.update_item("w", 10**20, 1)
    assert await store.get_items("w") == [1]


def test_sessions_in_many_threads_on_one_memory_store() -> None:
    store = MemoryStore()
    errors: list[BaseException] = []

    async def work(number: int) -> None:
        with session_scope(f"s{number}"):
            meta = await put(store, [number])
        assert await store.get_items(meta.workspace_id) == [number]

    def run(start: int) -> None:
        try:
            for number in range(start, start + 60):
                asyncio.run(work(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(start,)) for start in range(0, 480, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


async def test_a_reader_on_the_way_is_told_that_the_workspace_is_gone(store: BaseStore) -> None:
    await put(store, [1] * 9_000)
    with pytest.raises(VersionConflictError):
        async for _ in store.iter_items("w"):
            await store.drop_workspace("w")
