"""Small jobs beside the path of a call, of which nobody waits for the result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from toolstash.errors import StoreUnavailableError

SETTLE_SECONDS = 1.0
"""How long closing waits for jobs; nothing depends on them."""


class Background:
    """Jobs of one store. What a job asks of a store that does not answer is left undone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def later(self, job: Awaitable[Any]) -> None:
        """Does a job beside the caller's, in this event loop."""
        task = asyncio.get_running_loop().create_task(_suppressed(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settle(self) -> None:
        """Waits for the jobs that are under way in this event loop, and ends those that take long."""
        loop = asyncio.get_running_loop()
        here = [task for task in list(self._tasks) if task.get_loop() is loop]
        if here:
            _, late = await asyncio.wait(here, timeout=SETTLE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def _suppressed(job: Awaitable[Any]) -> None:
    with contextlib.suppress(StoreUnavailableError):
        await job
