"""Wakes tasks that wait for something to happen, whatever thread and event loop they run in."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Signal:
    """Counts what happened. A task notes the count, looks, and waits until it is another one: it misses nothing."""

    def __init__(self) -> None:
        self.count = 0
        self._failure: Exception | None = None
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def send(self) -> None:
        """Wakes everyone."""
        with self._lock:
            self.count += 1
            waiting, self._waiting = self._waiting, {}
        for event, loop in waiting.items():
            with contextlib.suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(event.set)

    def fail(self, error: Exception) -> None:
        """Wakes everyone with an error; who waits later gets it as well."""
        self._failure = error
        self.send()

    async def after(self, seen: int) -> None:
        """Waits until the count is not `seen`; not at all if it is another one already.

        Raises:
            Exception: Nothing more will be told.
        """
        event = asyncio.Event()
        with self._lock:
            if self.count == seen and self._failure is None:
                self._waiting[event] = asyncio.get_running_loop()
            else:
                event.set()
        try:
            await event.wait()
        finally:
            with self._lock:
                self._waiting.pop(event, None)
        if self._failure is not None:
            raise self._failure
