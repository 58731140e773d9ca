"""The order of values of mixed kinds: numbers, strings, booleans, others, null, missing, in either direction."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from toolstash.fieldpath import MISSING

RUN = 32_000
"""Positions sorted in one go. A sort holds the interpreter until it is done; runs that are in order are merged fast."""


def sort_positions(values: Sequence[Any], positions: Sequence[int], *, descending: bool = False) -> list[int]:
    """The positions in the order of their values; equal values keep the order of the positions."""
    numbers, strings, booleans, others, nulls, missing = _by_kind(values, positions)
    ordered: list[int] = []
    for kind in (numbers, strings, booleans):
        ordered += _sorted(values, kind, descending)
    return ordered + others + nulls + missing


def first_positions(
    values: Sequence[Any], positions: Sequence[int], count: int, *, descending: bool = False
) -> list[int]:
    """The first `count` of `sort_positions`, without sorting the rest."""
    numbers, strings, booleans, others, nulls, missing = _by_kind(values, positions)
    take = heapq.nlargest if descending else heapq.nsmallest
    ordered: list[int] = []
    for kind in (numbers, strings, booleans):
        if len(ordered) >= count:
            break
        # nlargest and nsmallest keep the order of equal values, as sorted() does.
        ordered += take(count - len(ordered), kind, key=values.__getitem__)
    return [*ordered, *others, *nulls, *missing][:count]


def _by_kind(values: Sequence[Any], positions: Sequence[int]) -> tuple[list[int], ...]:
    kinds: tuple[list[int], ...] = ([], [], [], [], [], [])
    numbers, strings, booleans, others, nulls, missing = kinds
    place: dict[Any, list[int]] = {int: numbers, float: numbers, str: strings, bool: booleans}
    place |= {type(None): nulls, type(MISSING): missing}
    for position in positions:
        place.get(values[position].__class__, others).append(position)
    return kinds


def _sorted(values: Sequence[Any], positions: list[int], descending: bool) -> list[int]:
    key = values.__getitem__
    if len(positions) <= RUN:
        return sorted(positions, key=key, reverse=descending)
    runs = [positions[start : start + RUN] for start in range(0, len(positions), RUN)]
    runs = [sorted(run, key=key, reverse=descending) for run in runs]
    while len(runs) > 1:
        pairs = [[*runs[place], *_next(runs, place)] for place in range(0, len(runs), 2)]
        runs = [sorted(pair, key=key, reverse=descending) for pair in pairs]
    return runs[0]


def _next(runs: list[list[int]], place: int) -> list[int]:
    return runs[place + 1] if place + 1 < len(runs) else []
