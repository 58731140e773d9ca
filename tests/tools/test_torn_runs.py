"""A worker that is cancelled, or whose store fails, at any of its trips: no tool runs twice, no answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from tests.wait import until
from toolstash import Answer, Ctx, MemoryStore, Request, Tool, ToolContext, pending
from toolstash.errors import StoreUnavailableError
from toolstash.store.local_calls import LocalCalls
from toolstash.tools import calls, resuming
from toolstash.wire import keys as layout

NOTHING = {"type": "object", "properties": {}}
MOST_TRIPS = 12


class Faulty(LocalCalls):
    """A book that does something at one of its trips, before or after carrying it out."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store._events)
        self.trips = 0
        self.at = 0
        self.fault: Callable[[], None] | None = None
        self.is_after = False

    async def _trip(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.trips += 1
        is_now = self.fault is not None and self.trips == self.at
        if is_now and not self.is_after:
            self._fail()
        result = await method(*args, **options)
        if is_now and self.is_after:
            self._fail()
        await asyncio.sleep(0)  # where a cancellation arrives
        return result

    def _fail(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            fault()

    async def look(self, *args: Any, **options: Any) -> Any:
        return await self._trip(super().look, *args, **options)

    async def swap(self, *args: Any, **options: Any) -> Any:
        return await self._trip(super().swap, *args, **options)

    async def work(self, *args: Any, **options: Any) -> Any:
        return await self._trip(super().work, *args, **options)

    async def put_off(self, *args: Any, **options: Any) -> Any:
        return await self._trip(super().put_off, *args, **options)

    async def strike(self, *args: Any, **options: Any) -> Any:
        return await self._trip(super().strike, *args, **options)


class Case:
    """A call that was answered, and a worker that takes it up."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.book = Faulty(self.store)
        self.store.calls = self.book
        self.runs = 0

    def make(self) -> Ctx:
        async def deploy(args: dict[str, Any], context: ToolContext) -> Any:
            if context.answer is None:
                return pending(kind="approval", prompt="Sure?")
            self.runs += 1
            await asyncio.sleep(0)
            return "deployed"

        ctx = Ctx(self.store)
        ctx.add_tool(Tool(name="deploy", description="Deploys.", input_schema=NOTHING, execute=deploy))
        return ctx

    async def answered(self) -> str:
        value = await self.make().adispatch_tool_call("deploy")
        await self.make().answer(value["call_id"], Answer(value["request"]["id"], ok=True))
        return value["call_id"]

    async def work(self) -> None:
        async with aclosing(self.make().resume_answered()) as resumed:
            async for _ in resumed:
                return


async def status_of(case: Case, call_id: str) -> Any:
    """How the call has ended; None while it has not."""
    at = await case.store.locate(call_id)
    record = (await case.book.look(at)).record
    assert record is not None
    return None if record.ending is None else record.ending.status


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("trip", range(1, MOST_TRIPS))
@pytest.mark.parametrize("kind", ["cancelled", "store"])
async def test_a_torn_run_is_finished_or_told_to_be_interrupted(
    kind: str, trip: int, is_after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "OUTAGE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(calls, "NOT_OURS_SECONDS", 0.0)
    monkeypatch.setattr(layout, "FLIGHT_MS", 300)
    case = Case()
    call_id = await case.answered()
    worker = asyncio.create_task(case.work())

    def fault() -> None:
        if kind == "store":
            raise StoreUnavailableError("away")
        worker.cancel()

    case.book.trips, case.book.at, case.book.fault, case.book.is_after = 0, trip, fault, is_after
    await asyncio.wait([worker], timeout=20)
    assert worker.done()
    case.book.fault = None
    torn = case.runs
    if await status_of(case, call_id) is None:
        await asyncio.wait_for(case.work(), 30)
    assert case.runs <= 1, "it does not run twice"
    status = await status_of(case, call_id)
    assert status == "done" or (status == "interrupted" and torn == 1)
    if kind == "store":
        assert (status, case.runs) == ("done", 1), "a store that is away for a moment loses nothing"
    assert await case.book.next_work_seconds() is None or status == "done"


@pytest.mark.parametrize("trip", range(1, MOST_TRIPS))
async def test_a_store_that_fails_while_somebody_is_asked_here_never_tells_a_model_to_call_again(trip: int) -> None:
    case = Case()
    ctx = case.make()

    def resolver(request: Request) -> Answer:
        return Answer(request.id, ok=True)

    def fault() -> None:
        raise StoreUnavailableError("away")

    case.book.trips, case.book.at, case.book.fault = 0, trip, fault
    value = await asyncio.wait_for(ctx.adispatch_tool_call("deploy", wait_for=resolver), 30)
    if isinstance(value, dict) and "error" in value:
        assert "Do not call the tool again" in value["suggested_action"]
        assert case.runs == 0
    elif isinstance(value, dict):
        assert value["status"] == "pending"
        assert case.runs == 0
    else:
        assert (value, case.runs) == ("deployed", 1)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), RuntimeError("broken")])
async def test_what_a_tool_raises_does_not_end_the_worker(error: BaseException) -> None:
    case = Case()
    ctx = case.make()

    async def ends(args: dict[str, Any], context: ToolContext) -> Any:
        if context.answer is None and args.get("asks", True):
            return pending(kind="approval", prompt="Sure?")
        raise error

    schema = {"type": "object", "properties": {"asks": {"type": "boolean"}}}
    ctx.add_tool(Tool(name="ends", description="Ends.", input_schema=schema, execute=ends))
    assert "ends failed" in (await ctx.adispatch_tool_call("ends", {"asks": False}))["error"]
    results: list[Any] = []

    async def work() -> None:
        async with aclosing(ctx.resume_answered()) as resumed:
            async for one in resumed:
                results.append(one.result)

    worker = asyncio.create_task(work())
    for _ in range(2):
        value = await ctx.adispatch_tool_call("ends")
        await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True))
    await until(lambda: len(results) == 2, what="the worker has gone on")
    assert all("ends failed" in result["error"] for result in results)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
