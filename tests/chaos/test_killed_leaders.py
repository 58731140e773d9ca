"""Of processes that make the same workspace at once one leads; when it is killed or frozen, another one takes over."""

from __future__ import annotations

import os
import signal
from typing import Any

import redis.asyncio

from tests.chaos.flyer import Flyer
from tests.servers import shared_server
from tests.wait import until
from toolstash import RedisStore

PROCESSES = 4


class Flight:
    """Processes that ask for the same, and what the test sees of them."""

    def __init__(self, client: redis.asyncio.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self.flyers: dict[int, Flyer] = {}

    async def start(self, url: str, outcome: str = "works") -> int:
        """Starts processes and waits until all of them ask; the process that leads."""
        started = [Flyer(url, self._prefix, outcome) for _ in range(PROCESSES)]
        self.flyers = {flyer.pid: flyer for flyer in started}
        for flyer in started:
            await flyer.asks()
        calls = await self._calls()

        async def all_have_asked() -> bool:
            return await self._calls() >= calls + 3 * PROCESSES

        await until(all_have_asked, within=30, what="all have asked")
        (leader,) = await self.has_run(1)
        return leader

    async def has_run(self, count: int) -> list[int]:
        """Waits until so many runs have begun; their processes."""

        async def enough() -> list[int]:
            runs = [int(pid) for pid in await self._client.lrange(f"{self._prefix}-runs", 0, -1)]  # type: ignore[misc]
            return runs if len(runs) >= count else []

        return await until(enough, within=30, what=f"{count} runs")

    async def land(self) -> None:
        """Lets the producers end."""
        await self._client.set(f"{self._prefix}-go", 1, ex=60)

    async def answers(self) -> list[Any]:
        """What each process that is still there was told."""
        return [await flyer.answer() for flyer in self.flyers.values()]

    async def _calls(self) -> int:
        stats = await self._client.info("commandstats")
        return stats.get("cmdstat_evalsha", {}).get("calls", 0)


async def test_processes_share_one_run(prefix: str) -> None:
    url = shared_server("valkey").url
    async with redis.asyncio.Redis.from_url(url) as client:
        flight = Flight(client, prefix)
        await flight.start(url)
        await flight.land()
        answers = await flight.answers()
        assert len(await flight.has_run(1)) == 1
        assert answers == [answers[0]] * PROCESSES
        assert answers[0]["status"] == "workspace_ready"


async def test_a_killed_leader_is_replaced(prefix: str) -> None:
    url = shared_server("redis-8.2").url
    async with redis.asyncio.Redis.from_url(url) as client:
        flight = Flight(client, prefix)
        leader = await flight.start(url)
        await flight.flyers.pop(leader).kill()
        runs = await flight.has_run(2)
        await flight.land()
        answers = await flight.answers()
        assert await flight.has_run(2) == runs
        assert answers == [answers[0]] * (PROCESSES - 1)
        async with RedisStore(url, prefix=prefix) as store:
            assert await store.get_items("w") == [runs[1]] * 3
        assert [key async for key in client.scan_iter(f"{prefix}:*") if await client.ttl(key) == -1] == []


async def test_a_frozen_leader_that_wakes_up_spoils_nothing(prefix: str) -> None:
    url = shared_server("valkey").url
    async with redis.asyncio.Redis.from_url(url) as client:
        flight = Flight(client, prefix)
        leader = await flight.start(url)
        frozen = flight.flyers.pop(leader)
        os.kill(leader, signal.SIGSTOP)
        try:
            runs = await flight.has_run(2)
            await flight.land()
            answers = await flight.answers()
        finally:
            os.kill(leader, signal.SIGCONT)
        answers.append(await frozen.answer())
        assert await flight.has_run(2) == runs
        assert [answer["status"] for answer in answers] == ["workspace_ready"] * PROCESSES
        async with RedisStore(url, prefix=prefix) as store:
            assert await store.get_items("w") in ([runs[0]] * 3, [runs[1]] * 3)


async def test_a_failure_is_told_to_all_processes(prefix: str) -> None:
    url = shared_server("valkey").url
    async with redis.asyncio.Redis.from_url(url) as client:
        flight = Flight(client, prefix)
        await flight.start(url, "fails")
        await flight.land()
        answers = await flight.answers()
        assert answers == [answers[0]] * PROCESSES
        assert answers[0]["error"] == "load failed (ValueError)."
        assert len(await flight.has_run(1)) == 1
