"""What a question or a row could do to the server, or to an index that all workers use."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace as with_changes
from typing import Any

import pytest

from tests.search.engines import assert_same_answer, by_index
from tests.search.place import assert_right, engine_of, place, rows_of, stored
from tests.wait import until
from toolstash import Ctx
from toolstash.query.conditions import compile_leaf
from toolstash.query.index import IndexDraft, IndexShape, TextView
from toolstash.query.pipeline import compile_pipeline
from toolstash.query.plan import plan
from toolstash.query.questions import Filter, Pipe, Question, Search
from toolstash.query.table import RowsTable
from toolstash.query.terms import parse_query
from toolstash.store import index_builder, index_life
from toolstash.store.search_index import Index
from toolstash.toolsets import text_search

ROWS = rows_of(1)
ALL = TextView.of(None)


def shape_of(rows: list[Any], text: TextView | None = ALL) -> IndexShape:
    draft = IndexDraft(RowsTable(rows), text)
    for _ in draft.slices():
        pass
    return draft.shape()


def counting(*filters: Any) -> Question[Any]:
    return Pipe(compile_pipeline([*({"filter": each} for each in filters), {"count": True}]), 10)


def ranges(count: int) -> dict[str, Any]:
    return {"$or": [{"n": {"$gte": number}} for number in range(count)]}


@pytest.mark.parametrize(
    ("rows", "question", "is_by_index"),
    [
        (100_000, counting(ranges(20)), True),
        (100_000, counting(ranges(200)), False),
        (1_000, counting(ranges(200)), True),
        (100_000, counting(*[ranges(40)] * 5), False),
        (100_000, counting({"n": {"$in": list(range(501))}}), False),
        (1_000_000, Search(parse_query("red fox"), None, 20), True),
        (1_000_000, Search(parse_query(" ".join(f"word{n}" for n in range(60))), None, 20), False),
    ],
)
def test_what_would_hold_the_server_for_long_is_left_to_python(
    rows: int, question: Question[Any], is_by_index: bool
) -> None:
    shape = with_changes(shape_of(ROWS), rows=rows)
    assert (plan(question, shape) is not None) is is_by_index


async def test_an_index_that_was_too_slow_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        assert await store._indexes.build(at, ALL)
        monkeypatch.setattr("toolstash.store.search_index.SEARCH_SECONDS", 0.0)
        await assert_right(store, at, ROWS)
        monkeypatch.setattr("toolstash.store.search_index.SEARCH_SECONDS", 5.0)
        assert await engine_of(store, at) == "python"
        assert await engine_of(there.store(), at) == "redisearch", "it is still there for others"
        monkeypatch.setattr(index_life, "SLOW_SECONDS", 0.0)
        assert await engine_of(store, at) == "redisearch"


async def test_no_question_throws_an_index_away() -> None:
    rows = [{f"f{field}": row * field for field in range(12)} | {"t": "red"} for row in range(50)]
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", rows)
        assert await store._indexes.build(at, ALL)
        many = [{"sort": [f"f{field}" for field in range(12)]}]
        refused: list[Question[Any]] = [Pipe(compile_pipeline(many), 10)]
        refused += [Filter(compile_leaf("f1", op, math.nan), 10) for op in ("$eq", "$ne", "$gt", "$lte")]
        refused += [Filter(compile_leaf("f1", "$in", [1, math.nan, math.inf]), 10)]
        for question in refused:
            assert await by_index(store, at, question) is None
        first = Pipe(compile_pipeline([{"sort": [f"f{field}" for field in range(7)]}]), 10)
        assert_same_answer(await by_index(store, at, first), rows, first)
        await there.client.execute_command("FT.CONFIG", "SET", "MAXAGGREGATERESULTS", 5)
        try:
            assert await by_index(store, at, Search(parse_query("red"), None, 20)) is None
        finally:
            await there.client.execute_command("FT.CONFIG", "SET", "MAXAGGREGATERESULTS", -1)
        assert len(await there.indexes()) == 1
        assert await by_index(store, at, Search(parse_query("red"), None, 20)) is not None


async def test_a_search_behind_a_limit_ranks_by_all_rows() -> None:
    rows = [{"i": 0, "t": "a"}, {"i": 1, "t": "b"}, {"i": 2, "t": "b"}, *({"i": i, "t": "a"} for i in range(3, 10))]
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", rows)
        assert await store._indexes.build(at, ALL)
        steps: list[Any] = [{"sort": "i"}, {"limit": 3}, {"search": "a b"}, {"limit": 1}]
        answer = (await store.ask(at, Pipe(compile_pipeline(steps), 10))).data
        assert answer.rows == [{"i": 1, "t": "b"}]


def test_long_lists_have_no_tags() -> None:
    rows = [{"short": [1, 2], "long": list(range(200 if row == 3 else 2)), "k": "a"} for row in range(10)]
    shape = shape_of(rows)
    assert {path: column.is_tagged for path, column in shape.columns.items()} == {
        "short": True,
        "long": False,
        "k": True,
    }
    for path, is_by_index in (("short", True), ("long", False)):
        question = Filter(compile_leaf(path, "$contains", 1), 10)
        assert (plan(question, shape) is not None) is is_by_index
    wide = [{f"l{field}": [f"{row} {n}" for n in range(40)] for field in range(10)} for row in range(10)]
    assert [column.is_tagged for column in shape_of(wide).columns.values()] == [True] + [False] * 9


async def test_an_index_that_takes_too_much_memory_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index_builder, "FREE_BYTES", 0)
    monkeypatch.setattr(index_builder, "MOST_BYTES_A_BYTE", 0)
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 20)
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS, index="lazy")
        assert await store._indexes.build(at, ALL) is False
        await there.nothing_is_left()
        await assert_right(store, at, ROWS)
        await store._indexes.settle()
        assert "many times the memory" in caplog.text
        assert caplog.text.count("many times the memory") == 1, "it is not tried again with every question"


async def test_what_another_version_of_the_library_wrote_is_left_alone() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        assert await store._indexes.build(at, ALL)
        (shape,) = await there.keys("shape")
        document = await there.client.get(shape)
        for other in (document.replace(b'"format":1', b'"format":2'), b'o{"rows":3}', b"o[]", b"j7"):
            await there.client.set(shape, other)
            await assert_right(there.store(), at, ROWS)
        assert len(await there.indexes()) == 1
        (entries,) = await there.keys("indexes")
        await there.client.hset(entries, "all", "some other form of it")
        await assert_right(there.store(), at, ROWS)
    assert Index.of_entries([b"all", b"b v 3", b"none", b"x"]) == [Index("all", "b", "v", 3)]


async def test_a_server_that_is_full_at_the_first_question_is_asked_again() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        await there.client.config_set("maxmemory", 1)
        try:
            assert await store._indexes.ability() is None
        finally:
            await there.client.config_set("maxmemory", 0)
        assert await store._indexes.build(at, ALL)


async def test_many_first_questions_try_the_server_once() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS)
        await there.client.config_resetstat()
        await asyncio.gather(*(store.ask(at, Search(parse_query("fox"), None, 5)) for _ in range(30)))
        told = await there.client.info("commandstats")
        assert told["cmdstat_FT.CREATE"]["calls"] == 1


async def test_fields_that_a_model_chose_bring_about_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 20)
    async with place() as there:
        store = there.store()
        ctx = Ctx(store)
        tools: Any = text_search(ctx, "t")
        ref = await ctx.store_workspace(ROWS, workspace_type="t")
        bound = tools.bind(ref.workspace_id)
        for fields in (["t"], ["k"], ["t", "k"]):
            assert (await bound.t_search("fox", fields=fields))["engine"] == "python"
        await store._indexes.settle()
        assert await there.indexes() == []
        await bound.t_search("fox")

        async def is_by_index() -> bool:
            return (await bound.t_search("fox"))["engine"] == "redisearch"

        await until(is_by_index, what="the usual search has its index")


async def test_an_eager_index_of_a_few_rows_comes_back_when_it_is_lost() -> None:
    async with place() as there:
        store = there.store()
        at = await stored(store, "w", ROWS, index="eager")
        assert await store._indexes.build(at, ALL)
        await there.client.execute_command("FT.DROPINDEX", (await there.indexes())[0])

        async def is_back() -> bool:
            return await engine_of(store, at) == "redisearch"

        await until(is_back, what="it is built again")


async def test_documents_expire_until_their_index_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    lives: list[int] = []
    keep = index_builder._Build._keep

    async with place() as there:

        async def look_and_keep(build: Any) -> bool:
            lives.extend([await there.client.pttl(key) for key in await there.keys("doc")])
            return await keep(build)

        monkeypatch.setattr(index_builder._Build, "_keep", look_and_keep)
        store = there.store()
        at = await stored(store, "w", ROWS)
        assert await store._indexes.build(at, ALL)
        assert len(lives) == len(ROWS)
        assert min(lives) > 0
        assert {await there.client.pttl(key) for key in await there.keys("doc")} == {-1}
        assert await engine_of(store, at) == "redisearch"
