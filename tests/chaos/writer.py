"""A process that replaces one workspace over and over, each time with rows that all say the same number."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys

from toolstash import RedisStore, WorkspaceMeta
from toolstash.store.payload import Payload


async def main(url: str, prefix: str, rows: int) -> None:
    """Writes until it is killed; says "ready" after the first time."""
    store = RedisStore(url, prefix=prefix)
    for turn in itertools.count():
        payload = Payload([{"writer": os.getpid(), "turn": turn, "pad": "x" * 100}] * rows)
        await store.replace(WorkspaceMeta("w", "papers", producer_fn="load", ttl=300.0), payload)
        if turn == 0:  # the parent waits for this line
            sys.stdout.write("ready\n")
            sys.stdout.flush()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
