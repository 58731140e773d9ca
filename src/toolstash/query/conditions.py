"""Conditions over rows: `{"year": {"$gte": 2020}, "$or": […]}`, compiled once and tried on columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol, cast

from toolstash.errors import InvalidArgumentError
from toolstash.query.operators import OPERATORS, Test
from toolstash.query.values import other_type

MOST_PARTS = 500
MOST_LEVELS = 20
LOGICAL = ("$and", "$or", "$nor", "$not")
EXAMPLE = {"year": {"$gte": 2020}, "author.name": "Ada"}

Columns = Callable[[str], Sequence[Any]]
"""Path → the values of that field in all rows."""


class Condition(Protocol):
    """What holds for a row or does not."""

    def select(self, column: Columns, positions: Sequence[int]) -> list[int]:
        """Those of the positions, in their order, for whose rows it holds."""
        ...

    def leaves(self) -> Iterator[Leaf]:
        """The comparisons that it is made of."""
        ...


@dataclass(frozen=True, slots=True)
class Leaf:
    """One operator on one field."""

    path: str
    operator: str
    value: Any
    test: Test

    def select(self, column: Columns, positions: Sequence[int]) -> list[int]:
        values, test = column(self.path), self.test
        return [position for position in positions if test(values[position])]

    def leaves(self) -> Iterator[Leaf]:
        yield self


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: Sequence[Condition]

    def select(self, column: Columns, positions: Sequence[int]) -> list[int]:
        left = positions
        for part in self.parts:
            left = part.select(column, left)
        return list(left)

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds; with `negated`, none does."""

    parts: Sequence[Condition]
    negated: bool = False

    def select(self, column: Columns, positions: Sequence[int]) -> list[int]:
        found: set[int] = set()
        left = positions
        for part in self.parts:
            found.update(part.select(column, left))
            left = [position for position in left if position not in found]
        return list(left) if self.negated else [position for position in positions if position in found]

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts:
            yield from part.leaves()


def compile_condition(spec: Any, *, allow_regex: bool = False) -> Condition:
    """A condition from its JSON form.

    Raises:
        InvalidArgumentError: It is malformed or too large; says what is wrong and shows an example.
    """
    return _Compiler(allow_regex).condition(spec, 0)


def compile_leaf(path: str, operator: str, value: Any, *, allow_regex: bool = False) -> Leaf:
    """One comparison.

    Raises:
        InvalidArgumentError: An unknown operator, or a value that it does not take.
    """
    return _Compiler(allow_regex).leaf(path, operator, value)


class _Compiler:
    """Compiles one condition and counts its parts."""

    def __init__(self, allow_regex: bool) -> None:
        self._allow_regex = allow_regex
        self._parts = 0

    def condition(self, spec: Any, level: int) -> Condition:
        if not isinstance(spec, Mapping):
            raise InvalidArgumentError("A condition is an object of fields and what they must be.", example=EXAMPLE)
        if level > MOST_LEVELS:
            raise InvalidArgumentError(f"The condition is nested more than {MOST_LEVELS} levels deep.")
        entries = cast(Mapping[str, Any], spec)
        return _all([self._entry(name, value, level) for name, value in entries.items()])

    def _entry(self, name: str, value: Any, level: int) -> Condition:
        if name == "$not":
            return AnyOf([self.condition(value, level + 1)], negated=True)
        if name in LOGICAL:
            parts = [self.condition(part, level + 1) for part in _parts_of(name, value)]
            return _all(parts) if name == "$and" else AnyOf(parts, negated=name == "$nor")
        if name.startswith("$"):
            raise self._unknown(name)
        return self._field(name, value, level)

    def _field(self, path: str, value: Any, level: int) -> Condition:
        if not _has_operators(value):
            return self.leaf(path, "$eq", value)
        if level > MOST_LEVELS:
            raise InvalidArgumentError(f"The condition is nested more than {MOST_LEVELS} levels deep.")
        parts: list[Condition] = []
        for operator, wanted in cast(Mapping[str, Any], value).items():
            if operator == "$not":
                parts.append(AnyOf([self._field(path, wanted, level + 1)], negated=True))
            else:
                parts.append(self.leaf(path, operator, wanted))
        return _all(parts)

    def leaf(self, path: str, operator: str, value: Any) -> Leaf:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise InvalidArgumentError(
                f"The condition has more than {MOST_PARTS} comparisons.",
                suggested_action="Use $in with a list of values in place of many comparisons.",
            )
        build = OPERATORS.get(operator)
        if build is None:
            raise self._unknown(operator)
        if operator == "$regex" and not self._allow_regex:
            raise InvalidArgumentError(
                "$regex is not allowed here.",
                example={path[:60]: {"$contains": "graph"}},
                suggested_action="Use $contains or $startswith instead.",
            )
        return Leaf(path, operator, value, build(value))

    def _unknown(self, operator: str) -> InvalidArgumentError:
        known = [name for name in OPERATORS if self._allow_regex or name != "$regex"]
        near = get_close_matches(operator, [*known, *LOGICAL], 1)
        action = f"Did you mean {near[0]}?" if near else "Use one of available_operators."
        return InvalidArgumentError(
            f"Unknown operator '{operator:.60}'.",
            available_operators=[*known, *LOGICAL],
            example=EXAMPLE,
            suggested_action=action,
        )


def _all(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else AllOf(parts)


def _parts_of(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping) and len(cast(Mapping[str, Any], value)) == 1:
        return [value]
    if not isinstance(value, list) or not value:
        raise InvalidArgumentError(
            f"{name} takes a list of conditions.", example={name: [{"year": 2024}, {"status": "open"}]}
        )
    return cast(list[Any], value)


def _has_operators(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    names = list(cast(Mapping[str, Any], value))
    marked = [name for name in names if name.startswith("$")]
    if marked and len(marked) < len(names):
        raise InvalidArgumentError(
            f"Operators and fields are mixed in one object: {', '.join(names)[:200]}.",
            example={"author": {"$eq": {"name": "Ada"}}},
        )
    return bool(marked)


def type_hint(condition: Condition, column: Columns, positions: Sequence[int]) -> str | None:
    """Why a condition may have found nothing: a number was given where the field holds text, or the other way round."""
    for leaf in condition.leaves():
        if unmarked := _unmarked(leaf):
            return f"Operators begin with $: did you mean {json.dumps({leaf.path[:60]: unmarked})[:200]}?"
        swapped = other_type(leaf.value)
        if swapped is None or leaf.operator not in _TYPED:
            continue
        values = column(leaf.path)
        if any(leaf.test(values[position]) for position in positions):
            continue
        test = OPERATORS[leaf.operator](swapped)
        if any(test(values[position]) for position in positions):
            held, given = ("text", "a number") if isinstance(swapped, str) else ("numbers", "text")
            return (
                f"The field '{leaf.path:.60}' holds {held}, but {given} was given: "
                f"try {_shown(swapped)} in place of {_shown(leaf.value)}."
            )
    return None


def _unmarked(leaf: Leaf) -> dict[str, Any] | None:
    """The value with its keys as operators, where it was compared as an object and all of them are names of one."""
    value: Any = leaf.value
    if leaf.operator != "$eq" or not isinstance(value, dict) or not value:
        return None
    entries = {f"${name}": inner for name, inner in cast(dict[str, Any], value).items()}
    return entries if entries.keys() <= {*OPERATORS, *LOGICAL} else None


_TYPED = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte", "$contains"})


def _shown(value: Any) -> str:
    return f'"{value:.60}"' if isinstance(value, str) else f"{value!s:.60}"
