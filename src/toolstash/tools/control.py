"""What ends one run of a tool before its time: its deadline, a signal, or somebody who cancels it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from toolstash.contracts import Status
from toolstash.tools.tool_context import CancelSignal

logger = logging.getLogger("toolstash")

T = TypeVar("T")

MOST_SECONDS = 1e9
"""About thirty years: what is longer is no bound."""
AGAIN_SECONDS = 3.0
"""How soon work that goes on is told again to leave. What it does to clean up should not take longer."""
POLL_SECONDS = 0.02
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
        self.status: Status = "timeout"
        self._is_stopped = False  # apart from the signal, which a tool may set itself
        self._loop = asyncio.get_running_loop()
        self._run: _Run | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing may run any more. Then the signal is set."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.stop("timeout")
        return self._is_stopped

    def stop(self, status: Status) -> None:
        """Ends the run. From any thread; the first reason counts."""
        if not self._is_stopped:
            self._is_stopped, self.status = True, status
            self.signal.set()
            self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._run is not None:
            self._run.leave()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Does the work within the limits. Work that ends all the same has its result.

        Raises:
            StoppedError: It was ended before its time.
        """
        if self.is_over:
            raise StoppedError(self.status)
        timer = None
        if self.deadline is not None:
            timer = self._loop.call_later(self.deadline - time.monotonic(), self.stop, "timeout")
        run = _Run()
        try:
            async with run.scope:
                self._run = run
                return await run.to_its_end(work())
        except asyncio.CancelledError:
            self.signal.set()  # for what runs on in a thread
            raise
        except (Exception, BaseExceptionGroup) as error:
            if not run.scope.expired():
                raise
            raise StoppedError(self.status) from error
        finally:
            self._run = None
            if timer is not None:
                timer.cancel()


class _Run:
    """Work that can be told to leave. It is told again while it goes on: code on its way may swallow a cancellation,
    as redis-py 8.1 does while it reads a reply.
    """

    def __init__(self) -> None:
        self.scope = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._again: asyncio.TimerHandle | None = None
        self._repeats = 0

    def leave(self) -> None:
        if not self.scope.expired():
            self.scope.reschedule(self._loop.time())
        elif self._task is not None:
            self._repeats += 1
            self._task.cancel()
        self._again = self._loop.call_later(AGAIN_SECONDS, self.leave)

    async def to_its_end(self, work: Awaitable[T]) -> T:
        try:
            return await work
        finally:
            if self._again is not None:
                self._again.cancel()
            for _ in range(self._repeats):
                if self._task is not None:
                    self._task.uncancel()


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
    is_set = getattr(signal, "is_set", None)
    if signal is not None and (not callable(is_set) or inspect.iscoroutinefunction(is_set)):
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
        try:
            await _until_set(self._signal)
        except Exception:
            logger.exception("a signal could not be asked any more: the call is cancelled")
        self._control.stop("cancelled")


async def _until_set(signal: Any) -> None:
    """Only our own signals are waited for: an asyncio.Event may be of another loop, and others cannot be awaited."""
    if isinstance(signal, CancelSignal):
        await signal.wait()
    while not signal.is_set():  # noqa: ASYNC110 - any object with is_set(), such as threading.Event
        await asyncio.sleep(POLL_SECONDS)
