"""Pages of a text and searches in it, exact in code points (F35, F37)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstash import Ctx
from toolstash.toolsets import text_content


async def stored(ctx: Ctx, text: str) -> str:
    if "page_read_page" not in ctx.entries:
        text_content(ctx, "page")
    return (await ctx.store_workspace(text, workspace_type="page")).workspace_id


async def call(ctx: Ctx, tool: str, workspace_id: str, **arguments: Any) -> Any:
    answer = await ctx.adispatch_tool_call(f"page_{tool}", {"workspace_id": workspace_id, **arguments})
    return answer["result"] if tool == "read_page" and "result" in answer else answer


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(1, 80), st.integers(1, 20_000))
async def test_the_union_of_all_pages_is_the_text(unit: str, times: int, size: int) -> None:
    text = unit * times
    async with Ctx("memory:") as ctx:
        workspace = await stored(ctx, text)
        seen, page, more = "", 0, True
        while more:
            answer = await call(ctx, "read_page", workspace, page=page, chars_per_page=size)
            assert answer["char_offset"] == len(seen)
            assert answer["chars_in_page"] == len(answer["text"]) <= size
            assert answer["total_chars"] == len(text)
            assert answer["has_prev"] == (page > 0)
            seen += answer["text"]
            page, more = page + 1, answer["has_next"]
        assert seen == text
        assert page == answer["total_pages"]


async def test_minified_text_in_one_line(ctx: Ctx) -> None:
    workspace = await stored(ctx, json.dumps({"rows": [{"n": n} for n in range(25_000)]}))

    answer = await call(ctx, "read_page", workspace, page=0)
    assert answer["chars_in_page"] == 3_000
    assert len(json.dumps(answer)) < 7_000


async def test_a_page_past_the_end_and_a_lowered_size(ctx: Ctx) -> None:
    workspace = await stored(ctx, "word " * 10_000)

    past = await call(ctx, "read_page", workspace, page=99)
    assert (past["text"], past["has_next"], past["has_prev"]) == ("", False, True)
    assert "16" in past["suggested_action"]
    lowered = await call(ctx, "read_page", workspace, chars_per_page=50_000)
    assert (lowered["chars_in_page"], lowered["total_pages"], lowered["limited_by"]) == (20_000, 3, "size")
    assert (await call(ctx, "read_page", workspace, page=-1))["error"]
    assert (await call(ctx, "read_page", workspace, chars_per_page=0))["error"]


async def test_a_page_that_escapes_to_more_than_the_bound_says_what_fits(ctx: Ctx) -> None:
    workspace = await stored(ctx, "\0" * 40_000)

    refusal = await call(ctx, "read_page", workspace, chars_per_page=20_000)
    assert refusal["truncated"] is True
    assert "fewer characters" in refusal["suggested_action"]
    assert (await call(ctx, "read_page", workspace, chars_per_page=9_000))["chars_in_page"] == 9_000


async def test_search_finds_every_place_with_its_offset(ctx: Ctx) -> None:
    text = "İstanbul " * 500 + "NEEDLE here" + " hay" * 5_000 + " needle again"
    workspace = await stored(ctx, text)

    answer = await call(ctx, "search_in_text", workspace, query="needle")
    assert (answer["total_matches"], answer["match_count"], answer["has_more"]) == (2, 2, False)
    first, second = answer["matches"]
    assert text[first["char_offset"] :].startswith("NEEDLE here")
    assert text[second["char_offset"] :] == "needle again"
    assert "NEEDLE here" in first["context"]
    assert first["page"] == first["char_offset"] // 3_000
    page = await call(ctx, "read_page", workspace, page=first["page"])
    assert "NEEDLE" in page["text"]


async def test_many_places_are_bounded_and_counted(ctx: Ctx) -> None:
    workspace = await stored(ctx, "ab" * 100_000)

    answer = await call(ctx, "search_in_text", workspace, query="AB", max_results=1_000, context_chars=9_999)
    assert answer["total_matches"] == 100_000
    assert (answer["match_count"], answer["has_more"]) == (50, True)
    assert len(json.dumps(answer)) < 20_000
    assert answer["suggested_action"]
    for query in ("", "   "):
        assert (await call(ctx, "search_in_text", workspace, query=query))["argument"] == "query"
    nothing = await call(ctx, "search_in_text", workspace, query="zzz")
    assert (nothing["total_matches"], nothing["matches"], nothing["total_chars"]) == (0, [], 200_000)
    assert (await call(ctx, "search_in_text", workspace, query=12))["total_matches"] == 0


@pytest.mark.parametrize("query", ["(a+)+$", ".*", "[", "\\", "b" * 900])
async def test_a_query_is_taken_literally(ctx: Ctx, query: str) -> None:
    workspace = await stored(ctx, "a" * 5_000 + "! (a+)+$ .* [ \\")

    answer = await call(ctx, "search_in_text", workspace, query=query)
    assert answer["total_matches"] == (1 if len(query) < 100 else 0)


async def test_length(ctx: Ctx) -> None:
    workspace = await stored(ctx, "one two\nthree " + "x" * 6_000)

    assert await call(ctx, "get_length", workspace) == {
        "workspace_id": workspace,
        "chars": 6_014,
        "words": 4,
        "lines": 2,
        "pages": 3,
    }


async def test_an_overlong_phrase_is_refused(ctx: Ctx) -> None:
    workspace = await stored(ctx, "a" * 5_000)
    answer = await call(ctx, "search_in_text", workspace, query="a" * 1_001)
    assert "at most 1,000" in answer["error"]
