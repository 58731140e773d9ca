"""What a store that a user writes has without knowing of events or leases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.wait import until
from toolstash import BaseStore, Ctx, MemoryStore, Stats
from toolstash.asking import Answer, Request
from toolstash.contracts import Address, Progress
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import WORK_SPACE
from toolstash.store.flights import LocalFlights
from toolstash.wire.keys import label_of, space_of_session


class PlainStore(MemoryStore):
    """A store with nothing but the five primitives; what watches and counts is `BaseStore`'s."""

    listening = BaseStore.listening
    last_place = BaseStore.last_place
    events_after = BaseStore.events_after
    stats = BaseStore.stats
    find_space = BaseStore.find_space

    def __init__(self) -> None:
        super().__init__()
        self.flights = LocalFlights()
        del self.calls


async def test_it_is_waited_for_and_says_that_it_tells_of_no_events() -> None:
    ctx = Ctx(PlainStore())
    with ctx.session("one"):
        waiting = asyncio.create_task(ctx.wait_for_workspace("w", timeout=20))
        await asyncio.sleep(0)
        await ctx.store_workspace([1, 2], workspace_type="numbers", workspace_id="w")
        assert (await waiting).item_count == 2
        with pytest.raises(NotImplementedError, match="PlainStore tells of no events"):
            await anext(ctx.watch())
    assert await ctx.stats() == Stats(sessions=1, workspaces=1, chars_kept_out=2)
    await until(lambda: not [task for task in asyncio.all_tasks() if "_tick" in repr(task)], what="nothing ticks")


async def test_keyed_producers_share_a_run_within_the_process() -> None:
    ctx: Any = Ctx(PlainStore())
    runs: list[int] = []

    @ctx.producer(workspace_type="numbers", key="w")
    async def load() -> list[int]:
        runs.append(1)
        await asyncio.sleep(0)
        return [1]

    notices = await asyncio.gather(*(ctx.adispatch_tool_call("load") for _ in range(5)))
    assert len(runs) == 1
    assert notices == [notices[0]] * 5


async def test_calls_wait_within_the_process() -> None:
    store = PlainStore()
    at = Address(space_of_session("one"), "call_1")
    seen = await store.calls.look(at)
    pending = CallRecord(tool="deploy").suspended(Request("q", "approval", "May I?"), seen.now)
    assert await store.calls.swap(at, seen, pending)
    await store.calls.tell(at, Progress(1))
    await store.calls.call_back("inbox", "call_1")
    assert await store.find_space(label_of(at.space)) == at.space
    assert await store.find_space("@" + "0" * 12) is None
    async with asyncio.timeout(20), store.listening([WORK_SPACE]) as signal:
        seen = await store.calls.look(at)
        count = signal.count
        assert await store.calls.swap(at, seen, pending.answered(Answer("q", ok=True), seen.now), in_time=True)
        await signal.after(count)
    assert await store.calls.work(1) == [at]
    assert (await Ctx(store).stats()).pending_calls == 0
