"""The operations of a pipeline. Each builder checks its parameters and gives a step; docs/queries.md has the table."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from toolstash.errors import InvalidArgumentError
from toolstash.query.conditions import Condition, compile_condition, type_hint
from toolstash.query.grouping import Grouping, compile_grouping
from toolstash.query.order import first_positions, sort_positions
from toolstash.query.parameters import allowed_fields, known_keys, list_of_fields, one_field, whole_number
from toolstash.query.search import search
from toolstash.query.table import ExcludedTable, RowsTable, SelectedTable, Table, name_of
from toolstash.query.terms import Query, parse_query
from toolstash.query.values import equality_key
from toolstash.query.work import CHARS_A_UNIT, Work

MOST_SORT_FIELDS = 20
COPIES_A_ROW = 20  # what a changed copy of a row costs, in comparisons


@dataclass(frozen=True, slots=True)
class Options:
    """What the program allows in a pipeline. `search_fields` are the only ones that are searched; None: all."""

    allow_regex: bool = False
    search_fields: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Where a pipeline stands: rows of a table, in an order. `count` is set once rows have been counted.

    Attributes:
        work: What the question has done so far, and may still do.
        skipped: For each metric how many rows it passed over.
        hint: Why a filter may have found nothing.
        is_derived: Whether the table was made of the stored rows by a step.
    """

    table: Table
    positions: Sequence[int]
    work: Work
    count: int | None = None
    skipped: Mapping[str, int] | None = None
    hint: str | None = None
    is_derived: bool = False

    def at(self, positions: Sequence[int]) -> State:
        """The same table with other rows of it."""
        return replace(self, positions=positions)

    def of(self, table: Table) -> State:
        """All rows of another table."""
        self.work.hold(2 * len(table))
        return replace(self, table=table, positions=range(len(table)), is_derived=True)


@dataclass(frozen=True, slots=True)
class Searched:
    """The words of a search step, and the fields that they are looked for in (None: all).

    `is_usual` says that these are the fields that are always searched.
    """

    query: Query
    fields: Sequence[str] | None
    is_usual: bool = True


@dataclass(frozen=True, slots=True)
class Sorted:
    """The fields of a sort step, the first first, and whether each descends."""

    orders: Sequence[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, ready to run.

    Attributes:
        asks: What it asks for, where a server may be able to do it in Python's place.
        paths: The columns that it reads.
        window: For a step that takes a stretch of the rows: its first row and the one after its last (None: no end).
        makes_rows: Whether the rows after it are others than those before.
        selects: Fields that it only takes along; their columns are not worth making.
        cost: What it does to each row, in comparisons.
        takes: For a sort and the limit behind it in one: the limit.
    """

    run: Callable[[State], State]
    paths: tuple[str, ...] = ()
    window: tuple[int, int | None] | None = None
    makes_rows: bool = False
    selects: tuple[str, ...] = ()
    cost: int = 1
    asks: Condition | Searched | Sorted | Grouping | None = None
    takes: int | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The fields that somebody wrote down in it."""
        return self.paths + self.selects


def filter_step(params: Any, options: Options) -> Step:
    condition = compile_condition(params, allow_regex=options.allow_regex)
    paths = tuple(leaf.path for leaf in condition.leaves())
    scanned = [leaf.path for leaf in condition.leaves() if leaf.operator == "$regex"]

    def run(state: State) -> State:
        column = state.table.column
        for path in scanned:
            texts = (value for value in column(path) if isinstance(value, str))
            state.work.spend(sum(map(len, texts)) // CHARS_A_UNIT)
        positions = condition.select(column, state.positions)
        hint = None if positions or not state.positions else type_hint(condition, column, state.positions)
        return replace(state, positions=positions, hint=hint or state.hint)

    return Step(run, paths, cost=max(1, len(paths)), asks=condition)


def search_step(params: Any, options: Options) -> Step:
    given = {"query": params} if isinstance(params, str) else params
    known_keys("search", given, ("query", "fields", "case_sensitive"), {"query": "neural networks"})
    text, case_sensitive = given.get("query"), given.get("case_sensitive", False)
    if not isinstance(text, str) or not isinstance(case_sensitive, bool):
        raise InvalidArgumentError("search takes words.", example={"search": {"query": "neural networks"}})
    if not text.strip():
        raise InvalidArgumentError("The query is empty.", example={"search": "neural networks"})
    query = parse_query(text, case_sensitive=case_sensitive)
    fields = allowed_fields(given.get("fields"), options.search_fields)

    def run(state: State) -> State:
        state.work.spend(COPIES_A_ROW * state.table.depth * len(state.table))
        haystack = state.table.haystack(fields, case_sensitive=case_sensitive)
        if fields is not None or state.is_derived:
            state.work.hold(sum(haystack.lengths) // 8)
        if len(state.positions) == len(state.table):
            found = state.table.search(query, fields, state.work)
        else:
            found = search(haystack, query, state.work, set(state.positions))
        return state.at(found.ranked)

    return Step(run, tuple(fields or ()), asks=Searched(query, fields, is_usual=given.get("fields") is None))


def sort_step(params: Any, _: Options) -> Step:
    listed = cast(list[Any], params) if isinstance(params, list) else [params]
    if not listed:
        raise InvalidArgumentError("sort names no field.", example={"sort": {"field": "year", "order": "desc"}})
    if len(listed) > MOST_SORT_FIELDS:
        raise InvalidArgumentError(
            f"sort takes at most {MOST_SORT_FIELDS} fields, not {len(listed):,}.", example={"sort": ["year", "title"]}
        )
    orders = [_order(entry) for entry in listed]

    def run(state: State) -> State:
        positions = state.positions
        for path, descending in reversed(orders):
            positions = sort_positions(state.table.column(path), positions, descending=descending)
        return state.at(positions)

    return Step(run, tuple(path for path, _ in orders), cost=3 * len(orders), asks=Sorted(orders))


def _order(entry: Any) -> tuple[str, bool]:
    example = {"field": "year", "order": "desc"}
    given = {"field": entry} if isinstance(entry, str) else entry
    known_keys("sort", given, ("field", "order"), example)
    order = given.get("order", "asc")
    if not isinstance(order, str) or order.lower() not in ("asc", "desc"):
        raise InvalidArgumentError(f"order is 'asc' or 'desc', not {order!r:.60}.", example={"sort": example})
    return one_field("sort", given.get("field")), order.lower() == "desc"


def first_of_sorted(sort: Sorted, window: tuple[int, int | None]) -> Step:
    """A sort by one field and the limit behind it in one, which need not put all rows in order."""
    ((path, descending),) = sort.orders
    count = cast(int, window[1])

    def run(state: State) -> State:
        column = state.table.column(path)
        return state.at(first_positions(column, state.positions, count, descending=descending))

    return Step(run, (path,), asks=sort, takes=count)


def select_step(params: Any, _: Options) -> Step:
    paths = list_of_fields("select", params)
    if len(set(map(name_of, paths))) < len(paths):
        raise InvalidArgumentError(
            "Two of the fields have the same name in the result.", example={"select": ["title", "author.name"]}
        )
    return Step(
        lambda state: state.of(SelectedTable(state.table, state.positions, paths)),
        selects=tuple(paths),
        makes_rows=True,
    )


def exclude_step(params: Any, _: Options) -> Step:
    paths = list_of_fields("exclude", params)
    run = partial(_excluded, paths)
    return Step(run, selects=tuple(paths), makes_rows=True, cost=COPIES_A_ROW * len(paths))


def _excluded(paths: Sequence[str], state: State) -> State:
    return state.of(ExcludedTable(state.table, state.positions, paths))


def limit_step(params: Any, _: Options) -> Step:
    return _window_step(0, whole_number("limit", params, {"limit": 10}))


def skip_step(params: Any, _: Options) -> Step:
    return _window_step(whole_number("skip", params, {"skip": 5}), None)


def slice_step(params: Any, _: Options) -> Step:
    example = {"slice": [5, 15]}
    if not isinstance(params, list) or len(cast(list[Any], params)) != 2:
        raise InvalidArgumentError("slice takes [start, end].", example=example)
    start, end = cast(list[Any], params)
    return _window_step(whole_number("slice", start, example), whole_number("slice", end, example))


def _window_step(start: int, stop: int | None) -> Step:
    return Step(lambda state: state.at(state.positions[start:stop]), window=(start, stop))


def sample_step(params: Any, _: Options) -> Step:
    given: Any = cast(Any, params) if isinstance(params, dict) else {"n": params}
    example = {"sample": {"n": 10, "seed": 7}}
    known_keys("sample", given, ("n", "seed"), example["sample"])
    count = whole_number("sample", given.get("n", 10), example)
    seed = given.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, str))):
        raise InvalidArgumentError(f"seed is a whole number or a text, not {seed!r:.60}.", example=example)

    def run(state: State) -> State:
        draw = random.Random(seed).random  # the one sequence that Python promises to keep the same for a seed
        lots = [(draw(), place) for place in range(len(state.positions))]
        places = sorted(place for _, place in heapq.nsmallest(count, lots))
        return state.at([state.positions[place] for place in places])

    return Step(run)


def unique_step(params: Any, _: Options) -> Step:
    path = one_field("unique", params)

    def run(state: State) -> State:
        values = state.table.column(path)
        first: dict[Any, int] = {}
        for position in state.positions:
            first.setdefault(equality_key(values[position]), position)
        return state.at(list(first.values()))

    return Step(run, (path,))


def flatten_step(params: Any, _: Options) -> Step:
    path = one_field("flatten", params)

    return Step(lambda state: state.of(state.table.flattened(path, state.positions)), (path,), makes_rows=True)


def group_by_step(params: Any, _: Options) -> Step:
    return grouping_step(compile_grouping(params))


def grouping_step(grouping: Grouping) -> Step:
    """A step of a grouping that has been compiled."""

    def run(state: State) -> State:
        rows, skipped = grouping.group(state.table, state.positions)
        merged = dict(state.skipped or {})
        for name, count in skipped.items():
            merged[name] = merged.get(name, 0) + count
        return replace(state.of(RowsTable(rows)), skipped=merged)

    return Step(run, grouping.paths, makes_rows=True, cost=2 + len(grouping.metrics), asks=grouping)


def count_step(params: Any, _: Options) -> Step:
    if params is not True:
        raise InvalidArgumentError(f"count takes true, not {params!r:.60}.", example={"count": True})
    return Step(lambda state: replace(state, count=len(state.positions)))


OPERATIONS: dict[str, Callable[[Any, Options], Step]] = {
    "filter": filter_step,
    "search": search_step,
    "sort": sort_step,
    "select": select_step,
    "exclude": exclude_step,
    "limit": limit_step,
    "skip": skip_step,
    "slice": slice_step,
    "sample": sample_step,
    "unique": unique_step,
    "flatten": flatten_step,
    "group_by": group_by_step,
    "count": count_step,
}
"""Operation → what builds its step from the parameters and the options."""
