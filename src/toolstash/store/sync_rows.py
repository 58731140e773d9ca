"""Rows of a sync iterator, pulled in worker threads. A caller that leaves waits for no row."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from toolstash.threads import in_thread

logger = logging.getLogger("toolstash")

MOST_ROWS = 2_000
MOST_SECONDS = 0.5


async def batches_of(rows: Iterator[Any]) -> AsyncGenerator[list[Any]]:
    """The rows in batches: 2,000, or what comes within half a second. A generator is closed, whatever happens."""
    source = _SyncRows(rows)
    try:
        while batch := await in_thread(source.next_batch):
            yield batch
    except BaseException:
        if _is_cancelled():  # who is told to leave does not wait for it to be closed
            source.leave()
            task = asyncio.get_running_loop().create_task(in_thread(source.close))
            _closing.add(task)
            task.add_done_callback(_closed)
        else:
            await in_thread(source.close)
        raise
    await in_thread(source.close)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_closing: set[asyncio.Task[None]] = set()


def _closed(task: asyncio.Task[None]) -> None:
    _closing.discard(task)
    error = None if task.cancelled() else task.exception()
    if error is not None:
        logger.error("a generator whose rows were not wanted any more failed when it was closed", exc_info=error)


class _SyncRows:
    """An iterator of which one thread at a time makes use; whoever is the last to do so closes it."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self._lock = threading.Lock()
        self._is_pulling = False
        self._is_left = False

    def next_batch(self) -> list[Any]:
        """The next rows; none at the end, or where the caller has left."""
        with self._lock:
            if self._is_left:
                return []
            self._is_pulling = True
        try:
            return self._pull()
        finally:
            with self._lock:
                self._is_pulling = False
                is_left = self._is_left
            if is_left:
                self._close_rows()

    def _pull(self) -> list[Any]:
        batch: list[Any] = []
        full_at = time.monotonic() + MOST_SECONDS
        for row in self._rows:
            batch.append(row)
            if len(batch) >= MOST_ROWS or time.monotonic() >= full_at or self._is_left:
                break
        return batch

    def leave(self) -> None:
        """Asks for no further rows."""
        with self._lock:
            self._is_left = True

    def close(self) -> None:
        """Closes the iterator, or leaves that to the thread that is pulling from it."""
        with self._lock:
            self._is_left = True
            is_pulling = self._is_pulling
        if not is_pulling:
            self._close_rows()

    def _close_rows(self) -> None:
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()
