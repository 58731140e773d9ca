"""The same workspace on each side: ours in Redis, and in ctxtual's stores."""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import Table, timed
from toolstash import Ctx, RedisStore, toolsets

TYPE = "papers"
PREFIX = "bench"
LIFE_SECONDS = 900
OURS = ("paginator", "text_search", "filter_set", "pipeline", "text_content")

MEMORY = "ctxtual MemoryStore"
SQLITE = "ctxtual SQLiteStore"

Ask = Callable[..., Any]
Times = Mapping[str, float]


@asynccontextmanager
async def stored(url: str, *payloads: Any) -> AsyncGenerator[list[str]]:
    """The ids of our workspaces of these payloads; they are removed at the end."""
    async with RedisStore(url, prefix=PREFIX) as store:
        ctx = Ctx(store, default_ttl=LIFE_SECONDS)
        try:
            refs = [
                await ctx.store_workspace(payload, workspace_type=TYPE, workspace_id=f"{TYPE}{number}")
                for number, payload in enumerate(payloads)
            ]
            del payloads  # a worker that asks does not hold the rows either
            yield [ref.workspace_id for ref in refs]
        finally:
            await store.clear()


@asynccontextmanager
async def worker(url: str) -> AsyncGenerator[Ctx]:
    """A Ctx with every tool for the stored workspaces. It is connected, and remembers nothing of them."""
    async with RedisStore(url, prefix=PREFIX) as store:
        ctx = Ctx(store, default_ttl=LIFE_SECONDS)
        for name in OURS:
            factory = getattr(toolsets, name)
            _ = factory(ctx, TYPE, mutations=True) if name == "paginator" else factory(ctx, TYPE)
        await store.ping()
        yield ctx


async def ask(ctx: Ctx, tool: str, **arguments: Any) -> Any:
    """The answer of one of our tools, which must be no error."""
    answer = await ctx.adispatch_tool_call(f"{TYPE}_{tool}", arguments)
    assert "error" not in answer, answer
    return answer


@contextmanager
def peers(payload: Any) -> Generator[dict[str, Ask]]:
    """Ways to ask ctxtual's two stores, by their names."""
    import ctxtual

    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "bench.db")
        with (
            peer(ctxtual.MemoryStore(), payload) as memory,
            peer(ctxtual.SQLiteStore(database), payload) as sqlite,
            out_of_collections(),
        ):
            yield {MEMORY: memory, SQLITE: sqlite}


@contextmanager
def out_of_collections() -> Generator[None]:
    """What is held now (the rows of a MemoryStore) is not visited when Python collects garbage of either side."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def peer(store: Any, payload: Any) -> Generator[Ask]:
    """A way to ask one store of ctxtual: `ask(tool, **arguments)`; the workspace is named for you."""
    ctx = peer_ctx(store)
    ref = ctx.store_workspace(payload, workspace_type=TYPE)

    def ask_peer(tool: str, **arguments: Any) -> Any:
        answer = ctx.dispatch_tool_call(f"{TYPE}_{tool}", {"workspace_id": ref.workspace_id, **arguments})
        assert "error" not in answer, answer
        return answer

    yield ask_peer
    store.close()


def peer_ctx(store: Any) -> Any:
    """ctxtual's Ctx with the tools that ours has."""
    import ctxtual
    from ctxtual import utils

    ctx = ctxtual.Ctx(store=store)
    for name in OURS:
        getattr(utils, name)(ctx, TYPE)
    return ctx


async def ask_peers(asks: Mapping[str, Ask], tool: str, **arguments: Any) -> dict[str, float]:
    """Seconds of one call on each of ctxtual's stores."""
    return {way: await timed(partial(_called, ask, tool, arguments), runs=1) for way, ask in asks.items()}


async def _called(ask: Ask, tool: str, arguments: Mapping[str, Any]) -> None:
    ask(tool, **arguments)


async def ask_ours(url: str, tool: str, workspace_id: str, questions: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of questions by a fresh worker, one after another; each is the tool's other arguments."""
    async with worker(url) as ctx:
        return {
            way: await timed(partial(ask, ctx, tool, workspace_id=workspace_id, **arguments), runs=1)
            for way, arguments in questions.items()
        }


async def median_times(measure: Callable[[], Awaitable[Times]], runs: int) -> dict[str, float]:
    """Runs all ways in turn, so that noise meets all of them, and takes each way's median."""
    rounds: Sequence[Times] = [await measure() for _ in range(runs)]
    return {way: statistics.median(times[way] for times in rounds) for way in rounds[0]}


def add_against(table: Table, work: str, times: Times) -> None:
    """A line a way; the ratios are against the first one, the note says how it stands to ctxtual's SQLiteStore."""
    for way, seconds in times.items():
        speed = times[SQLITE] / seconds
        table.add(work, way, seconds, "" if way == SQLITE else f"{speed:,.1f}× the speed of its SQLiteStore")
