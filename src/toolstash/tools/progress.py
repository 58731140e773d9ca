"""Tells the watchers how far a call is, not more often than they can use it."""

from __future__ import annotations

import asyncio
import logging

import anyio

from toolstash.contracts import Address, Progress
from toolstash.errors import StoreUnavailableError
from toolstash.store.calls import CallBook

logger = logging.getLogger("toolstash")

PAUSE_SECONDS = 0.5
"""Between two reports of one call; of those that come faster, the newest is told."""
LAST_SECONDS = 0.5
"""How long the end of a call waits for its last report to be told."""


class ProgressTeller:
    """Takes what one call reports. No tool waits for the store to hear it."""

    def __init__(self, book: CallBook, at: Address) -> None:
        self._book = book
        self._at = at
        self._newest: Progress | None = None
        self._task: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        """Has it told, now or in a moment."""
        self._newest = Progress(done, total, message)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell_all())

    async def _tell_all(self) -> None:
        while self._newest is not None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_newest())
            await asyncio.shield(self._telling)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _tell_newest(self) -> None:
        newest, self._newest = self._newest, None
        if newest is None:
            return
        try:
            await self._book.tell(self._at, newest)
        except StoreUnavailableError:
            logger.info("the progress of %s was not told", self._at.workspace_id, exc_info=True)

    async def finish(self) -> None:
        """Tells what is left, unless the store takes long."""
        if self._task is None:
            return
        is_ours = self._task.get_loop() is asyncio.get_running_loop()  # else of the blocking door, where it ends soon
        with anyio.move_on_after(LAST_SECONDS, shield=True):
            if is_ours and self._telling is not None:
                await asyncio.wait([self._telling])
            await self._tell_newest()
        if is_ours:
            self._task.cancel()
