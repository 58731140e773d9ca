"""P3: full-text search over 100,000 rows on a server with the search module, by a ready index."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.indexed import Bare, build, by_hand, filled, ranked, searching_url, taking_turns
from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import SQLITE, Ask, add_against, ask, out_of_collections, peer, worker
from toolstash import Ctx
from toolstash.query.clauses import words_clause
from toolstash.query.index import TextView
from toolstash.query.terms import parse_query

ROWS = 100_000
CALLS = 12
TITLE = ["title"]
WORK: Mapping[str, tuple[str, list[str] | None]] = {
    "a number that one row has": ("73105", None),
    "a word in 8 of 10 rows": ("diffusion", None),
    "two such words": ("sparse retrieval", None),
    "a phrase": ('"graph policy"', None),
    "a word in titles": ("diffusion", TITLE),
}
"""What is searched for, and in which fields. ctxtual takes no fields in a call, and words instead of a phrase."""


async def searching_by_index(_: str, runs: int) -> list[Table]:
    """The search tool, the bare query with the rows of its hits, and ctxtual's SQLiteStore."""
    import ctxtual

    rows, url = make_rows(ROWS), searching_url()
    table = Table("P3", f"search {ROWS:,} rows by an index (ratios against the bare query and its rows by redis-py)")
    async with AsyncExitStack() as stack:
        stack.enter_context(out_of_collections())
        store, at = await stack.enter_async_context(filled(url, rows))
        bare: dict[bool, Bare] = {}
        for fields in (None, TITLE):
            await build(store, at, TextView.of(fields))
            bare[fields is None] = await stack.enter_async_context(by_hand(url, store, at, TextView.of(fields)))
        ctx = await stack.enter_async_context(worker(url))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        sqlite = stack.enter_context(peer(ctxtual.SQLiteStore(str(Path(folder) / "bench.db")), rows))
        for work, (query, fields) in WORK.items():
            times = await _measured(bare[fields is None], ctx, at.workspace_id, query, fields, runs)
            add_against(table, work, times | {SQLITE: _theirs(sqlite, query, runs)})
    return [table]


async def _measured(
    bare: Bare, ctx: Ctx, workspace_id: str, query: str, fields: list[str] | None, runs: int
) -> dict[str, float]:
    words = ranked(words_clause(parse_query(query)))
    arguments: dict[str, Any] = {"workspace_id": workspace_id, "query": query} | ({"fields": fields} if fields else {})
    ours = await ask(ctx, "search", **arguments)
    assert ours["engine"] == "redisearch"
    found = [match["item"]["id"] for match in ours["matches"]]
    expected = [row["id"] for row in await bare.first_rows(*words)]
    assert found == expected[: len(found)], "an answer may be cut, but has the same order"
    ways = {
        "FT.AGGREGATE + rows by redis-py": partial(bare.first_rows, *words),
        "toolstash adispatch": partial(ask, ctx, "search", **arguments),
    }
    return await taking_turns(ways, calls=CALLS * runs)


def _theirs(sqlite: Ask, query: str, runs: int) -> float:
    seconds: list[float] = []
    for _ in range(min(3, runs)):
        started = time.perf_counter()
        sqlite("search", query=query.strip('"'))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
