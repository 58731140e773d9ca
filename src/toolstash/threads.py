"""Worker threads for the users' sync code. Imports nothing of toolstash.

At most 64 calls of an event loop run at once, while places come free. The bound is soft, because a call that holds a
place may wait for one that has none: a sync tool that calls others in threads which it starts itself, or waits for what
another tool stores. So when no place has come free for two seconds, those who wait go on without one. Calls that a sync
tool makes in its own thread never wait.

A caller that is cancelled leaves at once; the thread runs on unheard, and keeps its place to the end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Generic, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

logger = logging.getLogger("toolstash")

P = ParamSpec("P")
R = TypeVar("R")

MOST_THREADS = 64
PATIENCE_SECONDS = 2.0

_is_inside: ContextVar[bool] = ContextVar("toolstash_inside_user_code", default=False)
_places: RunVar[_Places] = RunVar("toolstash_places")
_no_limit: RunVar[anyio.CapacityLimiter] = RunVar("toolstash_no_limit")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a sync function of the user in a worker thread, with the caller's context.

    Cancelling the caller does not stop the function, but the caller does not wait for it.
    """
    call = partial(function, *args, **kwargs)
    if _is_inside.get():
        return await _run(call)
    places = _of_this_loop(_places, _Places)
    await places.take()
    placed = _Placed(call, places)
    token = _is_inside.set(True)
    try:
        return await _run(placed)
    finally:
        _is_inside.reset(token)
        placed.leave()


async def _run(function: Callable[[], R]) -> R:
    limiter = _of_this_loop(_no_limit, partial(anyio.CapacityLimiter, math.inf))
    return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)


def _of_this_loop(variable: RunVar[R], make: Callable[[], R]) -> R:
    try:
        return variable.get()
    except LookupError:
        variable.set(make())
        return variable.get()


class _Places:
    """The places of one event loop, given in order."""

    def __init__(self) -> None:
        self._taken = 0
        self._given_back = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Waits for a place for as long as some come free; then does without."""
        if self._taken < MOST_THREADS:
            self._taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await self._wait(turn)
        except BaseException:
            if turn.done():
                self.give_back()
            else:
                self._waiting.remove(turn)
            raise

    async def _wait(self, turn: asyncio.Future[None]) -> None:
        while not turn.done():
            seen = self._given_back
            await asyncio.wait([turn], timeout=PATIENCE_SECONDS)
            if not turn.done() and seen == self._given_back:
                self._waiting.remove(turn)
                turn.set_result(None)
                self._add_one()

    def _add_one(self) -> None:
        self._taken += 1
        if self._taken == MOST_THREADS + 1:
            logger.warning(
                "all %d threads for sync tools have been busy for %g s: starting further ones",
                MOST_THREADS,
                PATIENCE_SECONDS,
            )

    def give_back(self) -> None:
        """The place goes to whoever waits the longest."""
        self._given_back += 1
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._taken -= 1


class _Placed(Generic[R]):
    """A function that gives its place back when it has ended, or will never begin."""

    def __init__(self, function: Callable[[], R], places: _Places) -> None:
        self._function = function
        self._places = places
        self._loop = asyncio.get_running_loop()
        self._is_settled = threading.Lock()  # taken by whoever comes first: the thread, or the caller that leaves

    def __call__(self) -> R:
        if not self._is_settled.acquire(blocking=False):
            raise RuntimeError("the caller has left")  # which nobody hears
        try:
            return self._function()
        finally:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._places.give_back)

    def leave(self) -> None:
        if self._is_settled.acquire(blocking=False):
            self._places.give_back()
