"""P6: a text of 10 MB: one page, and one search."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from redis.asyncio import Redis

from benchmarks.report import Table
from benchmarks.rows import WORDS
from benchmarks.sides import MEMORY, PREFIX, SQLITE, Times, ask, ask_peers, median_times, peers, stored, worker
from toolstash import Ctx

LARGE = 10_000_000
SMALL = 100_000
PAGES = 500
PAGE_CHARS = 3_000
PIECE_CHARS = 4_096
PHRASE = "the Otter of Ushant"
WORK = {"search, a phrase there once": PHRASE.upper(), "search, a common word": "diffusion"}


async def texts(url: str, runs: int) -> list[Table]:
    """Pages at spread-out places of a large and of a small text; searches against `re.finditer` and the transfer."""
    large = make_text(LARGE)
    table = Table("P6", f"text of {LARGE // 1_000_000} MB through adispatch")
    client = Redis.from_url(url)
    async with client, stored(url, large, large[:SMALL]) as ids, worker(url) as ctx:
        keys = [await _pieces_key(client, workspace_id) for workspace_id in ids]
        for size, workspace_id, key in ((SMALL, ids[1], keys[1]), (LARGE, ids[0], keys[0])):
            times = await median_times(partial(_pages, client, ctx, workspace_id, key, size), runs)
            for way, seconds in times.items():
                table.add("one page", f"{way}, {'100 KB' if size == SMALL else '10 MB'}", seconds)
        with peers(large) as asks:
            for work, query in WORK.items():
                measure = partial(_searches, client, ctx, ids[0], keys[0], asks, query)
                for way, seconds in (await median_times(measure, runs)).items():
                    table.add(work, way, seconds)
            for way, seconds in (await ask_peers(asks, "read_page", page=3_000)).items():
                table.add("one page", f"{way}, 10 MB", seconds)
    return [table]


def make_text(chars: int) -> str:
    """Sentences and lines of a fixed seed, with one phrase in the middle."""
    pick = random.Random(7)
    lines: list[str] = []
    length = 0
    while length < chars:
        sentence = " ".join(pick.choices(WORDS, k=pick.randint(8, 14))).capitalize()
        lines.append(sentence + ("." if pick.random() < 0.8 else ".\n"))
        length += len(lines[-1]) + 1
    lines[len(lines) // 2] = f"Here rests {PHRASE}."
    return "\n".join(lines)[:chars]


async def _pieces_key(client: Redis, workspace_id: str) -> str:
    (key,) = [key async for key in client.scan_iter(f"{PREFIX}:*:{workspace_id}:text:*")]
    return key.decode()


async def _pages(client: Redis, ctx: Ctx, workspace_id: str, key: str, size: int) -> Times:
    async def bare(page: int) -> None:
        start = page * PAGE_CHARS
        first = start // PIECE_CHARS
        pieces = await client.lrange(key, first, (start + PAGE_CHARS - 1) // PIECE_CHARS)
        text = "".join(map(orjson.loads, pieces))
        assert len(text[start - first * PIECE_CHARS :][:PAGE_CHARS]) == PAGE_CHARS

    async def ours(page: int) -> None:
        answer = await ask(ctx, "read_page", workspace_id=workspace_id, page=page)
        assert len(answer["result"]["text"]) == PAGE_CHARS

    pages = size // PAGE_CHARS
    return {"redis-py": await _per_page(bare, pages), "toolstash": await _per_page(ours, pages)}


async def _per_page(work: Callable[[int], Awaitable[None]], pages: int) -> float:
    started = time.perf_counter()
    for call in range(PAGES):
        await work(call * 7 % pages)
    return (time.perf_counter() - started) / PAGES


async def _searches(
    client: Redis, ctx: Ctx, workspace_id: str, key: str, asks: dict[str, Any], query: str
) -> dict[str, float]:
    started = time.perf_counter()
    text = "".join(map(orjson.loads, await client.lrange(key, 0, -1)))
    found = sum(1 for _ in re.finditer(re.escape(query), text, re.IGNORECASE))
    bare = time.perf_counter() - started
    started = time.perf_counter()
    answer = await ask(ctx, "search_in_text", workspace_id=workspace_id, query=query)
    ours = time.perf_counter() - started
    assert answer["total_matches"] == found > 0
    theirs = await ask_peers(asks, "search_in_text", query=query)
    return {"LRANGE + decode + re.finditer": bare, "toolstash": ours, MEMORY: theirs[MEMORY], SQLITE: theirs[SQLITE]}
