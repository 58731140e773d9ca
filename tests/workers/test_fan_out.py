"""Sync tools in worker threads: those that wait for each other, and those that nobody waits for any more."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wait import until
from toolstash import Ctx, threads
from toolstash.threads import MOST_THREADS


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 0.2)


def test_tools_that_fan_out_in_threads_of_their_own(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    ctx = Ctx("memory:")
    all_are_in = threading.Barrier(MOST_THREADS)

    @ctx.producer(workspace_type="inner")
    def inner(number: int) -> list[int]:
        return [number]

    @ctx.producer(workspace_type="outer")
    def outer() -> list[int]:
        all_are_in.wait(30)
        with ThreadPoolExecutor(2) as own:
            return [notice["item_count"] for notice in own.map(inner.blocking, [1, 2])]

    pool = ThreadPoolExecutor(MOST_THREADS)
    calls = [pool.submit(outer.blocking) for _ in range(MOST_THREADS)]
    assert [call.result(30)["item_count"] for call in calls] == [2] * MOST_THREADS
    pool.shutdown()
    logged = [record for record in caplog.records if "further ones" in record.getMessage()]
    assert [record.levelno for record in logged] == [logging.WARNING]


async def test_the_bound_holds_while_places_come_free() -> None:
    counted = threading.Lock()
    running, most = 0, 0
    nobody = threading.Event()

    def work() -> int:
        nonlocal running, most
        with counted:
            running += 1
            most = max(most, running)
        nobody.wait(0.05)
        with counted:
            running -= 1
        return 1

    assert sum(await asyncio.gather(*(threads.in_thread(work) for _ in range(5 * MOST_THREADS)))) == 5 * MOST_THREADS
    assert most == MOST_THREADS


async def test_the_place_of_a_call_that_was_left_is_kept_until_its_thread_ends(impatient: None) -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        go_on.wait(30)

    left = [asyncio.ensure_future(threads.in_thread(work)) for _ in range(MOST_THREADS)]
    await until(lambda: begun._value == MOST_THREADS, what="all run")
    waiting = [asyncio.ensure_future(threads.in_thread(begun.release)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    for call in left:
        call.cancel()
    await asyncio.wait([*left, waiting[0]], timeout=10)
    assert all(call.cancelled() for call in [*left, waiting[0]])
    assert not waiting[1].done()
    go_on.set()
    await asyncio.gather(*waiting[1:])
    places = threads._places.get()
    await until(lambda: places._taken == 0, what="all places are free")
    assert not places._waiting


async def test_nothing_is_stored_of_a_call_that_was_left_and_closing_does_not_wait_for_it() -> None:
    ctx = Ctx("memory:")
    go_on, begun, ended = threading.Event(), threading.Event(), threading.Event()

    @ctx.producer(workspace_type="a", key="one")
    def load() -> list[int]:
        begun.set()
        go_on.wait(30)
        ended.set()
        return [1]

    call = asyncio.ensure_future(load())
    await until(begun.is_set, what="it runs")
    call.cancel()
    await asyncio.wait([call], timeout=10)
    assert call.cancelled()
    assert await ctx.list_workspaces() == []
    store = ctx.store
    await asyncio.wait_for(ctx._lifetime.end(), 5)
    go_on.set()
    await until(ended.is_set, what="the thread has ended")
    await threads.in_thread(int)  # the loop has heard of it
    assert await store.list_workspaces() == []
    await ctx.aclose()
