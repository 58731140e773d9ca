"""The one blocking door: sync callers reach async code through a background event loop, one per process.

The loop is made on first use, again after a fork, and is closed at exit. It imports nothing of toolstash.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

P = ParamSpec("P")
R = TypeVar("R")


class _Door:
    """The background loop of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[AbstractContextManager[BlockingPortal], BlockingPortal] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def portal(self) -> BlockingPortal:
        with self._lock:
            if self._opened is None:
                manager = start_blocking_portal("asyncio", name="toolstash-blocking")
                self._opened = (manager, manager.__enter__())
                self.loop = self._opened[1].call(asyncio.get_running_loop)
            return self._opened[1]

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
            self.loop = None
        if opened is not None:
            opened[0].__exit__(None, None, None)


_door = _Door()
_inherited: list[_Door] = []  # doors of a parent process: letting go of one would wait for a thread that is not here


def _leave_parents_door() -> None:
    global _door
    _inherited.append(_door)
    _door = _Door()


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

    Raises:
        RuntimeError: Called where an event loop runs, which would stop the loop; await the function there.
    """
    if in_event_loop():
        name = getattr(function, "__name__", "the function")
        raise RuntimeError(
            f"an event loop is running in this thread: use `await …{name}(…)` instead of the blocking form"
        )
    return _door.portal().call(partial(function, *args, **kwargs))


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
        if inspect.isasyncgenfunction(attribute):
            return partial(_pull, attribute)
        return attribute


def _pull(function: Callable[P, AsyncIterator[R]], *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
    items = function(*args, **kwargs)
    end: Any = object()
    while (item := run_blocking(_next_or, items, end)) is not end:
        yield item


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
        return run_blocking(self._run, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<toolstash tool {self.__name__}>"
