"""Wakes tasks that wait for something to happen, whatever thread and event loop they run in."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

CLOSED = "the store was closed while it was watched"


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
        self.check()
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
        self.check()

    def check(self) -> None:
        """Raises the error with which this signal has ended, if it has."""
        if self._failure is not None:
            raise self._failure


class Listening:
    """A context that gives a signal and sees to it that somebody sends it. Leaving it takes no time.

    Args:
        begin: Called with the signal on entering.
        end: The same on leaving.
    """

    def __init__(self, begin: Callable[[Signal], object], end: Callable[[Signal], object]) -> None:
        self._begin = begin
        self._end = end
        self._signal = Signal()

    async def __aenter__(self) -> Signal:
        self._begin(self._signal)
        return self._signal

    async def __aexit__(self, *_: object) -> None:
        self._end(self._signal)


class Ticking:
    """A context that gives a signal which is sent four times a second, for stores that do not know what happens."""

    SECONDS = 0.25

    def __init__(self) -> None:
        self._signal = Signal()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Signal:
        self._task = asyncio.get_running_loop().create_task(self._tick())
        return self._signal

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.SECONDS)
            self._signal.send()
