"""Cases by hand from docs/queries.md, so that the judge is judged too."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given

from tests.query import strategies
from tests.query.reference import (
    MISSING,
    distinct,
    equal,
    filter_rows,
    holds,
    metric,
    read,
    run_pipeline,
    sort_rows,
)

ID = 2**53 + 1
NESTED = {"labels": [{"name": "bug", "by": [{"n": 1}, {"n": 2}]}, "bare", {"name": "ui", "by": [{"n": 3}]}]}


@pytest.mark.parametrize(
    ("row", "path", "value"),
    [
        ({"author": {"name": "Ada"}}, "author.name", "Ada"),
        ({"author": None}, "author", None),
        ({"author": None}, "author.name", MISSING),
        ({"tags": ["x", "y"]}, "tags.1", "y"),
        ({"tags": ["x", "y"]}, "tags.2", MISSING),
        ({"tags": [{"0": "inner"}]}, "tags.0", {"0": "inner"}),
        ({"tags": {"0": "key"}}, "tags.0", "key"),
        (NESTED, "labels.name", ["bug", "ui"]),
        (NESTED, "labels.name.1", "ui"),
        (NESTED, "labels.by.n", [1, 2, 3]),
        (NESTED, "labels.by", [[{"n": 1}, {"n": 2}], [{"n": 3}]]),
        (NESTED, "labels.color", MISSING),
        ({"labels": [[{"name": "deep"}]]}, "labels.name", MISSING),
        ({"a.b": 1, "a": {"b": 2}}, "a.b", 1),
        ({"a.b": 1, "a": {"b": 2}}, "a\\.b", 1),
        ({"a": {"b": 2}}, "a\\.b", MISSING),
        ({"$x": 1}, "\\$x", 1),
        ({"a\\b": 1}, "a\\\\b", 1),
        ({"a": {"b.c": 1}}, "a.b\\.c", 1),
        (["x"], "0", MISSING),
        ("text", "a", MISSING),
    ],
)
def test_read(row: Any, path: str, value: Any) -> None:
    assert read(row, path) == value


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (2, 2.0, True),
        (0, -0.0, True),
        (ID, float(2**53), False),
        ("5", 5, False),
        (True, 1, False),
        (False, None, False),
        ("é", "e\u0301", False),
        ([1, [2.0]], [1.0, [2]], True),
        ([1, 2], [2, 1], False),
        ([True], [1], False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": None}, {}, False),
        (str(ID), ID, False),
        (-ID, str(-ID), False),
        ("123456789012345", 123456789012345, False),
        ("1234567890123456", 1234567890123456, False),
        ("01234567890123456", 1234567890123456, False),
        ("+1234567890123456", 1234567890123456, False),
        ("١٢٣٤٥٦٧٨٩٠١٢٣٤٥٦", 1234567890123456, False),
        ([str(ID)], [ID], False),
        ({"id": str(ID)}, {"id": ID}, False),
        ([{"id": str(ID)}], [{"id": ID}], False),
    ],
)
def test_equal(a: Any, b: Any, same: bool) -> None:
    assert equal(a, b) is same
    assert equal(b, a) is same


ONE_OF_EACH = [{"v": 2}, {"v": "ab"}, {"v": True}, {"v": [2, "ab"]}, {"v": {"k": 1}}, {"v": None}, {}, "bare"]


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        (2, [0, 3]),
        ({"$eq": 2.0}, [0, 3]),
        ("2", []),
        (True, [2]),
        (1, []),
        ([2, "ab"], [3]),
        ({"k": 1}, [4]),
        ({}, []),
        (None, [5, 6, 7]),
        ({"$ne": 2}, [1, 2, 4, 5, 6, 7]),
        ({"$ne": None}, [0, 1, 2, 3, 4]),
        ({"$in": ["ab", None]}, [1, 3, 5, 6, 7]),
        ({"$nin": ["ab", None]}, [0, 2, 4]),
        ({"$gt": 1}, [0]),
        ({"$gte": 2.0}, [0]),
        ({"$lt": "b"}, [1]),
        ({"$lte": "ab"}, [1]),
        ({"$lt": True}, []),
        ({"$contains": "b"}, [1]),
        ({"$contains": "B"}, []),
        ({"$contains": "ab"}, [1, 3]),
        ({"$contains": 2}, [3]),
        ({"$contains": "k"}, []),
        ({"$startswith": "a"}, [1]),
        ({"$startswith": ""}, [1]),
        ({"$exists": True}, [0, 1, 2, 3, 4, 5]),
        ({"$exists": False}, [6, 7]),
        ({"$gt": 1, "$lt": 2}, []),
        ({"$not": {"$gt": 1}}, [1, 2, 3, 4, 5, 6, 7]),
        ({"$not": {"$gt": 1, "$lt": 2}}, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_operators(wanted: Any, indices: list[int]) -> None:
    assert filter_rows(ONE_OF_EACH, {"v": wanted}) == indices


def test_operators_that_join_conditions() -> None:
    rows = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}, {}]
    assert filter_rows(rows, {}) == [0, 1, 2, 3]
    assert filter_rows(rows, {"a": 1, "b": 2}) == [1]
    assert filter_rows(rows, {"$and": [{"a": 1}, {"b": 2}]}) == [1]
    assert filter_rows(rows, {"$or": [{"a": 2}, {"b": 1}]}) == [0, 2]
    assert filter_rows(rows, {"$nor": [{"a": 2}, {"b": 1}]}) == [1, 3]
    assert filter_rows(rows, {"$not": {"a": 1, "b": 2}}) == [0, 2, 3]
    assert filter_rows(rows, {"a": 1, "$or": [{"b": 2}, {"b": 3}]}) == [1]
    with pytest.raises(ValueError, match="near"):
        holds({"a": {"$near": 1}}, {"a": 1})


def test_order_of_kinds_is_the_same_in_both_directions() -> None:
    rows: list[Any] = [{}, {"v": None}, {"v": [9]}, {"v": True}, {"v": "b"}, {"v": 2}, {"v": {}}]
    rows += [{"v": False}, {"v": "a"}, {"v": 1.5}, {"v": 2.0}]
    assert sort_rows(rows, [("v", False)]) == [9, 5, 10, 8, 4, 7, 3, 2, 6, 1, 0]
    assert sort_rows(rows, [("v", True)]) == [5, 10, 9, 4, 8, 3, 7, 2, 6, 1, 0]


def test_order_by_code_point_and_by_several_fields() -> None:
    assert sort_rows([{"v": "\U0001f600"}, {"v": "\uffff"}, {"v": "Z"}, {"v": "a"}], [("v", False)]) == [2, 3, 1, 0]
    rows = [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}]
    assert sort_rows(rows, [("a", False), ("b", True)]) == [2, 3, 0, 1]


def test_distinct_counts_elements_and_leaves_out_null() -> None:
    rows = [{"v": "b"}, {"v": ["a", "a", None, ["a"]]}, {"v": 2}, {"v": None}, {}, {"v": 2.0}, {"v": []}, {"v": True}]
    assert distinct(rows, "v") == [(2, 2), ("b", 1), ("a", 1), (["a"], 1), (True, 1)]


def numbered(*numbers: Any) -> list[Any]:
    return [{"f": number} for number in numbers]


@pytest.mark.parametrize(
    ("spec", "rows", "value"),
    [
        ("count", numbered(1, None, "x"), 3),
        ("sum:f", numbered(2**70, 1, True, "5", None), 2**70 + 1),
        ("sum:f", numbered(0.1, 0.2, 1), 1.3),
        ("sum:f", numbered("x"), 0),
        ("mean:f", numbered(1, 2, "x"), 1.5),
        ("median:f", numbered(3, 1, 2), 2),
        ("median:f", numbered(4, 1, 2, 3), 2.5),
        ("stddev:f", numbered(2, 4, 4, 4, 5, 5, 7, 9), 2.138089935299395),
        ("stddev:f", numbered(2), None),
        ("p90:f", numbered(*range(1, 11)), 9.1),
        ("p50:f", numbered(1, 2), 1.5),
        ("p99:f", numbered(), None),
        ("min:f", numbered(2, -1, "0"), -1),
        ("max:f", numbered("2024-01-02", None, "2024-02-01"), "2024-02-01"),
        ("min:f", numbered(None, True), None),
        ("count_distinct:f", numbered(1, 1.0, "1", True, None), 3),
        ("values:f", numbered("b", None, "a", "b", ["b"]), ["b", "a", ["b"]]),
        ("values:f", numbered(*range(101)), {"values": list(range(100)), "total": 101, "truncated": True}),
        ("first:f", [{}, *numbered(1)], None),
        ("last:f", [{}, *numbered(1)], 1),
    ],
)
def test_metric(spec: str, rows: list[Any], value: Any) -> None:
    assert metric(spec, rows) == (pytest.approx(value) if isinstance(value, float) else value)


@pytest.mark.parametrize(
    ("rows", "step", "after"),
    [
        (
            [{"author": {"name": "Ada"}, "a.b": 1, "c": 2}, {"c": 3}, 7],
            {"select": ["author.name", "a\\.b"]},
            [{"author.name": "Ada", "a.b": 1}, {}, 7],
        ),
        (
            [{"n": {"x": 1, "y": 2}}, {"n.x": 1, "n": {"x": 2}}],
            {"exclude": ["n.x"]},
            [{"n": {"y": 2}}, {"n": {"x": 2}}],
        ),
        ([{"l": [{"x": 1, "y": 2}]}, 7], {"exclude": ["l.x", "l.0"]}, [{"l": [{"y": 2}]}, 7]),
        ([{"l": [{"x": 1}, {"x": 2}]}], {"exclude": ["l.1.x"]}, [{"l": [{"x": 1}, {}]}]),
        (numbered(1, 2, 3), {"limit": 2}, numbered(1, 2)),
        (numbered(1, 2, 3), {"skip": 2}, numbered(3)),
        (numbered(1, 2, 3), {"slice": [1, 2]}, numbered(2)),
        (numbered(2, 2.0, "2", None) + [{}, "bare"], {"unique": "f"}, numbered(2, "2", None)),
        (
            [{"f": [1, [2]], "g": 0}, {"f": []}, {"f": 3}, {}, 7],
            {"flatten": "f"},
            [{"f": 1, "g": 0}, {"f": [2], "g": 0}, {"f": None}, {"f": 3}, {}, 7],
        ),
        ([{"n": {"x": [1, 2], "y": 0}}], {"flatten": "n.x"}, [{"n": {"x": 1, "y": 0}}, {"n": {"x": 2, "y": 0}}]),
        ([{"n.x": [1], "n": {"x": [2]}}], {"flatten": "n.x"}, [{"n.x": 1, "n": {"x": [2]}}]),
        ([{"a.b": [1]}], {"flatten": "a\\.b"}, [{"a.b": 1}]),
        ([{"l": [{"n": "p"}]}], {"flatten": "l.n"}, [{"l": [{"n": "p"}], "l.n": "p"}]),
        (numbered(3, 1, "x"), {"sort": {"field": "f", "order": "desc"}}, numbered(3, 1, "x")),
        (numbered(3, 1, "x"), {"sort": ["f"]}, numbered(1, 3, "x")),
    ],
)
def test_step(rows: list[Any], step: dict[str, Any], after: list[Any]) -> None:
    before = copy.deepcopy(rows)
    assert run_pipeline(rows, [step]) == after
    assert rows == before


def test_group_by() -> None:
    rows = [{"a": "x", "n": {"y": 1}}, {"a": None}, {"a": "x", "n": {"y": 2}}, {"n": {"y": 1}}, {"a": ["x"]}]
    assert run_pipeline(rows, [{"group_by": {"field": "a"}}]) == [
        {"a": "x", "count": 2},
        {"a": None, "count": 2},
        {"a": ["x"], "count": 1},
    ]
    by_two = {"field": ["n.y", "a"], "metrics": {"rows": "count", "top": "max:n.y"}}
    assert run_pipeline(rows, [{"group_by": by_two}]) == [
        {"n.y": 1, "a": "x", "rows": 1, "top": 1},
        {"n.y": None, "a": None, "rows": 1, "top": None},
        {"n.y": 2, "a": "x", "rows": 1, "top": 2},
        {"n.y": 1, "a": None, "rows": 1, "top": 1},
        {"n.y": None, "a": ["x"], "rows": 1, "top": None},
    ]


def test_count_ends_a_pipeline() -> None:
    assert run_pipeline(numbered(1, 2, 3), [{"filter": {"f": {"$gt": 1}}}, {"count": True}]) == {"count": 2}
    with pytest.raises(ValueError, match="last"):
        run_pipeline([], [{"count": True}, {"limit": 1}])


@given(rows=strategies.rows(huge=False), steps=strategies.pipelines(huge=False))
def test_strategies_give_json_that_the_reference_can_run(rows: list[Any], steps: list[Any]) -> None:
    text = orjson.dumps([rows, steps])
    assert orjson.loads(text) == [rows, steps]
    outcome = run_pipeline(rows, steps)
    assert orjson.dumps([rows, steps]) == text
    assert isinstance(outcome, dict) == (steps[-1] == {"count": True})


@given(rows=strategies.rows(), condition=strategies.conditions(), spec=strategies.metric_specs())
def test_a_negation_takes_the_other_rows(rows: list[Any], condition: dict[str, Any], spec: str) -> None:
    others = filter_rows(rows, {"$not": condition})
    assert sorted(filter_rows(rows, condition) + others) == list(range(len(rows)))
    assert metric(spec, rows) is not MISSING


@given(rows=strategies.rows(), keys=strategies.sort_specs(), path=strategies.paths())
def test_sorting_and_counting_lose_no_row(rows: list[Any], keys: list[tuple[str, bool]], path: str) -> None:
    assert sorted(sort_rows(rows, keys)) == list(range(len(rows)))
    counts = [count for _, count in distinct(rows, path)]
    assert counts == sorted(counts, reverse=True)
