"""Deadlines and cancellation, on every back end: of async tools, sync tools, and of tools on another worker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.wait import until, until_sync
from toolstash import Answer, BaseStore, Ctx, Event, Progress, Request, Tool, ToolContext, ToolResult, pending
from toolstash.errors import CallEndedError
from toolstash.tools import registration
from toolstash.tools.tool_context import CancelSignal

NOTHING = {"type": "object", "properties": {}}


class Slow:
    """A worker with tools that take as long as they may, and what these have noticed."""

    def __init__(self, store: BaseStore) -> None:
        self.ctx = Ctx(store)
        self.contexts: list[ToolContext] = []
        self.noticed: list[str] = []
        for kind in (self.waits, self.works):
            self.ctx.add_tool(Tool(name=kind.__name__, description="Slow.", input_schema=NOTHING, execute=kind))

    async def waits(self, args: dict[str, Any], context: ToolContext) -> None:
        self.contexts.append(context)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.noticed.append("cancelled after the signal" if context.signal.is_set() else "cancelled")
            raise

    def works(self, args: dict[str, Any], context: Any) -> str:
        self.contexts.append(context)
        until_sync(context.signal.is_set, what="the tool is told to stop")
        self.noticed.append("signal")
        return "stopped by itself"


@pytest.fixture
def slow(store: BaseStore) -> Slow:
    return Slow(store)


@pytest.mark.parametrize("tool", ["waits", "works"])
async def test_a_call_ends_at_its_deadline(slow: Slow, tool: str) -> None:
    started = time.monotonic()
    value = await slow.ctx.adispatch_tool_call(tool, {}, timeout=0.1)
    assert time.monotonic() - started < 10
    assert value.keys() == {"error", "status", "call_id", "suggested_action"}
    assert value["status"] == "timeout"
    assert tool in value["error"]
    await until(lambda: slow.noticed, what="the tool has noticed")
    assert slow.noticed == ["signal" if tool == "works" else "cancelled after the signal"]
    (context,) = slow.contexts
    assert context.call_id == value["call_id"]
    assert context.timeout == 0


async def test_a_tool_sees_what_is_left_of_its_budget(store: BaseStore) -> None:
    ctx = Ctx(store)
    left: list[float | None] = []

    @ctx.producer(workspace_type="papers")
    async def load(context: ToolContext) -> list[int]:
        first = context.timeout
        await asyncio.sleep(0)
        left.extend([first, context.timeout])
        return [1]

    assert (await ctx.adispatch_tool_call("load", timeout=30.0))["status"] == "workspace_ready"
    first, second = left
    assert first is not None
    assert second is not None
    assert 20 < second < first <= 30
    await ctx.adispatch_tool_call("load")
    assert left[2:] == [None, None]


@pytest.mark.parametrize("timeout", [0, -1, 0.0])
async def test_a_budget_that_is_used_up_runs_nothing(slow: Slow, timeout: float) -> None:
    assert (await slow.ctx.adispatch_tool_call("waits", timeout=timeout))["status"] == "timeout"
    assert slow.contexts == []


@pytest.mark.parametrize("timeout", ["5", True, float("nan")])
async def test_a_timeout_that_is_no_number_raises(slow: Slow, timeout: Any) -> None:
    with pytest.raises(ValueError, match="number of seconds"):
        await slow.ctx.adispatch_tool_call("waits", timeout=timeout)


async def test_a_sync_generator_is_left_at_once_and_closed_by_its_thread(store: BaseStore) -> None:
    ctx, gate = Ctx(store), threading.Event()
    seen: list[Any] = []

    @ctx.producer(workspace_type="rows", transform=None)
    def load() -> Iterator[int]:
        try:
            for row in range(3):
                seen.append(row)
                assert gate.wait(20)
                yield row
        finally:
            seen.append("closed")

    assert (await ctx.adispatch_tool_call("load", timeout=0.1))["status"] == "timeout"
    task = asyncio.create_task(ctx.adispatch_tool_call("load"))
    await until(lambda: seen == [0, 0], what="it runs again")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "closed" not in seen, "nobody waits for a row"
    gate.set()
    await until(lambda: seen == [0, 0, "closed", "closed"], what="both are closed")
    assert await ctx.list_workspaces() == []


async def test_odd_options_are_refused_early(slow: Slow) -> None:
    with pytest.raises(TypeError, match="wait_for"):
        await slow.ctx.adispatch_tool_call("waits", wait_for=5)  # type: ignore[arg-type]
    for call_id in ("", 5, b"x"):
        with pytest.raises(ValueError, match="call_id"):
            await slow.ctx.adispatch_tool_call("waits", call_id=call_id)  # type: ignore[arg-type]
    for endless in (10**400, 1e300, float("inf")):
        task = asyncio.create_task(slow.ctx.adispatch_tool_call("waits", timeout=endless))
        await until(lambda: len(slow.contexts), what="it runs")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert slow.contexts.pop().timeout is None


@pytest.mark.parametrize("make", [asyncio.Event, threading.Event, CancelSignal])
@pytest.mark.parametrize("tool", ["waits", "works"])
async def test_a_signal_of_the_callers_cancels(slow: Slow, make: Callable[[], Any], tool: str) -> None:
    signal = make()
    task = asyncio.create_task(slow.ctx.adispatch_tool_call(tool, signal=signal))
    await until(lambda: slow.contexts, what="the tool runs")
    signal.set()
    assert (await asyncio.wait_for(task, 20))["status"] == "cancelled"
    await until(lambda: slow.noticed, what="the tool has noticed")
    assert (await slow.ctx.adispatch_tool_call(tool, signal=signal))["status"] == "cancelled"
    assert len(slow.contexts) == 1, "a signal that is set runs nothing"
    with pytest.raises(TypeError, match="is_set"):
        await slow.ctx.adispatch_tool_call(tool, signal=object())


@pytest.mark.parametrize("tool", ["waits", "works"])
@pytest.mark.parametrize("session", [None, "alice"])
async def test_a_call_is_cancelled_by_its_name_from_another_worker(
    store: BaseStore, slow: Slow, tool: str, session: str | None
) -> None:
    other = Ctx(store)
    task = asyncio.create_task(slow.ctx.adispatch_tool_call(tool, session_id=session, call_id="toolu_7"))
    await until(lambda: slow.contexts, what="the tool runs")
    with other.session(session):
        told = await other.cancel("toolu_7")
    assert told == {"status": "cancelling", "call_id": slow.contexts[0].call_id}
    value = await asyncio.wait_for(task, 20)
    assert (value["status"], value["call_id"]) == ("cancelled", told["call_id"])
    await until(lambda: slow.noticed, what="the tool has noticed")
    again = asyncio.create_task(slow.ctx.adispatch_tool_call(tool, session_id=session, call_id="toolu_7"))
    await until(lambda: len(slow.contexts) == 2, what="its name is free again")
    assert (await other.cancel(told["call_id"]))["status"] == "cancelling", "a full id is found from outside sessions"
    assert (await asyncio.wait_for(again, 20))["status"] == "cancelled"


async def test_a_call_without_a_name_can_be_cancelled_once_it_has_run_for_a_while(store: BaseStore, slow: Slow) -> None:
    task = asyncio.create_task(slow.ctx.adispatch_tool_call("waits", session_id="alice"))
    await until(lambda: slow.contexts, what="the tool runs")
    call_id = slow.contexts[0].call_id
    with slow.ctx.session("alice"):
        assert (await Ctx(store).cancel(call_id))["status"] == "cancelling"
    assert (await asyncio.wait_for(task, 20))["status"] == "cancelled"


async def test_a_call_that_is_cancelled_before_it_begins_does_not_run(store: BaseStore, slow: Slow) -> None:
    with slow.ctx.session("alice"):
        assert (await Ctx(store).cancel("toolu_8"))["status"] == "cancelling"
        assert (await slow.ctx.cancel("toolu_8"))["status"] == "cancelling"
        assert (await slow.ctx.adispatch_tool_call("waits", call_id="toolu_8"))["status"] == "cancelled"
    assert slow.contexts == []


async def test_a_call_that_waits_for_a_person_is_cancelled_or_ends_at_its_deadline(store: BaseStore) -> None:
    ctx, other = Ctx(store), Ctx(store)
    asked: list[Request] = []

    async def ask(args: dict[str, Any]) -> ToolResult:
        return pending(kind="approval", prompt="Sure?")

    async def nobody(request: Request) -> Answer:
        asked.append(request)
        return await asyncio.Event().wait()  # type: ignore[return-value]

    ctx.add_tool(Tool(name="ask", description="Asks.", input_schema=NOTHING, execute=ask))
    task = asyncio.create_task(ctx.adispatch_tool_call("ask", wait_for=nobody))
    await until(lambda: asked, what="somebody is asked")
    (waiting,) = await other.pending_calls()
    assert (await other.cancel(waiting.call_id))["status"] == "cancelled"
    assert (await asyncio.wait_for(task, 20))["status"] == "cancelled"

    overdue = await ctx.adispatch_tool_call("ask", wait_for=nobody, timeout=0.2)
    assert overdue["status"] == "timeout"
    assert (await other.call_result(overdue["call_id"], timeout=20))["status"] == "timeout"
    with pytest.raises(CallEndedError):
        await other.answer(overdue["call_id"], Answer(asked[-1].id, ok=True))

    durable = await ctx.adispatch_tool_call("ask")
    assert (await other.cancel(durable["call_id"]))["status"] == "cancelled"
    assert (await other.cancel(durable["call_id"]))["status"] == "cancelled"
    assert (await ctx.call_result(durable["call_id"]))["status"] == "cancelled"
    assert await ctx.pending_calls() == []


async def test_a_tool_that_a_tool_calls_has_its_limits(store: BaseStore) -> None:
    ctx = Ctx(store)
    inner: list[Any] = []

    @ctx.toolset("x").tool(name="inner", validate_workspace=False)
    def inside(context: ToolContext) -> str:
        inner.append(context)
        until_sync(context.signal.is_set, what="the tool inside is told to stop")
        inner.append("told")
        return "stopped"

    @ctx.toolset("x").tool(name="outer", validate_workspace=False)
    async def outside(context: ToolContext) -> Any:
        return await ctx.adispatch_tool_call("inner", timeout=60)

    @ctx.toolset("x").tool(name="outer_sync", validate_workspace=False)
    def outside_sync(context: ToolContext) -> Any:
        return ctx.dispatch_tool_call("inner")

    for name in ("outer", "outer_sync"):
        inner.clear()
        assert (await ctx.adispatch_tool_call(name, timeout=0.3))["status"] == "timeout"
        await until(lambda: len(inner) == 2, what="the tool inside has noticed")
        assert inner[0].timeout == 0


async def test_a_slow_store_does_not_hold_a_call_beyond_its_time(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    never = asyncio.Event()

    async def stuck(*args: Any, **options: Any) -> bool:
        return await never.wait()

    async def short(args: dict[str, Any], context: ToolContext) -> str:
        await context.report_progress(1)
        return "done"

    slow.ctx.add_tool(Tool(name="short", description="Short.", input_schema=NOTHING, execute=short))
    monkeypatch.setattr(registration, "LEAVING_SECONDS", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(slow.ctx.store.calls, "swap", stuck)
        patched.setattr(slow.ctx.store.calls, "tell", stuck)
        started = time.monotonic()
        assert (await slow.ctx.adispatch_tool_call("waits", timeout=0.2, call_id="one"))["status"] == "timeout"
        assert await slow.ctx.adispatch_tool_call("short") == "done"
        assert time.monotonic() - started < 10
    assert slow.contexts == []


async def test_a_task_that_is_cancelled_sets_the_signal_and_raises(slow: Slow) -> None:
    task = asyncio.create_task(slow.ctx.adispatch_tool_call("works"))
    await until(lambda: slow.contexts, what="the tool runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: slow.noticed == ["signal"], what="the thread has noticed")


async def test_progress_reaches_those_who_watch(store: BaseStore) -> None:
    ctx = Ctx(store)

    async def climb(args: dict[str, Any], context: ToolContext) -> str:
        for done in range(1, 1_001):
            await context.report_progress(done, 1_000, f"step {done}")
        return context.call_id

    ctx.add_tool(Tool(name="climb", description="Climbs.", input_schema=NOTHING, execute=climb))
    told: list[Event] = []

    async def watch() -> None:
        async with aclosing(Ctx(store).watch(kinds=["progress"], after="0")) as events:
            async for event in events:
                told.append(event)

    watching = asyncio.create_task(watch())
    call_id = await ctx.adispatch_tool_call("climb")
    last = Progress(1_000, 1_000, "step 1000")
    await until(lambda: any(event.progress == last for event in told), what="the end is told")
    watching.cancel()
    assert len(told) < 200, "of reports that come fast the newest is told"
    assert {event.call_id for event in told} == {call_id}
    assert [event.progress.done for event in told if event.progress] == sorted(
        event.progress.done for event in told if event.progress
    )


async def test_short_calls_make_no_trips_for_their_registration(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = Ctx(store)
    trips: list[str] = []

    def count(name: str) -> None:
        method = getattr(store.calls, name)

        async def counted(*args: Any, **options: Any) -> Any:
            trips.append(name)
            return await method(*args, **options)

        monkeypatch.setattr(store.calls, name, counted)

    for name in ("swap", "look", "leave"):
        count(name)
    gate = asyncio.Event()

    async def quick(args: dict[str, Any]) -> str:
        await gate.wait()
        return "done"

    ctx.add_tool(Tool(name="quick", description="Quick.", input_schema=NOTHING, execute=quick))
    gate.set()
    assert await ctx.adispatch_tool_call("quick") == "done"
    assert trips == []
    assert await ctx.adispatch_tool_call("quick", call_id="one") == "done"
    assert trips == ["swap", "leave"]
    gate.clear()
    monkeypatch.setattr(registration, "REGISTER_AFTER_SECONDS", 0.01)
    task = asyncio.create_task(ctx.adispatch_tool_call("quick"))
    await until(lambda: trips.count("swap") == 2, what="a call that takes longer is registered")
    gate.set()
    assert await task == "done"
    assert trips[-1] == "leave"
