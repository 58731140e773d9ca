"""Work that would hold the event loop runs in threads, apart from the users' own. Python runs one of them at a time, so
there are two places and no more: one for short pieces, and one for questions, which may take a second. So a page
or a notice never waits for a question to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")

_short: RunVar[anyio.CapacityLimiter] = RunVar("toolstash_short_cpu_work")
_long: RunVar[anyio.CapacityLimiter] = RunVar("toolstash_long_cpu_work")
_running: set[asyncio.Task[Any]] = set()


async def on_cpu(work: Callable[[], T], *, is_long: bool = False) -> T:
    """Runs `work` in a worker thread and returns its result; a second call of its kind waits for the first.

    A caller that is cancelled goes at once. Work that has not begun is then left undone; a thread that runs keeps its
    place until it ends, so who asks again and again does not get more threads.
    """
    limiter = _limiter(_long if is_long else _short)
    is_wanted = True

    def run() -> T:
        if not is_wanted:
            raise asyncio.CancelledError
        return work()

    task = asyncio.get_running_loop().create_task(anyio.to_thread.run_sync(run, limiter=limiter))
    _running.add(task)
    task.add_done_callback(_ended)
    try:
        return await asyncio.shield(task)
    finally:
        is_wanted = False


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # which nobody may be there to hear


def _limiter(place: RunVar[anyio.CapacityLimiter]) -> anyio.CapacityLimiter:
    try:
        return place.get()
    except LookupError:
        place.set(anyio.CapacityLimiter(1))
        return place.get()
