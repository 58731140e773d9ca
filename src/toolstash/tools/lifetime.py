"""How long a Ctx lives: calls are counted, closing waits for them, and later ones are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextvars import ContextVar, Token

_calls: ContextVar[tuple[RunningCall, ...]] = ContextVar("toolstash_calls", default=())
"""The calls that this code was started in; a task may outlive them."""


class Lifetime:
    """Counts the running calls of one Ctx, from any thread and event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._ended: concurrent.futures.Future[None] | None = None

    def call(self) -> RunningCall:
        """A context in which one call runs.

        Raises:
            RuntimeError: Closed (calls inside a running one still go through), or no asyncio loop is running.
        """
        return RunningCall(self)

    def enter(self) -> None:
        """Counts a call in."""
        with self._lock:
            if self._ended is not None and not self._is_inside():
                raise RuntimeError("this Ctx is closed")
            self._running += 1

    def leave(self) -> None:
        """Counts a call out; the last one lets `end` go on."""
        with self._lock:
            self._running -= 1
            if self._ended is not None and self._running == 0 and not self._ended.done():
                self._ended.set_result(None)

    def _is_inside(self) -> bool:
        return any(call.lifetime is self and call.is_running for call in _calls.get())

    async def end(self) -> None:
        """Refuses new calls and waits for the running ones. May be called, and cancelled, more than once.

        Raises:
            RuntimeError: Called from inside a call, which it would wait for.
        """
        if self._is_inside():
            raise RuntimeError("aclose() inside a call of the same Ctx would wait for itself; close it after the call")
        with self._lock:
            if self._ended is None:
                self._ended = concurrent.futures.Future()
                if self._running == 0:
                    self._ended.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self._ended))


class RunningCall:
    """One call that is running, as a context."""

    __slots__ = ("_token", "is_running", "lifetime")

    def __init__(self, lifetime: Lifetime) -> None:
        self.lifetime = lifetime
        self.is_running = False
        self._token: Token[tuple[RunningCall, ...]] | None = None

    def __enter__(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("toolstash runs on asyncio; it found no running asyncio event loop (trio?)") from None
        self.lifetime.enter()
        self.is_running = True
        self._token = _calls.set((*_calls.get(), self))

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _calls.reset(self._token)
        self.is_running = False
        self.lifetime.leave()
