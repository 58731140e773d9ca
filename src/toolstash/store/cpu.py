"""Work that would hold the event loop runs in a thread, one piece at a time, apart from the users' own threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("toolstash_cpu_limiter")


async def on_cpu(work: Callable[[], T]) -> T:
    """Runs `work` in a worker thread and returns its result; a second call waits for the first."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(1)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(work, limiter=limiter)
