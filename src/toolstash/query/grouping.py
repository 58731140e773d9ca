"""Groups of rows and their metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolstash.errors import InvalidArgumentError
from toolstash.query.metrics import Metric, compile_metrics
from toolstash.query.parameters import known_keys, list_of_fields
from toolstash.query.table import Table, name_of
from toolstash.query.values import as_json, equality_key

EXAMPLE = {"field": "category", "metrics": {"n": "count", "average": "mean:score"}}


@dataclass(frozen=True, slots=True)
class Grouping:
    """Fields to group by, and metrics. Without fields, all rows are one group."""

    fields: Sequence[str]
    metrics: Sequence[Metric]

    @property
    def paths(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return (*self.fields, *(metric.path for metric in self.metrics if metric.path is not None))

    def group(self, table: Table, positions: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """A row for each group in the order of its first row, and how many rows each metric passed over."""
        skipped: dict[str, int] = {}
        columns = [table.column(path) for path in self.fields]
        rows: list[dict[str, Any]] = []
        for members in _groups(columns, positions):
            keys = {
                name_of(path): as_json(column[members[0]]) for path, column in zip(self.fields, columns, strict=True)
            }
            rows.append(keys | self.measure(table, members, skipped))
        return rows, skipped

    def measure(self, table: Table, positions: Sequence[int], skipped: dict[str, int]) -> dict[str, Any]:
        """The metrics of some rows; what they pass over is added to `skipped`."""
        measured: dict[str, Any] = {}
        for metric in self.metrics:
            if metric.path is None:
                measured[metric.name] = len(positions)
                continue
            column = table.column(metric.path)
            measured[metric.name], passed = metric.of(list(map(column.__getitem__, positions)))
            if passed:
                skipped[metric.name] = skipped.get(metric.name, 0) + passed
        return measured


def compile_grouping(params: Any) -> Grouping:
    """A grouping from the parameters of `group_by`.

    Raises:
        InvalidArgumentError: Malformed; shows an example.
    """
    given: Any = cast(Any, params) if isinstance(params, dict) else {"field": params}
    known_keys("group_by", given, ("field", "metrics"), EXAMPLE)
    return grouping_of(given.get("field"), given.get("metrics"))


def grouping_of(field: Any, metrics: Any) -> Grouping:
    """A grouping by one field, several, or none (None), with metrics in JSON form.

    Raises:
        InvalidArgumentError: Malformed, or a metric has the name of a field.
    """
    fields = [] if field is None else list_of_fields("group_by", field)
    compiled = compile_metrics(metrics)
    taken = {name_of(path) for path in fields}
    if len(taken) < len(fields):
        raise InvalidArgumentError("Two of the fields have the same name in the result.", example={"group_by": EXAMPLE})
    clash = next((metric.name for metric in compiled if metric.name in taken), None)
    if clash is not None:
        if metrics is None:
            return Grouping(fields, [Metric(f"{clash}_of_rows", "count", None)])
        raise InvalidArgumentError(
            f"The metric '{clash:.60}' has the name of a field that is grouped by: give it another name.",
            example={"group_by": EXAMPLE},
        )
    return Grouping(fields, compiled)


def _groups(columns: Sequence[Sequence[Any]], positions: Sequence[int]) -> list[list[int]]:
    groups: defaultdict[Any, list[int]] = defaultdict(list)
    if len(columns) == 1:
        values = columns[0]
        for position in positions:
            value = values[position]
            groups[value if value.__class__ is str else equality_key(value)].append(position)
    else:
        for position in positions:
            groups[tuple(equality_key(column[position]) for column in columns)].append(position)
    return list(groups.values())
