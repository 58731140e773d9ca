"""P7: changing one row of 100,000."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.report import Table
from benchmarks.rows import make_rows
from benchmarks.sides import MEMORY, SQLITE, TYPE, ask, peer_ctx, stored, worker
from toolstash import Ctx

ROWS = 100_000
FEW = 1_000
CALLS = 200
PEER_CALLS = {"patch one row": 3, "append one row": 3, "delete one row": 1}
FIELDS = {"year": 2027, "note": "read"}


async def changing(url: str, runs: int) -> list[Table]:
    """`store.patch_item`, `append_items`, `delete_items`, the tools over them, and ctxtual's stores."""
    rows = make_rows(ROWS)
    table = Table("P7", f"change one row of {ROWS:,} (ratios against toolstash's store)")
    async with stored(url, rows, rows[:FEW]) as (many, few), worker(url) as ctx:
        lines = await _ours(ctx, many, ROWS, runs)
        small = await _ours(ctx, few, FEW, runs)
    theirs = {MEMORY: _theirs_in_memory([*rows]), SQLITE: _theirs_in_sqlite(rows)}
    for work, by_way in lines.items():
        for way, seconds in by_way.items():
            table.add(work, way, seconds)
        table.add(work, f"toolstash store, {FEW:,} rows", small[work]["toolstash store"])
        for way, seconds in theirs.items():
            table.add(work, way, seconds[work])
    return [table]


async def _ours(ctx: Ctx, at: str, rows: int, runs: int) -> dict[str, dict[str, float]]:
    """Seconds of a call of each kind at spread-out places; `rows` says how many there are."""
    store = ctx.store
    row = make_rows(1)
    last = rows - 2 * CALLS * (runs + 1)

    def place(call: int) -> int:
        return call * 7_919 % max(1, last)

    ways: dict[str, dict[str, Callable[[int], Awaitable[Any]]]] = {
        "patch one row": {
            "toolstash store": lambda call: store.patch_item(at, place(call), FIELDS),
            "toolstash adispatch": lambda call: ask(
                ctx, "patch_item", workspace_id=at, index=place(call), fields=FIELDS
            ),
        },
        "append one row": {
            "toolstash store": lambda _: store.append_items(at, row),
            "toolstash adispatch": lambda _: ask(ctx, "append_items", workspace_id=at, items=row),
        },
        "delete one row": {
            "toolstash store": lambda call: store.delete_items(at, [place(call)]),
            "toolstash adispatch": lambda call: ask(ctx, "delete_items", workspace_id=at, indices=[place(call)]),
        },
    }
    return {
        work: {way: statistics.median([await _per_call(change) for _ in range(runs)]) for way, change in by_way.items()}
        for work, by_way in ways.items()
    }


async def _per_call(change: Callable[[int], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    for call in range(CALLS):
        await change(call)
    return (time.perf_counter() - started) / CALLS


def _theirs_in_memory(rows: list[dict[str, Any]]) -> dict[str, float]:
    import ctxtual

    return _theirs(ctxtual.MemoryStore(), rows)


def _theirs_in_sqlite(rows: list[dict[str, Any]]) -> dict[str, float]:
    import ctxtual

    with tempfile.TemporaryDirectory() as folder:
        return _theirs(ctxtual.SQLiteStore(str(Path(folder) / "bench.db")), rows)


def _theirs(store: Any, rows: list[dict[str, Any]]) -> dict[str, float]:
    at = peer_ctx(store).store_workspace(rows, workspace_type=TYPE).workspace_id
    changes: dict[str, Callable[[int], Any]] = {
        "patch one row": lambda call: store.patch_item(at, 50_000 + call, FIELDS),
        "append one row": lambda _: store.append_items(at, make_rows(1)),
        "delete one row": lambda call: store.delete_items(at, [50_000 + call]),
    }
    seconds: dict[str, float] = {}
    for work, change in changes.items():
        started = time.perf_counter()
        for call in range(PEER_CALLS[work]):
            change(call)
        seconds[work] = (time.perf_counter() - started) / PEER_CALLS[work]
    store.close()
    return seconds
