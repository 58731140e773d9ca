"""What each operator of a condition means for one value. The table is in docs/queries.md."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

from toolstash.errors import InvalidArgumentError
from toolstash.fieldpath import MISSING
from toolstash.query.regex import regex_test
from toolstash.query.values import equality_key, is_number, spellings

Test = Callable[[Any], bool]

MOST_LISTED = 10_000


def _equals_one_of(wanted: Sequence[Any]) -> Test:
    keys = {equality_key(form) for value in wanted for form in spellings(value)}

    def test(value: Any) -> bool:
        kind = value.__class__
        if kind is str or kind is int or kind is float:
            return value in keys
        if kind is list and any(equality_key(element) in keys for element in value):
            return True
        return equality_key(value) in keys

    return test


def _equal(wanted: Any) -> Test:
    forms = spellings(wanted)
    if len(forms) > 1 or not (isinstance(wanted, str) or is_number(wanted)):
        return _equals_one_of([wanted])

    def test(value: Any) -> bool:
        kind = value.__class__
        if kind is list:
            return any(element == wanted and element.__class__ is not bool for element in value)
        return value == wanted and kind is not bool

    return test


def _not(test: Test) -> Test:
    return lambda value: not test(value)


def _listed(wanted: Any, name: str) -> list[Any]:
    if not isinstance(wanted, list):
        raise InvalidArgumentError(
            f"{name} takes a list of values, not {_kind(wanted)}.", example={"year": {name: [2023, 2024]}}
        )
    listed = cast(list[Any], wanted)
    if len(listed) > MOST_LISTED:
        raise InvalidArgumentError(f"{name} takes at most {MOST_LISTED:,} values, not {len(listed):,}.")
    return listed


def _in(wanted: Any) -> Test:
    return _equals_one_of(_listed(wanted, "$in"))


def _not_in(wanted: Any) -> Test:
    return _not(_equals_one_of(_listed(wanted, "$nin")))


def _compared(name: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any], Test]:
    def build(wanted: Any) -> Test:
        if isinstance(wanted, str):
            return lambda value: value.__class__ is str and compare(value, wanted)
        if is_number(wanted):

            def test(value: Any) -> bool:
                kind = value.__class__
                return (kind is int or kind is float) and compare(value, wanted)

            return test
        raise InvalidArgumentError(
            f"{name} compares with a number or a string, not with {_kind(wanted)}.",
            example={"year": {name: 2020}},
        )

    return build


def _contains(wanted: Any) -> Test:
    keys = {equality_key(form) for form in spellings(wanted)}

    def test(value: Any) -> bool:
        if value.__class__ is list:
            return any(equality_key(element) in keys for element in value)
        return value.__class__ is str and isinstance(wanted, str) and wanted in value

    return test


def _starts(wanted: Any) -> Test:
    if not isinstance(wanted, str):
        raise InvalidArgumentError(
            f"$startswith takes a string, not {_kind(wanted)}.", example={"name": {"$startswith": "Ad"}}
        )
    return lambda value: value.__class__ is str and value.startswith(wanted)


def _exists(wanted: Any) -> Test:
    if not isinstance(wanted, bool):
        raise InvalidArgumentError(
            f"$exists takes true or false, not {_kind(wanted)}.", example={"email": {"$exists": True}}
        )
    return lambda value: (value is not MISSING) is wanted


OPERATORS: dict[str, Callable[[Any], Test]] = {
    "$eq": _equal,
    "$ne": lambda wanted: _not(_equal(wanted)),
    "$gt": _compared("$gt", operator.gt),
    "$gte": _compared("$gte", operator.ge),
    "$lt": _compared("$lt", operator.lt),
    "$lte": _compared("$lte", operator.le),
    "$in": _in,
    "$nin": _not_in,
    "$contains": _contains,
    "$startswith": _starts,
    "$exists": _exists,
    "$regex": regex_test,
}
"""Operator → what makes a test of its value. Each raises InvalidArgumentError for a value that it does not take."""


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names: dict[Any, str] = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(value.__class__, "a number")
