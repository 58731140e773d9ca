"""P10: how heavy the import is, in a fresh interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.report import Table

RUNS = 15


async def importing(url: str, runs: int) -> list[Table]:
    """`import toolstash` against `import redis` alone; the bare interpreter's start is taken off."""
    table = Table("P10", "import in a fresh interpreter (start of the interpreter taken off)")
    bare = _start("pass")
    for statement in ("import redis", "import toolstash", "from toolstash import Ctx", "import ctxtual"):
        table.add("import", statement, max(1e-6, _start(statement) - bare))
    return [table]


def _start(statement: str) -> float:
    script = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", script]
    return statistics.median(
        float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(RUNS)
    )
