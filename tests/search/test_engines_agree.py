"""Python and the search module give the same answers, for whatever rows and questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.query import strategies
from tests.query.test_search import QUERIES, ROWS, SIGNS
from tests.query.test_search import WORDS as SEARCHED
from tests.search.engines import assert_same_answer, by_index, indexed
from toolstash import RedisStore
from toolstash.query.conditions import compile_leaf
from toolstash.query.grouping import grouping_of
from toolstash.query.index import TextView
from toolstash.query.pipeline import compile_pipeline
from toolstash.query.questions import Aggregate, FieldValues, Filter, Pipe, Question, Search, Sort
from toolstash.query.terms import parse_query
from toolstash.store.codec import plain_value

MANY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
EACH = 8
"""Questions for each set of rows: so there are 480 in each test."""

SERVERS = st.sampled_from(["redis-8.2", "redis-8.2", "valkey-search", "cluster"])
"""Each set of rows is asked on one server: half of them on Redis, a quarter each on Valkey and on the cluster."""

COPIES = st.sampled_from([1, 1, 5, 40])
"""How often the rows are there: the module treats common words and values otherwise than rare ones."""

LEAST_SHARES = {"filters": 0.02, "pipelines": 0.02, "fields": 0.05, "groups": 0.03, "searches": 0.05, "together": 0.1}
"""How many of the questions the index must have answered itself, so that the comparison is one."""

Stores = Mapping[str, RedisStore]

asked: Counter[str] = Counter()
answered: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def counted() -> Iterator[None]:
    """Fails the module where the index left too much to Python."""
    yield
    shares = {name: answered[name] / asked[name] for name in asked}
    assert {name: share for name, share in shares.items() if share < LEAST_SHARES[name]} == {}


def several(questions: st.SearchStrategy[Any], count: int = EACH) -> st.SearchStrategy[list[Any]]:
    return st.lists(questions, min_size=count, max_size=count)


async def compare(
    name: str, store: RedisStore, rows: list[Any], text: TextView | None, questions: list[Question[Any]]
) -> None:
    rows = [plain_value(row) for row in rows]
    at = await indexed(store, rows, [text])
    try:
        for question in questions:
            asked[name] += 1
            found = await by_index(store, at, question)
            if found is not None:
                answered[name] += 1
                assert_same_answer(found, rows, question)
    finally:
        await store.drop(at)
        await store._indexes.settle()


some_rows = strategies.rows(max_size=12).filter(bool)


@MANY
@given(SERVERS, COPIES, some_rows, several(strategies.conditions(depth=2)))
async def test_filters(
    search_stores: Stores, server: str, copies: int, rows: list[Any], conditions: list[dict[str, Any]]
) -> None:
    pipes = [Pipe(compile_pipeline([{"filter": condition}]), 100) for condition in conditions]
    await compare("filters", search_stores[server], rows * copies, None, [*pipes])


@settings(MANY, max_examples=40)
@given(SERVERS, COPIES, some_rows, several(strategies.pipelines(), 2))
async def test_pipelines(
    search_stores: Stores, server: str, copies: int, rows: list[Any], pipelines: list[list[Any]]
) -> None:
    pipes = [Pipe(compile_pipeline(steps), 5) for steps in pipelines]
    await compare("pipelines", search_stores[server], rows * copies, None, [*pipes])


FIELDS = st.tuples(strategies.paths(), st.booleans(), st.sampled_from(["$eq", "$ne", "$gt", "$lte", "$contains"]))


@MANY
@given(
    SERVERS, COPIES, some_rows, several(st.tuples(FIELDS, st.sampled_from([0, 1, "a", "ab", 1.5, 2**53, str(2**53)])))
)
async def test_single_fields(
    search_stores: Stores, server: str, copies: int, rows: list[Any], fields: list[Any]
) -> None:
    questions: list[Question[Any]] = []
    for (path, descending, operator), value in fields:
        questions += [Sort(path, descending, 5), FieldValues(path, 5), Filter(compile_leaf(path, operator, value), 3)]
    await compare("fields", search_stores[server], rows * copies, None, questions)


@MANY
@given(
    SERVERS,
    COPIES,
    some_rows,
    several(st.tuples(strategies.path_lists(max_size=2) | st.none(), strategies.metric_specs())),
)
async def test_groups(search_stores: Stores, server: str, copies: int, rows: list[Any], groupings: list[Any]) -> None:
    questions = [Aggregate(grouping_of(field, {"m1": metric, "m2": "count"}), 4) for field, metric in groupings]
    await compare("groups", search_stores[server], rows * copies, None, [*questions])


PLAIN = ["run", "running", "école", "fine", "xv-77", "12.5", "x", "a@b.org", "true", "it's", "retry_backoff", "5", "1"]
PLAIN += ["图书馆", "東京図書館", "图书", "किताब", "محمد", "שלום", "resume", '"12 5"', '"say hello"', "trues", "圖書"]
LONGER = st.lists(st.sampled_from([*PLAIN, *SEARCHED, *SIGNS]), min_size=1, max_size=12).map(" ".join)
FULL_ROWS = st.lists(
    st.fixed_dictionaries({"title": LONGER, "run": LONGER | st.lists(LONGER, max_size=3)}), min_size=2, max_size=15
)
PLAIN_QUERIES = st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3).map(" ".join)


@MANY
@given(
    SERVERS,
    COPIES,
    ROWS | FULL_ROWS | FULL_ROWS,
    several(QUERIES | PLAIN_QUERIES | PLAIN_QUERIES),
    st.sampled_from([None, ("title",), ("run", "title")]),
)
async def test_searches(
    search_stores: Stores, server: str, copies: int, rows: list[Any], queries: list[str], fields: Any
) -> None:
    questions = [Search(parse_query(query), fields, 100) for query in queries]
    await compare("searches", search_stores[server], rows * copies, TextView.of(fields), [*questions])


WORDS = st.sampled_from(["red", "fox runs", '"red fox"', "xv-77", "図書館", "hen*", "fox red hen", "12.5", "ecole"])
TEXTS = st.lists(st.sampled_from(["red", "Fox", "running", "xv-77", "東京図書館", "hen", "12.5", "École"]), max_size=5)
DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"t": TEXTS.map(" ".join), "n": st.integers(0, 5), "k": st.sampled_from(["a", "b", None])},
        optional={"x": st.integers(0, 3) | st.sampled_from([2.5, 0.1])},
    ),
    min_size=1,
    max_size=30,
)
STEPS = st.one_of(
    st.fixed_dictionaries({"search": WORDS}),
    st.fixed_dictionaries({"filter": st.sampled_from([{"n": {"$gte": 2}}, {"k": "a"}, {"k": {"$ne": "a"}, "n": 3}])}),
    st.fixed_dictionaries({"filter": st.sampled_from([{"$or": [{"k": None}, {"x": {"$lt": 1}}]}, {}, {"x": 0.1}])}),
    st.fixed_dictionaries({"sort": st.sampled_from(["n", "x", {"field": "n", "order": "desc"}, ["n", "x"]])}),
    st.fixed_dictionaries({"limit": st.integers(0, 20)}),
    st.fixed_dictionaries({"skip": st.integers(0, 4)}),
    st.fixed_dictionaries({"select": st.sampled_from([["t", "n"], ["k"], ["nowhere"]])}),
    st.just({"group_by": {"field": "k", "metrics": {"c": "count", "s": "sum:n", "m": "mean:n", "a": "min:n"}}}),
    st.just({"group_by": ["k", "x"]}),
)
COUNTED = st.lists(STEPS, max_size=4).map(lambda steps: [*steps, {"count": True}])


@MANY
@given(SERVERS, COPIES, DOCUMENTS, several(st.lists(STEPS, min_size=1, max_size=5) | COUNTED))
async def test_words_and_fields_together(
    search_stores: Stores, server: str, copies: int, rows: list[Any], pipelines: list[list[Any]]
) -> None:
    questions = [Pipe(compile_pipeline(steps), 10) for steps in pipelines]
    await compare("together", search_stores[server], rows * copies, TextView.of(None), [*questions])
