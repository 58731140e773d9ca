"""`pipe` and `aggregate` as a model calls them: forms, mistakes, saving, bounds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.toolsets import paginator, pipeline

ROWS = [
    {"id": number, "team": ["red", "blue"][number % 2], "score": number * 1.5, "tags": ["a", "b"][: number % 3]}
    for number in range(120)
]


async def stored(ctx: Ctx, rows: list[Any] | None = None, **options: Any) -> str:
    pipeline(ctx, "t", **options)
    return (await ctx.store_workspace(ROWS if rows is None else rows, workspace_type="t")).workspace_id


async def pipe(ctx: Ctx, workspace_id: str, steps: Any, **arguments: Any) -> Any:
    return await ctx.adispatch_tool_call("t_pipe", {"workspace_id": workspace_id, "steps": steps, **arguments})


async def test_the_pipelines_of_the_seed(ctx: Ctx) -> None:
    ws = await stored(ctx)
    answer = await pipe(
        ctx,
        ws,
        [
            {"flatten": "tags"},
            {"group_by": {"field": "tags", "metrics": {"n": "count", "avg": "mean:score"}}},
            {"sort": {"field": "n", "order": "desc"}},
            {"limit": 10},
        ],
    )
    assert [(item["tags"], item["n"]) for item in answer["items"]] == [("a", 80), (None, 40), ("b", 40)]
    assert (answer["count"], answer["total"], answer["has_more"]) == (3, 3, False)
    counted = await pipe(ctx, ws, [{"filter": {"team": "red"}}, {"count": True}])
    assert counted == {"count": 60}


@pytest.mark.parametrize(
    "steps",
    [
        '[{"limit": 2}]',
        '"[{\\"limit\\": 2}]"',
        {"limit": 2},
        ['{"limit": 2}'],
        [{"limit": "2"}],
        [{"limit": 2.0}],
        [{"slice": [0, "2"]}],
    ],
)
async def test_forms_that_models_send(ctx: Ctx, steps: Any) -> None:
    ws = await stored(ctx)
    assert (await pipe(ctx, ws, steps))["items"] == ROWS[:2]


MISTAKES: list[tuple[Any, int, str]] = [
    ([{"limit": 1}, {"sorting": "a"}], 1, "unknown operation 'sorting'"),
    ([{"limit": 1, "skip": 2}], 0, "no object with one key"),
    ([{}], 0, "no object with one key"),
    ([{"filter": {"a": {"$foo": 1}}}], 0, "Unknown operator '$foo'"),
    ([{"filter": {"$xor": []}}], 0, "Unknown operator '$xor'"),
    ([{"filter": {"a": {"$in": "b"}}}], 0, "$in takes a list"),
    ([{"filter": {"a": {"$exists": 1}}}], 0, "$exists takes true or false"),
    ([{"filter": {"a": {"$gt": None}}}], 0, "$gt compares with a number or a string, not with null"),
    ([{"filter": {"a": {"$startswith": 5}}}], 0, "$startswith takes a string"),
    ([{"filter": {"a": {"$gt": 1, "b": 2}}}], 0, "mixed"),
    ([{"filter": {"$or": []}}], 0, "$or takes a list of conditions"),
    ([{"filter": "year > 2020"}], 0, "A condition is an object"),
    ([{"filter": {"a": {"$regex": "a"}}}], 0, "$regex is not allowed here"),
    ([{"sort": {"field": "a", "order": "down"}}], 0, "order is 'asc' or 'desc'"),
    ([{"sort": {"by": "a"}}], 0, "sort has no 'by'"),
    ([{"sort": []}], 0, "sort names no field"),
    ([{"limit": -2}], 0, "whole number from 0 on"),
    ([{"skip": "12px"}], 0, "whole number from 0 on"),
    ([{"slice": [1]}], 0, "slice takes [start, end]"),
    ([{"sample": {"n": True}}], 0, "whole number"),
    ([{"select": []}], 0, "list of 1 to 200 fields"),
    ([{"unique": ["a", "b"]}], 0, "takes the name of a field"),
    ([{"flatten": None}], 0, "takes the name of a field"),
    ([{"search": {"text": "a"}}], 0, "search has no 'text'"),
    ([{"search": ""}], 0, "query is empty"),
    ([{"group_by": {"field": "a", "metrics": {"x": "avg:b"}}}], 0, "Unknown metric 'avg:b'"),
    ([{"group_by": {"field": "a", "metrics": {"x": "sum"}}}], 0, "names no field"),
    ([{"group_by": {"field": "a", "metrics": {"a": "count"}}}], 0, "name of a field that is grouped by"),
    ([{"group_by": {"field": "a", "metrics": []}}], 0, "metrics is an object"),
    ([{"count": True}, {"limit": 1}], 0, "must be the last step"),
    ([{"count": False}], 0, "count takes true"),
    ([{"filter": {"$or": {"a": 1, "b": 2}}}], 0, "$or takes a list of conditions"),
    ([{"select": ["a.b", "a\\.b"]}], 0, "same name"),
    ([{"group_by": ["a.b", "a\\.b"]}], 0, "same name"),
    ([{"group_by": {"field": "a", "metrics": {"x": "count:b"}}}], 0, "Unknown metric"),
]


@pytest.mark.parametrize(("steps", "place", "words"), MISTAKES)
async def test_every_mistake_names_the_step_and_shows_what_is_right(
    ctx: Ctx, steps: Any, place: int, words: str
) -> None:
    ws = await stored(ctx)
    answer = await pipe(ctx, ws, steps)
    assert words in answer["error"]
    assert answer["step"] == place
    assert answer["error"].startswith(f"Step {place}")
    assert answer.get("example") or answer["suggested_action"] != "Correct the step and call the tool again."


@pytest.mark.parametrize("example", ["example"])
async def test_the_examples_in_errors_are_right(ctx: Ctx, example: str) -> None:
    ws = await stored(ctx)
    tried = 0
    for steps, place, _ in MISTAKES:
        shown = (await pipe(ctx, ws, steps)).get(example)
        if shown is None:
            continue
        name = next(iter(steps[place]), "")
        right = shown if isinstance(shown, list) else [shown if name in shown else {name: shown}]
        answer = await pipe(ctx, ws, right)
        assert "error" not in answer, (shown, answer)
        tried += 1
    assert tried > 20


async def test_saved_rows_are_a_workspace_of_the_same_type(ctx: Ctx) -> None:
    paginator(ctx, "t")
    ws = await stored(ctx)
    saved = await pipe(ctx, ws, [{"filter": {"team": "red"}}], save_as="reds")
    assert (saved["status"], saved["workspace_id"], saved["workspace_type"]) == (
        "pipeline_result_saved",
        "saved_reds",
        "t",
    )
    assert (saved["item_count"], saved["metadata"]) == (60, {"derived_from": ws})
    assert "t_paginate(workspace_id='saved_reds')" in saved["available_tools"]
    page = await ctx.adispatch_tool_call("t_paginate", {"workspace_id": "saved_reds", "page": 5, "size": 10})
    assert page["result"]["items"] == ROWS[100:120:2]
    again = await pipe(ctx, "saved_reds", [{"limit": 1}], save_as="reds")
    meta = await ctx.workspace_meta("saved_reds")
    assert again["item_count"] == 1
    assert meta is not None
    assert meta.lineage == (ws, "saved_reds")
    assert meta.producer_fn == "pipeline"


async def test_what_cannot_be_saved(ctx: Ctx) -> None:
    ws = await stored(ctx)
    count = await pipe(ctx, ws, [{"count": True}], save_as="n")
    assert "stores rows" in count["error"]
    for name in ("", "a/b", "x" * 101, "-a", "a b", "é"):
        assert "Invalid 'save_as'" in (await pipe(ctx, ws, [], save_as=name))["error"]
    await ctx.store_workspace(["precious"], workspace_type="t", workspace_id="saved_mine", producer_fn="someone")
    refused = await pipe(ctx, ws, [], save_as="mine")
    assert "held by" in refused["error"]
    assert await ctx.list_workspaces() == [ws, "saved_mine"]
    assert await ctx.store.get_items("saved_mine") == ["precious"]


async def test_saved_names_of_two_sessions_do_not_meet(ctx: Ctx) -> None:
    ids: list[str] = []
    for session in ("a", "b"):
        with ctx.session(session):
            ws = await stored(ctx, [{"s": session}])
            ids.append((await pipe(ctx, ws, [], save_as="mine"))["workspace_id"])
    assert len(set(ids)) == 2
    assert all(re.fullmatch(r"saved_mine@[0-9a-f]{12}", name) for name in ids)
    with ctx.session("a"):
        assert await ctx.store.get_items(ids[0]) == [{"s": "a"}]
        assert "not found" in (await pipe(ctx, ids[1], []))["error"]


async def test_aggregate(ctx: Ctx) -> None:
    ws = await stored(ctx)

    async def aggregate(**arguments: Any) -> Any:
        return await ctx.adispatch_tool_call("t_aggregate", {"workspace_id": ws, **arguments})

    assert await aggregate() == {"result": {"count": 120}}
    assert await aggregate(metrics='{"n": "count", "top": "max:score"}') == {"result": {"n": 120, "top": 178.5}}
    by_team = await aggregate(group_by="team", metrics={"ids": "count_distinct:id", "p90": "p90:id"})
    assert by_team["groups"] == [
        {"team": "red", "ids": 60, "p90": 106.2},
        {"team": "blue", "ids": 60, "p90": 107.2},
    ]
    assert (by_team["group_count"], by_team["has_more"]) == (2, False)
    many = await aggregate(group_by=["team", "id"])
    assert (len(many["groups"]), many["group_count"], many["has_more"], many["limited_by"]) == (50, 120, True, "size")
    assert many["groups"][0] == {"team": "red", "id": 0, "count": 1}
    mixed = await aggregate(metrics={"s": "sum:team"})
    assert mixed == {"result": {"s": 0}, "skipped": {"s": 120}}
    wrong = await aggregate(metrics={"s": "p80:score"})
    assert "p90:<field>" in wrong["available_metrics"]


async def test_a_wrong_type_is_named_where_it_left_nothing(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"year": "2024"}, {"year": "2023"}])
    answer = await pipe(ctx, ws, [{"filter": {"year": {"$gte": 2000}}}, {"limit": 5}])
    assert answer["items"] == []
    assert answer["suggested_action"] == (
        "The field 'year' holds text, but a number was given: try \"2000\" in place of 2000."
    )


async def test_operators_without_their_sign_are_named(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"year": 2024}])
    answer = await pipe(ctx, ws, [{"filter": {"year": {"gte": 2000}}}])
    assert answer["suggested_action"] == 'Operators begin with $: did you mean {"year": {"$gte": 2000}}?'
    nothing = await pipe(ctx, ws, [{"search": "zebra"}])
    assert nothing["suggested_action"] == "No row is left of 1 after these steps."


async def test_a_misspelt_field_is_named_in_every_step(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"year": 2024, "title": "a"}])
    for step in ({"sort": "yaer"}, {"filter": {"yaer": {"$exists": False}}}, {"select": ["yaer"]}, {"unique": "yaer"}):
        answer = await pipe(ctx, ws, [step])
        assert answer["suggested_action"].startswith("No row has the field 'yaer'. Did you mean 'year'?")
    arguments = {"workspace_id": ws, "group_by": "yaer"}
    grouped = await ctx.adispatch_tool_call("t_aggregate", arguments)
    assert "Did you mean 'year'?" in grouped["suggested_action"]
    after_group = await pipe(ctx, ws, [{"group_by": {"field": "year", "metrics": {"n": "count"}}}, {"sort": "m"}])
    assert after_group["suggested_action"].startswith("No row has the field 'm'.")


async def test_metrics_of_long_values_are_bounded(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"big": chr(97 + number) * 30_000} for number in range(20)])
    for metric in ("first:big", "min:big", "values:big"):
        answer = await ctx.adispatch_tool_call("t_aggregate", {"workspace_id": ws, "metrics": {"v": metric}})
        assert len(str(answer)) < 13_000
        assert answer["cut"][0]["field"] == "v"
    listed = await ctx.adispatch_tool_call("t_aggregate", {"workspace_id": ws, "group_by": '["big", "x"]'})
    assert listed["group_count"] == 20


async def test_integers_spread_far_from_zero(ctx: Ctx) -> None:
    start = 1_700_000_000_000_000_000
    ws = await stored(ctx, [{"at": start + number} for number in (0, 10, 20)])
    answer = await ctx.adispatch_tool_call("t_aggregate", {"workspace_id": ws, "metrics": {"s": "stddev:at"}})
    assert answer == {"result": {"s": 10.0}}


async def test_wide_rows_leave_fewer_in_an_answer(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"n": number, "text": "x" * 1_500} for number in range(40)])
    answer = await pipe(ctx, ws, [])
    assert 5 <= answer["count"] < 10
    assert (answer["total"], answer["has_more"], answer["limited_by"]) == (40, True, "chars")
    assert answer["items"][0]["text"] == "x" * 1_500
    assert len(str(answer)) < 12_500


async def test_regex_where_it_is_allowed(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": "Graph 12"}, {"t": "tree"}, {"t": 12}, {"t": "\ud834 graph"}], allow_regex=True)
    answer = await pipe(ctx, ws, [{"filter": {"t": {"$regex": r"(?i)^graph \d+$"}}}])
    assert answer["items"] == [{"t": "Graph 12"}]
    assert (await pipe(ctx, ws, [{"filter": {"t": {"$regex": "graph"}}}]))["total"] == 1
    for pattern in ("(", "[a", "(?<name>", r"(a)\1", "x" * 1_001, 5):
        refused = await pipe(ctx, ws, [{"filter": {"t": {"$regex": pattern}}}])
        assert refused["error"].startswith("Step 0 (filter): $regex")
    tool = next(tool for tool in ctx.get_tools() if tool["function"]["name"] == "t_pipe")
    assert "$regex" in tool["function"]["description"]


async def test_regex_without_its_library(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "re2", None)
    ws = await stored(ctx, allow_regex=True)
    answer = await pipe(ctx, ws, [{"filter": {"team": {"$regex": "r"}}}])
    assert "google-re2" in answer["error"]
    assert answer["suggested_action"] == "Use $contains or $startswith instead."


async def test_regex_is_not_spoken_of_where_it_is_off(ctx: Ctx) -> None:
    await stored(ctx)
    assert "$regex" not in str(ctx.get_tools())


@pytest.mark.parametrize("options", [{"max_items": 0}])
def test_mistakes_of_the_programmer(ctx: Ctx, options: Any) -> None:
    with pytest.raises(ValueError, match="max_items"):
        pipeline(ctx, "t", **options)
