"""`python -m benchmarks`: prints every table and writes a JSON file."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks import changing, importing, paging, piping, report, searching, stalls, storing, texts
from toolstash.wire.embedded import ensure_server

TABLES = {
    "P1": storing.storing,
    "P2": paging.paging,
    "P4": searching.searching,
    "P5": piping.piping,
    "P6": texts.texts,
    "P7": changing.changing,
    "P8": stalls.stalls,
    "P10": importing.importing,
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
            for table in await TABLES[name](url, options.runs):
                table.print()
                tables.append(table)
    print(f"\nwritten to {report.save(tables, Path('benchmarks/results'))}")


asyncio.run(main())
