"""Calls inside calls, and closing around them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolstash import Ctx, MemoryStore
from toolstash.threads import MOST_THREADS


def test_sync_producers_may_call_each_other_from_many_threads() -> None:
    ctx = Ctx("memory:")

    @ctx.producer(workspace_type="inner")
    def inner() -> list[int]:
        return [1]

    @ctx.producer(workspace_type="outer")
    def outer() -> list[str]:
        return [inner.blocking()["workspace_id"]]

    with ThreadPoolExecutor(MOST_THREADS * 2) as pool:
        notices = [call.result(30) for call in [pool.submit(outer.blocking) for _ in range(MOST_THREADS * 2)]]
    assert len({notice["workspace_id"] for notice in notices}) == MOST_THREADS * 2


async def test_closing_from_inside_a_call_is_refused() -> None:
    ctx, other = Ctx(MemoryStore()), Ctx(MemoryStore())

    @ctx.producer(workspace_type="a")
    async def load() -> list[str]:
        with pytest.raises(RuntimeError, match="inside a call"):
            await ctx.aclose()
        await other.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await other.list_workspaces()
        return ["fine"]

    assert (await load())["item_count"] == 1
    await ctx.aclose()


async def test_closing_may_time_out_and_be_tried_again() -> None:
    ctx = Ctx("memory:")
    go_on = asyncio.Event()

    @ctx.producer(workspace_type="a")
    async def load() -> list[int]:
        await go_on.wait()
        return [1]

    call = asyncio.ensure_future(load())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ctx.aclose(), 0.05)
    go_on.set()
    await ctx.aclose()
    assert (await call)["item_count"] == 1


async def test_a_refused_stream_is_closed_at_once(ctx: Ctx) -> None:
    small = Ctx(ctx.store, max_items=3_000)
    closed: list[str] = []

    @small.producer(workspace_type="a")
    async def later() -> AsyncIterator[int]:
        try:
            for number in range(100_000):
                yield number
        finally:
            closed.append("async")

    @small.producer(workspace_type="b")
    def now() -> Iterator[int]:
        try:
            yield from range(100_000)
        finally:
            closed.append("sync")

    for tool in ("later", "now"):
        assert "max_items" in await small.adispatch_tool_call(tool)
    assert closed == ["async", "sync"]


async def test_a_transform_sees_any_stream_as_a_list(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a", transform=lambda rows: rows[:2])
    def load() -> Iterator[int]:
        return map(int, "12345")

    assert await ctx.store.get_items((await load())["workspace_id"]) == [1, 2]


async def test_a_task_that_outlives_its_call_is_not_inside_it() -> None:
    ctx = Ctx("memory:")
    tasks: list[asyncio.Task[None]] = []
    go_on = asyncio.Event()

    async def outlive() -> None:
        await go_on.wait()
        await ctx.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await ctx.list_workspaces()

    @ctx.producer(workspace_type="a")
    async def load() -> list[int]:
        tasks.append(asyncio.ensure_future(outlive()))
        return [1]

    await load()
    go_on.set()
    await tasks[0]


async def test_a_sync_stream_is_closed_in_a_worker_thread(ctx: Ctx) -> None:
    threads: list[int] = []

    @ctx.producer(workspace_type="a")
    def load() -> Iterator[object]:
        try:
            yield object()
        finally:
            threads.append(threading.get_ident())

    assert "error" in await ctx.adispatch_tool_call("load")
    assert threads
    assert threading.get_ident() not in threads
