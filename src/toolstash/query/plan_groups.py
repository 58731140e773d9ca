"""Groups and distinct values by the group codes of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from toolstash.query.clauses import NotIndexedError
from toolstash.query.columns import MOST_CODES, Column
from toolstash.query.grouping import Grouping
from toolstash.query.index import IndexShape
from toolstash.query.metrics import Metric
from toolstash.query.questions import Aggregate, Distinct, FieldValues, Measured
from toolstash.query.reply import EVERYTHING, Reply, grouped
from toolstash.query.table import name_of
from toolstash.query.values import as_json, equality_key
from toolstash.query.work import Work

_REDUCERS = {"sum": "SUM", "mean": "SUM", "min": "MIN", "max": "MAX"}


@dataclass(frozen=True, slots=True)
class IndexedGrouping:
    """A grouping that the index does exactly.

    Raises:
        NotIndexedError: A field has too many values to have codes, or a metric is not exact on the server.
    """

    grouping: Grouping
    shape: IndexShape

    def __post_init__(self) -> None:
        for path in self.grouping.fields:
            _coded(self.shape, path)
        for metric in self.grouping.metrics:
            _check_metric(metric, self.shape)

    def words(self, clause: str, count: int) -> list[str]:
        """The first groups by their first rows."""
        fields = [cast(str, self.shape.columns[path].group_field) for path in self.grouping.fields]
        reducers = ["REDUCE", "COUNT", "0", "AS", "count"]
        if fields:
            reducers += ["REDUCE", "MIN", "1", "@n", "AS", "first"]
        for number, metric in enumerate(self.grouping.metrics):
            if metric.path is not None:
                place = self.shape.columns[metric.path].place
                reducers += ["REDUCE", _REDUCERS[metric.function], "1", f"@v{place}", "AS", f"m{number}"]
        return grouped(clause, fields, reducers, [("first", False)] if fields else [], count)

    def rows(self, reply: Reply) -> list[dict[str, Any]]:
        """A row for each group, as `Grouping.group` makes it."""
        return [self._row(group) for group in reply.rows]

    def _row(self, group: Mapping[str, str]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for path in self.grouping.fields:
            row[name_of(path)] = as_json(self.shape.columns[path].group_value(group))
        for number, metric in enumerate(self.grouping.metrics):
            row[metric.name] = _measured(metric, int(group["count"]), group.get(f"m{number}", "0"))
        return row


def _coded(shape: IndexShape, path: str) -> Column:
    column = shape.columns.get(path)
    if column is None or column.values is None:
        raise NotIndexedError
    return column


def _check_metric(metric: Metric, shape: IndexShape) -> None:
    if metric.path is None:
        return
    column = shape.columns.get(metric.path)
    if metric.function not in _REDUCERS or column is None or not (column.is_only_numbers and column.adds_up):
        raise NotIndexedError


def _measured(metric: Metric, count: int, value: str) -> int | float:
    if metric.path is None:
        return count
    return float(Fraction(int(value), count)) if metric.function == "mean" else int(value)


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """`Aggregate` by the index."""

    question: Aggregate
    grouping: IndexedGrouping

    @property
    def words(self) -> list[str]:
        return self.grouping.words(EVERYTHING, self.question.limit)

    def positions(self, reply: Reply) -> list[int]:
        return []

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Measured:
        return Measured(reply.total, self.grouping.rows(reply), {})


@dataclass(frozen=True, slots=True)
class ValuesPlan:
    """`FieldValues` by the index."""

    question: FieldValues
    column: Column

    @property
    def words(self) -> list[str]:
        reducers = ["REDUCE", "COUNT", "0", "AS", "count"]
        return grouped(EVERYTHING, [cast(str, self.column.group_field)], reducers, [], MOST_CODES + 1)

    def positions(self, reply: Reply) -> list[int]:
        return []

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Distinct | None:
        first = {equality_key(value): code for code, value in enumerate(cast(Sequence[Any], self.column.values))}
        counted = [(self.column.group_value(row), int(row["count"])) for row in reply.rows]
        held = [(value, count) for value, count in counted if value is not None]
        held.sort(key=lambda pair: (-pair[1], first[equality_key(pair[0])]))
        shown = [(as_json(value), count) for value, count in held[: self.question.limit]]
        return Distinct(len(held), shown) if held else None


def plan_aggregate(question: Aggregate, shape: IndexShape) -> AggregatePlan:
    """Raises NotIndexedError where the index cannot answer."""
    return AggregatePlan(question, IndexedGrouping(question.grouping, shape))


def plan_values(question: FieldValues, shape: IndexShape) -> ValuesPlan:
    """Raises NotIndexedError where the index cannot answer: elements of lists have no codes of their own."""
    column = _coded(shape, question.path)
    if "list" in column.kinds:
        raise NotIndexedError
    return ValuesPlan(question, column)
