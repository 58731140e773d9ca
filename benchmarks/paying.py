"""P12: from which size an index pays: Python's questions, questions by the index, and what it costs to build."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.indexed import Ask, build, filled, put, searching_url, taking_turns
from benchmarks.plot import draw
from benchmarks.report import Table, timed
from benchmarks.rows import WORDS, make_rows
from benchmarks.sides import ask, worker
from toolstash import Ctx
from toolstash.contracts import Address
from toolstash.query.index import TextView

SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
CALLS = 8
PLOT = Path("benchmarks/plots/paying.svg")
FIRST, SECOND, BY_INDEX, BUILD = "Python, first question", "Python, second question", "by the index", "index build"
QUESTIONS: Mapping[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "search": ("search", lambda call: {"query": f"{WORDS[call % 20]} {WORDS[(call + 5) % 20]}"}),
    "filter + sort": ("pipe", lambda call: {"steps": _filtered(2000 + call % 20, "citations")}),
    "group_by": ("aggregate", lambda _: {"group_by": "year", "metrics": {"n": "count"}}),
}
"""Tools and arguments, other ones in each call: an answer that is remembered would be no measurement."""


def _filtered(year: int, field: str) -> list[dict[str, Any]]:
    return [{"filter": {"year": {"$gte": year}}}, {"sort": {"field": field, "order": "desc"}}, {"limit": 10}]


async def paying(_: str, runs: int) -> list[Table]:
    """A cold worker's first question, its next ones, the same by an index of all texts, and the build."""
    table = Table("P12", "from which size an index pays (ratios against Python's second question)")
    lines: dict[str, list[tuple[float, float]]] = {}
    for rows in SIZES:
        measured, built = await _measured(rows, min(3, runs) if rows <= 10_000 else 1)
        for question, times in measured.items():
            _add(table, f"{question}, {rows:,} rows", times, built)
            for way, seconds in times.items():
                lines.setdefault(f"{question}: {way}", []).append((rows, seconds))
        lines.setdefault(BUILD, []).append((rows, built))
    draw(PLOT, "From which size an index pays", {name: lines[name] for name in lines if FIRST not in name})
    return [table]


def _add(table: Table, work: str, times: Mapping[str, float], built: float) -> None:
    for way in (SECOND, FIRST, BY_INDEX):
        table.add(work, way, times[way])
    warm, cold = (_paid_after(built, times[way] - times[BY_INDEX]) for way in (SECOND, FIRST))
    table.add(work, BUILD, built, f"pays after {warm} warm, {cold} cold questions")


def _paid_after(built: float, saved: float) -> str:
    return f"{built / saved:,.0f}" if saved > 0 else "no number of"


async def _measured(rows: int, runs: int) -> tuple[dict[str, dict[str, float]], float]:
    url = searching_url()
    async with filled(url, make_rows(rows)) as (store, plain):
        at = plain
        built: list[float] = []
        for _ in range(runs):
            at = await put(store, make_rows(rows))  # an index that is there would not be built again
            built.append(await timed(partial(build, store, at, TextView.of(None)), runs=1))
        times: dict[str, dict[str, float]] = {}
        for question, (tool, arguments) in QUESTIONS.items():
            firsts: list[float] = []
            for _ in range(runs):
                async with worker(url) as ctx:
                    by_python = _asking(ctx, tool, plain, arguments)
                    by_index = _asking(ctx, tool, at, arguments)
                    firsts.append(await timed(by_python, runs=1))
                    ways = {SECOND: by_python, BY_INDEX: by_index}
                    times[question] = await taking_turns(ways, calls=CALLS)
            times[question][FIRST] = statistics.median(firsts)
    return times, statistics.median(built)


def _asking(ctx: Ctx, tool: str, at: Address, arguments: Callable[[int], dict[str, Any]]) -> Ask:
    calls = count()
    return lambda: ask(ctx, tool, workspace_id=at.workspace_id, **arguments(next(calls)))
