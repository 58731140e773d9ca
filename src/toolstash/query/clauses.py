"""Conditions and words as clauses of a RediSearch query (dialect 2), where the index answers them exactly.

Nothing that comes from outside gets into a clause as it is: values become digests or numbers, words become tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from operator import eq
from typing import Any, cast

from toolstash.query.columns import Column, is_double, tag_of
from toolstash.query.conditions import AllOf, AnyOf, Condition, Leaf
from toolstash.query.index import IndexShape
from toolstash.query.terms import Query, Term
from toolstash.query.values import is_number, spellings

MOST_LISTED = 500
"""Values in one condition: more of them take long to be put into words, and the server long to look up."""

_NOT = "(-"
_RANGES = {"$gt": "[({} +inf]", "$gte": "[{} +inf]", "$lt": "[-inf ({}]", "$lte": "[-inf {}]"}


class NotIndexedError(Exception):
    """The index cannot answer this exactly: Python has to."""


def words_clause(query: Query) -> str:
    """The rows that have any of the words.

    Raises:
        NotIndexedError: Only a scan can find some of them.
    """
    rung, terms = query.rungs[0]
    if query.case_sensitive or rung != "word":
        raise NotIndexedError
    return f"@t:({'|'.join(map(_term, terms))})"


def _term(term: Term) -> str:
    if not term.tokens or any(map(eq, term.tokens, term.tokens[1:])):
        raise NotIndexedError  # the module takes one word for two neighbours of a phrase that are the same
    return term.tokens[0] if len(term.tokens) == 1 else f'"{" ".join(term.tokens)}"'


def unscored(clause: str) -> str:
    """One of `condition_clauses`, such that it adds nothing to a row's score: negations add none."""
    return clause if clause.startswith(_NOT) else f"{_NOT}{_NOT}{clause}))"


def condition_clauses(condition: Condition, shape: IndexShape) -> list[str]:
    """The rows for which the condition holds are those that meet all of these clauses.

    A negation stands only at the top: inside other clauses the module loses rows, or finds too many.

    Raises:
        NotIndexedError: Some comparison is not indexed, or a negation stands too deep.
    """
    if sum(_values_in(leaf) for leaf in condition.leaves()) > MOST_LISTED:
        raise NotIndexedError
    if isinstance(condition, AllOf):
        return [clause for part in condition.parts for clause in condition_clauses(part, shape)]
    if isinstance(condition, AnyOf) and condition.negated:
        return [_not(_part(part, shape)) for part in condition.parts]
    return [_part(condition, shape)]


def _values_in(leaf: Leaf) -> int:
    value: Any = leaf.value
    return len(value) if isinstance(value, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _part(condition: Condition, shape: IndexShape) -> str:
    return _leaf(condition, shape) if isinstance(condition, Leaf) else _unnegated(condition, shape)


def _unnegated(condition: Condition, shape: IndexShape) -> str:
    """A clause without negations, which may stand anywhere."""
    if isinstance(condition, Leaf):
        clause = _leaf(condition, shape)
    else:
        assert isinstance(condition, (AllOf, AnyOf))
        parts = [_unnegated(part, shape) for part in condition.parts]
        clause = _any(parts) if isinstance(condition, AnyOf) else f"({' '.join(parts)})"
    if clause.startswith(_NOT) or clause == "()" or (isinstance(condition, AnyOf) and condition.negated):
        raise NotIndexedError
    return clause


def _any(clauses: Sequence[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"({' | '.join(clauses)})"


def _not(clause: str) -> str:
    return clause[len(_NOT) : -1] if clause.startswith(_NOT) else f"{_NOT}{clause})"


def _leaf(leaf: Leaf, shape: IndexShape) -> str:
    column = shape.columns.get(leaf.path)
    if column is None:
        raise NotIndexedError
    if leaf.operator in _RANGES:
        return _range(leaf, column)
    if leaf.operator == "$contains":
        return _contains(leaf.value, column)
    negated = leaf.operator in ("$ne", "$nin")
    if leaf.operator in ("$eq", "$ne"):
        clause = _equal(leaf.value, column)
    elif leaf.operator in ("$in", "$nin") and leaf.value:
        clause = _any([_equal(value, column) for value in cast(list[Any], leaf.value)])
    else:
        raise NotIndexedError
    return _not(clause) if negated else clause


def _range(leaf: Leaf, column: Column) -> str:
    if not column.is_numeric or not is_number(leaf.value):
        raise NotIndexedError
    return f"(@v{column.place}:{_RANGES[leaf.operator].format(_number(leaf.value))})"


def _number(number: int | float) -> str:
    if not is_double(number) or not isfinite(number):
        raise NotIndexedError
    return repr(number)


def _equal(value: Any, column: Column) -> str:
    return _any([_equal_form(form, column) for form in spellings(value)])


def _equal_form(value: Any, column: Column) -> str:
    if column.is_numeric and is_number(value):
        number = _number(value)
        return f"@v{column.place}:[{number} {number}]"
    tag = tag_of(column, value) if column.is_tagged else None
    if tag is None:
        raise NotIndexedError
    return f"@g:{{{tag}}}"


def _contains(value: Any, column: Column) -> str:
    """Of a list, one of its elements. A tag does not tell an element from a value that stands alone."""
    if value is None or isinstance(value, (list, dict)) or not column.kinds <= {"list", "null", "missing"}:
        raise NotIndexedError
    return _equal(value, column)
