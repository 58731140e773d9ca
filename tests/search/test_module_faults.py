"""Queries that the search module (2.10) answers wrongly, found by comparing: they are Python's."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.search.engines import assert_same_answer, by_index, by_python, indexed
from toolstash import RedisStore
from toolstash.query.index import TextView
from toolstash.query.pipeline import compile_pipeline
from toolstash.query.questions import Pipe, Question, Search
from toolstash.query.terms import parse_query

ALL_TEXT = TextView.of(None)


@pytest.mark.parametrize("query", ['"a a"', '"a a b"', "12.12", "東東東", '"a a" b'])
async def test_a_phrase_with_equal_neighbours(search_store: RedisStore, query: str) -> None:
    """One `a` is taken for both, and a gap behind it is forgiven."""
    rows = [{"t": text} for text in ("a b", "a a b", "a", "a x b", "12 x", "12 12", "東東", "東東東")]
    at = await indexed(search_store, rows, [ALL_TEXT])
    question = Search(parse_query(query), None, 10)
    assert await by_index(search_store, at, question) is None
    assert (await search_store.ask(at, question)).data == by_python(rows, question)


ROWS = [
    {"t": "red", "n": 4},
    {"t": "fox", "n": 3},
    {"t": "", "n": 5},
    {"t": "red fox", "n": 2},
    {"t": "hen fox red", "n": 1},
    {"t": "x", "n": 0},
]


@pytest.mark.parametrize(
    "steps",
    [
        [{"filter": {"n": {"$gte": 2}}}, {"search": "fox red hen"}],
        [{"search": "fox red"}, {"filter": {"$not": {"n": {"$ne": 2}}}}],
        [{"search": "fox"}, {"filter": {"$or": [{"n": 9}, {"n": {"$lt": 4}, "t": {"$ne": "red"}}]}}],
        [{"filter": {"$not": {"$or": [{"n": 5}, {"t": {"$ne": "red"}, "n": {"$gt": 0}}]}}}],
    ],
)
async def test_negations_and_several_words_beside_filters(search_store: RedisStore, steps: list[Any]) -> None:
    """Of several words in a conjunction some scores are forgotten; negations lose rows but at the top."""
    at = await indexed(search_store, ROWS, [ALL_TEXT])
    for ending in ([], [{"count": True}]):
        question = Pipe(compile_pipeline([*steps, *ending]), 10)
        found = await by_index(search_store, at, question)
        if found is not None:
            assert_same_answer(found, ROWS, question)
        answer, expected = (await search_store.ask(at, question)).data, by_python(ROWS, question)
        assert answer.count == expected.count
        assert ending or (answer.rows, answer.total) == (expected.rows, expected.total)


WORDS = [*(f"w{number}" for number in range(6)), "東京図書館", "xv-77", "12.5"]


def condition(chance: random.Random, depth: int) -> dict[str, Any]:
    if depth and chance.random() < 0.5:
        operator = chance.choice(["$and", "$or", "$not"])
        if operator == "$not":
            return {"$not": condition(chance, depth - 1)}
        return {operator: [condition(chance, depth - 1) for _ in range(chance.randint(1, 3))]}
    field = chance.choice(["n", "m", "s", "u", "l"])
    if field in "nm":
        return {field: {chance.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]): chance.randint(0, 9)}}
    if field == "l":
        return {"l": {chance.choice(["$contains", "$eq", "$ne"]): chance.choice("abc")}}
    operator = chance.choice(["$eq", "$ne", "$in", "$nin"])
    few = chance.sample(["a", "b", None, "z"], 2)
    return {field: {operator: few if operator.endswith("in") else few[0]}}


def some_rows(chance: random.Random) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for _ in range(chance.choice([3, 30, 300, 900])):
        text = " ".join(chance.choices(WORDS, k=chance.randint(0, chance.choice([2, 12]))))
        row: dict[str, Any] = {"t": text, "n": chance.randint(0, 9), "s": chance.choice("aaaaab")}
        row |= {"u": chance.choice(["a", "b", None]), "l": chance.sample("abc", chance.randint(0, 3))}
        rows.append(row | ({"m": chance.choice([1, 2, 9])} if chance.random() < 0.98 else {}))
    return rows


def pipe(chance: random.Random) -> Question[Any]:
    steps: list[Any] = [{"filter": condition(chance, 3)}] if chance.random() < 0.8 else []
    if chance.random() < 0.6:
        words = chance.sample([*WORDS, '"w1 w2"', '"w0 w1"'], chance.choice([1, 1, 1, 2, 3]))
        steps.insert(chance.randint(0, len(steps)), {"search": " ".join(words)})
    if chance.random() < 0.3:
        steps.append({"sort": chance.choice(["n", {"field": "n", "order": "desc"}, ["m", "n"]])})
    grouped = {"group_by": {"field": "s", "metrics": {"c": "count", "x": "sum:n"}}}
    steps.append(chance.choice([{"count": True}, {"count": True}, grouped, {"limit": 3}, {"limit": 900}]))
    return Pipe(compile_pipeline(steps), 1_000)


@pytest.mark.parametrize("seed", range(8))
async def test_deep_conditions_over_many_rows(search_store: RedisStore, seed: int) -> None:
    chance = random.Random(seed)
    rows = some_rows(chance)
    at = await indexed(search_store, rows, [ALL_TEXT])
    answered = 0
    for _ in range(40):
        question = pipe(chance)
        found = await by_index(search_store, at, question)
        if found is not None:
            answered += 1
            assert_same_answer(found, rows, question)
    assert answered > 8
