"""A process that asks for one workspace. Its producer notes that it runs, and ends when the test lets it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import redis.asyncio

from tests.wait import until
from toolstash import Ctx, RedisStore
from toolstash.wire import keys as layout

LEASE_MS = 3_000

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


class Flyer:
    """One such process; `answer()` is what it was told in the end."""

    def __init__(self, url: str, prefix: str, outcome: str) -> None:
        self._ours, theirs = _processes.Pipe(duplex=False)
        self.process: BaseProcess = _processes.Process(target=_run, args=(url, prefix, outcome, theirs), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    async def asks(self) -> None:
        """Waits until it is about to ask."""
        assert await self._next("the process asks") == "asking"

    async def answer(self) -> Any:
        answer = await self._next("the process has an answer")
        await until(lambda: not self.process.is_alive(), what="the process ends")
        self._ours.close()
        self.process.close()
        return answer

    async def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        await until(lambda: not self.process.is_alive(), what="the process is dead")
        self._ours.close()
        self.process.close()

    async def _next(self, what: str) -> Any:
        await until(self._ours.poll, within=60, what=what)
        return self._ours.recv()


def _run(url: str, prefix: str, outcome: str, told: Connection) -> None:
    layout.FLIGHT_MS = LEASE_MS
    asyncio.run(_ask(url, prefix, outcome, told))


async def _ask(url: str, prefix: str, outcome: str, told: Connection) -> None:
    async with redis.asyncio.Redis.from_url(url) as client, RedisStore(url, prefix=prefix) as store:
        ctx = Ctx(store, default_ttl=60)

        @ctx.producer(workspace_type="rows", key="w")
        async def load() -> list[int]:
            await client.rpush(f"{prefix}-runs", os.getpid())
            await until(lambda: client.exists(f"{prefix}-go"), within=60, what="the test lets it end")
            if outcome == "fails":
                raise ValueError("no")
            return [os.getpid()] * 3

        await store.ping()
        told.send("asking")
        told.send(await ctx.adispatch_tool_call("load"))
