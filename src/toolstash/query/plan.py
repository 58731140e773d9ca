"""Which questions a search index answers exactly, in its own words, and what its replies mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolstash.contracts import Hit
from toolstash.query.clauses import NotIndexedError, condition_clauses
from toolstash.query.index import IndexShape
from toolstash.query.plan_groups import plan_aggregate, plan_values
from toolstash.query.plan_pipe import MOST_FETCHED, plan_pipe, sort_field, text_clause
from toolstash.query.questions import Aggregate, FieldValues, Filter, Hits, Pipe, Question, Search, Sort
from toolstash.query.reply import EVERYTHING, IN_ROW_ORDER, RANKED, Plan, Reply, ordered
from toolstash.query.steps import Searched
from toolstash.query.table import RowsTable
from toolstash.query.work import Work

MOST_LOOKED_AT = 10_000_000
"""Rows times comparisons: about a second of the server, which does nothing else meanwhile and cannot be stopped."""


def cost_of(made: Plan, shape: IndexShape) -> int:
    """How many rows the server looks at, at worst: all of them for each word, comparison, negation and metric."""
    clause = made.words[0]
    parts = sum(map(clause.count, ("@", "|", '"', "(-"))) + made.words.count("REDUCE")
    return shape.rows * max(1, parts)


def can_plan(question: Question[Any]) -> bool:
    """Whether an index could answer questions of this kind; it takes all rows to do so."""
    return type(question) in _PLANS and question.window is None


def plan(question: Question[Any], shape: IndexShape) -> Plan | None:
    """The question in the words of an index of that shape; None where Python has to answer."""
    build = _PLANS.get(type(question))
    if build is None:
        return None
    try:
        made = build(question, shape)
    except NotIndexedError:
        return None
    return made if cost_of(made, shape) <= MOST_LOOKED_AT else None


@dataclass(frozen=True, slots=True)
class HitsPlan:
    """Rows in an order; `make` words the answer from the reply and the rows."""

    words: list[str]
    make: Callable[[Reply, Sequence[Any]], Hits]

    def positions(self, reply: Reply) -> list[int]:
        return reply.positions

    def answer(self, reply: Reply, rows: list[Any], work: Work) -> Hits | None:
        return self.make(reply, rows) if reply.total else None


def _plan_search(question: Search, shape: IndexShape) -> HitsPlan:
    clause = text_clause(Searched(question.query, question.fields), shape)

    def make(reply: Reply, rows: Sequence[Any]) -> Hits:
        terms = question.query.rungs[0][1]
        snippets = question.snippets(RowsTable(rows), range(len(rows)), terms)
        hits = [
            Hit(int(found["n"]), row, round(float(found["__score"]), 4), snippet)
            for found, row, snippet in zip(reply.rows, rows, snippets, strict=True)
        ]
        return Hits(reply.total, hits, matched_by="word", engine="redisearch")

    return HitsPlan(ordered(clause, RANKED, 0, _fetched(question.limit)), make)


def _plan_filter(question: Filter, shape: IndexShape) -> HitsPlan:
    (clause,) = condition_clauses(question.leaf, shape)
    return HitsPlan(ordered(clause, IN_ROW_ORDER, 0, _fetched(question.limit)), _plain_hits)


def _plan_sort(question: Sort, shape: IndexShape) -> HitsPlan:
    order = [(sort_field(shape, question.path), question.descending), *IN_ROW_ORDER]
    return HitsPlan(ordered(EVERYTHING, order, 0, _fetched(question.limit)), _plain_hits)


def _fetched(limit: int) -> int:
    """Raises NotIndexedError for more rows than are fetched one by one."""
    if limit > MOST_FETCHED:
        raise NotIndexedError
    return limit


def _plain_hits(reply: Reply, rows: Sequence[Any]) -> Hits:
    hits = [Hit(position, row) for position, row in zip(reply.positions, rows, strict=True)]
    return Hits(reply.total, hits, engine="redisearch")


_PLANS: dict[type, Callable[[Any, IndexShape], Plan]] = {
    Search: _plan_search,
    Filter: _plan_filter,
    Sort: _plan_sort,
    FieldValues: plan_values,
    Aggregate: plan_aggregate,
    Pipe: plan_pipe,
}
