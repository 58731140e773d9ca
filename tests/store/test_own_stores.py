"""What a store that a user writes has without knowing of events or leases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.wait import until
from toolstash import BaseStore, Ctx, MemoryStore, Stats
from toolstash.store.flights import LocalFlights


class PlainStore(MemoryStore):
    """A store with nothing but the five primitives; what watches and counts is `BaseStore`'s."""

    listening = BaseStore.listening
    last_place = BaseStore.last_place
    events_after = BaseStore.events_after
    stats = BaseStore.stats

    def __init__(self) -> None:
        super().__init__()
        self.flights = LocalFlights()


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
