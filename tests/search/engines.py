"""One question asked of both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.query.test_differential import same
from toolstash import RedisStore
from toolstash.contracts import Address, Hit, WorkspaceMeta
from toolstash.query.index import TextView
from toolstash.query.questions import Distinct, Hits, Measured, Piped, Question, Search
from toolstash.query.table import RowsTable
from toolstash.query.work import Work
from toolstash.store.payload import Payload
from toolstash.store.refusals import require_list

NEAR = 1e-9
"""Rows whose scores are nearer than this may stand in either order: what they are computed from is rounded."""


async def indexed(store: RedisStore, rows: list[Any], texts: Sequence[TextView | None]) -> Address:
    """A workspace of these rows with an index for each view of its texts."""
    at = store.place(None, "t", None)
    await store.replace(WorkspaceMeta(at.workspace_id, "t", index="never"), Payload(rows))
    for text in texts:
        assert await store._indexes.build(at, text)
    return at


async def by_index(store: RedisStore, at: Address, question: Question[Any]) -> Any | None:
    """What the index answers; None where it leaves the question to Python."""
    reading = await store._indexes.answer(at, question, require_list)
    return None if reading is None else reading.data


def by_python(rows: list[Any], question: Question[Any]) -> Any:
    """What Python answers."""
    return question.answer(RowsTable(rows), Work())


def assert_same_answer(found: Any, rows: list[Any], question: Question[Any]) -> None:
    """The index answers as Python does, up to the order of rows whose scores are all but equal."""
    expected = by_python(rows, question)
    assert type(found) is type(expected)
    if isinstance(expected, Hits):
        assert (found.total, found.matched_by, found.hint) == (expected.total, expected.matched_by, expected.hint)
        assert found.engine == "redisearch"
        assert_same_hits(found.hits, expected.hits)
        if isinstance(question, Search):
            scores = RowsTable(rows).search(question.query, question.fields, Work()).scores
            assert_ranked([hit.index for hit in found.hits], scores, rows)
    elif isinstance(expected, Distinct):
        assert (found.total, found.hint) == (expected.total, expected.hint)
        assert same([list(pair) for pair in found.values], [list(pair) for pair in expected.values])
    elif isinstance(expected, Measured):
        assert (found.total, found.hint, found.skipped) == (expected.total, expected.hint, expected.skipped)
        assert same(found.rows, expected.rows)
    else:
        assert isinstance(expected, Piped)
        assert (found.count, found.hint) == (expected.count, expected.hint)
        assert expected.count is not None or found.total == expected.total
        assert (found.skipped or {}) == (expected.skipped or {})
        assert expected.count is not None or same(found.rows, expected.rows)


def assert_same_hits(found: list[Hit], expected: list[Hit]) -> None:
    """The same rows with the same scores and snippets; where scores are all but equal, in either order."""
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1.1e-4)
    by_index = {hit.index: hit for hit in expected}
    assert by_index.keys() == {hit.index for hit in found}
    for hit in found:
        assert hit.snippet == by_index[hit.index].snippet
        assert same(hit.item, by_index[hit.index].item)
    if not any(hit.score for hit in expected):
        assert [hit.index for hit in found] == [hit.index for hit in expected]


def assert_ranked(order: list[int], scores: Mapping[int, float], rows: list[Any]) -> None:
    """Best first, and rows that are the same in their order."""
    for before, after in pairwise(order):
        assert scores[before] > scores[after] - NEAR
        assert before < after or rows[before] != rows[after]
