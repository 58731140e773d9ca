"""One worker process of a soak: `python -m benchmarks.soak.worker <plan> <number>`.

It says "ready", begins when a line comes in, reports each second, and ends when its input ends: also when the soak
itself was killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from benchmarks.soak.plan import Plan
from benchmarks.soak.tally import Tally
from benchmarks.soak.work import Caller, make_ctx
from toolstash import RedisStore

REPORT_SECONDS = 1.0

StoreOf = Callable[..., RedisStore]


async def work(plan: Plan, number: int, store_of: StoreOf = RedisStore) -> None:
    """Runs this worker's callers until the input ends."""
    started, ended, tally = asyncio.Event(), asyncio.Event(), Tally()
    async with store_of(plan.url, prefix=plan.prefix) as store, make_ctx(store, plan) as ctx:
        await store.ping()
        listener = asyncio.create_task(_listen(started, ended))
        _say(kind="ready")
        await started.wait()
        stored: dict[str, float] = {}
        callers = [Caller(ctx, plan, tally, stored) for _ in range(plan.callers_of(number))]
        async with asyncio.TaskGroup() as tasks:
            for caller in callers:
                tasks.create_task(_until(ended, caller.turn))
            tasks.create_task(_report(tally, store, ended))
        await listener
    _say(kind="done", tally=tally.to_json())


async def _listen(started: asyncio.Event, ended: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.readline()
    started.set()
    await reader.read()
    ended.set()


async def _until(ended: asyncio.Event, turn: Callable[[], Any]) -> None:
    while not ended.is_set():
        await turn()


async def _report(tally: Tally, store: RedisStore, ended: asyncio.Event) -> None:
    """Says each second how far it is. What the worker remembers of rows on purpose is told apart from its memory."""
    process, epoch = psutil.Process(), time.monotonic()
    while not ended.is_set():
        memory = {"resident": process.memory_info().rss, "remembered": store._snapshots.bytes}
        _say(kind="report", at=time.monotonic() - epoch, tally=tally.to_json(), **memory)
        try:
            await asyncio.wait_for(ended.wait(), REPORT_SECONDS)
        except TimeoutError:
            continue


def _say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def main(store_of: StoreOf = RedisStore) -> None:
    """Reads the command line and works."""
    asyncio.run(work(Plan.of_text(sys.argv[1]), int(sys.argv[2]), store_of))


if __name__ == "__main__":
    main()
