"""Producers: what they return is stored and answered with a notice."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from toolstash import (
    Ctx,
    InvalidArgumentError,
    MemoryStore,
    PayloadTooLargeError,
    SessionRequiredError,
    UnstorableValueError,
    WorkspaceConflictError,
    WorkspaceRef,
)
from toolstash.toolsets import kv_reader, paginator, text_content

ROWS = [{"id": number, "title": f"paper {number}"} for number in range(50)]


async def test_a_producer_stores_its_rows_and_gives_a_notice(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx)], meta={"source": "arxiv"}, ttl=1800)
    async def search_papers(query: str, limit: int = 50) -> list[dict[str, Any]]:
        """Search the paper database."""
        return ROWS[:limit]

    notice = await search_papers("ml", limit=20)

    assert list(notice) == [
        "status",
        "workspace_id",
        "workspace_type",
        "item_count",
        "data_shape",
        "chars",
        "message",
        "item_schema",
        "preview",
        "available_tools",
        "next_steps",
        "expires_in_seconds",
        "metadata",
    ]
    assert (notice["status"], notice["item_count"], notice["expires_in_seconds"]) == ("workspace_ready", 20, 1800)
    assert notice["preview"] == ROWS[:3]
    assert notice["metadata"] == {"source": "arxiv"}
    assert notice["available_tools"][0] == f"papers_paginate(workspace_id='{notice['workspace_id']}')"
    meta = await ctx.workspace_meta(notice["workspace_id"])
    assert meta is not None
    assert (meta.producer_fn, meta.producer_kwargs) == ("search_papers", {"query": "ml", "limit": 20})
    assert search_papers.__name__ == "search_papers"
    assert await ctx.store.get_items(notice["workspace_id"]) == ROWS[:20]


async def test_sync_functions_run_in_worker_threads(ctx: Ctx) -> None:
    threads: list[int] = []

    @ctx.producer(workspace_type="a")
    def load() -> list[int]:
        threads.append(threading.get_ident())
        return [1]

    assert (await load())["item_count"] == 1
    assert threads != [threading.get_ident()]


async def test_generators_are_stored_as_they_come(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    def numbers(count: int) -> Iterator[int]:
        yield from range(count)

    @ctx.producer(workspace_type="b")
    async def later(count: int) -> AsyncIterator[dict[str, int]]:
        for number in range(count):
            yield {"n": number}

    first, second = await numbers(5_000), await later(3)
    assert (first["item_count"], first["data_shape"]) == (5_000, "list")
    assert second["preview"] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert await ctx.store.get_page(first["workspace_id"], 4_998, 9) == [4_998, 4_999]


async def test_a_transform_sees_the_result_before_it_is_stored(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a", transform=lambda rows: rows[:2])
    async def load() -> AsyncIterator[int]:
        for number in range(5):
            yield number

    @ctx.producer(workspace_type="b", transform=str.upper)
    def text() -> str:
        return "abc"

    assert await ctx.store.get_items((await load())["workspace_id"]) == [0, 1]
    assert await ctx.store.get_items((await text())["workspace_id"]) == "ABC"


async def test_a_key_makes_equal_calls_replace_each_other(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="stock", key="stock_{warehouse}_{page:03d}")
    def stock(warehouse: str, page: int = 1) -> list[str]:
        return [warehouse]

    @ctx.producer(workspace_type="user", key=lambda arguments: f"ws_{arguments['user']}")
    def user(user: int) -> dict[str, int]:
        return {"user": user}

    first = await stock("eu")
    assert first["workspace_id"] == (await stock(warehouse="eu"))["workspace_id"] == "stock_eu_001"
    assert (await user(7))["workspace_id"] == "ws_7"
    assert await ctx.list_workspaces("stock") == ["stock_eu_001"]


@pytest.mark.parametrize("key", ["{unknown}", "{query.__class__}", "{query[0]}", "{0}", "{}", "x{args}", ""])
def test_a_key_that_cannot_be_filled_is_refused_at_decoration(key: str) -> None:
    ctx = Ctx("memory:")

    with pytest.raises(ValueError, match="key"):

        @ctx.producer(workspace_type="a", key=key)
        def load(query: str, *args: str) -> list[str]:
            return []


async def test_a_key_never_overwrites_what_another_producer_made(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a", key="same")
    def first() -> list[int]:
        return [1]

    @ctx.producer(workspace_type="a", key="same")
    def second() -> list[int]:
        return [2]

    @ctx.producer(workspace_type="b", key="same")
    def third() -> list[int]:
        return [3]

    await first()
    for other in (second, third):
        with pytest.raises(WorkspaceConflictError, match="held by a 'a' workspace made by 'first'"):
            await other()
    assert await ctx.store.get_items("same") == [1]
    refusal = await ctx.adispatch_tool_call("second")
    assert "error" in refusal
    assert refusal["suggested_action"]


async def test_a_key_that_gives_no_id_is_refused(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a", key=lambda _: "")
    def load() -> list[int]:
        return [1]

    with pytest.raises(InvalidArgumentError, match="gave no id"):
        await load()


async def test_notify_false_gives_the_reference(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a", notify=False, toolsets=[paginator(ctx)])
    def load() -> list[dict[str, int]]:
        return [{"x": 1}]

    ref = await load()
    assert isinstance(ref, WorkspaceRef)
    assert ref.sample_fields == ["x"]
    assert ref.to_compact() == (
        f"workspace_ready | id={ref.workspace_id} | 1 items | tools: a_paginate, a_count, a_get_item, a_get_slice"
    )


async def test_secrets_in_arguments_are_masked_and_long_ones_cut(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    def load(api_key: str, authToken: str, keyword: str, big: Any, rows: list[int]) -> list[int]:
        return rows

    notice = await load("s3cret", "t0ken", "k" * 300, 10**400, [1])
    meta = await ctx.workspace_meta(notice["workspace_id"])
    assert meta is not None
    assert meta.producer_kwargs == {"api_key": "***", "authToken": "***", "keyword": "k" * 199 + "…", "big": "…"}


@pytest.mark.parametrize("empty", [None, "", [], {}, "   ", [[]], [None]])
async def test_an_empty_answer_is_said_in_words(ctx: Ctx, empty: Any) -> None:
    @ctx.producer(workspace_type="a", toolsets=[paginator(ctx), kv_reader(ctx), text_content(ctx)])
    def load() -> Any:
        return empty

    notice = await ctx.adispatch_tool_call("load")
    assert notice["status"] == "workspace_ready"
    words = "1 row is stored" if empty in ([[]], [None]) else "white space" if empty == "   " else "No rows"
    assert words in notice["message"]
    assert await ctx.store.get_items(notice["workspace_id"]) == empty


async def test_limits_leave_nothing_behind(ctx: Ctx) -> None:
    small = Ctx(ctx.store, max_items=10, max_bytes=1_000)

    @small.producer(workspace_type="a")
    def load(count: int, width: int) -> list[str]:
        return ["x" * width] * count

    for arguments in ((11, 1), (2, 600)):
        with pytest.raises(PayloadTooLargeError):
            await load(*arguments)
    refusal = await small.adispatch_tool_call("load", {"count": 11, "width": 1})
    assert refusal["max_items"] == 10
    assert await ctx.list_workspaces() == []


async def test_small_results_may_pass_through() -> None:
    async with Ctx("memory:", inline_below_chars=100) as ctx:

        @ctx.producer(workspace_type="a")
        def load(count: int) -> list[int]:
            return list(range(count))

        assert await load(3) == [0, 1, 2]
        assert (await load(200))["item_count"] == 200
        assert len(await ctx.list_workspaces()) == 1


async def test_what_cannot_be_stored_names_the_row(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    def load() -> list[Any]:
        return [{"ok": 1}, {"handle": threading.Lock()}]

    with pytest.raises(UnstorableValueError, match="row 1, field 'handle'"):
        await load()
    assert (await ctx.adispatch_tool_call("load"))["row"] == 1


async def test_tools_that_do_not_fit_are_left_out_and_none_fitting_is_logged(
    ctx: Ctx, caplog: pytest.LogCaptureFixture
) -> None:
    @ctx.producer(workspace_type="a", toolsets=[paginator(ctx), text_content(ctx)])
    def load(shape: str) -> Any:
        return {"list": [1], "text": "abc", "dict": {"a": 1}, "number": 5}[shape]

    with caplog.at_level(logging.WARNING, "toolstash"):
        listed = await load("list")
        assert not caplog.records
        assert "available_tools" not in await load("dict")
        assert len(caplog.records) == 1
    assert [tool.partition("(")[0] for tool in listed["available_tools"]][0] == "a_paginate"
    assert all("read_page" not in tool for tool in listed["available_tools"])
    assert [tool.partition("(")[0] for tool in (await load("text"))["available_tools"]][0] == "a_read_page"
    assert "available_tools" not in await load("number")


def test_programmers_mistakes_are_refused_early(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    def load() -> list[int]:
        return []

    with pytest.raises(ValueError, match="accepts only workspaces of its own type"):
        ctx.producer(workspace_type="a", toolsets=[paginator(ctx, "b")])(list)
    with pytest.raises(ValueError, match="workspace_type"):
        ctx.producer(workspace_type="")
    with pytest.raises(TypeError, match="toolsets takes tool sets"):
        ctx.producer(workspace_type="a", toolsets=[paginator])(list)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="the tool name 'load' is taken"):

        def make() -> Any:
            @ctx.producer(workspace_type="c")
            def load() -> list[int]:
                return []

        make()
    with pytest.raises(ValueError, match="time to live"):
        ctx.producer(workspace_type="d", ttl=0)(list)


@pytest.mark.parametrize(
    "options",
    [
        {"default_ttl": 0},
        {"max_items": 0},
        {"max_bytes": -1},
        {"max_result_chars": 10},
        {"inline_below_chars": -1},
        {"max_workspaces_per_session": 0},
        {"prefix": "a{b}"},
        {"store": "http://x"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be|time to live|URL"):
        Ctx(**({"store": "redis://127.0.0.1:1" if "prefix" in options else "memory:"} | options))


async def test_one_generic_set_serves_many_producers(ctx: Ctx) -> None:
    tools = [paginator(ctx, "data", enforce_type=False)]

    @ctx.producer(workspace_type="papers", toolsets=tools)
    def papers() -> list[int]:
        return [1]

    @ctx.producer(workspace_type="people", toolsets=tools)
    def people() -> list[int]:
        return [2]

    for notice in (await papers(), await people()):
        answer = await ctx.adispatch_tool_call("data_count", {"workspace_id": notice["workspace_id"]})
        assert answer["count"] == 1
    assert len(ctx.get_tools()) == 6


async def test_a_quota_is_reported_in_the_notice() -> None:
    async with Ctx("memory:", max_workspaces_per_session=1) as ctx:

        @ctx.producer(workspace_type="a")
        def load() -> list[int]:
            return [1]

        with ctx.session("s"):
            first, second = await load(), await load()
            assert first["workspace_id"] in second["message"]
            assert await ctx.list_workspaces() == [second["workspace_id"]]


async def test_a_server_refuses_calls_without_a_session() -> None:
    async with Ctx("memory:", require_session=True) as ctx:
        ran: list[bool] = []

        @ctx.producer(workspace_type="a")
        def load() -> list[int]:
            ran.append(True)
            return [1]

        for call in (load(), ctx.adispatch_tool_call("load"), ctx.store_workspace([1], workspace_type="a")):
            with pytest.raises(SessionRequiredError):
                await call
        with pytest.raises(SessionRequiredError):
            await ctx.adispatch_tool_call("load", session_id="")
        assert ran == []
        assert (await ctx.adispatch_tool_call("load", session_id="x"))["item_count"] == 1


async def test_the_session_follows_tasks_and_threads(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    def load() -> list[int]:
        return [1]

    async def work(session: str) -> list[str]:
        with ctx.session(session):
            await asyncio.gather(load(), load())
            return await ctx.list_workspaces()

    found = await asyncio.gather(*(work(f"s{number}") for number in range(5)))
    assert all(len(ids) == 2 for ids in found)
    assert len({name for ids in found for name in ids}) == 10


async def test_closing_waits_for_running_calls_and_refuses_later_ones() -> None:
    ctx = Ctx(MemoryStore())
    started, go_on = asyncio.Event(), asyncio.Event()

    @ctx.producer(workspace_type="a")
    async def load() -> list[int]:
        started.set()
        await go_on.wait()
        return [1]

    call = asyncio.ensure_future(ctx.adispatch_tool_call("load"))
    await started.wait()
    closing = asyncio.ensure_future(ctx.aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    await closing
    assert (await call)["item_count"] == 1
    with pytest.raises(RuntimeError, match="closed"):
        await ctx.adispatch_tool_call("load")
    await ctx.aclose()


def test_the_blocking_door(tmp_path: Any) -> None:
    ctx = Ctx("memory:")

    @ctx.producer(workspace_type="a", toolsets=[paginator(ctx)])
    async def load() -> list[int]:
        return [1, 2, 3]

    with ctx.session("me"):
        notice = load.blocking()
        assert ctx.dispatch_tool_call("a_count", {"workspace_id": notice["workspace_id"]})["count"] == 3
        assert ctx.blocking.list_workspaces() == [notice["workspace_id"]]
        assert list(ctx.store.blocking.iter_items(notice["workspace_id"])) == [1, 2, 3]
    assert ctx.dispatch_tool_call("a_count", {"workspace_id": notice["workspace_id"]}, session_id="you")["error"]
    bound = ctx.toolset("a").bind(notice["workspace_id"])
    assert bound.a_get_item.blocking(index=1) == 2


async def test_the_blocking_door_is_shut_in_an_event_loop(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    async def load() -> list[int]:
        return [1]

    for call in (load.blocking, lambda: ctx.dispatch_tool_call("load"), lambda: ctx.blocking.list_workspaces()):
        with pytest.raises(RuntimeError, match="await"):
            call()
