"""Whatever a model asks for, the work and the memory are bounded, and the answer is clear."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import tracemalloc
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.store.snapshot import Snapshot, Snapshots
from toolstash.toolsets import filter_set, pipeline, text_content, text_search

HANG = 20
"""Seconds that nothing here comes near to; a guard against a hang, not a measure of speed."""


async def stored(ctx: Ctx, rows: list[Any]) -> str:
    for factory in (text_search, filter_set):
        factory(ctx, "t")
    pipeline(ctx, "t", allow_regex=True)
    return (await ctx.store_workspace(rows, workspace_type="t")).workspace_id


async def pipe(ctx: Ctx, workspace_id: str, steps: Any) -> Any:
    arguments = {"workspace_id": workspace_id, "steps": steps}
    return await asyncio.wait_for(ctx.adispatch_tool_call("t_pipe", arguments), HANG)


HOSTILE = [r"(a+)+$", r"(a{1,30}){1,30}$", r"(a{0,99}){0,9}b$", r"(a|aa){1,60}$", r"(\w{1,9}\s?){1,60}$", r"a*a*a*a*b"]


@pytest.mark.parametrize("pattern", HOSTILE)
async def test_a_hostile_regex(ctx: Ctx, pattern: str) -> None:
    ws = await stored(ctx, [{"t": "a" * 100_000 + "!"} for _ in range(5)])
    answer = await pipe(ctx, ws, [{"filter": {"t": {"$regex": pattern}}}, {"count": True}])
    assert answer.get("count", 0) == 0
    assert "count" in answer or "$regex" in answer["error"]


async def test_a_regex_that_wants_too_much_memory(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": "a"}])
    answer = await pipe(ctx, ws, [{"filter": {"t": {"$regex": "((a{100}){100}){100}"}}}])
    assert "$regex" in answer["error"]


@pytest.mark.parametrize("query", ["alpha beta " * 1_000, "a" * 10_240, '"' * 10_240, "* " * 5_000])
async def test_a_query_of_10_kb(ctx: Ctx, query: str) -> None:
    ws = await stored(ctx, [{"t": "alpha"}])
    answer = await ctx.adispatch_tool_call("t_search", {"workspace_id": ws, "query": query})
    assert "at once" in answer["error"]
    assert len(str(answer)) < 1_000


async def test_a_pipeline_of_1000_steps(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": 1}])
    answer = await pipe(ctx, ws, [{"limit": 5}] * 1_000)
    assert answer["error"] == "The pipeline has 1,000 steps; at most 100."
    assert (await pipe(ctx, ws, [{"sort": "t"}] * 100))["total"] == 1


async def test_a_condition_of_many_parts_or_levels(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": 1}])
    wide = {"$or": [{"t": number} for number in range(1_000)]}
    assert "more than 500 comparisons" in (await pipe(ctx, ws, [{"filter": wide}]))["error"]
    deep: Any = {"t": 1}
    for _ in range(40):
        deep = {"$not": deep}
    assert "nested" in (await pipe(ctx, ws, [{"filter": deep}]))["error"]
    inner: Any = {"$gt": 1}
    for _ in range(40):
        inner = {"$not": inner}
    assert "nested" in (await pipe(ctx, ws, [{"filter": {"t": inner}}]))["error"]
    listed = {"t": {"$in": list(range(20_000))}}
    assert "at most 10,000 values" in (await pipe(ctx, ws, [{"filter": listed}]))["error"]


async def test_rows_do_not_multiply_without_end(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"a": list(range(1_500)), "b": list(range(1_500)), "c": list(range(1_500))}])
    answer = await pipe(ctx, ws, [{"flatten": "a"}, {"flatten": "b"}, {"flatten": "c"}, {"count": True}])
    assert answer["error"] == "Step 1 (flatten): flatten would make more than 2,000,000 rows."
    assert answer["step"] == 1
    tracemalloc.start()
    many = await pipe(ctx, ws, [{"flatten": "a"}] + [{"flatten": "x"}] * 90 + [{"count": True}])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert many["count"] == 1_500
    assert peak < 100_000_000


async def test_a_text_of_10_mb(ctx: Ctx) -> None:
    text_content(ctx, "page")
    text = "lorem ipsum dolor\n" * 600_000 + "the NEEDLE\n"
    ref = await ctx.store_workspace(text, workspace_type="page")
    at = {"workspace_id": ref.workspace_id}
    found = await asyncio.wait_for(ctx.adispatch_tool_call("page_search_in_text", at | {"query": "needle"}), HANG)
    assert (found["total_matches"], found["matches"][0]["char_offset"]) == (1, text.index("NEEDLE"))
    many = await ctx.adispatch_tool_call("page_search_in_text", at | {"query": "o", "max_results": 50})
    assert many["total_matches"] == text.count("o")
    assert len(str(many)) < 16_000
    last = await ctx.adispatch_tool_call("page_read_page", at | {"page": found["matches"][0]["page"]})
    assert "NEEDLE" in last["result"]["text"]


async def test_rows_of_10_mb_texts(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": "word " * 2_000_000}, {"t": "needle"}])
    for steps in ([{"search": "needle"}], [{"filter": {"t": {"$contains": "needle"}}}], [{"sort": "t"}, {"limit": 1}]):
        answer = await pipe(ctx, ws, steps)
        assert answer["items"] == [{"t": "needle"}]
    whole = await pipe(ctx, ws, [{"limit": 1}])
    assert len(str(whole)) < 14_000
    assert whole["cut"][0]["field"] == "t"


async def test_the_loop_goes_on_while_questions_are_answered(ctx: Ctx) -> None:
    rows = [{"n": number, "t": f"row {number} of text", "tags": ["a", "b"]} for number in range(30_000)]
    ws = await stored(ctx, rows)
    late: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            late.append(time.perf_counter() - began)

    ticking = asyncio.create_task(tick())
    answers = await asyncio.gather(
        pipe(ctx, ws, [{"sort": {"field": "t", "order": "desc"}}, {"limit": 1}]),
        pipe(ctx, ws, [{"flatten": "tags"}, {"group_by": "tags"}]),
        pipe(ctx, ws, [{"search": "row"}, {"sort": "n"}, {"limit": 1}]),
    )
    ticking.cancel()
    assert [answer["items"][0].get("n", answer["items"][0].get("tags")) for answer in answers] == [9_999, "a", 0]
    assert len(late) > 100, "the loop ran meanwhile"


async def test_a_long_question_does_not_hold_up_short_work(ctx: Ctx) -> None:
    started, go_on = threading.Event(), threading.Event()

    class Long:
        window = None

        def answer(self, table: Any) -> int:
            started.set()
            assert go_on.wait(HANG)
            return len(table)

    ws = await stored(ctx, [{"t": 1}])
    asking = asyncio.create_task(ctx.store.ask(await ctx.store.locate(ws), Long()))
    await asyncio.to_thread(started.wait, HANG)
    other = await asyncio.wait_for(ctx.store_workspace([{"t": 2}] * 5_000, workspace_type="t"), HANG)
    page = await asyncio.wait_for(ctx.store.get_page(other.workspace_id, 0, 5_000), HANG)
    assert len(page) == 5_000
    assert not asking.done()
    go_on.set()
    assert (await asking).data == 1


def test_what_is_remembered_is_bounded() -> None:
    held = Snapshots(most_bytes=300_000)
    documents = [b'{"t":"%s"}' % (b"x" * 90)] * 1_000
    for number in range(5):
        snapshot = Snapshot(documents, "orjson", 100_000)
        held.put(f"w{number}", "1", snapshot)  # type: ignore[arg-type]
    held.trim()
    assert [held.get(f"w{number}", "1") is not None for number in range(5)] == [False, False, False, True, True]  # type: ignore[arg-type]
    kept = held.get("w4", "1")  # type: ignore[arg-type]
    assert kept is not None
    kept.haystack(None, case_sensitive=False)
    assert kept.column("t")[0] == "x" * 90
    held.trim()
    assert held.get("w3", "1") is None, "the one that was asked last stays"  # type: ignore[arg-type]
    assert held.get("w4", "1") is kept  # type: ignore[arg-type]
    assert held.get("w4", "2") is None, "another version is another snapshot"  # type: ignore[arg-type]


def test_a_snapshot_alone_above_the_bound_lets_its_columns_go_first() -> None:
    held = Snapshots(most_bytes=200_000)
    snapshot = Snapshot([b'{"t":"%s"}' % (b"x" * 90)] * 1_000, "orjson", 100_000)
    held.put("w", "1", snapshot)  # type: ignore[arg-type]
    snapshot.haystack(None, case_sensitive=False)
    snapshot.column("t")
    held.trim()
    assert held.get("w", "1") is snapshot  # type: ignore[arg-type]
    assert not snapshot.has_derived
    assert re.match("x+$", snapshot.column("t")[5])
