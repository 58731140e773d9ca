"""The one blocking door: sync callers reach async code through a background event loop, one per process.

The loop is made on first use, again after a fork, and is closed at exit. It imports nothing of toolstash.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal

P = ParamSpec("P")
R = TypeVar("R")

EXIT_SECONDS = 1.0


class _Door:
    """The background loop of this process, in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._opened: Future[BlockingPortal] = Future()
        self.loop: asyncio.AbstractEventLoop | None = None

    def portal(self) -> BlockingPortal:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._opened = Future()
                self._thread = threading.Thread(
                    target=self._run, args=(self._opened,), name="toolstash-blocking", daemon=True
                )
                self._thread.start()
            opened = self._opened
        return opened.result()

    def _run(self, opened: Future[BlockingPortal]) -> None:
        try:
            anyio.run(self._serve, opened)
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)
        finally:
            self.loop = None

    async def _serve(self, opened: Future[BlockingPortal]) -> None:
        async with BlockingPortal() as portal:
            self.loop = asyncio.get_running_loop()
            opened.set_result(portal)
            await portal.sleep_until_stopped()

    def close(self) -> None:
        """Lets running calls end, then cancels them, then leaves: a user's thread cannot be stopped."""
        thread, loop = self._thread, self.loop
        for cancel in (False, True):
            if thread is not None and loop is not None and thread.is_alive():
                stopping = self._opened.result().stop(cancel_remaining=cancel)
                asyncio.run_coroutine_threadsafe(stopping, loop)
                thread.join(EXIT_SECONDS)


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
        RuntimeError: Called where an event loop runs, which would stop the loop; await the function there.
    """
    if in_event_loop():
        name = getattr(function, "__name__", "the function")
        raise RuntimeError(
            f"an event loop is running in this thread: use `await …{name}(…)` instead of the blocking form"
        )
    call = _door.portal().start_task_soon(_carrying_exits, partial(function, *args, **kwargs))
    try:
        result, wants_exit = call.result()
    except BaseException:
        call.cancel()  # nothing happens where the call itself has ended
        raise
    if wants_exit is not None:
        raise wants_exit
    return result


async def _carrying_exits(work: Callable[[], Awaitable[R]]) -> tuple[R, None] | tuple[Any, BaseException]:
    """A tool that calls `sys.exit()` ends its caller, not the loop that serves all callers."""
    try:
        return await work(), None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


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
    return _pulled(cast(AsyncGenerator[Any], result)) if isinstance(result, AsyncGenerator) else result


def _pulled(items: AsyncGenerator[R]) -> Iterator[R]:
    end: Any = object()
    try:
        while (item := run_blocking(_next_or, items, end)) is not end:
            yield item
    finally:
        if not in_event_loop() and not sys.is_finalizing():
            run_blocking(items.aclose)


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
