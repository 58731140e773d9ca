"""A process that replaces one workspace over and over, each time with rows that all say the same number."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from tests.wait import until
from toolstash import RedisStore, WorkspaceMeta
from toolstash.store.payload import Payload

_processes = multiprocessing.get_context("forkserver")  # which has loaded this file once, so that a start costs little
_processes.set_forkserver_preload([__name__])


async def start_writer(url: str, prefix: str, rows: int) -> BaseProcess:
    """Starts a writer and waits until it has written for the first time; the caller ends it."""
    ours, theirs = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_run, args=(url, prefix, rows, theirs), daemon=True)
    process.start()
    theirs.close()
    await until(ours.poll, within=60, what="the writer has written once")
    assert ours.recv() == "ready"
    ours.close()
    return process


async def end_writer(process: BaseProcess) -> None:
    """SIGKILL."""
    process.kill()
    await until(lambda: not process.is_alive(), what="the writer is dead")
    process.close()


def _run(url: str, prefix: str, rows: int, ready: Connection) -> None:
    asyncio.run(_write(url, prefix, rows, ready))


async def _write(url: str, prefix: str, rows: int, ready: Connection) -> None:
    store = RedisStore(url, prefix=prefix)
    for turn in itertools.count():
        payload = Payload([{"writer": os.getpid(), "turn": turn, "pad": "x" * 100}] * rows)
        await store.replace(WorkspaceMeta("w", "papers", producer_fn="load", ttl=300.0), payload)
        if turn == 0:
            ready.send("ready")
