"""P4: full-text search over 100,000 rows on a server without modules."""

from __future__ import annotations

from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import Ask, Times, add_against, ask, ask_ours, ask_peers, median_times, peers, stored, worker

ROWS = 100_000
WORK = {
    "a word in 8 of 10 rows": ("diffusion", "climate"),
    "two such words": ("sparse retrieval", "graph policy"),
    "a number that one row has": ("73105", "48211"),
}
"""What the first and the second question look for."""


async def searching(url: str, runs: int) -> list[Table]:
    """A fresh worker's first question, its second one about the same rows, and ctxtual's stores."""
    rows = make_rows(ROWS)
    table = Table("P4", f"search {ROWS:,} rows, no module (ratios against ctxtual's MemoryStore)")
    async with stored(url, rows) as (workspace_id,):
        await _check_rare(url, workspace_id)
        with peers(rows) as asks:
            for work, queries in WORK.items():
                add_against(table, work, await _measured(url, workspace_id, asks, queries, runs))
    return [table]


async def _measured(url: str, workspace_id: str, asks: dict[str, Ask], queries: tuple[str, str], runs: int) -> Times:
    first, second = queries
    questions = {"toolstash, first question": {"query": first}, "toolstash, second question": {"query": second}}

    async def measure() -> Times:
        theirs = await ask_peers(asks, "search", query=first)
        return theirs | await ask_ours(url, "search", workspace_id, questions)

    return await median_times(measure, runs)


async def _check_rare(url: str, workspace_id: str) -> None:
    async with worker(url) as ctx:
        for query in WORK["a number that one row has"]:
            answer = await ask(ctx, "search", workspace_id=workspace_id, query=query)
            assert answer["total_matches"] == 1, answer["total_matches"]
