"""P5: pipelines over 100,000 rows."""

from __future__ import annotations

from typing import Any

from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import Ask, Times, add_against, ask_ours, ask_peers, median_times, peers, stored

ROWS = 100_000

Steps = list[dict[str, Any]]


def _filtered(year: int, field: str) -> Steps:
    return [{"filter": {"year": {"$gte": year}}}, {"sort": {"field": field, "order": "desc"}}, {"limit": 10}]


def _grouped(least: int, field: str) -> Steps:
    metrics = {"n": "count", "average": f"mean:{field}"}
    return [
        {"flatten": "tags"},
        {"group_by": {"field": "tags", "metrics": metrics}},
        {"sort": {"field": "average", "order": "desc"}},
        {"limit": least},
    ]


WORK: dict[str, tuple[Steps, Steps, Steps]] = {
    "filter + sort + limit": (_filtered(2010, "citations"), _filtered(2000, "citations"), _filtered(2005, "score")),
    "flatten + group_by + sort": (_grouped(10, "citations"), _grouped(20, "citations"), _grouped(10, "score")),
    "search + filter + sort": (
        [{"search": "diffusion"}, *_filtered(2010, "citations")],
        [{"search": "climate"}, *_filtered(2000, "citations")],
        [{"search": "climate"}, *_filtered(2005, "score")],
    ),
}
"""The first question, one with other values, one that also reads another field."""


async def piping(url: str, runs: int) -> list[Table]:
    """A fresh worker's questions, one after another, and ctxtual's stores."""
    rows = make_rows(ROWS)
    table = Table("P5", f"pipe over {ROWS:,} rows (ratios against ctxtual's MemoryStore)")
    async with stored(url, rows) as (workspace_id,):
        with peers(rows) as asks:
            for work, questions in WORK.items():
                add_against(table, work, await _measured(url, workspace_id, asks, questions, runs))
    return [table]


async def _measured(
    url: str, workspace_id: str, asks: dict[str, Ask], questions: tuple[Steps, Steps, Steps], runs: int
) -> Times:
    first, second, third = ({"steps": steps} for steps in questions)
    ours = {
        "toolstash, first question": first,
        "toolstash, second question": second,
        "toolstash, with another field": third,
    }

    async def measure() -> Times:
        return await ask_peers(asks, "pipe", **first) | await ask_ours(url, "pipe", workspace_id, ours)

    return await median_times(measure, runs)
