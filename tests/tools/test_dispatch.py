"""One entry for every call: the model's mistakes come back as values (F31, F39, F44, F45, F47)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstash import Ctx, ToolSet
from toolstash.toolsets import kv_reader, paginator, text_content


@pytest.fixture
async def papers(ctx: Ctx) -> str:
    @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx)])
    def load_papers(count: int = 25) -> list[dict[str, Any]]:
        """Load papers."""
        return [{"id": number, "error": "a column"} for number in range(count)]

    return (await load_papers())["workspace_id"]


async def test_arguments_may_be_a_dict_or_json_text(ctx: Ctx, papers: str) -> None:
    arguments = {"workspace_id": papers, "page": "2", "size": 10.0}
    expected = await ctx.adispatch_tool_call("papers_paginate", {"workspace_id": papers, "page": 2, "size": 10})

    assert [row["id"] for row in expected["result"]["items"]] == [20, 21, 22, 23, 24]
    for form in (arguments, json.dumps(arguments), json.dumps(json.dumps(arguments))):
        assert await ctx.adispatch_tool_call("papers_paginate", form) == expected


@pytest.mark.parametrize("raw", ["null", "[]", "5", '{"a":', "9" * 5_000, "[" * 100_000, 5, [1], b"{}", float("nan")])
async def test_arguments_that_are_no_object_are_refused(ctx: Ctx, papers: str, raw: Any) -> None:
    refusal = await ctx.adispatch_tool_call("papers_count", raw)

    assert refusal["error"]
    assert refusal["suggested_action"]


@pytest.mark.parametrize("name", ["Papers_Paginate", "papers-paginate", "PAPERS_PAGINATE"])
async def test_case_and_separators_of_a_name_are_repaired(ctx: Ctx, papers: str, name: str) -> None:
    assert (await ctx.adispatch_tool_call(name, {"workspace_id": papers}))["result"]["total"] == 25


@pytest.mark.parametrize("name", ["paginate", "mcp_mcp_x", "papers_delete", "papers_counts", "", None, 7, "x" * 10_000])
async def test_any_other_name_runs_nothing_and_lists_what_is_near(ctx: Ctx, papers: str, name: Any) -> None:
    refusal = await ctx.adispatch_tool_call(name, {"workspace_id": papers})

    assert "not found" in refusal["error"]
    assert "papers_count" in refusal["available_tools"]
    assert len(json.dumps(refusal)) < 2_000


async def test_a_missing_workspace_differs_from_a_foreign_type(ctx: Ctx, papers: str) -> None:
    @ctx.producer(workspace_type="config", toolsets=[kv_reader(ctx)])
    def load_config() -> dict[str, int]:
        return {"a": 1}

    config = (await load_config())["workspace_id"]
    typo = await ctx.adispatch_tool_call("papers_count", {"workspace_id": papers[:-1] + "z"})
    assert typo["available_workspaces"] == [papers]
    assert papers in typo["suggested_action"]
    wrong_case = await ctx.adispatch_tool_call("papers_count", {"workspace_id": papers.upper()})
    assert papers in wrong_case["suggested_action"]
    wrong = await ctx.adispatch_tool_call("papers_count", {"workspace_id": config})
    assert (wrong["expected_type"], wrong["actual_type"]) == ("papers", "config")
    assert wrong["workspaces_of_correct_type"] == [papers]


async def test_foreign_sessions_are_not_listed_in_errors(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx)])
    def load() -> list[int]:
        return [1]

    theirs = (await ctx.adispatch_tool_call("load", session_id="them"))["workspace_id"]
    mine = (await ctx.adispatch_tool_call("load", session_id="me"))["workspace_id"]
    refusal = await ctx.adispatch_tool_call("papers_count", {"workspace_id": theirs}, session_id="me")
    assert refusal["available_workspaces"] == [mine]
    unknown = await ctx.adispatch_tool_call("papers_count", {"workspace_id": theirs[:-1] + "x"}, session_id="me")
    assert theirs not in json.dumps(unknown)


async def test_a_wrong_shape_names_the_tools_that_fit(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="mixed", toolsets=[paginator(ctx), kv_reader(ctx), text_content(ctx)])
    def load(shape: str) -> Any:
        return {"list": [1], "dict": {"a": 1}, "scalar": "abc", "number": 5}[shape]

    for shape, tool in [("list", "mixed_get_keys"), ("dict", "mixed_read_page"), ("scalar", "mixed_paginate")]:
        notice = await load(shape)
        refusal = await ctx.adispatch_tool_call(tool, {"workspace_id": notice["workspace_id"]})
        assert refusal["actual_shape"] == shape
        assert refusal["expected_shape"] != shape
        fitting = {"list": "mixed_paginate", "dict": "mixed_get_keys", "scalar": "mixed_read_page"}[shape]
        assert fitting in refusal["suggested_action"]
    number = await load("number")
    assert "5" in (await ctx.adispatch_tool_call("mixed_read_page", {"workspace_id": number["workspace_id"]}))["error"]


async def test_a_row_with_an_error_field_is_no_error(ctx: Ctx, papers: str) -> None:
    assert await ctx.adispatch_tool_call("papers_get_item", {"workspace_id": papers, "index": 3}) == {
        "id": 3,
        "error": "a column",
    }


async def test_exceptions_of_user_code_are_logged_and_not_told(ctx: Ctx, caplog: pytest.LogCaptureFixture) -> None:
    @ctx.producer(workspace_type="a")
    def load() -> list[int]:
        raise ValueError("password=hunter2")

    with caplog.at_level(logging.ERROR, "toolstash"):
        refusal = await ctx.adispatch_tool_call("load")
    assert refusal["error"] == "load failed (ValueError)."
    assert refusal["tool"] == "load"
    assert "hunter2" not in json.dumps(refusal)
    assert "hunter2" in caplog.text


async def test_safe_false_lets_exceptions_through() -> None:
    async with Ctx("memory:", safe=False) as ctx:

        @ctx.producer(workspace_type="a")
        def load() -> list[int]:
            raise ValueError("as asked")

        with pytest.raises(ValueError, match="as asked"):
            await ctx.adispatch_tool_call("load")


async def test_cancellation_goes_through(ctx: Ctx) -> None:
    started = asyncio.Event()

    @ctx.producer(workspace_type="a")
    async def load() -> list[int]:
        started.set()
        await asyncio.Event().wait()
        return []

    call = asyncio.ensure_future(ctx.adispatch_tool_call("load"))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_no_result_is_above_the_bound(ctx: Ctx) -> None:
    tools = ToolSet("custom", enforce_type=False)

    @tools.tool(name="flood")
    def flood(chars: int) -> str:
        """Return many characters."""
        return "é" * chars

    ctx.add_toolset(tools)
    assert len(await ctx.adispatch_tool_call("flood", {"chars": 60_000})) == 60_000
    refusal = await ctx.adispatch_tool_call("flood", {"chars": 60_001})
    assert (refusal["truncated"], refusal["result_chars"]) == (True, 60_001)
    assert refusal["suggested_action"]


async def test_custom_tools_check_their_workspace_and_hint(ctx: Ctx, papers: str) -> None:
    tools = ctx.toolset("papers")

    @tools.tool(name="papers_ids", output_hint="More in papers_get_item(workspace_id='{workspace_id}').")
    def ids(workspace_id: str, most: int = 2) -> list[int]:
        """List ids."""
        return [row["id"] for row in tools.store.get_items(workspace_id)][:most]

    @tools.tool
    async def total(workspace_id: str) -> Any:
        """Count."""
        rows = await tools.store.get_items(workspace_id)
        return {"error": "no", "suggested_action": "x"} if not rows else len(rows)

    assert await ctx.adispatch_tool_call("papers_ids", {"workspace_id": papers}) == {
        "result": [0, 1],
        "_hint": f"More in papers_get_item(workspace_id='{papers}').",
    }
    assert await ctx.adispatch_tool_call("papers_total", {"workspace_id": papers}) == 25
    assert "not found" in (await ctx.adispatch_tool_call("papers_ids", {"workspace_id": "nope"}))["error"]
    assert "papers_ids" in [schema["function"]["name"] for schema in ctx.get_tools()]


names = st.sampled_from(
    ["papers_paginate", "papers_get_item", "papers_get_slice", "config_get_value", "config_get_keys", "page_read_page"]
    + ["page_search_in_text", "page_get_length", "papers_count", "load", "nothing"]
) | st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("w"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
argument_names = st.sampled_from(
    ["workspace_id", "page", "size", "index", "field", "offset", "key", "query", "start", "end", "count", "max_results"]
    + ["context_chars", "chars_per_page"]
)
arguments = st.dictionaries(argument_names, json_values | st.sampled_from(["lists", "dicts", "texts"]), max_size=5)


@settings(max_examples=300, deadline=None)
@given(names, arguments | json_values | arguments.map(json.dumps))
async def test_dispatch_never_raises_and_errors_say_what_to_do(name: str, raw: Any) -> None:
    async with Ctx("memory:") as ctx:
        tools = [paginator(ctx, "papers"), kv_reader(ctx, "config"), text_content(ctx, "page")]

        @ctx.producer(workspace_type="papers", toolsets=tools[:1])
        def load(count: int = 3) -> list[int]:
            return list(range(min(count, 1_000)))

        for kind, name_of, data in [("papers", "lists", [{"a": "x" * 9_000}] * 9), ("config", "dicts", {"a": [1]})]:
            await ctx.store_workspace(data, workspace_type=kind, workspace_id=name_of)
        await ctx.store_workspace("text " * 9_000, workspace_type="page", workspace_id="texts")
        answer = await ctx.adispatch_tool_call(name, raw)
        assert len(json.dumps(answer, allow_nan=False, ensure_ascii=False)) <= 61_000
        if isinstance(answer, dict) and "error" in answer:
            assert answer["error"]
            assert answer["suggested_action"]
