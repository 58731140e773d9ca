"""The page docs/queries.md as plain and slow code. It shares nothing with the library, so that it can judge it.

Everything here works on parsed JSON, compares each value with each other one, and changes nothing that it is given.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

Path = str
Condition = dict[str, Any]
Step = dict[str, Any]


class Missing:
    """The type of MISSING, which stands for a field that is not there."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


# ---- fields


def segments(path: Path) -> list[str]:
    """The names in a path, without their escapes. A backslash at the very end is a backslash."""
    found, name, position = [], "", 0
    while position < len(path):
        character = path[position]
        if character == "\\" and position + 1 < len(path):
            position += 1
            name += path[position]
        elif character == ".":
            found.append(name)
            name = ""
        else:
            name += character
        position += 1
    return [*found, name]


def output_key(path: Path) -> str:
    """The key under which select, group_by and flatten give the value at a path."""
    names = segments(path)
    return names[0] if len(names) == 1 else path


def is_position(name: str) -> bool:
    return re.fullmatch("[0-9]+", name) is not None


def read(row: Any, path: Path) -> Any:
    """The value at a path of a row, or MISSING."""
    if not isinstance(row, dict):
        return MISSING
    if path in row:
        return row[path]
    value: Any = row
    was_gathered = False
    for name in segments(path):
        if was_gathered:
            value = flattened_once(value)
            was_gathered = False
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and is_position(name) and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, list) and not is_position(name):
            value = [element[name] for element in value if isinstance(element, dict) and name in element]
            was_gathered = True
            if not value:
                return MISSING
        else:
            return MISSING
    return value


def flattened_once(values: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list):
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def read_or_null(row: Any, path: Path) -> Any:
    value = read(row, path)
    return None if value is MISSING else value


# ---- values


def kind(value: Any) -> str:
    if value is MISSING:
        return "missing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "list" if isinstance(value, list) else "object"


def equal(a: Any, b: Any) -> bool:
    """Whether two values are the same: types count, numbers compare by value."""
    if kind(a) != kind(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return a == b


def means_the_same(a: Any, b: Any) -> bool:
    """Equal, or a long string of digits and the integer that it spells."""
    if {kind(a), kind(b)} == {"string", "number"}:
        text, number = (a, b) if isinstance(a, str) else (b, a)
        return spells_long_integer(text) and isinstance(number, int) and int(text) == number
    return equal(a, b)


def spells_long_integer(text: str) -> bool:
    if re.fullmatch("-?[0-9]{16,}", text) is None:
        return False
    return str(int(text)) == text


def position_of_equal(value: Any, values: list[Any]) -> int | None:
    for position, other in enumerate(values):
        if equal(value, other):
            return position
    return None


# ---- conditions


def holds(condition: Condition, row: Any) -> bool:
    """Whether a row meets a condition. `$regex` and anything unknown is a ValueError."""
    return all(entry_holds(name, wanted, row) for name, wanted in condition.items())


def entry_holds(name: str, wanted: Any, row: Any) -> bool:
    if name == "$and":
        return all(holds(each, row) for each in wanted)
    if name == "$or":
        return any(holds(each, row) for each in wanted)
    if name == "$nor":
        return not any(holds(each, row) for each in wanted)
    if name == "$not":
        return not holds(wanted, row)
    if name.startswith("$"):
        raise ValueError(f"no operator {name}")
    return value_meets(read(row, name), wanted)


def value_meets(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        return all(operator_holds(operator, value, operand) for operator, operand in wanted.items())
    return operator_holds("$eq", value, wanted)


def operator_holds(operator: str, value: Any, operand: Any) -> bool:
    if operator == "$not":
        return not value_meets(value, operand)
    if operator == "$eq":
        return matches(value, operand)
    if operator == "$ne":
        return not matches(value, operand)
    if operator == "$in":
        return any(matches(value, each) for each in operand)
    if operator == "$nin":
        return not any(matches(value, each) for each in operand)
    if operator in ("$gt", "$gte", "$lt", "$lte"):
        return compares(operator, value, operand)
    if operator == "$contains":
        return contains(value, operand)
    if operator == "$startswith":
        return isinstance(value, str) and isinstance(operand, str) and value.startswith(operand)
    if operator == "$exists":
        return (value is not MISSING) == operand
    raise ValueError(f"no operator {operator}")


def matches(value: Any, operand: Any) -> bool:
    """What `$eq` means: missing equals null, and a list matches as a whole or by one of its elements."""
    if value is MISSING:
        return operand is None
    if means_the_same(value, operand):
        return True
    return isinstance(value, list) and any(means_the_same(element, operand) for element in value)


def compares(operator: str, value: Any, operand: Any) -> bool:
    if kind(value) != kind(operand) or kind(value) not in ("number", "string"):
        return False
    if operator == "$gt":
        return value > operand
    if operator == "$gte":
        return value >= operand
    if operator == "$lt":
        return value < operand
    return value <= operand


def contains(value: Any, operand: Any) -> bool:
    if isinstance(value, str):
        return isinstance(operand, str) and operand in value
    return isinstance(value, list) and any(means_the_same(element, operand) for element in value)


def filter_rows(rows: list[Any], condition: Condition) -> list[int]:
    """The indices of the rows that meet a condition."""
    return [index for index, row in enumerate(rows) if holds(condition, row)]


# ---- order

ORDER_OF_KINDS = {"number": 0, "string": 1, "boolean": 2, "list": 3, "object": 3, "null": 4, "missing": 5}


def compare_values(a: Any, b: Any, *, descending: bool) -> int:
    """Below 0 when `a` comes first, above 0 when `b` does, 0 when the rows keep their order."""
    if ORDER_OF_KINDS[kind(a)] != ORDER_OF_KINDS[kind(b)]:
        return ORDER_OF_KINDS[kind(a)] - ORDER_OF_KINDS[kind(b)]
    if kind(a) not in ("number", "string", "boolean") or a == b:
        return 0
    ascending = -1 if a < b else 1
    return -ascending if descending else ascending


def sort_rows(rows: list[Any], keys: list[tuple[Path, bool]]) -> list[int]:
    """The indices of the rows in order. Each key is a path and whether it descends; the first weighs most."""

    def compare(left: int, right: int) -> int:
        for path, descending in keys:
            outcome = compare_values(read(rows[left], path), read(rows[right], path), descending=descending)
            if outcome != 0:
                return outcome
        return left - right

    return sorted(range(len(rows)), key=cmp_to_key(compare))


# ---- field_values


def distinct(rows: list[Any], path: Path) -> list[tuple[Any, int]]:
    """The values of a field with their counts, most frequent first. Elements of lists count, once a row."""
    values: list[Any] = []
    counts: list[int] = []
    for row in rows:
        found = read_or_null(row, path)
        held = found if isinstance(found, list) else [found]
        for place, value in enumerate(held):
            if value is None or position_of_equal(value, held[:place]) is not None:
                continue
            position = position_of_equal(value, values)
            if position is None:
                values.append(value)
                counts.append(1)
            else:
                counts[position] += 1
    by_count = sorted(range(len(values)), key=lambda position: (-counts[position], position))
    return [(values[position], counts[position]) for position in by_count]


# ---- metrics


def metric(spec: str, rows: list[Any]) -> Any:
    """A metric such as `"count"` or `"p90:n.x"` over rows. A list that is found counts as one value."""
    if spec == "count":
        return len(rows)
    name, path = spec.split(":", 1)
    if name == "first":
        return read_or_null(rows[0], path) if rows else None
    if name == "last":
        return read_or_null(rows[-1], path) if rows else None
    values = [read(row, path) for row in rows]
    if name in ("count_distinct", "values"):
        return different(name, values)
    numbers = [value for value in values if kind(value) == "number"]
    if name in ("min", "max"):
        candidates = numbers or [value for value in values if kind(value) == "string"]
        chosen = min if name == "min" else max
        return chosen(candidates) if candidates else None
    return over_numbers(name, numbers)


def different(name: str, values: list[Any]) -> Any:
    found: list[Any] = []
    for value in values:
        if kind(value) not in ("null", "missing") and position_of_equal(value, found) is None:
            found.append(value)
    if name == "count_distinct":
        return len(found)
    if len(found) > 100:
        return {"values": found[:100], "total": len(found), "truncated": True}
    return found


def over_numbers(name: str, numbers: list[Any]) -> Any:
    if name == "sum":
        return total(numbers)
    if name == "mean":
        return float(exact_mean(numbers)) if numbers else None
    if name == "median":
        return percentile(numbers, 50)
    if name == "stddev":
        return sample_deviation(numbers)
    if name in ("p50", "p90", "p95", "p99"):
        return percentile(numbers, int(name[1:]))
    raise ValueError(f"no metric {name}")


def total(numbers: list[Any]) -> int | float:
    integers = [number for number in numbers if isinstance(number, int)]
    floats = [number for number in numbers if isinstance(number, float)]
    if not floats:
        return sum(integers)
    return float(Fraction(math.fsum(floats)) + sum(integers))


def exact_mean(numbers: list[Any]) -> Fraction:
    return sum((Fraction(number) for number in numbers), Fraction(0)) / len(numbers)


def sample_deviation(numbers: list[Any]) -> float | None:
    if len(numbers) < 2:
        return None
    mean = exact_mean(numbers)
    squares = sum(((Fraction(number) - mean) ** 2 for number in numbers), Fraction(0))
    return math.sqrt(squares / (len(numbers) - 1))


def percentile(numbers: list[Any], percent: int) -> int | float | None:
    """The value at (n - 1)·p in the sorted numbers, a straight line between two neighbours."""
    if not numbers:
        return None
    ordered = sorted(numbers)
    place = Fraction((len(ordered) - 1) * percent, 100)
    below = math.floor(place)
    if place == below:
        return ordered[below]
    low, high = Fraction(ordered[below]), Fraction(ordered[below + 1])
    return float(low + (high - low) * (place - below))


# ---- steps


def run_pipeline(rows: list[Any], steps: list[Step]) -> list[Any] | dict[str, int]:
    """The rows after all steps, or `{"count": n}` where the last step is count. No search and no sample."""
    for position, step in enumerate(steps):
        [(name, argument)] = step.items()
        if name == "count":
            if position != len(steps) - 1:
                raise ValueError("count must be the last step")
            return {"count": len(rows)}
        rows = run_step(rows, name, argument)
    return rows


def run_step(rows: list[Any], name: str, argument: Any) -> list[Any]:
    if name == "filter":
        return [rows[index] for index in filter_rows(rows, argument)]
    if name == "sort":
        return [rows[index] for index in sort_rows(rows, sort_keys(argument))]
    if name == "select":
        return [select(row, argument) for row in rows]
    if name == "exclude":
        return [exclude(row, argument) for row in rows]
    if name == "limit":
        return rows[:argument]
    if name == "skip":
        return rows[argument:]
    if name == "slice":
        start, end = argument
        return rows[start:end]
    if name == "unique":
        return unique(rows, argument)
    if name == "flatten":
        return [each for row in rows for each in flatten(row, argument)]
    if name == "group_by":
        return group_by(rows, argument)
    raise ValueError(f"no step {name}")


def sort_keys(argument: Any) -> list[tuple[Path, bool]]:
    keys: list[tuple[Path, bool]] = []
    for each in argument if isinstance(argument, list) else [argument]:
        if isinstance(each, str):
            keys.append((each, False))
        else:
            keys.append((each["field"], each.get("order", "asc") == "desc"))
    return keys


def select(row: Any, paths: list[Path]) -> Any:
    if not isinstance(row, dict):
        return row
    chosen = {}
    for path in paths:
        value = read(row, path)
        if value is not MISSING:
            chosen[output_key(path)] = value
    return chosen


def exclude(row: Any, paths: list[Path]) -> Any:
    if not isinstance(row, dict):
        return row
    for path in paths:
        names = [path] if path in row else segments(path)
        row = without(row, names)
    return row


def without(value: Any, names: list[str]) -> Any:
    """A copy of a value without what the names lead to. In a list, a name leads into each object of it."""
    name, rest = names[0], names[1:]
    if isinstance(value, list):
        if not is_position(name):
            return [without(element, names) for element in value]
        return [without(e, rest) if rest and place == int(name) else e for place, e in enumerate(value)]
    if not isinstance(value, dict) or name not in value:
        return value
    copied = dict(value)
    if rest:
        copied[name] = without(value[name], rest)
    else:
        del copied[name]
    return copied


def unique(rows: list[Any], path: Path) -> list[Any]:
    values: list[Any] = []
    kept: list[Any] = []
    for row in rows:
        value = read_or_null(row, path)
        if position_of_equal(value, values) is None:
            values.append(value)
            kept.append(row)
    return kept


def flatten(row: Any, path: Path) -> list[Any]:
    value = read(row, path)
    if not isinstance(value, list):
        return [row]
    return [with_value(row, path, element) for element in value or [None]]


def with_value(row: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of the row with another value at a path that is there; at top level if a list is on the way to it."""
    names = segments(path)
    if path in row:
        return {**row, path: value}
    parent: Any = row
    for name in names[:-1]:
        parent = parent[name]
        if isinstance(parent, list):
            return {**row, path: value}
    return replaced(row, names, value)


def replaced(parent: dict[str, Any], names: list[str], value: Any) -> dict[str, Any]:
    if len(names) == 1:
        return {**parent, names[0]: value}
    return {**parent, names[0]: replaced(parent[names[0]], names[1:], value)}


def group_by(rows: list[Any], argument: dict[str, Any]) -> list[Any]:
    field = argument["field"]
    paths = field if isinstance(field, list) else [field]
    metrics = argument.get("metrics") or {"count": "count"}
    keys: list[list[Any]] = []
    groups: list[list[Any]] = []
    for row in rows:
        key = [read_or_null(row, path) for path in paths]
        position = position_of_equal(key, keys)
        if position is None:
            keys.append(key)
            groups.append([row])
        else:
            groups[position].append(row)
    return [group_row(paths, key, metrics, group) for key, group in zip(keys, groups, strict=True)]


def group_row(paths: list[Path], key: list[Any], metrics: dict[str, str], group: list[Any]) -> dict[str, Any]:
    result = {output_key(path): value for path, value in zip(paths, key, strict=True)}
    for name, spec in metrics.items():
        result[name] = metric(spec, group)
    return result
