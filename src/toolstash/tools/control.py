"""What ends one run of a tool before its time: its deadline, a signal, or somebody who cancels it."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from toolstash.contracts import Status
from toolstash.tools.tool_context import CancelSignal

T = TypeVar("T")

MOST_SECONDS = 1e9
"""About thirty years: what is longer is no bound."""
POLL_SECONDS = 0.05
"""How often a signal is looked at that nobody can wait for."""


class StoppedError(Exception):
    """The run was ended before its time. `status` says why: "timeout", "cancelled", or "interrupted"."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status: Status = status


class Control:
    """The limits of one run.

    Args:
        seconds: How long it may take; None for no bound.
    """

    def __init__(self, seconds: float | None) -> None:
        self.signal = CancelSignal()
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self._status: Status = "timeout"
        self._loop = asyncio.get_running_loop()
        self._scope: asyncio.Timeout | None = None

    def stop(self, status: Status) -> None:
        """Ends the run. From any thread; the first reason counts."""
        if not self.signal.is_set():
            self._status = status
            self.signal.set()
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(self._loop.time())

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does the work within the limits. Work that ends all the same has its result.

        Raises:
            StoppedError: It was ended before its time.
        """
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            self.stop("timeout")
        if self.signal.is_set():
            raise StoppedError(self._status)
        timer = None if left is None else self._loop.call_later(left, self.stop, "timeout")
        scope = asyncio.timeout(None)
        try:
            async with scope as self._scope:
                return await work()
        except asyncio.CancelledError:
            self.signal.set()  # for what runs on in a thread
            raise
        except Exception as error:
            if not scope.expired():
                raise
            raise StoppedError(self._status) from error
        finally:
            self._scope = None
            if timer is not None:
                timer.cancel()


def checked_timeout(timeout: Any) -> float | None:
    """A time limit in seconds.

    Raises:
        ValueError: Neither a number nor None.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout != timeout:
        raise ValueError(f"timeout is a number of seconds or None, not {timeout!r:.80}")
    return float(timeout) if timeout < MOST_SECONDS else None


def check_call_id(call_id: Any) -> None:
    """Raises ValueError for a name of a call that is none."""
    if call_id is not None and (not isinstance(call_id, str) or not call_id):
        raise ValueError(f"call_id is a non-empty text or None, not {call_id!r:.80}")


def check_resolver(wait_for: Any) -> None:
    """Raises TypeError for a resolver that cannot be called."""
    if wait_for is not None and not callable(wait_for):
        raise TypeError(f"wait_for is a function from a Request to an Answer, not {wait_for!r:.80}")


def check_signal(signal: Any) -> None:
    """Raises TypeError for a signal that cannot be asked whether it is set."""
    if signal is not None and not callable(getattr(signal, "is_set", None)):
        raise TypeError(f"signal needs an is_set(), such as asyncio.Event and threading.Event have, not {signal!r:.80}")


class Following:
    """A context in which a signal of the caller's stops the run once it is set."""

    def __init__(self, control: Control, signal: Any) -> None:
        self._control = control
        self._signal = signal
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        if self._signal is None:
            return
        if self._signal.is_set():
            self._control.stop("cancelled")
        else:
            self._task = asyncio.get_running_loop().create_task(self._follow())

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        await _set(self._signal)
        self._control.stop("cancelled")


async def _set(signal: Any) -> None:
    """Returns when the signal is set, whatever kind it is."""
    if inspect.iscoroutinefunction(getattr(signal, "wait", None)):
        try:
            await signal.wait()
            return
        except RuntimeError:  # an event of another loop
            pass
    while not signal.is_set():  # noqa: ASYNC110 - any object with is_set(), such as threading.Event
        await asyncio.sleep(POLL_SECONDS)
