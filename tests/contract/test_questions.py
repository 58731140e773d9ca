"""Every store answers every question as the plain reference does: through the tools, and from your own code."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.contract.conftest import IndexedStore
from tests.query import reference, search_reference, strategies
from tests.query.test_differential import same
from tests.query.test_search import QUERIES, ROWS
from toolstash import BaseStore, Ctx
from toolstash.toolsets import filter_set, pipeline, text_search

SOME = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@contextlib.asynccontextmanager
async def asked(store: BaseStore, rows: list[Any]) -> AsyncIterator[Any]:
    """The tools of a workspace with these rows, bound to it."""
    ctx = Ctx(store, max_result_chars=None)
    filter_set(ctx, "t")
    text_search(ctx, "t")
    tools = pipeline(ctx, "t", max_items=1_000)
    ref = await ctx.store_workspace(rows, workspace_type="t")
    yield tools.bind(ref.workspace_id)  # type: ignore[union-attr]
    await ctx.drop_workspace(ref.workspace_id)


@SOME
@given(strategies.rows(max_size=6), strategies.conditions())
async def test_conditions(store: BaseStore, rows: list[Any], condition: dict[str, Any]) -> None:
    async with asked(store, rows) as tools:
        answer = await tools.t_pipe([{"filter": condition}, {"count": True}])
    assert answer["count"] == len(reference.filter_rows(rows, condition))


@SOME
@given(strategies.rows(max_size=6), strategies.pipelines())
async def test_pipelines(store: BaseStore, rows: list[Any], steps: list[dict[str, Any]]) -> None:
    expected = reference.run_pipeline(rows, steps)
    async with asked(store, rows) as tools:
        answer = await tools.t_pipe(steps)
        if isinstance(expected, dict):
            assert answer["count"] == expected["count"]
        else:
            assert same(answer["items"], expected[: len(answer["items"])])
            assert answer["total"] == len(expected)
            again = await tools.t_pipe(steps)
            assert again == answer


@SOME
@given(strategies.rows(max_size=6), strategies.paths(), strategies.sort_specs())
async def test_fields_and_order(store: BaseStore, rows: list[Any], path: str, keys: list[tuple[str, bool]]) -> None:
    async with asked(store, rows) as tools:
        values = await tools.t_field_values(path)
        ordered = await tools.t_sort_by(keys[0][0], descending=keys[0][1])
        held = await tools.t_filter_by(path, None)
    expected = reference.distinct(rows, path)
    assert same([[entry["value"], entry["count"]] for entry in values["distinct_values"]], [list(e) for e in expected])
    assert [item["index"] for item in ordered["items"]] == reference.sort_rows(rows, keys[:1])
    assert [hit["index"] for hit in held["results"]] == reference.filter_rows(rows, {path: None})


@SOME
@given(ROWS, QUERIES)
async def test_search(store: BaseStore, rows: list[Any], query: str) -> None:
    async with asked(store, rows) as tools:
        answer = await tools.t_search(query, max_results=100)
    expected, rung = search_reference.search(rows, query)
    assert {match["index"] for match in answer["matches"]} == expected.keys()
    assert answer["total_matches"] == answer["returned"] == len(expected)
    assert not expected or answer["matched_by"] == rung
    scores = [match["score"] for match in answer["matches"]]
    assert scores == sorted(scores, reverse=True)
    for match in answer["matches"]:
        assert same(match["item"], rows[match["index"]])


async def test_questions_from_your_own_code(store: BaseStore) -> None:
    rows = [{"n": 3, "t": "red fox"}, {"n": 1, "t": "red hen"}, {"n": "x", "t": ["hen", "hen"]}, {"t": None}]
    ref = await Ctx(store).store_workspace(rows, workspace_type="a")
    ws = ref.workspace_id

    found = await store.search_items(ws, "hen")
    assert {hit.index for hit in found} == {1, 2}
    assert all(hit.item == rows[hit.index] and (hit.score or 0) > 0 for hit in found)
    assert [hit.index for hit in await store.filter_items(ws, "n", 1, "gte")] == [0, 1]
    assert [hit.index for hit in await store.filter_items(ws, "t", "hen", "contains")] == [1, 2]
    assert [hit.index for hit in await store.sort_items(ws, "n", limit=3)] == [1, 0, 2]
    assert await store.distinct_field_values(ws, "t") == [("red fox", 1), ("red hen", 1), ("hen", 1)]


async def test_an_index_answers_where_there_is_one(store: BaseStore) -> None:
    rows = [{"n": number % 7, "t": f"red fox {number}"} for number in range(20)]
    async with asked(store, rows) as tools:
        found = await tools.t_search("fox")
        await tools.t_filter_by("n", 3)
        await tools.t_sort_by("n")
        await tools.t_field_values("n")
        await tools.t_aggregate("n", {"s": "sum:n"})
        await tools.t_pipe([{"filter": {"n": {"$gt": 2}}}, {"count": True}])
    is_indexed = isinstance(store, IndexedStore)
    assert found["engine"] == ("redisearch" if is_indexed else "python")
    if isinstance(store, IndexedStore):
        kinds = ("Search", "Filter", "Sort", "FieldValues", "Aggregate", "Pipe")
        assert store.answered == dict.fromkeys(kinds, 1)


async def test_every_version_is_asked_anew(store: BaseStore) -> None:
    ctx = Ctx(store)
    tools = text_search(ctx, "t")
    ref = await ctx.store_workspace([{"t": "alpha"}], workspace_type="t", workspace_id="w")
    bound = tools.bind(ref.workspace_id)  # type: ignore[union-attr]

    async def total(query: str) -> int:
        return (await bound.t_search(query))["total_matches"]

    assert await total("beta") == 0
    await store.append_items("w", [{"t": "beta"}])
    assert await total("beta") == 1
    await store.patch_item("w", 0, {"t": "beta"})
    assert await total("beta") == 2
    await store.delete_items("w", [0])
    assert (await total("alpha"), await total("beta")) == (0, 1)
    await ctx.store_workspace([{"t": "gamma"}], workspace_type="t", workspace_id="w")
    assert (await total("beta"), await total("gamma")) == (0, 1)


async def test_an_answer_can_be_changed_without_changing_the_next(store: BaseStore) -> None:
    rows = [{"a": {"b": [1]}, "tags": [{"x": 1}]}]
    steps: list[Any] = [
        [],
        [{"select": ["a"]}],
        [{"flatten": "tags"}],
        [{"group_by": {"field": "a", "metrics": {"v": "values:tags", "f": "first:a"}}}],
    ]
    async with asked(store, rows) as tools:
        for each in steps:
            before = await tools.t_pipe(each)
            text = repr(before)
            for item in before["items"]:
                spoil(item)
            assert repr(await tools.t_pipe(each)) == text
        for ask in (tools.t_field_values, tools.t_sort_by):
            before = await ask("a")
            text = repr(before)
            spoil(before)
            assert repr(await ask("a")) == text


def spoil(value: Any) -> None:
    if isinstance(value, dict):
        for inner in list(value.values()):
            spoil(inner)
        value["spoilt"] = True
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoilt")


@pytest.mark.parametrize("shape", [{"a": 1}, "text", 5])
async def test_questions_want_rows(store: BaseStore, shape: Any) -> None:
    ctx = Ctx(store)
    pipeline(ctx, "t")
    ref = await ctx.store_workspace(shape, workspace_type="t")
    answer = await ctx.adispatch_tool_call("t_pipe", {"workspace_id": ref.workspace_id, "steps": []})
    assert answer["expected_shape"] == "list"
    assert answer["actual_shape"] == ("dict" if isinstance(shape, dict) else "scalar")


async def test_another_type_is_refused_before_its_rows_are_read(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = Ctx(store)
    pipeline(ctx, "t")
    ref = await ctx.store_workspace([{"a": 1}] * 500, workspace_type="other")

    def unread(*_: Any, **__: Any) -> None:
        raise AssertionError("the question was worked on")

    monkeypatch.setattr("toolstash.query.questions.Pipe.answer", unread)
    monkeypatch.setattr("toolstash.store.redis_reader.RedisReader.documents", unread)
    arguments = {"workspace_id": ref.workspace_id, "steps": [{"sort": "a"}]}
    refused = await ctx.adispatch_tool_call("t_pipe", arguments)
    assert (refused["expected_type"], refused["actual_type"]) == ("t", "other")
