"""Worker threads for the users' sync code. Imports nothing of toolstash.

A sync tool may call another one through the blocking door, which needs a second thread while it holds the first. So
only outermost calls wait for a place; calls inside them never do, and no chain of calls can wait for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

P = ParamSpec("P")
R = TypeVar("R")

MOST_THREADS = 64

_is_inside: ContextVar[bool] = ContextVar("toolstash_inside_user_code", default=False)
_outermost: RunVar[anyio.CapacityLimiter] = RunVar("toolstash_outermost_user_code")
_nested: RunVar[anyio.CapacityLimiter] = RunVar("toolstash_nested_user_code")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a sync function of the user in a worker thread, with the caller's context."""
    limiter = _limiter(_nested, math.inf) if _is_inside.get() else _limiter(_outermost, MOST_THREADS)
    token = _is_inside.set(True)
    try:
        return await anyio.to_thread.run_sync(partial(function, *args, **kwargs), limiter=limiter)
    finally:
        _is_inside.reset(token)


def _limiter(variable: RunVar[anyio.CapacityLimiter], places: float) -> anyio.CapacityLimiter:
    try:
        return variable.get()
    except LookupError:
        variable.set(anyio.CapacityLimiter(places))
        return variable.get()
