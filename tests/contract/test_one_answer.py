"""Where the two stores of a predecessor disagreed, every store here gives the one answer.

Each case: rows, the arguments of `filter_by`, and the indices that match.
"""

from __future__ import annotations

from typing import Any

import pytest

from toolstash import BaseStore, Ctx
from toolstash.toolsets import filter_set, pipeline, text_search

HUGE = 10**30
NAN, INF = float("nan"), float("inf")
NESTED = [{"a": {"n": 1, "l": [5, 6]}}, {"a": {"n": 2, "l": []}}, {"a.n": 2}, {"dot.key": "x"}, {"dot": {"key": "x"}}]
NULLS = [{"v": 1}, {"v": None}, {}, {"v": "1"}]
YEARS = [{"y": 2021}, {"y": "2021"}, {"y": 2018}, {"y": True}, {"y": None}, {"y": [2021]}]
LISTS = [{"t": ["a", "b"]}, {"t": ["ab"]}, {"t": "ab"}, {"t": ["a", ["b"]]}, {"t": {"a": 1}}, {"t": 12}, {"t": ""}]

CASES: list[tuple[str, list[Any], dict[str, Any], list[int]]] = [
    ("a dotted path", NESTED, {"field": "a.n", "value": 2}, [1, 2]),
    ("a key with a dot, spelt as it is", NESTED, {"field": "dot.key", "value": "x"}, [3, 4]),
    ("a key with a dot, escaped", NESTED, {"field": r"dot\.key", "value": "x"}, [3]),
    ("a position in a list", NESTED, {"field": "a.l.0", "value": 5}, [0]),
    ("brackets are no path", NESTED, {"field": "a.l[0]", "value": 5}, []),
    ("equal to null", NULLS, {"field": "v", "value": None}, [1, 2]),
    ("not equal to null", NULLS, {"field": "v", "value": None, "operator": "ne"}, [0, 3]),
    ("not equal, field missing", NULLS, {"field": "v", "value": 1, "operator": "ne"}, [1, 2, 3]),
    ("exists", NULLS, {"field": "v", "value": True, "operator": "exists"}, [0, 1, 3]),
    ("text is not above a number", YEARS, {"field": "y", "value": 2019, "operator": "gte"}, [0]),
    ("a number is not above a text", YEARS, {"field": "y", "value": "2019", "operator": "gte"}, [1]),
    ("equal to a list", LISTS, {"field": "t", "value": ["a", "b"]}, [0]),
    ("equal to an object", LISTS, {"field": "t", "value": {"a": 1}}, [4]),
    ("contains an element", LISTS, {"field": "t", "value": "a", "operator": "contains"}, [0, 2, 3]),
    ("not the text of the JSON", LISTS, {"field": "t", "value": 'a","b', "operator": "contains"}, []),
    ("no number in a number", LISTS, {"field": "t", "value": 1, "operator": "contains"}, []),
    ("the empty text is in every text", LISTS, {"field": "t", "value": "", "operator": "contains"}, [2, 6]),
    ("the field with no name", [{"": 1}, {"a": 1}], {"field": "", "value": 1}, [0]),
    ("an integer above 64 bits", [{"i": HUGE}, {"i": HUGE + 1}], {"field": "i", "value": HUGE}, [0]),
    ("true is not 1", [{"b": True}, {"b": 1}, {"b": 1.0}], {"field": "b", "value": 1}, [1, 2]),
    (
        "a not-a-number among them",
        [{"x": float("nan")}, {"x": 1.5}, {"x": float("inf")}],
        {"field": "x", "value": 1.5},
        [1],
    ),
]


@pytest.mark.parametrize(
    ("rows", "arguments", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_filter_by(store: BaseStore, rows: list[Any], arguments: dict[str, Any], expected: list[int]) -> None:
    ctx = Ctx(store)
    filter_set(ctx, "t")
    ref = await ctx.store_workspace(rows, workspace_type="t")
    answer = await ctx.adispatch_tool_call("t_filter_by", {"workspace_id": ref.workspace_id, **arguments})
    assert [hit["index"] for hit in answer["results"]] == expected
    assert answer["total_matches"] == len(expected)


MIXED = [
    {"v": 2},
    {"v": "b"},
    {"v": None},
    {"v": True},
    {},
    {"v": 1.5},
    {"v": [1]},
    {"v": "a"},
    {"v": False},
    {"v": {}},
]


@pytest.mark.parametrize(
    ("descending", "expected"), [(False, [5, 0, 7, 1, 8, 3, 6, 9, 2, 4]), (True, [0, 5, 1, 7, 3, 8, 6, 9, 2, 4])]
)
async def test_sort_by_mixed_types(store: BaseStore, descending: bool, expected: list[int]) -> None:
    ctx = Ctx(store)
    filter_set(ctx, "t")
    pipeline(ctx, "t")
    ref = await ctx.store_workspace(MIXED, workspace_type="t")
    arguments = {"workspace_id": ref.workspace_id, "field": "v", "descending": descending}
    answer = await ctx.adispatch_tool_call("t_sort_by", arguments)
    assert [item["index"] for item in answer["items"]] == expected
    step = {"sort": {"field": "v", "order": "desc" if descending else "asc"}}
    piped = await ctx.adispatch_tool_call("t_pipe", {"workspace_id": ref.workspace_id, "steps": [step]})
    assert piped["items"] == [MIXED[index] for index in expected]


async def test_one_not_a_number_spoils_nothing(store: BaseStore) -> None:
    ctx = Ctx(store)
    filter_set(ctx, "t")
    pipeline(ctx, "t")
    rows = [{"x": float("nan")}, {"x": 2.0}, {"x": float("-inf")}, {"x": 1.0}]
    ref = await ctx.store_workspace(rows, workspace_type="t")
    at = {"workspace_id": ref.workspace_id}
    ordered = await ctx.adispatch_tool_call("t_sort_by", at | {"field": "x"})
    assert [item["item"]["x"] for item in ordered["items"]] == [1.0, 2.0, None, None]
    above = await ctx.adispatch_tool_call("t_filter_by", at | {"field": "x", "value": 0, "operator": "gt"})
    assert [hit["index"] for hit in above["results"]] == [1, 3]
    metrics = {"mean": "mean:x", "n": "count"}
    assert await ctx.adispatch_tool_call("t_aggregate", at | {"metrics": metrics}) == {
        "result": {"mean": 1.5, "n": 4},
        "skipped": {"mean": 2},
    }


async def test_stems_accents_and_words_are_found_the_same_way(store: BaseStore) -> None:
    ctx = Ctx(store)
    text_search(ctx, "t")
    texts = ["École", "running cats", "the car", "he cares", "C++ and C", None]
    ref = await ctx.store_workspace([{"text": text} for text in texts], workspace_type="t")
    expected = {"ecole": [0], "run": [1], "cats running": [1], "car": [2], "C++": [4], "none": [], "text": []}
    for query, indices in expected.items():
        answer = await ctx.adispatch_tool_call("t_search", {"workspace_id": ref.workspace_id, "query": query})
        assert [match["index"] for match in answer["matches"]] == indices, query
