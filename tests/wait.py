"""Waiting for a condition, with a time limit: the one place where tests poll."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

INTERVAL = 0.02


async def until(condition: Callable[[], Any], *, within: float = 15.0, what: str = "the condition") -> Any:
    """Waits until `condition()` (sync or async) is true and returns what it gave; fails with `what` otherwise."""
    deadline = time.monotonic() + within
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        await asyncio.sleep(INTERVAL)


def until_sync(condition: Callable[[], Any], *, within: float = 15.0, what: str = "the condition") -> Any:
    """`until` for sync tests."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(INTERVAL)
    return found
