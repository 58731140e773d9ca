"""What the server holds while a soak runs, and what would stay there for ever."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

from redis.asyncio import Redis

NOTED = ("op", "gone", "retired", "landed", "events")
"""Keys that pile up by design until their time is over: results of writes (2 minutes), tombstones (a day), states of
replaced rows (a minute), ends of shared calls, streams of events (up to their cap). So do replaced rows themselves (a
minute). How many there are grows with a short soak; that is told apart from what may not grow."""

_AT_ONCE = 2_000
_WEIGHED = 30


@dataclass(frozen=True, slots=True)
class Census:
    """The server at one moment: seconds since the beginning, clients, bytes in all, bytes of notes, keys by family."""

    at: float
    clients: int
    bytes: int
    noted_bytes: int
    keys: Counter[str]


def family(key: str, prefix: str) -> str:
    """What kind of key it is: `meta`, `rows`, `op`, …"""
    parts = key[len(prefix) + 1 :].split(":")
    return parts[-1] if len(parts) < 3 else parts[2]


async def census(client: Redis, prefix: str, epoch: float) -> Census:
    """Counts and weighs."""
    keys: Counter[str] = Counter()
    examples: dict[str, list[bytes]] = {name: [] for name in (*NOTED, "rows")}
    async for key in client.scan_iter(f"{prefix}:*", count=_AT_ONCE):
        name = family(key.decode(), prefix)
        keys[name] += 1
        if name in examples and len(examples[name]) < _WEIGHED:
            examples[name].append(key)
    noted = 0.0
    for name, found in examples.items():
        sizes = [size for key in found if (size := await client.memory_usage(key))]
        count = keys[name] if name in NOTED else max(0, keys[name] - keys["meta"])
        noted += count * sum(sizes) / len(sizes) if sizes else 0.0
    memory, clients = await client.info("memory"), await client.info("clients")
    moment = time.monotonic() - epoch
    return Census(moment, int(clients["connected_clients"]), int(memory["used_memory"]), round(noted), keys)


async def everlasting(client: Redis, prefix: str) -> list[str]:
    """Keys under the prefix that have no time to live."""
    found: list[str] = []
    batch: list[bytes] = []

    async def look() -> None:
        async with client.pipeline(transaction=False) as pipeline:
            for key in batch:
                pipeline.pttl(key)
            found.extend(key.decode() for key, left in zip(batch, await pipeline.execute(), strict=True) if left == -1)
        batch.clear()

    async for key in client.scan_iter(f"{prefix}:*", count=_AT_ONCE):
        batch.append(key)
        if len(batch) == _AT_ONCE:
            await look()
    if batch:
        await look()
    return found


async def remove_all(client: Redis, prefix: str) -> None:
    """Takes away everything under the prefix."""
    async for key in client.scan_iter(f"{prefix}:*", count=_AT_ONCE):
        await client.unlink(key)


async def clients_gone(client: Redis, most: int, *, within: float = 5.0) -> int:
    """How many clients are connected once there are no more than `most`, or when the time is over."""
    deadline = time.monotonic() + within
    while True:
        connected = int((await client.info("clients"))["connected_clients"])
        if connected <= most or time.monotonic() > deadline:
            return connected
        await asyncio.sleep(0.05)
