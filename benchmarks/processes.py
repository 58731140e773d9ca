"""The same work in several processes at once, on one server: what it costs by their number."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import Pool
from typing import Any

PROCESSES = (1, 2, 4, 8)
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
START_SECONDS = 0.3
"""How long before the common start each process is told of it: time to connect and to call once."""

Call = Callable[[int], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Share:
    """What one process did in its time: seconds of each call, seconds of processor, and how long it took."""

    seconds: Sequence[float]
    processor: float
    wall: float


@dataclass(frozen=True, slots=True)
class Pace:
    """What all of them did together."""

    calls_per_second: float
    p50: float
    p99: float
    processor_per_call: float

    @classmethod
    def of(cls, shares: Sequence[Share]) -> Pace:
        """Joins what the processes did."""
        seconds = sorted(second for share in shares for second in share.seconds)
        return cls(
            sum(len(share.seconds) / share.wall for share in shares),
            quantile(seconds, 0.5),
            quantile(seconds, 0.99),
            sum(share.processor for share in shares) / len(seconds),
        )

    @classmethod
    def median(cls, paces: Sequence[Pace]) -> Pace:
        """Each figure's median over the runs."""
        names = ("calls_per_second", "p50", "p99", "processor_per_call")
        return cls(*(statistics.median(getattr(pace, name) for pace in paces) for name in names))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that a share of the ordered values does not pass."""
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


@contextmanager
def processes(most: int = max(PROCESSES)) -> Generator[Pool]:
    """Fresh processes, none of them forked; they end with the block."""
    with multiprocessing.get_context("spawn").Pool(most) as pool:
        pool.map(_nap, range(most), chunksize=1)  # all have started and imported before anything is measured
        yield pool


def _nap(_: int) -> None:
    time.sleep(0.5)  # so long that each process takes one


async def together(pool: Pool, count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Runs `work(number, starts_at, *arguments)` in `count` processes at once; their results."""
    starts_at = time.time() + START_SECONDS
    tasks = [(number, starts_at, *arguments) for number in range(count)]
    return await asyncio.to_thread(pool.starmap, work, tasks, 1)


async def share_of(call: Call, *, callers: int, starts_at: float, seconds: float) -> Share:
    """Calls with so many callers from that moment on, for so many seconds."""
    await call(0)
    await asyncio.sleep(max(0.0, starts_at - time.time()))
    taken: list[float] = []
    started, used = time.perf_counter(), time.process_time()
    ends_at = started + seconds

    async def caller(number: int) -> None:
        turn = number
        while (begun := time.perf_counter()) < ends_at:
            await call(turn)
            taken.append(time.perf_counter() - begun)
            turn += callers

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return Share(taken, time.process_time() - used, time.perf_counter() - started)
