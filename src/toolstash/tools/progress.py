"""Tells the watchers how far a call is, not more often than they can use it."""

from __future__ import annotations

import asyncio
import logging
import time

from toolstash.contracts import Address, Progress
from toolstash.errors import StoreUnavailableError
from toolstash.store.calls import CallBook

logger = logging.getLogger("toolstash")

PAUSE_SECONDS = 0.5
"""Between two reports of one call; of those that come faster, the newest is told."""


class ProgressTeller:
    """Takes what one call reports."""

    def __init__(self, book: CallBook, at: Address) -> None:
        self._book = book
        self._at = at
        self._newest: Progress | None = None
        self._told_at = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        """Tells it now, or in a moment. A store that does not answer hinders nobody."""
        self._newest = Progress(done, total, message)
        wait = self._told_at + PAUSE_SECONDS - time.monotonic()
        if wait <= 0:
            await self.flush()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(wait, self._flush_beside)

    def _flush_beside(self) -> None:
        self._later = None
        task = asyncio.get_running_loop().create_task(self.flush())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Tells the newest report, unless it is told."""
        newest, self._newest = self._newest, None
        if newest is None:
            return
        self._told_at = time.monotonic()
        try:
            await self._book.tell(self._at, newest)
        except StoreUnavailableError:
            logger.info("the progress of %s was not told", self._at.workspace_id, exc_info=True)
