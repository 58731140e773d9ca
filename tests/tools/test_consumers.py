"""Consumers read a workspace and store what they make of it; models call them like tools."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from toolstash import (
    ConsumerContext,
    Ctx,
    InvalidArgumentError,
    WorkspaceConflictError,
    WorkspaceNotFoundError,
    WorkspaceTypeMismatchError,
)
from toolstash.toolsets import filter_set, kv_reader, paginator, pipeline, text_search

ROWS = [{"n": number, "quality": number / 10} for number in range(10)]


async def raw(ctx: Ctx) -> str:
    return (await ctx.store_workspace(ROWS, workspace_type="raw")).workspace_id


async def test_the_consumer_of_the_documents(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="raw", toolsets=[paginator(ctx)])
    def ingest() -> list[dict[str, Any]]:
        """Load the rows."""
        return ROWS

    @ctx.consumer(
        workspace_type="raw", produces="clean", produces_toolsets=[paginator(ctx)], meta={"stage": "cleaning"}
    )
    def clean(workspace_id: str, min_quality: float = 0.5, *, cc: ConsumerContext) -> Any:
        """Drop low-quality rows."""
        rows = cc.get_items()
        return cc.emit([row for row in rows if row["quality"] >= min_quality])

    @ctx.consumer(workspace_type="clean", produces="report", produces_toolsets=[kv_reader(ctx)])
    async def summarize(workspace_id: str, ctx: ConsumerContext) -> Any:
        """Count the rows."""
        return await ctx.emit({"total": len(await ctx.get_items())})

    stored = await ctx.adispatch_tool_call("ingest")
    cleaned = await ctx.adispatch_tool_call("clean", {"workspace_id": stored["workspace_id"], "min_quality": "0.7"})
    report = await ctx.adispatch_tool_call("summarize", {"workspace_id": cleaned["workspace_id"]})

    assert (cleaned["workspace_type"], cleaned["item_count"]) == ("clean", 3)
    assert cleaned["metadata"] == {"derived_from": stored["workspace_id"], "stage": "cleaning"}
    assert f"clean_paginate(workspace_id='{cleaned['workspace_id']}')" in cleaned["available_tools"]
    total = await ctx.adispatch_tool_call("report_get_value", {"workspace_id": report["workspace_id"], "key": "total"})
    assert total == 3
    meta = await ctx.workspace_meta(report["workspace_id"])
    assert meta is not None
    assert meta.lineage == (stored["workspace_id"], cleaned["workspace_id"])
    assert meta.producer_fn == "summarize"


async def test_what_models_see_of_consumers(ctx: Ctx) -> None:
    @ctx.consumer(workspace_type="raw", produces="clean", name="tidy_up")
    def clean(workspace_id: str, forge_ctx: ConsumerContext, limit: int = 3) -> Any:
        """Drop rows."""

    @ctx.consumer(expose=False)
    def internal(workspace_id: str, ctx: ConsumerContext) -> Any:
        """Only for our own code."""

    (schema,) = ctx.get_consumer_schemas()
    function = schema["function"]
    assert function["name"] == "tidy_up"
    assert list(function["parameters"]["properties"]) == ["workspace_id", "limit"]
    assert "workspace of type 'clean'" in function["description"]
    assert [tool["function"]["name"] for tool in ctx.get_tools()] == ["tidy_up"]
    assert "not found" in (await ctx.adispatch_tool_call("internal", {"workspace_id": "w"}))["error"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_wrong_workspaces_are_refused_before_the_function_runs(ctx: Ctx, kind: str) -> None:
    ran: list[str] = []

    def sync_body(workspace_id: str, ctx: ConsumerContext) -> None:
        ran.append(workspace_id)

    async def async_body(workspace_id: str, ctx: ConsumerContext) -> None:
        ran.append(workspace_id)

    ctx.consumer(workspace_type="raw", name="work")(sync_body if kind == "sync" else async_body)
    other = (await ctx.store_workspace([1], workspace_type="other")).workspace_id
    good = await raw(ctx)

    wrong_type = await ctx.adispatch_tool_call("work", {"workspace_id": other})
    assert (wrong_type["expected_type"], wrong_type["actual_type"]) == ("raw", "other")
    assert wrong_type["workspaces_of_correct_type"] == [good]
    missing = await ctx.adispatch_tool_call("work", {"workspace_id": "raw_nope"})
    assert missing["available_workspaces"] == [good]
    assert ran == []
    await ctx.adispatch_tool_call("work", {"workspace_id": good})
    assert ran == [good]


async def test_iter_items_streams_in_both_kinds(ctx: Ctx) -> None:
    @ctx.consumer(produces="doubled")
    async def double(workspace_id: str, cc: ConsumerContext) -> Any:
        async def rows() -> AsyncIterator[Any]:
            async for row in cc.iter_items():
                yield row["n"] * 2

        return await cc.emit(rows())

    @ctx.consumer(produces="halved")
    def halve(workspace_id: str, cc: ConsumerContext) -> Any:
        def rows() -> Iterator[Any]:
            for row in cc.iter_items():  # type: ignore[attr-defined]
                yield row // 2

        return cc.emit(rows())

    doubled = await double(await raw(ctx))
    halved = await halve(doubled["workspace_id"])
    assert await ctx.store.get_items(halved["workspace_id"]) == list(range(10))
    assert await asyncio.to_thread(halve.blocking, doubled["workspace_id"])


async def test_lineage_names_every_workspace_that_was_read(ctx: Ctx) -> None:
    @ctx.consumer(produces="joined")
    async def join(workspace_id: str, other_id: str, cc: ConsumerContext) -> Any:
        return await cc.emit([*await cc.get_items(), *await cc.get_items(other_id)])

    one, two = await raw(ctx), await raw(ctx)
    first = await join(one, two)
    second = await join(first["workspace_id"], two)
    meta = await ctx.workspace_meta(second["workspace_id"])
    assert meta is not None
    assert set(meta.lineage) == {one, two, first["workspace_id"]}
    assert meta.lineage[-1] == first["workspace_id"]


async def test_an_explicit_id_replaces_only_what_the_consumer_made(ctx: Ctx) -> None:
    @ctx.consumer(produces="clean")
    async def clean(workspace_id: str, cc: ConsumerContext) -> Any:
        return await cc.emit([1], workspace_id="best")

    first = await clean(await raw(ctx))
    assert (await clean(await raw(ctx)))["workspace_id"] == first["workspace_id"] == "best"
    await ctx.drop_workspace("best")
    await ctx.store_workspace(["precious"], workspace_type="clean", workspace_id="best", producer_fn="someone")
    with pytest.raises(WorkspaceConflictError):
        await clean(await raw(ctx))
    assert await ctx.store.get_items("best") == ["precious"]


async def test_a_consumer_in_a_session(ctx: Ctx) -> None:
    @ctx.consumer(produces="clean")
    def clean(workspace_id: str, cc: ConsumerContext) -> Any:
        return cc.emit(cc.get_items(), workspace_id="best")

    with ctx.session("a"):
        mine = await raw(ctx)
        derived = await clean(mine)
        assert derived["workspace_id"].startswith("best@")
    with ctx.session("b"):
        refused = await ctx.adispatch_tool_call("clean", {"workspace_id": mine})
        assert "not found" in refused["error"]


async def test_a_context_made_by_hand_for_a_unit_test(ctx: Ctx) -> None:
    async def body(cc: ConsumerContext) -> Any:
        return await cc.emit([len(await cc.get_items())])

    def sync_body(cc: Any) -> Any:
        return cc.emit([len(cc.get_items())])

    context = ConsumerContext(ctx, await raw(ctx))
    assert (await body(context))["workspace_type"] == "derived"
    assert (await asyncio.to_thread(sync_body, context.blocking))["item_count"] == 1


async def test_called_from_python_it_raises(ctx: Ctx) -> None:
    @ctx.consumer(workspace_type="raw")
    def work(workspace_id: str, cc: ConsumerContext) -> None:
        """Does nothing."""

    with pytest.raises(WorkspaceNotFoundError):
        await work("nope")
    with pytest.raises(WorkspaceTypeMismatchError):
        await work((await ctx.store_workspace([1], workspace_type="other")).workspace_id)
    with pytest.raises(TypeError, match="misses the arguments workspace_id"):
        await work()
    with pytest.raises(InvalidArgumentError):
        await work(5)


def test_mistakes_of_the_programmer_raise_early(ctx: Ctx) -> None:
    with pytest.raises(TypeError, match="parentheses"):

        @ctx.consumer
        def bare(workspace_id: str) -> None: ...

    with pytest.raises(ValueError, match="produces_toolsets needs produces"):
        ctx.consumer(produces_toolsets=[paginator(ctx)])
    with pytest.raises(ValueError, match="accepts only workspaces of its own type"):

        @ctx.consumer(produces="clean", produces_toolsets=[paginator(ctx, "raw")])  # type: ignore[list-item]
        def clean(workspace_id: str) -> None: ...

    with pytest.raises(ValueError, match="time to live"):

        @ctx.consumer(ttl=-1)
        def short(workspace_id: str) -> None: ...


async def test_a_context_made_by_hand_leaves_others_data_alone(ctx: Ctx) -> None:
    await ctx.store_workspace(["precious"], workspace_type="derived", workspace_id="mine")
    with pytest.raises(WorkspaceConflictError):
        await ConsumerContext(ctx, await raw(ctx)).emit([9], workspace_id="mine")
    assert await ctx.store.get_items("mine") == ["precious"]


def test_a_consumer_that_yields_is_refused(ctx: Ctx) -> None:
    with pytest.raises(TypeError, match="passes a generator to `emit`"):

        @ctx.consumer()
        async def rows(workspace_id: str, cc: ConsumerContext) -> AsyncIterator[int]:
            yield 1


async def test_lineage_names_each_workspace_once(ctx: Ctx) -> None:
    pipeline(ctx, "raw")
    ws = await raw(ctx)
    for source in (ws, "saved_x", "saved_x"):
        await ctx.adispatch_tool_call("raw_pipe", {"workspace_id": source, "steps": [{"limit": 5}], "save_as": "x"})
    meta = await ctx.workspace_meta("saved_x")
    assert meta is not None
    assert meta.lineage == (ws, "saved_x")


async def test_generic_tools_are_named_for_types_that_have_none(ctx: Ctx) -> None:
    paginator(ctx, "data", enforce_type=False)
    ref = await ctx.store_workspace([1], workspace_type="zzz")
    assert f"data_paginate(workspace_id='{ref.workspace_id}')" in ref.available_tools


async def test_generic_tools_serve_many_producers(ctx: Ctx) -> None:
    data_tools = [paginator(ctx, "data", enforce_type=False), pipeline(ctx, "data", enforce_type=False)]

    @ctx.producer(workspace_type="papers", toolsets=data_tools)
    def papers() -> list[dict[str, Any]]:
        """Papers."""
        return [{"year": 2020}, {"year": 2024}]

    @ctx.producer(workspace_type="people", toolsets=data_tools)
    def people() -> list[dict[str, Any]]:
        """People."""
        return [{"name": "Ada"}]

    names = [tool["function"]["name"] for tool in ctx.get_all_tool_schemas()]
    assert names == ["data_paginate", "data_count", "data_get_item", "data_get_slice", "data_pipe", "data_aggregate"]
    first, second = await papers(), await people()
    steps = [{"filter": {"year": {"$gt": 2021}}}]
    piped = await ctx.adispatch_tool_call("data_pipe", {"workspace_id": first["workspace_id"], "steps": steps})
    assert piped["items"] == [{"year": 2024}]
    saved = await ctx.adispatch_tool_call(
        "data_pipe", {"workspace_id": second["workspace_id"], "steps": [], "save_as": "all"}
    )
    assert f"data_pipe(workspace_id='{saved['workspace_id']}')" in saved["available_tools"]


SETS: dict[str, Any] = {"p": paginator, "i": pipeline, "f": filter_set, "s": text_search}
CALLS: dict[str, dict[str, Any]] = {
    "paginate": {},
    "get_slice": {},
    "pipe": {"steps": []},
    "aggregate": {"group_by": "n"},
    "filter_by": {"field": "a", "value": "b", "operator": "startswith"},
    "sort_by": {"field": "n"},
    "search": {"query": "b*"},
    "field_values": {"field": "n"},
}


@pytest.mark.parametrize("chosen", ["p", "i", "f", "s", "pi", "pf", "ps", "if", "is", "fs", "pifs"])
async def test_hints_name_only_tools_that_are_there(ctx: Ctx, chosen: str) -> None:
    for letter in chosen:
        SETS[letter](ctx, "x")
    toolset = ctx.toolset("x")
    ref = await ctx.store_workspace([{"a": "b" * 3_000, "n": n} for n in range(300)], workspace_type="x")
    said = [str(toolset.to_tool_schemas()), str(ref.to_dict())]
    for tool, arguments in CALLS.items():
        if f"x_{tool}" in toolset.entries:
            said.append(str(await ctx.adispatch_tool_call(f"x_{tool}", {"workspace_id": ref.workspace_id} | arguments)))
    named = set(re.findall(r"\bx_[a-z_]+\b", " ".join(said).replace(ref.workspace_id, "")))
    assert named <= set(toolset.tool_names)
    assert named != set()
