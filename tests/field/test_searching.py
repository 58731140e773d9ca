"""What people type into a search meets rows as they are: F1 to F6, F8, F10 to F12, F39, F52 of the field's reports."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.contract.conftest import IndexedStore
from tests.wait import until
from toolstash import BaseStore, Ctx
from toolstash.toolsets import filter_set, paginator, pipeline, text_search


async def stored(store: BaseStore, rows: list[Any], **options: Any) -> tuple[Ctx, str]:
    """A Ctx with every list tool, and the id of a workspace with these rows."""
    ctx = Ctx(store)
    for factory in (paginator, text_search, filter_set, pipeline):
        factory(ctx, "t")
    ref = await ctx.store_workspace(rows, workspace_type="t", **options)
    return ctx, ref.workspace_id


async def call(ctx: Ctx, tool: str, workspace_id: str, **arguments: Any) -> Any:
    answer = await ctx.adispatch_tool_call(f"t_{tool}", {"workspace_id": workspace_id, **arguments})
    if tool == "search" and "error" not in answer:
        is_by_index = isinstance(ctx.store, IndexedStore) and answer["matched_by"] == "word"
        is_by_index = is_by_index and not arguments.get("case_sensitive")
        assert answer["engine"] == ("redisearch" if is_by_index else "python"), "prefixes and the like are Python's"
    return answer


async def found(ctx: Ctx, workspace_id: str, query: str, **arguments: Any) -> list[int]:
    answer = await call(ctx, "search", workspace_id, query=query, **arguments)
    assert "error" not in answer, answer
    return sorted(match["index"] for match in answer["matches"])


async def test_f1_a_mail_address(store: BaseStore) -> None:
    ctx, ws = await stored(store, [{"mail": "kim.ode@example.org"}, {"mail": "kim@example.com"}, {"mail": "ode"}])
    assert await found(ctx, ws, "kim.ode@example.org") == [0]
    assert await found(ctx, ws, "ode") == [0, 2]
    assert await found(ctx, ws, "example.org") == [0]


async def test_f2_a_hyphen(store: BaseStore) -> None:
    ctx, ws = await stored(store, [{"a": "claims-auditor-senior"}, {"a": "xv-77"}, {"a": "xv 78"}])
    assert await found(ctx, ws, "claims-auditor") == [0]
    assert await found(ctx, ws, "xv-77") == [1]
    assert await found(ctx, ws, "xv-") == [1]
    assert await found(ctx, ws, "-77") == [1]


async def test_f3_stop_words(store: BaseStore) -> None:
    rows = [
        {"grade": "A"},
        {"name": "Will"},
        {"code": "BE"},
        {"lang": "IT"},
        {"line": "to be or not to be"},
        {"x": "zz"},
    ]
    ctx, ws = await stored(store, rows)
    assert await found(ctx, ws, "A") == [0]
    assert await found(ctx, ws, "Will") == [1]
    assert await found(ctx, ws, "BE") == [2, 4]
    assert await found(ctx, ws, "BE", case_sensitive=True) == [2]
    assert await found(ctx, ws, "it") == [3]
    assert (await call(ctx, "search", ws, query="to be or not to be"))["matches"][0]["index"] == 4


async def test_f4_and_is_a_word(store: BaseStore) -> None:
    rows = [{"t": "alpha", "team": "docs"}, {"t": "beta", "team": "docs"}, {"t": "alpha and beta"}, {"t": "or"}]
    ctx, ws = await stored(store, rows)
    steps = [{"filter": {"team": "docs"}}, {"search": "alpha"}]
    assert (await call(ctx, "pipe", ws, steps=steps))["items"] == rows[:1]
    assert await found(ctx, ws, "AND") == [2]
    assert await found(ctx, ws, "OR") == [3]
    best = (await call(ctx, "search", ws, query="alpha AND beta"))["matches"]
    assert best[0]["index"] == 2
    assert {match["index"] for match in best} == {0, 1, 2}


@pytest.mark.parametrize("value", ['") | (@secret:*', "*", "a|b", "x} @session:{y", '"', "\\", "$ne", "a\nb"])
async def test_f5_values_and_sessions_are_taken_as_they_are(store: BaseStore, value: str) -> None:
    ctx, ws = await stored(store, [{"a": value}, {"a": "secret"}])
    answer = await call(ctx, "filter_by", ws, field="a", value=value)
    assert [hit["index"] for hit in answer["results"]] == [0]
    piped = await call(ctx, "pipe", ws, steps=[{"filter": {"a": {"$in": [value]}}}])
    assert piped["items"] == [{"a": value}]
    with ctx.session("other"):
        hidden = (await ctx.store_workspace([{"a": "hidden"}], workspace_type="t")).workspace_id
    with ctx.session(value):
        mine = (await ctx.store_workspace([{"a": value}], workspace_type="t")).workspace_id
        assert await found(ctx, mine, value.strip() or "x") == [0]
        refused = await call(ctx, "search", hidden, query="hidden")
        assert "not found" in refused["error"]
        assert hidden not in str(refused.get("available_workspaces"))


SCRIPTS = ["他在城里的图书馆看书 library", "圖書", "ab1700", "東京図書館", "مكتبة المدينة", "ห้องสมุด", "도서관에서"]


@pytest.mark.parametrize(
    ("query", "index", "matched_by"),
    [
        ("图书馆", 0, "word"),
        ("library", 0, "word"),
        ("圖書", 1, "word"),
        ("图书", 0, "word"),
        ("ab", 2, "prefix"),
        ("ab*", 2, "prefix"),
        ("1700", 2, "substring"),
        ("図書", 3, "word"),
        ("المدينة", 4, "word"),
        ("สมุด", 5, "substring"),
        ("도서관", 6, "word"),
        ("馆", 0, "substring"),
    ],
)
async def test_f6_scripts(store: BaseStore, query: str, index: int, matched_by: str) -> None:
    ctx, ws = await stored(store, [{"t": text} for text in SCRIPTS])
    answer = await call(ctx, "search", ws, query=query)
    assert [match["index"] for match in answer["matches"]] == [index]
    assert answer["matched_by"] == matched_by
    assert answer["matches"][0]["snippet"] == SCRIPTS[index]


async def test_f8_a_workspace_expires_under_a_search(store: BaseStore) -> None:
    rows = [{"t": f"alpha {number}"} for number in range(300)]
    ctx, ws = await stored(store, rows, ttl=0.4)
    seen: set[Any] = set()

    async def is_over() -> bool:
        answer = await call(ctx, "search", ws, query="alpha", max_results=5)
        seen.add(answer.get("total_matches", answer.get("error")))
        return "error" in answer

    await until(is_over, what="the workspace expires")
    assert seen <= {300, f"Workspace '{ws}' has expired."}
    assert 300 in seen


async def test_f10_total_is_not_the_page(store: BaseStore) -> None:
    rows = [{"t": "hit", "n": number} for number in range(37)] + [{"t": "no"}] * 10
    ctx, ws = await stored(store, rows)
    for wanted, returned in ((50, 37), (10, 10), (0, 0)):
        answer = await call(ctx, "search", ws, query="hit", max_results=wanted)
        assert (answer["total_matches"], answer["returned"], answer["has_more"]) == (37, returned, returned < 37)
        assert len(answer["matches"]) == returned
        filtered = await call(ctx, "filter_by", ws, field="t", value="hit", limit=wanted)
        assert (filtered["total_matches"], filtered["returned"]) == (37, returned)
    ordered = await call(ctx, "sort_by", ws, field="n", descending=True, limit=10)
    assert (ordered["total"], ordered["returned"], ordered["has_more"]) == (47, 10, True)
    assert ordered["items"][0]["item"]["n"] == 36


@pytest.mark.parametrize("query", ["", "   "])
async def test_f11_an_empty_query(store: BaseStore, query: str) -> None:
    ctx, ws = await stored(store, [{"a": "x"}])
    answer = await call(ctx, "search", ws, query=query)
    assert answer["error"] == "The query is empty."
    assert answer["suggested_action"]


async def test_f11_signs_are_no_syntax(store: BaseStore) -> None:
    texts = ['say "hello', "debian 12.5", "C++", ".NET", "path:admin", "NEAR(me", "plain", "debian 125"]
    ctx, ws = await stored(store, [{"a": text} for text in texts])
    assert await found(ctx, ws, '"') == [0]
    assert await found(ctx, ws, "12.5") == [1]
    best = (await call(ctx, "search", ws, query="debian 12.5"))["matches"]
    assert best[0]["index"] == 1
    for index in range(2, 6):
        assert await found(ctx, ws, texts[index]) == [index]
    assert await found(ctx, ws, "NEAR(") == [5]
    assert await found(ctx, ws, '"unclosed') == []


async def test_f12_one_row_of_5_mb(store: BaseStore) -> None:
    long = "word " * 1_000_000 + "common"
    rows = [{"t": "common"} for _ in range(50)] + [{"t": long, "n": 1}] + [{"t": "common"} for _ in range(50)]
    ctx, ws = await stored(store, rows)
    stalls: list[float] = []

    async def ping() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            await store.ping()
            stalls.append(time.perf_counter() - began)

    pinging = asyncio.create_task(ping())
    answer = await call(ctx, "search", ws, query="common", max_results=100)
    only = await call(ctx, "search", ws, query="words")
    pinging.cancel()
    assert answer["total_matches"] == 101
    assert max(len(match["snippet"]) for match in answer["matches"]) < 170
    assert len(str(answer)) < 20_000
    assert only["matches"][0]["index"] == 50
    assert only["cut"][0]["index"] == 50
    assert only["cut"][0]["field"] == "t"
    read_on = await call(ctx, "get_item", ws, index=50, field="t", offset=only["cut"][0]["next_offset"])
    assert read_on["has_more"] is True
    assert stalls
    assert max(stalls) < 5, "the loop went on, and so did the server"


async def test_f39_nothing_there_differs_from_nothing_found(store: BaseStore) -> None:
    ctx, ws = await stored(store, [{"a": "x"}] * 500)
    nothing = await call(ctx, "search", ws, query="zebra")
    assert nothing["total_matches"] == 0
    assert nothing["suggested_action"].startswith("0 of 500 rows match.")
    typo = await call(ctx, "search", ws[:-1] + ("0" if ws[-1] != "0" else "1"), query="x")
    assert "not found" in typo["error"]
    assert typo["suggested_action"] == f"Did you mean '{ws}'?"
    other_case = await call(ctx, "search", ws.upper(), query="x")
    assert "not found" in other_case["error"]
    assert ws in other_case["available_workspaces"]
    with ctx.session("elsewhere"):
        mine = (await ctx.store_workspace([{"a": "x"}], workspace_type="t")).workspace_id
    with ctx.session("here"):
        foreign = await call(ctx, "search", mine, query="x")
        assert "not found" in foreign["error"]
        assert mine not in str(foreign.get("available_workspaces"))
        assert (await call(ctx, "search", ws, query="x"))["total_matches"] == 500
    missing_field = await call(ctx, "filter_by", ws, field="b", value=1)
    assert "No row has the field 'b'" in missing_field["suggested_action"]


async def test_f52_a_page_is_not_the_whole(store: BaseStore) -> None:
    ctx, ws = await stored(store, [{"t": "hit", "n": number} for number in range(137)])
    page = await call(ctx, "search", ws, query="hit", max_results=10_000)
    assert (page["total_matches"], page["has_more"], page["limited_by"]) == (137, True, "size")
    assert page["returned"] == 100
    assert "100 of 137" in page["suggested_action"]
    exact = await call(ctx, "search", ws, query="hit", max_results=100)
    assert exact["has_more"] is True
    piped = await call(ctx, "pipe", ws, steps=[])
    assert (piped["count"], piped["total"], piped["has_more"], piped["limited_by"]) == (50, 137, True, "size")
    last = await call(ctx, "pipe", ws, steps=[{"skip": 100}])
    assert (last["count"], last["total"], last["has_more"]) == (37, 37, False)
    beyond = await call(ctx, "pipe", ws, steps=[{"skip": 200}])
    assert (beyond["items"], beyond["total"], beyond["has_more"]) == ([], 0, False)
    values = await call(ctx, "field_values", ws, field="n", max_values=20)
    assert (values["count"], len(values["distinct_values"]), values["has_more"]) == (137, 20, True)
