"""The one blocking door: sync callers reach async code through a background event loop, one per process.

The loop is made on first use, again after a fork, and is closed at exit. It imports nothing of toolstash.

A signal handler may call while the code that it interrupts is anywhere in here, so nothing that a caller passes holds
a lock: calls go through a deque, outcomes through a SimpleQueue, and of threads that start at once the first one stays.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import concurrent.futures
import inspect
import os
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial, update_wrapper
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

EXIT_SECONDS = 1.0
LAST_WORDS_SECONDS = 0.05
"""How long threads whose calls were ended at exit have to say so, before Python takes their stderr away."""
ENDING = "the process is ending: toolstash takes no more blocking calls"


class _Call:
    """What a caller wants done, and where it waits for the outcome: a result or an error."""

    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        self.work = work
        self.context = copy_context()
        self.outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self.is_given_up = False
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        self._task = loop.create_task(self._run(), context=self.context)
        return self._task

    async def _run(self) -> None:
        """Does the work. Whatever it raises, `sys.exit()` too, is for its caller and not for the loop of all."""
        try:
            if not self.is_given_up:
                self.outcome.put((await self.work(), None))
        except BaseException as error:
            self.outcome.put((None, error))

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class _Door:
    """The background loop of this process, in a thread of its own."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.streams: set[AsyncGenerator[Any]] = set()  # those that callers pull from
        self._calls: deque[_Call] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._only_one = _thread.allocate_lock()  # never waited for
        self._left = threading.Event()
        self._is_closed = False
        self._has_refused = False

    @property
    def is_ending(self) -> bool:
        """Whether the process ends: a new thread would not even start."""
        return self._is_closed or sys.is_finalizing()

    def begin(self, call: _Call) -> None:
        """Hands a call over. Its outcome comes in any case, also if the loop ends meanwhile."""
        self._calls.append(call)
        loop = self.loop
        if self.is_ending:
            self._refuse_waiting(asyncio.CancelledError())
        elif loop is None or not _soon(loop, self._start_waiting):
            _thread.start_new_thread(self._run, ())

    def give_up(self, call: _Call) -> None:
        """Cancels a call of which nobody waits for the outcome."""
        call.is_given_up = True
        if (loop := self.loop) is not None:
            _soon(loop, call.cancel)

    def _start_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._calls:
            task = self._calls.popleft().start(loop)
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _refuse_waiting(self, error: BaseException) -> None:
        with suppress(IndexError):  # others may take from it as well
            while self._calls:
                self._calls.popleft().outcome.put((None, error))
                self._has_refused = True

    def _run(self) -> None:
        if not self._only_one.acquire(blocking=False):
            return
        threading.current_thread().name = "toolstash-blocking"
        self._left.clear()
        end: BaseException = asyncio.CancelledError()
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            end = RuntimeError(f"the event loop of blocking calls has failed: {error!r}")
            end.__cause__ = error
        finally:
            self.loop = None
            self._only_one.release()
            self._refuse_waiting(end)  # after the release: whoever comes now starts a loop of their own
            self._left.set()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._start_waiting()
        await self._stop.wait()
        while self._running:
            await asyncio.wait(self._running)
        for stream in list(self.streams):  # from outside inwards; asyncio would close those inside at the same time
            with suppress(Exception):
                await stream.aclose()

    def _leave(self, cancel: bool) -> None:
        self._stop.set()
        if cancel:
            self._has_refused = True
            for task in self._running:
                task.cancel()

    def close(self) -> None:
        """Lets running calls end, then cancels them, then leaves: a user's thread cannot be stopped."""
        self._is_closed = True
        for cancel in (False, True):
            loop = self.loop
            if loop is not None and _soon(loop, self._leave, cancel):
                self._left.wait(EXIT_SECONDS)
        if self._has_refused:
            time.sleep(LAST_WORDS_SECONDS)


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> bool:
    """Has a loop call a function; False where the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return False
    return True


_door = _Door()
_inherited: list[_Door] = []  # doors of a parent process: letting go of one would wait for a thread that is not here


def _leave_parents_door() -> None:
    global _door
    _inherited.append(_door)
    _door = _Door()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave_parents_door)
atexit.register(lambda: _door.close())


def door_loop() -> asyncio.AbstractEventLoop | None:
    """The background loop of this process; None where nobody has needed it."""
    return _door.loop


def in_event_loop() -> bool:
    """Whether this thread is running an event loop right now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_blocking(function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs an async function and waits for its result. The caller's context (the session) goes along.

    A caller that is interrupted (Ctrl-C, a time limit of a worker pool) cancels the function.

    Raises:
        RuntimeError: Called where an event loop runs, which would stop the loop; await the function there. Or the
            process is ending.
    """
    _check_no_loop(f"await …{getattr(function, '__name__', 'the function')}(…)")
    return _wait_for(_door, partial(function, *args, **kwargs))


def _check_no_loop(instead: str) -> None:
    if in_event_loop():
        raise RuntimeError(f"an event loop is running in this thread: use `{instead}` instead of the blocking form")


def _wait_for(door: _Door, work: Callable[[], Awaitable[R]]) -> R:
    call = _Call(work)
    try:
        door.begin(call)
        result, error = call.outcome.get()
    except BaseException:
        door.give_up(call)
        raise
    if error is None:
        return result
    if isinstance(error, asyncio.CancelledError):
        raise (RuntimeError(ENDING) if door.is_ending else concurrent.futures.CancelledError()) from None
    try:
        raise error
    finally:
        del error  # whose traceback holds this frame


class Blocking:
    """Another object with its async methods made blocking; everything else is passed through."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        if name == "_target":  # asked for by copy and pickle before there is one
            raise AttributeError(name)
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute

        if inspect.iscoroutinefunction(attribute):
            return partial(run_blocking, attribute)
        return partial(_plain_or_pulled, attribute) if inspect.isroutine(attribute) else attribute


def _plain_or_pulled(function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Any:
    result = function(*args, **kwargs)
    if not isinstance(result, AsyncGenerator):
        return result
    return _pulled(cast(AsyncGenerator[Any], result), getattr(function, "__name__", "items"))


def _pulled(items: AsyncGenerator[R], name: str) -> Iterator[R]:
    instead = f"async for … in ….{name}(…)"
    _check_no_loop(instead)
    door, end = _door, cast(Any, object())
    door.streams.add(items)
    try:
        while (item := _wait_for(_door, partial(_next_or, items, end))) is not end:
            yield item
            _check_no_loop(instead)
    finally:
        door.streams.discard(items)
        _close(door, items)


def _close(door: _Door, items: AsyncGenerator[Any]) -> None:
    if door.is_ending or door is not _door:  # a parent's stream is closed by the parent
        return
    if in_event_loop():  # let go of there, maybe by the garbage collector
        door.begin(_Call(items.aclose))
    else:
        _wait_for(door, items.aclose)


async def _next_or(items: AsyncIterator[R], end: R) -> R:
    return await anext(items, end)


class AsyncTool(Generic[P, R]):
    """An async function with a blocking form: `await tool(…)` in async code, `tool.blocking(…)` in sync code."""

    def __init__(self, run: Callable[P, Awaitable[R]], like: Callable[..., Any] | None = None) -> None:
        self.__name__ = "tool"
        update_wrapper(self, like or run)
        self._run = run  # after the wrapping, which copies what `like` holds

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        return self._run(*args, **kwargs)

    def blocking(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the tool and waits for it. Raises RuntimeError inside a running event loop."""
        return run_blocking(self, *args, **kwargs)  # whose name the refusal in an event loop says

    def __repr__(self) -> str:
        return f"<toolstash tool {self.__name__}>"
