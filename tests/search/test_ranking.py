"""Scores come out the same whatever constants a server's ranking has."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstash.query.index import Documents, IndexDraft, IndexShape, TextView, haystack_of
from toolstash.query.search import K1, B
from toolstash.query.table import RowsTable
from toolstash.query.tokens import GAP
from toolstash.store.search_ability import Ability, _ability_of

WORDS = st.lists(
    st.sampled_from(["a", "red", "fox" * 40, "東京図書館", "他在城里的图书馆看书" * 9, "x-1"]), max_size=12
)
ROWS = st.lists(WORDS.map(" ".join).map(lambda text: {"t": text}), min_size=1, max_size=20)


def shape_of(rows: list[Any]) -> IndexShape:
    draft = IndexDraft(RowsTable(rows), TextView.of(None))
    for _ in draft.slices():
        pass
    return draft.shape()


def length_on_the_server(document: list[str], schema: list[str]) -> int:
    """How long the module takes a document to be: each token counts as much as its field weighs."""
    length = 0
    for name, value in zip(document[::2], document[1::2], strict=True):
        if name in schema and schema[schema.index(name) + 1] == "TEXT":
            at = schema.index(name)
            weight = int(schema[at + 4]) if schema[at + 3] == "WEIGHT" else 1
            length += weight * len(value.split())
    return length


def damping(b: float, length: float, mean: float) -> float:
    """What a score has below its line, besides how often the word is there."""
    return K1 * (1 - b + b * length / mean)


@pytest.mark.parametrize("server_b", [0.5, 0.6, 0.75, 1.0])
@given(ROWS)
def test_lengths_make_up_for_another_b(server_b: float, rows: list[Any]) -> None:
    shape = shape_of(rows)
    ours = haystack_of(rows, TextView.of(None)).lengths
    documents = Documents(shape, server_b).of_rows(0, rows)
    theirs = [length_on_the_server(document, shape.schema()) for document in documents]
    mean_ours, mean_theirs = sum(ours) / len(ours), sum(theirs) / len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        bound = K1 * server_b * 0.5 * (1 + mine / mean_ours) / mean_theirs if server_b != B else 1e-12
        assert damping(server_b, other, mean_theirs) == pytest.approx(damping(B, mine, mean_ours), abs=bound + 1e-12)
    by_ours = sorted(range(len(rows)), key=lambda row: (ours[row], row))
    assert by_ours == sorted(range(len(rows)), key=lambda row: (theirs[row], row)), "so the order is the same too"


def test_the_tokens_of_a_row_are_never_more_than_its_characters() -> None:
    rows = [{"t": "東京図書館" * 300}, {"t": "a b c d e f g h " * 100}, {"t": "x"}]
    shape, ours = shape_of(rows), haystack_of(rows, TextView.of(None)).lengths
    for document, length in zip(Documents(shape, B).of_rows(0, rows), ours, strict=True):
        assert length_on_the_server(document, shape.schema()) == length
        assert len(document[document.index("t") + 1].replace(GAP, "").split()) <= length


LENGTHS, TIMES = (1, 33, 2), (1, 1, 2)
"""Of the three documents of the probe, and how often each has its word."""


def reply(b: float, *, k1: float = K1, bonus: float = 0.0) -> list[Any]:
    """What a server with these constants replies to the probe."""
    idf, mean = math.log(1 + 0.5 / 3.5), sum(LENGTHS) / 3
    scores = [
        idf * times * (k1 + 1) / (times + k1 * (1 - b + b * length / mean))
        for times, length in zip(TIMES, LENGTHS, strict=True)
    ]
    return rows(*scores[:2], scores[2] + bonus)


def rows(*scores: Any) -> list[Any]:
    """A reply with these scores."""
    texts = [score if isinstance(score, str) else f"{score:.12g}" for score in scores]
    return [len(texts), *([b"n", b"%d" % n, b"__score", text.encode()] for n, text in enumerate(texts))]


@pytest.mark.parametrize("b", [0.5, 0.6, 0.75, 1.0])
def test_the_servers_b_is_told_by_its_scores(b: float, caplog: pytest.LogCaptureFixture) -> None:
    ability = _ability_of(reply(b))
    assert ability is not None
    assert ability.b == pytest.approx(b, abs=1e-5)
    assert caplog.records == []


OTHER_RANKING = {
    "no score": rows(0, 0, 0),
    "one score for all": rows(1, 1, 1),
    "another k1": reply(0.5, k1=2.0),
    "a bonus": reply(0.5, bonus=0.01),
    "b below ours": reply(0.3),
    "not a number": rows("nan", "nan", "nan"),
    "infinite": rows("inf", "inf", "inf"),
    "negative": rows(-1, -2, -3),
}


@pytest.mark.parametrize("kind", OTHER_RANKING)
def test_other_ranking_is_left_to_python_and_told_once(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolstash")
    assert _ability_of(OTHER_RANKING[kind]) == Ability(None)
    (line,) = caplog.messages
    assert "ranks in a way that Python cannot repeat" in line


NONSENSE = {
    "nothing found": [0],
    "one of three found": reply(0.5)[:2],
    "fewer than it says": [3, *reply(0.5)[1:3]],
    "no such field": [3, [b"n", b"0"], [b"n", b"1"], [b"n", b"2"]],
    "a word": rows("high", "low", "low"),
    "no list": b"OK",
    "nothing at all": None,
    "a map": {b"total_results": 3, b"results": []},
    "no fields": [3, None, None, None],
    "half a field": [3, [b"n"], [b"n"], [b"n"]],
    "an empty list": [],
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_search_that_finds_something_else_is_not_used(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolstash")
    assert _ability_of(NONSENSE[kind]) is None
    (line,) = caplog.messages
    assert "does not find what it should" in line
