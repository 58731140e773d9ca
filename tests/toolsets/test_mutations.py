"""The tools that change rows are there when asked for, and touch only what is the caller's own."""

from __future__ import annotations

from typing import Any

from toolstash import Ctx
from toolstash.toolsets import paginator


async def call(ctx: Ctx, tool: str, workspace_id: str, **arguments: Any) -> Any:
    return await ctx.adispatch_tool_call(f"t_{tool}", {"workspace_id": workspace_id, **arguments})


async def stored(ctx: Ctx) -> str:
    paginator(ctx, "t", mutations=True)
    return (await ctx.store_workspace([{"n": 0}, {"n": 1}], workspace_type="t")).workspace_id


async def test_they_are_off_by_default(ctx: Ctx) -> None:
    plain = paginator(ctx, "t").tool_names  # type: ignore[union-attr]
    assert plain == ["t_paginate", "t_count", "t_get_item", "t_get_slice"]
    more = paginator(ctx, "u", mutations=True).tool_names  # type: ignore[union-attr]
    assert more[4:] == ["u_append_items", "u_update_item", "u_patch_item", "u_delete_items"]


async def test_each_says_what_came_of_it(ctx: Ctx) -> None:
    ws = await stored(ctx)
    appended = await call(ctx, "append_items", ws, items=[{"n": 2}])
    assert (appended["workspace_id"], appended["count"]) == (ws, 3)
    patched = await call(ctx, "patch_item", ws, index=0, fields={"seen": True}, expected_version=appended["version"])
    updated = await call(ctx, "update_item", ws, index="1", item={"n": 10})
    deleted = await call(ctx, "delete_items", ws, indices=[2])
    assert len({answer["version"] for answer in (appended, patched, updated, deleted)}) == 4
    assert await ctx.store.get_items(ws) == [{"n": 0, "seen": True}, {"n": 10}]


async def test_forms_that_models_send(ctx: Ctx) -> None:
    ws = await stored(ctx)
    await call(ctx, "append_items", ws, items='[{"n": 2}]')
    await call(ctx, "append_items", ws, items={"n": 3})
    await call(ctx, "delete_items", ws, indices="[0, 1]")
    await call(ctx, "patch_item", ws, index=0.0, fields='{"x": null}')
    assert await ctx.store.get_items(ws) == [{"n": 2, "x": None}, {"n": 3}]


async def test_mistakes_change_nothing(ctx: Ctx) -> None:
    ws = await stored(ctx)
    other_version = await call(ctx, "delete_items", ws, indices=[0], expected_version="nope")
    assert "another version" in other_version["error"]
    assert other_version["version"]
    beyond = await call(ctx, "update_item", ws, index=7, item={})
    assert beyond["valid_range"] == "0–1"
    negative = await call(ctx, "delete_items", ws, indices=[-1])
    assert "out of range" in negative["error"]
    scalar = (await ctx.store_workspace("text", workspace_type="t")).workspace_id
    assert (await call(ctx, "append_items", scalar, items=[1]))["expected_shape"] == "list"
    foreign_type = (await ctx.store_workspace([1], workspace_type="other")).workspace_id
    assert (await call(ctx, "append_items", foreign_type, items=[2]))["expected_type"] == "t"
    assert await ctx.store.get_items(ws) == [{"n": 0}, {"n": 1}]
    assert await ctx.store.get_items(foreign_type) == [1]


async def test_a_session_changes_only_its_own(ctx: Ctx) -> None:
    shared = await stored(ctx)
    with ctx.session("a"):
        mine = (await ctx.store_workspace([1], workspace_type="t")).workspace_id
        refused = await call(ctx, "append_items", shared, items=[2])
        assert "shared" in refused["error"]
        assert (await call(ctx, "append_items", mine, items=[2]))["count"] == 2
    with ctx.session("b"):
        assert "not found" in (await call(ctx, "delete_items", mine, indices=[0]))["error"]
    assert (await call(ctx, "append_items", shared, items=[2]))["count"] == 3
