"""How long a Ctx lives: calls are counted, closing waits for them, and later ones are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from contextvars import ContextVar, Token

_calls: ContextVar[tuple[RunningCall, ...]] = ContextVar("toolstash_calls", default=())
"""The calls that this code was started in; a task may outlive them."""


_lifetimes: weakref.WeakSet[Lifetime] = weakref.WeakSet()


class Lifetime:
    """Counts the running calls of one Ctx, from any thread and event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._ended: concurrent.futures.Future[None] | None = None
        _lifetimes.add(self)

    def leave_parents_calls(self) -> None:
        """In a forked process: the calls of the parent's other threads do not run here and never end."""
        self._lock = threading.Lock()
        self._running = 0
        if self._ended is not None:
            self._ended = concurrent.futures.Future()
            self._ended.set_result(None)

    def call(self) -> RunningCall:
        """A context in which one call runs.

        Raises:
            RuntimeError: Closed (calls inside a running one still go through), or no asyncio loop is running.
        """
        return RunningCall(self)

    def check(self) -> None:
        """Raises RuntimeError if it is closed and this is not inside a running call."""
        if self._ended is not None and not self._is_inside():
            raise RuntimeError("this Ctx is closed")

    def enter(self) -> None:
        """Counts a call in."""
        with self._lock:
            self.check()
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

    __slots__ = ("_pid", "_token", "is_running", "lifetime")

    def __init__(self, lifetime: Lifetime) -> None:
        self.lifetime = lifetime
        self.is_running = False
        self._pid = 0
        self._token: Token[tuple[RunningCall, ...]] | None = None

    def __enter__(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("toolstash runs on asyncio; it found no running asyncio event loop (trio?)") from None
        self.lifetime.enter()
        self.is_running = True
        self._pid = os.getpid()
        self._token = _calls.set((*_calls.get(), self))

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _calls.reset(self._token)
        self.is_running = False
        if self._pid == os.getpid():  # not in a fork made inside the call
            self.lifetime.leave()


def _leave_parents_calls() -> None:
    for lifetime in _lifetimes:
        lifetime.leave_parents_calls()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_parents_calls)
