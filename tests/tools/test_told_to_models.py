"""What a notice and a refusal tell a model is true: the tools work, the hints lead to the caller's own data."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.contracts import Outcome
from toolstash.integrations.content import content_of
from toolstash.toolsets import paginator


@pytest.fixture
def ctx() -> Ctx:
    return Ctx("memory:")


async def test_a_notice_names_only_tools_that_take_a_workspace(ctx: Ctx) -> None:
    desk = ctx.toolset("tickets")

    @desk.tool
    def today() -> str:
        return "Monday"

    @desk.tool
    async def first(workspace_id: str) -> Any:
        return (await ctx.store.get_items(workspace_id))[0]

    ref = await ctx.store_workspace([1], workspace_type="tickets", workspace_id="t")
    assert list(ref.available_tools) == ["tickets_first(workspace_id='t')"]
    assert await ctx.adispatch_tool_call("tickets_today") == "Monday"


async def test_a_hint_leads_to_ones_own_workspace_of_that_name(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="p", toolsets=[paginator(ctx)], key="p_{n}")
    async def load(n: int) -> list[int]:
        return list(range(n))

    await load(2)
    with ctx.session("s"):
        own = (await load(3))["workspace_id"]
        told = await ctx.adispatch_tool_call("p_count", {"workspace_id": "p_3"})
        assert told["suggested_action"] == f"Did you mean '{own}'?"
        assert told["available_workspaces"][0] == own


async def test_a_dispatch_gives_the_notice_of_a_producer_that_gives_python_code_a_reference(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="plain", notify=False)
    def load() -> list[int]:
        return [1]

    notice = await ctx.adispatch_tool_call("load")
    assert notice["status"] == "workspace_ready"
    assert "metadata" not in notice
    assert "producer_fn" not in notice
    ref = await load()
    assert ref.to_dict().keys() == notice.keys()


async def test_a_shape_that_a_tool_set_gets_later_counts(ctx: Ctx) -> None:
    late = ctx.toolset("t")

    @late.tool
    def read(workspace_id: str) -> int:
        return 1

    late.data_shape = "list"
    ref = await ctx.store_workspace({"a": 1}, workspace_type="t", workspace_id="d")
    assert list(ref.available_tools) == []
    told = await ctx.adispatch_tool_call("t_read", {"workspace_id": "d"})
    assert "t_read" not in told["suggested_action"]


async def test_tool_sets_are_checked_before_anything_is_stored(ctx: Ctx) -> None:
    ref = await ctx.store_workspace([1], workspace_type="q", toolsets=[paginator(ctx)])
    assert "q_paginate(workspace_id=" in ref.available_tools[0]
    with pytest.raises(TypeError, match="toolsets takes tool sets"):
        await ctx.store_workspace([1], workspace_type="r", toolsets=["paginator"])  # type: ignore[list-item]
    assert await ctx.list_workspaces("r") == []


def test_a_decorator_without_parentheses_says_so(ctx: Ctx) -> None:
    with pytest.raises(TypeError, match="parentheses"):
        ctx.producer(lambda: [1])


async def test_a_result_that_python_takes_to_be_equal_to_its_json_is_given_as_json(ctx: Ctx) -> None:
    @ctx.toolset("x").tool(name="price")
    def price() -> Any:
        return {"price": Decimal("1.25"), "rest": [Decimal("2")]}

    value = await ctx.adispatch_tool_call("price")
    assert json.loads(json.dumps(value)) == {"price": 1.25, "rest": [2]}


@pytest.mark.parametrize("most", [20, 40, 60, 100, 150, 200, 1_000])
async def test_an_error_that_is_cut_is_still_an_error(ctx: Ctx, most: int) -> None:
    paginator(ctx, "papers")
    value = await ctx.adispatch_tool_call("papers_count", {"workspace_id": "missing" * 10})
    content = content_of(Outcome(value, is_error=True), most)
    assert len(content) <= most
    told = json.loads(content)
    assert told["error"]
    assert value["error"].startswith(told["error"].rstrip("…"))
