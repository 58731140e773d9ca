"""`python -m benchmarks`: prints every table and writes a JSON file."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks import (
    changing,
    growing,
    importing,
    paging,
    paging_by_processes,
    paying,
    piping,
    piping_by_index,
    report,
    searching,
    searching_by_index,
    sessions,
    stalls,
    stalls_by_processes,
    storing,
    texts,
    weighing,
)
from benchmarks.indexed import NoSearchServerError
from toolstash.wire.embedded import ensure_server

Measure = Callable[[str, int], Awaitable[list[report.Table]]]

TABLES: dict[str, list[Measure]] = {
    "P1": [storing.storing],
    "P2": [paging.paging, paging_by_processes.paging_by_processes],
    "P3": [searching_by_index.searching_by_index],
    "P4": [searching.searching],
    "P5": [piping.piping, piping_by_index.piping_by_index],
    "P6": [texts.texts],
    "P7": [changing.changing],
    "P8": [stalls.stalls, stalls_by_processes.stalls_by_processes],
    "P10": [importing.importing],
    "P11": [weighing.weighing],
    "P12": [growing.growing, paying.paying, sessions.sessions],
}


async def main() -> None:
    """Runs the chosen tables on an embedded server, or on the one that --url names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"which tables ({', '.join(TABLES)}); default: all")
    parser.add_argument("--url", help="a Redis to measure on; default: an embedded server of its own")
    parser.add_argument("--runs", type=int, default=5, help="runs whose median counts (default 5)")
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"unknown tables {sorted(unknown)}; there are {', '.join(TABLES)}")
    with tempfile.TemporaryDirectory() as _:
        url = options.url or f"unix://{ensure_server(None).socket_path}"
        tables: list[report.Table] = []
        for name in options.tables or TABLES:
            print(f"… {name}", flush=True)
            for measure in TABLES[name]:
                tables += await _measured(measure, url, options.runs)
    print(f"\nwritten to {report.save(tables, Path('benchmarks/results'))}")


async def _measured(measure: Measure, url: str, runs: int) -> list[report.Table]:
    """The tables of one function, printed; none where the server that it wants is not on this machine."""
    try:
        tables = await measure(url, runs)
    except NoSearchServerError as missing:
        print(f"left out: {missing}")
        return []
    for table in tables:
        table.print()
    return tables


if __name__ == "__main__":
    asyncio.run(main())
