"""Limits of a call are its own: they reach what it starts while it runs, nobody afterwards, and never its caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.wait import until
from toolstash import Answer, Ctx, MemoryStore, Tool, ToolContext, pending
from toolstash.tools import calls
from toolstash.wire import keys as layout

NOTHING = {"type": "object", "properties": {}}


@pytest.fixture
def ctx() -> Ctx:
    return Ctx("memory:")


def add(ctx: Ctx, name: str, execute: Any, **options: Any) -> None:
    ctx.add_tool(Tool(name=name, description="A tool.", input_schema=NOTHING, execute=execute, **options))


async def test_what_a_tool_has_started_outlives_its_limits(ctx: Ctx) -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue()
    values: list[Any] = []

    async def background() -> None:
        while await queue.get():
            values.append(await ctx.adispatch_tool_call("quick"))

    tasks: list[asyncio.Task[None]] = []

    async def starts(args: dict[str, Any], context: ToolContext) -> str:
        tasks.append(asyncio.create_task(background()))
        return "started"

    async def quick(args: dict[str, Any], context: ToolContext) -> Any:
        return context.timeout

    add(ctx, "starts", starts)
    add(ctx, "quick", quick)
    stop = threading.Event()
    assert await ctx.adispatch_tool_call("starts", timeout=0.05, signal=stop) == "started"
    stop.set()
    await asyncio.wait([asyncio.create_task(asyncio.Event().wait())], timeout=0.1)
    queue.put_nowait(True)
    queue.put_nowait(False)
    await tasks[0]
    assert values == [None]


async def test_no_tool_turns_its_callers_cancellation_into_something_else(ctx: Ctx) -> None:
    async def converts(args: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("converted") from None

    add(ctx, "converts", converts)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ctx.adispatch_tool_call("converts")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert (await ctx.adispatch_tool_call("converts", timeout=0.05))["status"] == "timeout"
    assert task.cancelling() == 0


async def test_a_tool_that_sets_its_own_signal_has_its_limits_all_the_same(ctx: Ctx) -> None:
    async def sets(args: dict[str, Any], context: ToolContext) -> Any:
        context.signal.set()
        if args.get("asks") is None:
            await asyncio.Event().wait()
        return pending(kind="approval", prompt="Sure?")

    schema = {"type": "object", "properties": {"asks": {"type": "boolean"}}}
    ctx.add_tool(Tool(name="sets", description="A tool.", input_schema=schema, execute=sets))
    assert (await ctx.adispatch_tool_call("sets", timeout=0.05))["status"] == "timeout"
    assert (await ctx.adispatch_tool_call("sets", {"asks": True}))["status"] == "pending"


async def test_who_leaves_a_generator_does_not_wait_for_it_to_be_closed(
    ctx: Ctx, caplog: pytest.LogCaptureFixture
) -> None:
    gate, closed = threading.Event(), threading.Event()

    @ctx.producer(workspace_type="rows")
    def load() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            assert gate.wait(20)
            closed.set()
            raise OSError("the file was gone")

    value = await asyncio.wait_for(ctx.adispatch_tool_call("load", timeout=0.1), 10)
    assert value["status"] == "timeout"
    assert not closed.is_set()
    gate.set()
    await until(closed.is_set, what="it is closed")
    await until(lambda: "the file was gone" in caplog.text, what="its failure is logged")


async def test_who_waits_here_goes_on_with_a_call_that_another_worker_has_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FLIGHT_MS", 300)
    store = MemoryStore()
    ctx, other = Ctx(store), Ctx(store)

    async def ask(args: dict[str, Any], context: ToolContext) -> Any:
        return pending(kind="approval", prompt="Sure?") if context.answer is None else "done"

    add(ctx, "ask", ask)
    task = asyncio.create_task(ctx.adispatch_tool_call("ask", wait_for=lambda _: asyncio.Event().wait()))
    (waiting,) = await until(other.pending_calls, what="the call waits")
    at = await store.locate(waiting.call_id)
    seen = await store.calls.look(at)
    assert seen.record is not None
    lost = seen.record.answered(Answer(waiting.request.id, ok=True), seen.now, owner="killed")
    assert await store.calls.swap(at, seen, lost)
    assert await asyncio.wait_for(task, 20) == "done"


async def test_a_worker_that_is_stopped_again_and_again_gives_its_call_back(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ctx = Ctx(store)
    began = asyncio.Event()

    async def ask(args: dict[str, Any], context: ToolContext) -> Any:
        if context.answer is None:
            return pending(kind="approval", prompt="Sure?")
        began.set()
        return await asyncio.Event().wait()

    add(ctx, "ask", ask, idempotent=True)
    value = await ctx.adispatch_tool_call("ask")
    await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True))

    async def work() -> None:
        async with aclosing(ctx.resume_answered()) as resumed:
            async for _ in resumed:
                pass

    at = await store.locate(value["call_id"])
    for _ in range(5):
        worker = asyncio.create_task(work())
        await began.wait()
        began.clear()
        for _ in range(3):
            worker.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(worker, return_exceptions=True)

        async def is_free() -> bool:
            return not (await store.calls.look(at)).is_held

        await until(is_free, within=5, what="others may take it up")
    assert (await store.calls.work(10)) == [at]


async def test_a_worker_without_the_tool_never_delays_others(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "NOT_OURS_SECONDS", 0.01)
    store = ctx.store
    delays: list[float] = []
    put_off = store.calls.put_off

    async def noted(at: Any, seconds: float) -> None:
        delays.append(seconds)
        await put_off(at, seconds)

    monkeypatch.setattr(store.calls, "put_off", noted)

    async def ask(args: dict[str, Any], context: ToolContext) -> Any:
        return pending(kind="approval", prompt="Sure?") if context.answer is None else "done"

    add(ctx, "ask", ask)
    value = await ctx.adispatch_tool_call("ask")
    stranger = Ctx(store)
    rounds = 0
    work = store.calls.work

    async def counted(*args: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return await work(*args)

    monkeypatch.setattr(store.calls, "work", counted)

    async def look_on() -> None:
        async with aclosing(stranger.resume_answered()) as resumed:
            async for _ in resumed:
                pass

    worker = asyncio.create_task(look_on())
    await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True))
    await until(lambda: rounds > 5, what="it has looked")
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    assert delays == []
    assert await store.calls.next_work_seconds() == 0
