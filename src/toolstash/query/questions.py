"""Questions of a table and their answers. A store answers a question where its rows are; tools word the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast

from toolstash.contracts import Hit
from toolstash.fieldpath import MISSING
from toolstash.query.conditions import Leaf, type_hint
from toolstash.query.grouping import Grouping
from toolstash.query.hints import first_hint
from toolstash.query.order import first_positions
from toolstash.query.pipeline import Pipeline
from toolstash.query.snippet import snippet_of
from toolstash.query.steps import State
from toolstash.query.table import Table
from toolstash.query.terms import Query, Rung, Term
from toolstash.query.values import as_json, equality_key
from toolstash.query.work import Work

Answer = TypeVar("Answer", covariant=True)

ROWS_AT_ONCE = 2_000


class Question(Protocol[Answer]):
    """Something to ask of a list workspace. `answer` is pure work, run off the event loop."""

    @property
    def window(self) -> tuple[int, int] | None:
        """The stretch of rows that is enough for the answer; None for all rows."""
        ...

    def answer(self, table: Table, work: Work) -> Answer:
        """The answer from the rows (those of the window, where there is one)."""
        ...


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows that were found, as many as were asked for, and how many there are. `hint` says why there may be none."""

    total: int
    hits: list[Hit]
    hint: str | None = None
    matched_by: Rung | None = None
    engine: Literal["python", "redisearch"] = "python"


@dataclass(frozen=True, slots=True)
class Search:
    """Which rows hold the words of a query, in some fields or in all. `is_usual`: in those that are always searched."""

    query: Query
    fields: Sequence[str] | None
    limit: int
    is_usual: bool = True
    window: None = None

    def answer(self, table: Table, work: Work) -> Hits:
        work.spend(len(table))
        work.hold(len(table) * len(self.fields or ()))
        table.prepare(self.fields or ())
        found = table.search(self.query, self.fields, work)
        best = found.best(self.limit)
        hits = [
            Hit(position, row, round(found.scores[position], 4), snippet)
            for position, row, snippet in zip(
                best, table.rows_at(best), self.snippets(table, best, found.terms), strict=True
            )
        ]
        hint = None if found.scores else first_hint(table, self.fields or ())
        return Hits(len(found.scores), hits, hint, matched_by=found.matched_by)

    def snippets(self, table: Table, positions: Sequence[int], terms: Sequence[Term]) -> list[str]:
        """A stretch of each of these rows around a match."""
        if self.fields is None:
            shown: Sequence[Any] = table.rows_at(positions)
        else:
            columns = [table.column(path) for path in self.fields]
            shown = [[column[at] for column in columns if column[at] is not MISSING] for at in positions]
        return [snippet_of(value, terms, self.query.fold) for value in shown]


@dataclass(frozen=True, slots=True)
class Filter:
    """For which rows a comparison holds."""

    leaf: Leaf
    limit: int
    window: None = None

    def answer(self, table: Table, work: Work) -> Hits:
        work.spend(len(table))
        table.prepare([self.leaf.path])
        everything = range(len(table))
        positions = self.leaf.select(table.column, everything)
        hint = None
        if not positions:
            hint = first_hint(table, [self.leaf.path]) or type_hint(self.leaf, table.column, everything)
        return Hits(len(positions), _hits(table, positions[: self.limit]), hint)


@dataclass(frozen=True, slots=True)
class Sort:
    """Which rows come first by a field."""

    path: str
    descending: bool
    limit: int
    window: None = None

    def answer(self, table: Table, work: Work) -> Hits:
        work.spend(len(table))
        table.prepare([self.path])
        column = table.column(self.path)
        positions = first_positions(column, range(len(table)), self.limit, descending=self.descending)
        return Hits(len(table), _hits(table, positions), first_hint(table, [self.path]))


def _hits(table: Table, positions: Sequence[int]) -> list[Hit]:
    rows = table.rows_at(positions)
    return [Hit(position, row) for position, row in zip(positions, rows, strict=True)]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Values of a field with how many rows hold each, the most frequent first; `total` counts the values."""

    total: int
    values: list[tuple[Any, int]]
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class FieldValues:
    """Which values a field has: the elements of lists one by one, without null and missing."""

    path: str
    limit: int
    window: None = None

    def answer(self, table: Table, work: Work) -> Distinct:
        work.spend(len(table))
        table.prepare([self.path])
        counts: dict[Any, int] = {}
        firsts: dict[Any, Any] = {}
        for value in table.column(self.path):
            for key, element in _elements(value).items():
                if key in counts:
                    counts[key] += 1
                else:
                    counts[key], firsts[key] = 1, element
        ranked = sorted(counts, key=lambda key: -counts[key])
        values = [(as_json(firsts[key]), counts[key]) for key in ranked[: self.limit]]
        return Distinct(len(counts), values, None if counts else first_hint(table, [self.path]))


def _elements(value: Any) -> dict[Any, Any]:
    """What a row's value counts for, by equality."""
    if value is None or value is MISSING:
        return {}
    found: dict[Any, Any] = {}
    for element in cast(list[Any], value) if isinstance(value, list) else [value]:
        if element is not None:
            found.setdefault(equality_key(element), element)
    return found


@dataclass(frozen=True, slots=True)
class Piped:
    """What a pipeline gave: the first rows of `total`, or a `count`.

    Attributes:
        rows: The first rows, ready to be shown.
        count: The result of a count; None where the result is rows.
        skipped: For each metric how many rows it passed over.
        hint: Why there may be no rows.
        state: All that there is; None where a server gave the first rows only.
    """

    rows: list[Any]
    total: int
    count: int | None = None
    skipped: Mapping[str, int] | None = None
    hint: str | None = None
    state: State | None = None

    @classmethod
    def of(cls, state: State, limit: int) -> Piped:
        """The end of a pipeline, with as many rows as are to be shown."""
        rows = state.table.rows_at(state.positions[:limit])
        return cls(rows, len(state.positions), state.count, state.skipped, state.hint, state)

    def all_rows(self) -> Iterator[Any]:
        """Every row, put together in slices."""
        assert self.state is not None, "asked with wants_all"
        positions = self.state.positions
        for start in range(0, len(positions), ROWS_AT_ONCE):
            yield from self.state.table.rows_at(positions[start : start + ROWS_AT_ONCE])


@dataclass(frozen=True, slots=True)
class Pipe:
    """What a pipeline gives, the first `limit` rows of it ready to be shown; with `wants_all`, all can be read."""

    pipeline: Pipeline
    limit: int
    wants_all: bool = False

    @property
    def window(self) -> tuple[int, int] | None:
        return self.pipeline.window

    def answer(self, table: Table, work: Work) -> Piped:
        if self.window is None:
            state = self.pipeline.run(table, work)
        else:
            state = self.pipeline.after_window().run(table, work, is_whole=False)
        return Piped.of(state, self.limit)


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics of groups, the first of `total`; `skipped` says how many rows each metric passed over."""

    total: int
    rows: list[dict[str, Any]]
    skipped: dict[str, int]
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Metrics by group."""

    grouping: Grouping
    limit: int
    window: None = None

    def answer(self, table: Table, work: Work) -> Measured:
        work.spend((1 + len(self.grouping.metrics)) * len(table))
        table.prepare(self.grouping.paths)
        hint = first_hint(table, self.grouping.paths)
        if not self.grouping.fields:
            skipped: dict[str, int] = {}
            return Measured(1, [self.grouping.measure(table, range(len(table)), skipped)], skipped, hint)
        rows, skipped = self.grouping.group(table, range(len(table)))
        return Measured(len(rows), rows[: self.limit], skipped, hint)
