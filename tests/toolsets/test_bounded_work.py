"""Whatever a model asks for, the work and the memory are bounded, and the answer is clear."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import tracemalloc
from typing import Any

import pytest

from toolstash import Ctx, MemoryStore
from toolstash.query import work
from toolstash.query.work import Work
from toolstash.store.cpu import on_cpu
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


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of what a question may do, so that a test need not do all of it."""
    monkeypatch.setattr("toolstash.store.base.Work", lambda: Work(work.MOST_UNITS // 20, work.MOST_CELLS // 20))


@pytest.mark.usefixtures("small_budget")
async def test_too_much_work_is_refused_before_it_is_done(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": number} for number in range(2_000)])
    many = {"$nor": [{"t": {"$lt": -number}} for number in range(490)]}
    assert "too much work" in (await pipe(ctx, ws, [{"filter": many}] * 20))["error"]
    texts = await stored(ctx, [{"t": "a" * 1_000_000} for _ in range(10)])
    patterns = {"$nor": [{"t": {"$regex": f"b{number}$"}} for number in range(400)]}
    assert "too much work" in (await pipe(ctx, texts, [{"filter": patterns}]))["error"]
    sorts = [{"field": f"x{number}"} for number in range(21)]
    assert "at most 20 fields" in (await pipe(ctx, ws, [{"sort": sorts}]))["error"]
    wide = [{"filter": {f"x{step}_{number}": 1 for number in range(90)}} for step in range(4)]
    assert "more than 300 fields" in (await pipe(ctx, ws, wide))["error"]


async def test_ordinary_questions_are_not_refused(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": f"some words of row {number} " * 10, "n": number} for number in range(20_000)])
    words = "some words of row " + " ".join(f"w{number}" for number in range(60))
    for _ in range(3):
        answer = await ctx.adispatch_tool_call("t_search", {"workspace_id": ws, "query": words})
        assert answer["total_matches"] == 20_000
    steps = [{"search": "some row"}, {"filter": {"n": {"$gt": 5}}}, {"sort": ["n", "t"]}, {"exclude": ["t"]}]
    assert (await pipe(ctx, ws, steps))["total"] == 19_994


@pytest.mark.usefixtures("small_budget")
async def test_what_copies_or_keeps_much_is_refused(ctx: Ctx) -> None:
    rows = [{f"k{i}": i for i in range(20)} | {"z": n, "t": "the a b " * 60} for n in range(500)]
    ws = await stored(ctx, rows)
    copies = [{"exclude": [f"z.{i}.{j}" for j in range(50)]} for i in range(5)] * 8
    assert "too much work" in (await pipe(ctx, ws, [*copies, {"filter": {"z": 3}}]))["error"]
    keeps = [{"exclude": ["zz"]}, {"search": "the* a* b*"}] * 49
    assert "too much" in (await pipe(ctx, ws, keeps))["error"]
    flat = await stored(ctx, [{"a": [1] * 1_000} for _ in range(95)])
    assert "too much memory" in (await pipe(ctx, flat, [{"flatten": "a"}] * 20))["error"]
    signs = " ".join(f'"{a}{b}"' for a in ",:{}[]" for b in ",:{}[]")
    decoded = await ctx.adispatch_tool_call("t_search", {"workspace_id": ws, "query": signs * 2})
    assert "at once" in decoded["error"]
    many = [f"k{number}" for number in range(3_000)]
    arguments = {"workspace_id": ws, "query": "lorem", "fields": many}
    assert "1 to 200 fields" in (await ctx.adispatch_tool_call("t_search", arguments))["error"]


async def test_a_change_whose_caller_left_before_it_began_is_not_made(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": 1}])
    started, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        started.set()
        assert go_on.wait(HANG)

    holding = asyncio.create_task(on_cpu(hold))
    await asyncio.to_thread(started.wait, HANG)
    appending = asyncio.create_task(ctx.store.append_items(ws, [{"late": 1}]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    appending.cancel()
    await asyncio.wait([appending])
    go_on.set()
    await holding
    await on_cpu(lambda: None)
    assert await ctx.store.count_items(ws) == 1


async def test_a_cancelled_question_keeps_its_place_and_ends(ctx: Ctx) -> None:
    running = most = 0
    go_on = threading.Event()
    started = threading.Semaphore(0)

    class Slow:
        window = None

        def answer(self, table: Any, its: Work) -> None:
            nonlocal running, most
            its.spend(1)
            running += 1
            most = max(most, running)
            started.release()
            assert go_on.wait(HANG)
            running -= 1
            its.spend(1)

    at = await ctx.store.locate(await stored(ctx, [{"t": 1}]))
    asking = [asyncio.create_task(ctx.store.ask(at, Slow())) for _ in range(5)]
    assert await asyncio.to_thread(started.acquire, timeout=HANG)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    go_on.set()
    last = asyncio.create_task(ctx.store.ask(at, Slow()))
    assert (await asyncio.wait_for(last, HANG)).data is None
    assert most == 1, "one thread at a time, also when nobody waits"
    assert running == 0


async def test_a_phrase_of_hundreds_of_words_and_a_word_of_hundreds_of_letters(ctx: Ctx) -> None:
    ws = await stored(ctx, [{"t": "0 " * 100_000}, {"t": "b" + "a" * 500_000}])
    for query in ('"' + "0 " * 60 + '1"', "a" * 500, '"' + "a " * 40 + 'b"', " ".join("a" * n for n in range(1, 44))):
        arguments = {"workspace_id": ws, "query": query}
        answer = await asyncio.wait_for(ctx.adispatch_tool_call("t_search", arguments), HANG)
        assert "total_matches" in answer or "at once" in answer["error"]
    refused = await ctx.adispatch_tool_call("t_search", {"workspace_id": ws, "query": '"' + "0 " * 400 + '1"'})
    assert "more words than the 64" in refused["error"]


async def test_memory_is_bounded_over_many_different_questions() -> None:
    store = MemoryStore()
    store._snapshots = Snapshots(most_bytes=20_000_000)
    async with Ctx(store) as ctx:
        rows = [{"tags": ["a", "b"], **{f"f{n}": f"text {n}" for n in range(20)}} for _ in range(3_000)]
        ws = await stored(ctx, rows)
        for number in range(19):
            fields = [f"f{number}", f"f{number + 1}"]
            await pipe(ctx, ws, [{"flatten": "tags"}, {"search": {"query": "text", "fields": fields}}, {"limit": 1}])
            await pipe(ctx, ws, [{"flatten": "tags"}, {"sort": f"f{number}"}, {"flatten": f"f{number}"}, {"limit": 1}])
            assert store._snapshots.bytes <= 20_000_000
        await ctx.drop_workspace(ws)
        assert store._snapshots.bytes == 0


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

        def answer(self, table: Any, _: Work) -> int:
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
    assert not snapshot.derived_bytes
    assert re.match("x+$", snapshot.column("t")[5])
