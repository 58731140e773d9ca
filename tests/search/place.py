"""Stores under a prefix of their own on a server with the search module, and a look at all that lies there."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis.asyncio

from tests.search.engines import by_python
from tests.servers import shared_server
from tests.wait import until
from toolstash import RedisStore
from toolstash.contracts import Address, WorkspaceMeta
from toolstash.errors import WorkspaceExpiredError, WorkspaceNotFoundError
from toolstash.query.conditions import compile_leaf
from toolstash.query.pipeline import compile_pipeline
from toolstash.query.questions import Filter, Hits, Pipe, Piped, Question, Search, Sort
from toolstash.query.terms import parse_query
from toolstash.store.payload import Payload
from toolstash.store.primitives import Reading
from toolstash.wire import keys as layout

SEARCHING = "redis-8.2"
FAMILIES = ("doc", "shape", "indexes", "building")
"""The keys that indexes have."""


def rows_of(version: int, count: int = 60) -> list[dict[str, Any]]:
    """Rows that all tell of which version they are, and are found by its word."""
    return [{"n": i, "v": version, "t": f"red fox v{version} w{i % 7}", "k": "ab"[i % 2]} for i in range(count)]


def questions() -> list[Question[Any]]:
    """One of each kind that an index answers."""
    return [
        Search(parse_query("w3"), None, 1_000),
        Filter(compile_leaf("n", "$gte", 7), 1_000),
        Sort("n", True, 1_000),
        Pipe(compile_pipeline([{"filter": {"k": "a"}}, {"count": True}]), 10),
        Pipe(compile_pipeline([{"search": "fox"}, {"limit": 1_000}]), 1_000),
    ]


def said(answer: Any) -> Any:
    """What of an answer must be the same, whoever gives it."""
    if isinstance(answer, Hits):
        return answer.total, [(hit.index, hit.item) for hit in answer.hits]
    assert isinstance(answer, Piped)
    return answer.rows if answer.count is None else answer.count


def is_right(answer: Any, rows: Sequence[Any], question: Question[Any]) -> bool:
    """Whether an answer is the full one for these rows."""
    return said(answer) == said(by_python([*rows], question))


class Place:
    """A prefix of its own."""

    def __init__(self, url: str, client: redis.asyncio.Redis) -> None:
        self.url = url
        self.client = client
        self.prefix = f"r{secrets.token_hex(5)}"
        self.stores: list[RedisStore] = []

    def store(self, url: str | None = None, **options: Any) -> RedisStore:
        """Another worker: a store that shares nothing with the others but the server."""
        store = RedisStore(url or self.url, prefix=self.prefix, **options)
        self.stores.append(store)
        return store

    async def indexes(self) -> list[str]:
        """The indexes of the prefix that the server knows."""
        names = await self.client.execute_command("FT._LIST")
        return sorted(name.decode() for name in names if name.decode().startswith(f"{self.prefix}:"))

    async def keys(self, *families: str) -> list[str]:
        """The keys of the prefix, or those of some families of a workspace."""
        keys = [key.decode() async for key in self.client.scan_iter(f"{self.prefix}:*", count=5_000)]
        return sorted(key for key in keys if not families or _family(key) in families)

    async def left(self) -> list[str]:
        """All that there is of indexes."""
        return await self.indexes() + await self.keys(*FAMILIES)

    async def nothing_is_left(self) -> None:
        """Waits until there are no indexes and no documents any more."""

        async def is_empty() -> bool:
            return not await self.left()

        try:
            await until(is_empty)
        except AssertionError as error:
            raise AssertionError(f"left: {(await self.left())[:5]}") from error

    async def end_leases(self) -> int:
        """Lets the leases of dead builders run out now, as time would; how many there were."""
        leases = await self.keys("building")
        for lease in leases:
            assert 0 < await self.client.pttl(lease) <= layout.LEASE_MS
            await self.client.pexpire(lease, 1)
        await until(lambda: self._are_gone(leases))
        return len(leases)

    async def _are_gone(self, keys: Sequence[str]) -> bool:
        return not keys or await self.client.exists(*keys) == 0


def _family(key: str) -> str:
    parts = key.split(":")
    return parts[3] if len(parts) > 3 else parts[-1]


@asynccontextmanager
async def place(url: str | None = None) -> AsyncIterator[Place]:
    """A place whose stores are closed at the end, and nothing is left of it."""
    url = url or shared_server(SEARCHING).url
    async with redis.asyncio.Redis.from_url(url) as client:
        made = Place(url, client)
        try:
            yield made
        finally:
            for store in made.stores:
                await store.aclose()


async def stored(store: RedisStore, name: str, rows: Sequence[Any], **meta: Any) -> Address:
    """A workspace of these rows, which no question builds an index of."""
    placed = WorkspaceMeta(name, "t", **{"index": "never", **meta})
    at = store.place(name, "t", placed.session_id)
    placed = WorkspaceMeta(at.workspace_id, "t", **{"index": "never", **meta})
    await store.replace(placed, Payload([*rows]))
    return at


async def engine_of(store: RedisStore, at: Address) -> str:
    """Who answers a search now."""
    return (await store.ask(at, Search(parse_query("w3"), None, 5))).data.engine


async def assert_right(store: RedisStore, at: Address, rows: Sequence[Any]) -> None:
    """Every question gets the full answer for these rows."""
    for question in questions():
        assert is_right((await store.ask(at, question)).data, rows, question), question


async def ask_or_gone(store: RedisStore, at: Address, question: Question[Any]) -> Reading | None:
    """An answer; None for a workspace that is gone."""
    try:
        return await store.ask(at, question)
    except (WorkspaceExpiredError, WorkspaceNotFoundError):
        return None


class Worker:
    """Another process that works on the same prefix (tests/search/worker.py)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        """The next that it says."""
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), 30)).decode().strip()

    async def ended(self) -> tuple[int, str]:
        """Waits for its end: the code that it leaves, and what it complains of."""
        _, complaints = await asyncio.wait_for(self.process.communicate(), 30)
        assert self.process.returncode is not None
        return self.process.returncode, complaints.decode()

    async def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        await asyncio.wait_for(self.process.wait(), 10)


async def start_worker(there: Place, mode: str, name: str, *fields: str) -> Worker:
    """Starts a worker; it says "ready" before it does what the mode says."""
    words = (sys.executable, "-m", "tests.search.worker", there.url, there.prefix, mode, name, *fields)
    pipe = asyncio.subprocess.PIPE
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=root)
    return Worker(process)
