"""What models send and what model APIs refuse: F31, F44 to F50 and F52 of the field's reports.

Each case with its own small input; more of it is shown at length elsewhere:

| Case | Its input | At length |
|---|---|---|
| F31 empty answers | here | tools/test_notice.py::test_empty_answers_are_said_in_words, tools/test_fuzz.py: errors |
| F44 strings for numbers | here | schema/test_coerce.py |
| F45 arguments encoded twice | here | schema/test_coerce.py, tools/test_dispatch.py |
| F46 a list or object as text | here | schema/test_coerce.py, tools/test_strict.py |
| F47 a wrong tool name | here | tools/test_dispatch.py, schema/test_tool_names.py |
| F48 names too long or with forbidden signs | here | schema/test_tool_names.py, tools/test_provider_rules.py |
| F49 Gemini | here | tools/test_provider_rules.py::test_every_schema_keeps_the_rules_of |
| F50 OpenAI's strict mode | here | tools/test_strict.py, tools/test_provider_rules.py |
| F52 a page taken for the whole | here | toolsets/test_paginator.py, field/test_searching.py |
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools.everything import everything
from tests.tools.provider_rules import gemini_faults, strict_faults
from toolstash import Ctx, ToolResult
from toolstash.toolsets import filter_set, paginator, pipeline, text_search


@pytest.fixture
async def papers(ctx: Ctx) -> Ctx:
    lists = [paginator(ctx), text_search(ctx), filter_set(ctx), pipeline(ctx)]

    @ctx.producer(workspace_type="papers", toolsets=lists, key="papers_{count}")
    def load_papers(count: int) -> list[dict[str, Any]]:
        """Load papers."""
        return [{"id": n, "title": f"paper {n}", "year": 2000 + n % 20} for n in range(count)]

    for count in (10, 11, 137):
        await load_papers(count)
    return ctx


async def page_of(ctx: Ctx, arguments: Any) -> Any:
    told = await ctx.adispatch_tool_call("papers_paginate", arguments)
    return told.get("result", told)


@pytest.mark.parametrize("empty", [None, "", [], {}, "   ", [[]], [None]])
async def test_f31_an_empty_answer_is_told_in_words(ctx: Ctx, empty: Any) -> None:
    @ctx.producer(workspace_type="found", toolsets=paginator(ctx))
    def find() -> Any:
        """Find."""
        return empty

    notice = await ctx.adispatch_tool_call("find")
    assert len(notice["message"].strip()) > 10
    if not empty:
        assert "no " in notice["message"].lower() or "empty" in notice["message"].lower()
    assert len(json.dumps(notice)) < 1_500


@pytest.mark.parametrize("text", ["", "  ", None])
async def test_f31_an_error_without_a_text_says_something(ctx: Ctx, text: Any) -> None:
    @ctx.producer(workspace_type="found")
    def find() -> Any:
        raise ValueError(text)

    @ctx.toolset("own").tool
    def fail() -> Any:
        return ToolResult(text or "", is_error=True)

    for name in ("find", "own_fail"):
        told = await ctx.adispatch_tool_call(name)
        assert told["error"].strip()
        assert told["suggested_action"].strip()


@pytest.mark.parametrize(
    ("sent", "page"), [("2", 2), (" 2 ", 2), ("2.0", 2), (2.0, 2), (None, 0), ("1e1", 10), (1e1, 10)]
)
async def test_f44_an_exact_number_is_taken_in_any_form(papers: Ctx, sent: Any, page: int) -> None:
    assert (await page_of(papers, {"workspace_id": "papers_137", "page": sent}))["page"] == page


@pytest.mark.parametrize("sent", ["12px", "", True, -1, "1.5", [], {}, "two"])
async def test_f44_what_is_none_is_refused_with_the_form_that_is(papers: Ctx, sent: Any) -> None:
    told = await page_of(papers, {"workspace_id": "papers_137", "page": sent})
    assert "page" in told["error"]
    assert told["argument"] == "page"
    assert "number" in told["suggested_action"] or "0" in told["suggested_action"]


async def test_f45_arguments_encoded_twice_are_read_and_what_is_no_object_is_refused(papers: Ctx) -> None:
    arguments = json.dumps({"workspace_id": "papers_11"})
    for sent in (arguments, json.dumps(arguments)):
        assert (await papers.adispatch_tool_call("papers_count", sent))["count"] == 11
    for sent in ('"null"', '"[]"', '"5"', "null", "[]", "5", json.dumps(json.dumps(arguments))):
        told = await papers.adispatch_tool_call("papers_count", sent)
        assert "object" in told["error"]
        assert "expected_parameters" not in told  # it was never taken for an empty object


@pytest.mark.parametrize(
    "steps",
    ['[{"limit": 5}]', ['{"limit": 5}'], {"limit": 5}, '{"limit": 5}', [{"limit": "5"}], json.dumps('[{"limit": 5}]')],
)
async def test_f46_steps_in_any_form_that_says_the_same(papers: Ctx, steps: Any) -> None:
    told = await papers.adispatch_tool_call("papers_pipe", {"workspace_id": "papers_137", "steps": steps})
    assert [row["id"] for row in told["items"]] == [0, 1, 2, 3, 4]


async def test_f46_fields_as_text_with_commas(papers: Ctx) -> None:
    arguments = {"workspace_id": "papers_137", "query": "paper", "max_results": 1}
    for fields in ("title,year", '["title", "year"]', ["title", "year"]):
        told = await papers.adispatch_tool_call("papers_search", {**arguments, "fields": fields})
        assert told["total_matches"] == 137
    told = await papers.adispatch_tool_call("papers_pipe", {"workspace_id": "papers_137", "steps": "[{limit"})
    assert "steps" in told["error"]


async def test_f47_a_wrong_name_is_repaired_in_case_and_separators_only(papers: Ctx) -> None:
    for name in ("Papers_Paginate", "papers-paginate", "papersPaginate"):
        assert (await papers.adispatch_tool_call(name, {"workspace_id": "papers_10"}))["result"]["total"] == 10
    for name in ("paginate", "mcp_mcp_x", "papers_delete", "papers__paginates"):
        told = await papers.adispatch_tool_call(name, {"workspace_id": "papers_10"})
        assert "not found" in told["error"]
        assert "papers_paginate" in told["available_tools"]


async def test_f48_any_workspace_type_gives_names_with_room_for_a_host_s_prefix(ctx: Ctx) -> None:
    types = ["x" * 80, "my.type", "my/type", "données", "2024", "-a", "日本", "my type"]
    for number, kind in enumerate(types):

        @ctx.producer(workspace_type=kind, toolsets=paginator(ctx), key=f"w{number}")
        def load() -> list[int]:
            return [1]

        await load()
        del ctx.entries["load"]
    names = [tool["function"]["name"] for tool in ctx.get_all_tool_schemas()]
    assert len(names) == len(set(names)) == 4 * len(types)
    for name in names:
        assert len(f"mcp__some_server__{name}") <= 64
        assert name.isascii()
        assert name.replace("_", "").replace("-", "").isalnum()
        assert not name[0].isdigit()
    for number in range(len(types)):
        count = next(name for name in names[4 * number :] if name.endswith("_count"))
        assert (await ctx.adispatch_tool_call(count, {"workspace_id": f"w{number}"}))["count"] == 1


async def test_f48_a_name_with_a_host_s_prefix_runs_nothing_and_names_the_tool(papers: Ctx) -> None:
    """A host takes its own prefix off again; one that is still there is a wrong name."""
    told = await papers.adispatch_tool_call("mcp__server__papers_count", {"workspace_id": "papers_10"})
    assert "not found" in told["error"]
    assert "papers_count" in told["suggested_action"]


def test_f49_no_schema_has_what_gemini_refuses() -> None:
    ctx = everything()
    own = {name for name in ctx.entries if name.startswith(("by_hand", "of_"))}
    tools = [tool for tool in ctx.get_tools() if tool["function"]["name"] not in own]
    assert [fault for tool in tools for fault in gemini_faults(tool)] == []


def test_f50_strict_is_off_by_default_and_a_strict_form_when_asked_for(papers: Ctx) -> None:
    assert "strict" not in json.dumps(papers.get_tools())
    tools = papers.get_tools(strict=True)
    assert len(tools) == len(papers.get_tools())
    assert [fault for tool in tools for fault in strict_faults(tool)] == []
    assert "filter" in json.dumps(tools)


@pytest.mark.parametrize(
    ("rows", "page", "size", "shown", "has_next"),
    [(10, 0, 10, 10, False), (11, 0, 10, 10, True), (11, 1, 10, 1, False), (137, 0, 10_000, 100, True)],
)
async def test_f52_a_page_says_what_it_is_of(
    papers: Ctx, rows: int, page: int, size: int, shown: int, has_next: bool
) -> None:
    told = await page_of(papers, {"workspace_id": f"papers_{rows}", "page": page, "size": size})
    assert (len(told["items"]), told["total"], told["has_next"]) == (shown, rows, has_next)
    assert ("limited_by" in told) == (size > 100)
    if size > 100:
        assert "100" in told["suggested_action"]


async def test_f52_a_page_beyond_the_end_says_where_the_end_is(papers: Ctx) -> None:
    told = await page_of(papers, {"workspace_id": "papers_137", "page": 99})
    assert (told["items"], told["total"], told["total_pages"], told["has_next"]) == ([], 137, 14, False)
    assert "13" in told["suggested_action"]


@pytest.mark.parametrize(
    ("tool", "arguments", "total"),
    [
        ("papers_filter_by", {"field": "year", "value": 2000, "operator": "gte", "limit": 500}, "total_matches"),
        ("papers_sort_by", {"field": "year", "limit": 20}, "total"),
        ("papers_search", {"query": "paper", "max_results": 20}, "total_matches"),
        ("papers_pipe", {"steps": [{"sort": {"field": "year"}}]}, "total"),
    ],
)
async def test_f52_no_part_of_137_rows_looks_like_all(papers: Ctx, tool: str, arguments: Any, total: str) -> None:
    told = await papers.adispatch_tool_call(tool, {"workspace_id": "papers_137", **arguments})
    shown = told.get("returned", told.get("count"))
    assert told[total] == 137
    assert told["has_more"] is (shown < 137)
    assert "suggested_action" in told or shown == 137
