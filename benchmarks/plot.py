"""Plots as SVG files: lines over two axes that count in powers of ten."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 50, 60
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f", "#bcbd22")
LABEL_PIXELS = 15

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Axis:
    """A scale from one power of ten to another, in pixels."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def place(self, value: float) -> float:
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def draw(path: Path, title: str, lines: Mapping[str, Points], *, across_name: str = "rows") -> None:
    """Draws seconds over rows (or something else); a dashed line shows what grows just as the rows do."""
    points = [point for line in lines.values() for point in line]
    across = _Axis.around([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Axis.around([y for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, TOP - 20, title, size=16),
        *_grid(across, up, across_name),
        *_guide(across, up),
        *_lines(across, up, lines),
        "</svg>\n",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts))


def _text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "start", colour: str = "#222") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}>{escape(words)}</text>"


def _path(points: Points, style: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" {style}/>'


def _grid(across: _Axis, up: _Axis, across_name: str) -> Iterator[str]:
    style = 'stroke="#ddd"'
    for power in range(across.low, across.high + 1):
        x = across.place(10**power)
        yield _path([(x, up.start), (x, up.end)], style)
        yield _text(x, up.start + 20, f"{10**power:,}", anchor="middle")
    for power in range(up.low, up.high + 1):
        y = up.place(10.0**power)
        yield _path([(across.start, y), (across.end, y)], style)
        yield _text(across.start - 8, y + 4, _seconds(power), anchor="end")
    yield _text((across.start + across.end) / 2, up.start + 42, across_name, anchor="middle")


def _seconds(power: int) -> str:
    if power >= 0:
        return f"{10**power:,} s"
    return f"{10 ** (power + 3):,} ms" if power >= -3 else f"{10 ** (power + 6):,} µs"


def _guide(across: _Axis, up: _Axis) -> Iterator[str]:
    """A straight line of slope one, through the middle of the bottom."""
    decades = min(across.high - across.low, up.high - up.low)
    ends = [(across.place(10.0 ** (across.low + step)), up.place(10.0 ** (up.low + step))) for step in (0, decades)]
    yield _path(ends, 'stroke="#999" stroke-dasharray="5 5"')
    yield _text(ends[1][0] - 6, ends[1][1] + 16, "linear", anchor="end", colour="#777")


def _lines(across: _Axis, up: _Axis, lines: Mapping[str, Points]) -> Iterator[str]:
    """Each line with its name at its end; names that would meet make way."""
    lowest = -math.inf
    ends = sorted(lines, key=lambda name: -lines[name][-1][1])
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(lines)}
    for name in ends:
        places = [(across.place(x), up.place(y)) for x, y in lines[name]]
        yield _path(places, f'stroke="{colours[name]}" stroke-width="2"')
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"/>'
        lowest = max(lowest + LABEL_PIXELS, places[-1][1] + 4)
        yield _text(across.end + 12, lowest, name, colour=colours[name])
