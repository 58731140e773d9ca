"""Tables on the screen and one JSON file a run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Line:
    """One measured way of doing one piece of work: seconds (the median of the runs), or what `unit` says."""

    work: str
    way: str
    value: float
    note: str = ""
    unit: str = "seconds"


@dataclass
class Table:
    """One row of the plan (P1, P2, …): the ways side by side, ratios against the first one, the floor."""

    name: str
    title: str
    lines: list[Line] = field(default_factory=list[Line])

    def add(self, work: str, way: str, value: float, note: str = "", *, unit: str = "seconds") -> None:
        """Adds a line."""
        self.lines.append(Line(work, way, value, note, unit))

    def print(self) -> None:
        """Shows the table; each ratio is against the first way of the same work."""
        print(f"\n{self.name}  {self.title}")
        floors: dict[str, float] = {}
        for line in self.lines:
            floor = floors.setdefault(line.work, line.value)
            ratio = line.value / floor if floor else float("nan")
            print(f"  {line.work:<34} {line.way:<30} {_shown(line):>18}  {ratio:7.2f}×  {line.note}")


def save(tables: list[Table], folder: Path) -> Path:
    """Writes all tables to a JSON file named by the time."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps([asdict(table) for table in tables], indent=1))
    return path


async def timed(work: Callable[[], Awaitable[object]], *, runs: int) -> float:
    """Median seconds of `runs` runs."""
    seconds: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        await work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _shown(line: Line) -> str:
    return _time(line.value) if line.unit == "seconds" else f"{line.value:,.0f} {line.unit}"


def _time(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:,.0f} µs"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"
