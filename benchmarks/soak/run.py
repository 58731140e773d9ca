"""The soak as a whole: a server, the workers, a look at all of them now and then, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import AsyncGenerator

from redis.asyncio import Redis

from benchmarks.soak.crew import Crew, started
from benchmarks.soak.plan import Plan
from benchmarks.soak.server import Census, census, clients_gone, everlasting, remove_all
from benchmarks.soak.verdict import Findings, megabytes
from toolstash.wire.embedded import ensure_server

LOOK_SECONDS = 5.0
LOOKS = 12
"""A short soak looks more often, so that each third has a few."""


async def soak(plan: Plan) -> int:
    """Runs a plan and prints what it came to; 0 if all was well, 1 if not."""
    url = plan.url or f"unix://{ensure_server(None).socket_path}"
    async with Redis.from_url(url) as client:
        prefix = f"{plan.prefix}:{secrets.token_hex(4)}"
        before = int((await client.info("clients"))["connected_clients"])
        try:
            findings = await _findings(plan.at(url, prefix), client, before)
        finally:
            await remove_all(client, prefix)
    lines, wrong = findings.table()
    print("\n".join([*lines, "", *(f"WRONG: {fault}" for fault in wrong), "" if wrong else "all was well"]).rstrip())
    return 1 if wrong else 0


async def _findings(plan: Plan, client: Redis, clients_before: int) -> Findings:
    async with started(plan) as crew:
        print(f"{plan.processes} processes, {plan.callers} callers, {plan.sessions} sessions, {plan.minutes:g} min")
        taken: list[Census] = []
        async with _ctrl_c() as interrupted:
            await crew.begin()
            crew.epoch = time.monotonic()
            await _watch(plan, crew, client, taken, interrupted)
            seconds = time.monotonic() - crew.epoch
            await crew.end()
        faults = crew.faults
        left = await clients_gone(client, clients_before)
        staying = await everlasting(client, plan.prefix)
        return Findings(seconds, crew.tally, crew.members, taken, staying, left, clients_before, faults)


async def _watch(plan: Plan, crew: Crew, client: Redis, taken: list[Census], interrupted: asyncio.Event) -> None:
    """Looks at the workers and the server until the time is over, Ctrl-C, or a worker's end."""
    every = min(LOOK_SECONDS, plan.seconds / LOOKS)
    ends_at = crew.epoch + plan.seconds
    while not interrupted.is_set() and time.monotonic() < ends_at and not crew.faults:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(interrupted.wait(), max(0.0, min(every, ends_at - time.monotonic())))
        taken.append(await census(client, plan.prefix, crew.epoch))
        _tell(crew, taken[-1])


def _tell(crew: Crew, now: Census) -> None:
    tally = crew.tally
    memory = sum(member.memory[-1][1] for member in crew.members if member.memory)
    wrong = tally.faults.total()
    print(
        f"{now.at:6.1f} s  {tally.calls:>10,} calls  {tally.calls / now.at:>7,.0f}/s  workers {megabytes(memory):>10}"
        f"  server {megabytes(now.bytes):>9}  {now.clients:>4} clients  {wrong} wrong",
        flush=True,
    )


@contextlib.asynccontextmanager
async def _ctrl_c() -> AsyncGenerator[asyncio.Event]:
    """An event that Ctrl-C sets, in place of breaking off."""
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGINT)
