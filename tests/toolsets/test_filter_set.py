"""`filter_by` and `sort_by` as a model calls them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.toolsets import filter_set, pipeline

ROWS = [{"i": number, "ok": number % 2 == 0, "team": ["red", "blue"][number % 2]} for number in range(30)]


async def call(ctx: Ctx, tool: str, workspace_id: str, **arguments: Any) -> Any:
    return await ctx.adispatch_tool_call(f"t_{tool}", {"workspace_id": workspace_id, **arguments})


async def stored(ctx: Ctx, rows: list[Any] | None = None) -> str:
    filter_set(ctx, "t")
    return (await ctx.store_workspace(ROWS if rows is None else rows, workspace_type="t")).workspace_id


@pytest.mark.parametrize(
    ("arguments", "indices"),
    [
        ({"field": "i", "value": [3, "4"], "operator": "in"}, [3]),
        ({"field": "i", "value": "[3, 5]", "operator": "in"}, [3, 5]),
        ({"field": "i", "value": 3, "operator": "in"}, [3]),
        ({"field": "ok", "value": "true", "operator": "exists"}, list(range(30))),
        ({"field": "ok", "value": False, "operator": "exists"}, []),
        ({"field": "team", "value": "bl", "operator": "startswith"}, list(range(1, 30, 2))),
    ],
)
async def test_forms_that_models_send(ctx: Ctx, arguments: dict[str, Any], indices: list[int]) -> None:
    answer = await call(ctx, "filter_by", await stored(ctx), **arguments)
    assert [hit["index"] for hit in answer["results"]] == indices


async def test_what_it_says_to_go_on_leads_to_the_next_rows(ctx: Ctx) -> None:
    pipeline(ctx, "t")
    ws = await stored(ctx)
    for answer, expected in (
        (await call(ctx, "sort_by", ws, field="i", descending=True, limit=2), [27, 26, 25]),
        (await call(ctx, "filter_by", ws, field="team", value="red", limit=3), [6, 8, 10]),
    ):
        assert answer["has_more"] is True
        steps = json.loads(answer["suggested_action"].split("steps=")[1].removesuffix(" shows the next."))
        following = await call(ctx, "pipe", ws, steps=steps)
        assert [item["i"] for item in following["items"][:3]] == expected


async def test_what_was_asked_is_repeated_in_short(ctx: Ctx) -> None:
    ws = await stored(ctx)
    many = [f"a long identifier {number}" for number in range(4_000)]
    answer = await call(ctx, "filter_by", ws, field="team", value=[*many, "red"], operator="in", limit=3)
    assert answer["total_matches"] == 15
    assert len(str(answer)) < 2_000
    long_field = await call(ctx, "filter_by", ws, field="x" * 50_000, value=1)
    assert len(str(long_field)) < 2_000


async def test_mistakes(ctx: Ctx) -> None:
    ws = await stored(ctx)
    for operator, value, words in (
        ("gt", None, "'gt' compares with a number or a string"),
        ("startswith", 5, "'startswith' takes a string"),
        ("exists", 5, "'exists' takes true or false"),
        ("like", 5, "must be one of"),
    ):
        answer = await call(ctx, "filter_by", ws, field="i", value=value, operator=operator)
        assert words in answer["error"]
        assert answer["suggested_action"]
