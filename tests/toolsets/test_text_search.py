"""`search` and `field_values` as a model calls them."""

from __future__ import annotations

from typing import Any

import pytest

from toolstash import Ctx
from toolstash.toolsets import paginator, pipeline, text_search

ROWS = [
    {"title": "Neural networks", "body": "graphs", "author": {"name": "Ada"}, "tags": ["ml", "ai"]},
    {"title": "Graphs", "body": "neural nets", "author": {"name": "Ada"}, "tags": ["ml"]},
    {"title": "Trees", "body": None, "author": {"name": "Bo"}, "tags": []},
    "a plain text about networks",
]


async def stored(ctx: Ctx, **options: Any) -> str:
    text_search(ctx, "t", **options)
    return (await ctx.store_workspace(ROWS, workspace_type="t")).workspace_id


async def search(ctx: Ctx, workspace_id: str, query: Any, **arguments: Any) -> Any:
    return await ctx.adispatch_tool_call("t_search", {"workspace_id": workspace_id, "query": query, **arguments})


async def test_hits_can_be_read_on(ctx: Ctx) -> None:
    paginator(ctx, "t")
    ws = await stored(ctx)
    answer = await search(ctx, ws, "networks")
    assert list(answer) == ["query", "total_matches", "returned", "has_more", "engine", "matched_by", "matches"]
    assert answer["engine"] == "python"
    assert [match["index"] for match in answer["matches"]] == [3, 0]
    for match in answer["matches"]:
        assert list(match) == ["index", "score", "snippet", "item"]
        item = await ctx.adispatch_tool_call("t_get_item", {"workspace_id": ws, "index": match["index"]})
        assert item == match["item"]


@pytest.mark.parametrize("fields", [["title"], "title", '["title"]', ["title", "author.name"]])
async def test_fields_of_the_call(ctx: Ctx, fields: Any) -> None:
    ws = await stored(ctx)
    answer = await search(ctx, ws, "neural", fields=fields)
    assert [match["index"] for match in answer["matches"]] == [0]
    assert answer["matches"][0]["snippet"] == "Neural networks"


async def test_fields_of_the_program(ctx: Ctx) -> None:
    ws = await stored(ctx, fields=["title", "author.name"])
    assert (await search(ctx, ws, "graphs"))["total_matches"] == 1
    assert (await search(ctx, ws, "ada"))["total_matches"] == 2
    assert (await search(ctx, ws, "ada", fields=["author.name"]))["total_matches"] == 2
    refused = await search(ctx, ws, "graphs", fields=["title", "body"])
    assert refused["error"] == "The field 'body' is not searched here."
    assert refused["available_fields"] == ["title", "author.name"]
    description = ctx.get_tools()[0]["function"]["description"]
    assert "title, author.name" in description


async def test_the_search_step_of_a_pipe_is_the_same_search(ctx: Ctx) -> None:
    pipeline(ctx, "t")
    ws = await stored(ctx, fields=["title", "author.name"])

    async def piped(step: Any) -> Any:
        return await ctx.adispatch_tool_call("t_pipe", {"workspace_id": ws, "steps": [{"search": step}]})

    for query in ("graphs", "ada", "neural"):
        found = await search(ctx, ws, query)
        assert (await piped(query))["items"] == [match["item"] for match in found["matches"]]
    refused = await piped({"query": "graphs", "fields": ["body"]})
    assert refused["error"] == "Step 0 (search): The field 'body' is not searched here."
    assert refused["available_fields"] == ["title", "author.name"]


async def test_a_field_that_is_not_there(ctx: Ctx) -> None:
    ws = await stored(ctx)
    answer = await search(ctx, ws, "neural", fields=["titel"])
    assert answer["total_matches"] == 0
    assert "No row has the field 'titel'. Did you mean 'title'?" in answer["suggested_action"]


@pytest.mark.parametrize(("query", "total"), [(5, 0), ("ad*", 2), ('"neural networks"', 1), ("networks, trees!", 3)])
async def test_forms_of_queries(ctx: Ctx, query: Any, total: int) -> None:
    ws = await stored(ctx)
    assert (await search(ctx, ws, query))["total_matches"] == total


async def test_field_values(ctx: Ctx) -> None:
    ws = await stored(ctx)

    async def values(field: str, **arguments: Any) -> Any:
        return await ctx.adispatch_tool_call("t_field_values", {"workspace_id": ws, "field": field, **arguments})

    assert await values("author.name") == {
        "field": "author.name",
        "distinct_values": [{"value": "Ada", "count": 2}, {"value": "Bo", "count": 1}],
        "count": 2,
        "has_more": False,
    }
    assert (await values("tags"))["distinct_values"] == [{"value": "ml", "count": 2}, {"value": "ai", "count": 1}]
    assert (await values("author"))["distinct_values"][0] == {"value": {"name": "Ada"}, "count": 2}
    cut = await values("title", max_values=1)
    assert (len(cut["distinct_values"]), cut["count"], cut["has_more"]) == (1, 3, True)
    assert "Did you mean 'tags'?" in (await values("tag"))["suggested_action"]


async def test_long_values_are_cut(ctx: Ctx) -> None:
    text_search(ctx, "t")
    ref = await ctx.store_workspace([{"v": "x" * 100_000}, {"v": "y"}], workspace_type="t")
    answer = await ctx.adispatch_tool_call("t_field_values", {"workspace_id": ref.workspace_id, "field": "v"})
    assert len(str(answer)) < 12_500
    assert answer["count"] == 2


@pytest.mark.parametrize("options", [{"max_results_cap": 0}, {"fields": []}, {"fields": "title"}])
def test_mistakes_of_the_programmer(ctx: Ctx, options: Any) -> None:
    with pytest.raises(ValueError, match="max_results_cap|fields"):
        text_search(ctx, "t", **options)
