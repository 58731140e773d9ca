"""P5 on a server with the search module: pipelines and groups of 100,000 rows, by a ready index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.indexed import Bare, build, by_hand, filled, put, searching_url, taking_turns
from benchmarks.piping import ROWS, WORK
from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import add_against, ask, ask_ours, ask_peers, median_times, peers, worker
from toolstash import Ctx, RedisStore
from toolstash.contracts import Address
from toolstash.query.index import TextView

CALLS = 12
PIPED = ("filter + sort + limit", "search + filter + sort")
TEXT = TextView.of(None)
GROUPINGS: Mapping[str, tuple[str, dict[str, str]]] = {
    "count by country (4)": ("author.country", {"n": "count"}),
    "count by year (37)": ("year", {"n": "count"}),
    "count, mean by year": ("year", {"n": "count", "average": "mean:citations"}),
}
"""Fields to group by (how many groups), and metrics."""


async def piping_by_index(_: str, runs: int) -> list[Table]:
    """Pipelines by an index, by our own Python and by ctxtual's stores; groups against the bare FT.AGGREGATE."""
    rows, url = make_rows(ROWS), searching_url()
    async with filled(url, rows) as (store, at), worker(url) as ctx:
        plain = await put(store, rows)
        await build(store, at, TEXT)
        pipes = await _pipes(ctx, url, rows, plain, at, runs)
        return [pipes, await _groups(ctx, url, store, at, runs)]


async def _pipes(ctx: Ctx, url: str, rows: list[Any], plain: Address, at: Address, runs: int) -> Table:
    table = Table("P5", f"pipe over {ROWS:,} rows by an index (ratios against ctxtual's MemoryStore)")
    with peers(rows) as asks:
        for work in PIPED:
            first, second, _ = WORK[work]
            questions = {"first": {"steps": first}, "toolstash, Python's second": {"steps": second}}
            theirs = await ask_peers(asks, "pipe", steps=second)
            by_python = await median_times(partial(ask_ours, url, "pipe", plain.workspace_id, questions), runs)
            del by_python["first"]
            by_index = partial(ask, ctx, "pipe", workspace_id=at.workspace_id, steps=second)
            turns = await taking_turns({"toolstash, by the index": by_index}, calls=CALLS * runs)
            add_against(table, work, theirs | by_python | turns)
    return table


async def _groups(ctx: Ctx, url: str, store: RedisStore, at: Address, runs: int) -> Table:
    table = Table("P5", f"group_by over {ROWS:,} rows by an index (ratios against the bare FT.AGGREGATE)")
    async with by_hand(url, store, at, TEXT) as bare:
        for work, (field, metrics) in GROUPINGS.items():
            steps = [{"group_by": {"field": field, "metrics": metrics}}, {"sort": {"field": "n", "order": "desc"}}]
            us = partial(ask, ctx, workspace_id=at.workspace_id)
            ways = {
                "FT.AGGREGATE by redis-py": partial(bare.groups, *_grouped(bare, field, metrics)),
                "toolstash aggregate": partial(us, "aggregate", group_by=field, metrics=metrics),
                "toolstash pipe": partial(us, "pipe", steps=steps),
            }
            for way, seconds in (await taking_turns(ways, calls=CALLS * runs)).items():
                table.add(work, way, seconds)
    return table


def _grouped(bare: Bare, field: str, metrics: Mapping[str, str]) -> list[str]:
    """Groups in the order of their first rows, with the reducers of the metrics."""
    reducers = ["REDUCE", "COUNT", "0", "AS", "n", "REDUCE", "MIN", "1", "@n", "AS", "first"]
    for name, metric in metrics.items():
        if metric != "count":
            path = metric.removeprefix("mean:")
            reducers += ["REDUCE", "SUM", "1", f"@v{bare.columns[path].place}", "AS", name]
    code = f"@{bare.columns[field].group_field}"
    return ["*", "GROUPBY", "1", code, *reducers, "SORTBY", "2", "@first", "ASC", "LIMIT", "0", "1000"]
