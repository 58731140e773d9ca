"""How long a Ctx lives: calls are counted, closing waits for them, and later ones are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextvars import ContextVar, Token

_calls: ContextVar[tuple[Lifetime, ...]] = ContextVar("toolstash_calls", default=())
"""The lifetimes whose calls this code runs inside of."""


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
            if self._ended is not None and self not in _calls.get():
                raise RuntimeError("this Ctx is closed")
            self._running += 1

    def leave(self) -> None:
        """Counts a call out; the last one lets `end` go on."""
        with self._lock:
            self._running -= 1
            if self._ended is not None and self._running == 0 and not self._ended.done():
                self._ended.set_result(None)

    async def end(self) -> None:
        """Refuses new calls and waits for the running ones. May be called, and cancelled, more than once.

        Raises:
            RuntimeError: Called from inside a call, which it would wait for.
        """
        if self in _calls.get():
            raise RuntimeError("aclose() inside a call of the same Ctx would wait for itself; close it after the call")
        with self._lock:
            if self._ended is None:
                self._ended = concurrent.futures.Future()
                if self._running == 0:
                    self._ended.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self._ended))


class RunningCall:
    """One call that is running, as a context."""

    __slots__ = ("_lifetime", "_token")

    def __init__(self, lifetime: Lifetime) -> None:
        self._lifetime = lifetime
        self._token: Token[tuple[Lifetime, ...]] | None = None

    def __enter__(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("toolstash runs on asyncio; it found no running asyncio event loop (trio?)") from None
        self._lifetime.enter()
        self._token = _calls.set((*_calls.get(), self._lifetime))

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _calls.reset(self._token)
        self._lifetime.leave()
