"""Metrics over the values of a field: `sum:price`, `p95:latency`, `count_distinct:author`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, cast

from toolstash.errors import InvalidArgumentError
from toolstash.fieldpath import MISSING
from toolstash.query.values import as_json, equality_key, is_number

MOST_VALUES = 100
MOST_METRICS = 50
EXAMPLE = {"n": "count", "average": "mean:score"}

Number = int | float


def total_of(numbers: Sequence[Number]) -> Number:
    """The sum: exact for integers, correctly rounded for floats."""
    if int not in set(map(type, numbers)):
        return _float_sum(cast(Sequence[float], numbers)) if numbers else 0
    floats = [number for number in numbers if not isinstance(number, int)]
    integers = sum(number for number in numbers if isinstance(number, int)) if floats else sum(numbers)
    if not floats:
        return integers
    return _rounded(Fraction(integers) + Fraction(_float_sum(floats)))


def _float_sum(floats: Sequence[float]) -> Number:
    try:
        return math.fsum(floats)
    except OverflowError:
        return _rounded(sum(map(Fraction, floats), Fraction(0)))


def _rounded(exact: Fraction) -> Number:
    try:
        return float(exact)
    except OverflowError:
        return int(exact)


def mean_of(numbers: Sequence[Number]) -> Number | None:
    """The arithmetic mean; None of nothing."""
    return _rounded(Fraction(total_of(numbers)) / len(numbers)) if numbers else None


def percentile_of(numbers: Sequence[Number], percent: int) -> Number | None:
    """The value at (n - 1) * percent / 100 in their order, interpolated linearly between two; None of nothing."""
    if not numbers:
        return None
    ordered = sorted(numbers)
    place = Fraction(percent * (len(ordered) - 1), 100)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if low == high:
        return low
    return _plain(Fraction(low) + (Fraction(high) - Fraction(low)) * (place % 1))


def _plain(exact: Fraction) -> Number:
    return int(exact) if exact.denominator == 1 else _rounded(exact)


def deviation_of(numbers: Sequence[Number]) -> Number | None:
    """The standard deviation of a sample (n - 1); None of fewer than two."""
    count = len(numbers)
    if count < 2:
        return None
    try:
        integers = [number for number in numbers if isinstance(number, int)]
        if len(integers) == count:
            squares = count * sum(number * number for number in integers) - sum(integers) ** 2
            return math.sqrt(Fraction(squares, count * (count - 1)))
        mean = float(cast(Number, mean_of(numbers)))
        return math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (count - 1))
    except OverflowError:
        return None


def _extreme(pick: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Any]:
    def extreme(values: Sequence[Any]) -> Any:
        numbers = [value for value in values if is_number(value)]
        return pick(numbers or [value for value in values if isinstance(value, str)] or [None])

    return extreme


def _distinct(values: Sequence[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        if value is not None and value is not MISSING:
            found.setdefault(equality_key(value), value)
    return list(found.values())


def _values(values: Sequence[Any]) -> Any:
    distinct = _distinct(values)
    shown = [as_json(value) for value in distinct[:MOST_VALUES]]
    if len(distinct) <= MOST_VALUES:
        return shown
    return {"values": shown, "total": len(distinct), "truncated": True}


_OF_NUMBERS: dict[str, Callable[[Sequence[Number]], Any]] = {
    "sum": total_of,
    "mean": mean_of,
    "median": lambda numbers: percentile_of(numbers, 50),
    "stddev": deviation_of,
    "p50": lambda numbers: percentile_of(numbers, 50),
    "p90": lambda numbers: percentile_of(numbers, 90),
    "p95": lambda numbers: percentile_of(numbers, 95),
    "p99": lambda numbers: percentile_of(numbers, 99),
}
_OF_VALUES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "min": _extreme(min),
    "max": _extreme(max),
    "count_distinct": lambda values: len(_distinct(values)),
    "values": _values,
    "first": lambda values: as_json(values[0]) if values else None,
    "last": lambda values: as_json(values[-1]) if values else None,
}
_NUMBERS = {int, float}
METRICS = ["count", *(f"{name}:<field>" for name in [*_OF_NUMBERS, *_OF_VALUES])]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric under its name in the result. `path` is None for a plain count of rows."""

    name: str
    function: str
    path: str | None

    def of(self, values: Sequence[Any]) -> tuple[Any, int]:
        """The metric of the values, and how many of them it passed over because they are no numbers."""
        if self.path is None:
            return len(values), 0
        over_values = _OF_VALUES.get(self.function)
        if over_values is not None:
            return over_values(values), 0
        if set(map(type, values)) <= _NUMBERS:
            return _OF_NUMBERS[self.function](values), 0
        numbers = [value for value in values if value.__class__ is int or value.__class__ is float]
        return _OF_NUMBERS[self.function](numbers), len(values) - len(numbers)


def compile_metrics(spec: Any) -> list[Metric]:
    """Metrics from their JSON form, `{"name": "function:field"}`; None for a count of rows.

    Raises:
        InvalidArgumentError: Malformed, or an unknown function; lists the known ones.
    """
    if spec is None:
        return [Metric("count", "count", None)]
    if not isinstance(spec, dict) or not spec:
        raise InvalidArgumentError("metrics is an object of names and metrics.", example={"metrics": EXAMPLE})
    entries = cast(dict[str, Any], spec)
    if len(entries) > MOST_METRICS:
        raise InvalidArgumentError(f"There are {len(entries)} metrics; at most {MOST_METRICS} at once.")
    return [_metric(name, text) for name, text in entries.items()]


def _metric(name: str, text: Any) -> Metric:
    if text == "count":
        return Metric(name, "count", None)
    function, colon, path = text.partition(":") if isinstance(text, str) else ("", "", "")
    if function in _OF_NUMBERS or function in _OF_VALUES:
        if colon and path:
            return Metric(name, function, path.strip())
        raise InvalidArgumentError(
            f"The metric '{name:.60}' names no field.", example={"metrics": {name[:60]: f"{function}:score"}}
        )
    near = get_close_matches(_OTHER_NAMES.get(function, function), _ALL, 1)
    raise InvalidArgumentError(
        f"Unknown metric {text!r:.80}.",
        available_metrics=METRICS,
        example={"metrics": EXAMPLE},
        suggested_action=f"Did you mean '{near[0]}:{path or '<field>'}'?" if near else "Use one of available_metrics.",
    )


_ALL = [*_OF_NUMBERS, *_OF_VALUES]
_OTHER_NAMES = {"avg": "mean", "average": "mean", "std": "stddev", "count": "count_distinct"}
