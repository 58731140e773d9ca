"""Two sessions with the same key never meet, through any door of a Ctx (F5, F22, F42)."""

from __future__ import annotations

import json
import secrets

import redis.asyncio

from tests.servers import shared_server
from toolstash import BaseStore, Ctx, RedisStore
from toolstash.toolsets import paginator


async def test_the_same_key_in_two_sessions(store: BaseStore) -> None:
    ctx = Ctx(store)

    @ctx.producer(workspace_type="notes", toolsets=[paginator(ctx)], key="notes_{topic}")
    def load_notes(topic: str, owner: str) -> list[str]:
        """Load notes."""
        return [f"{owner}: {topic}"]

    ids = {}
    for owner in ("ann", "bob", None):
        notice = await ctx.adispatch_tool_call("load_notes", {"topic": "ml", "owner": str(owner)}, session_id=owner)
        ids[owner] = notice["workspace_id"]
    assert len(set(ids.values())) == 3
    for owner, other in (("ann", "bob"), ("bob", "ann")):
        with ctx.session(owner):
            mine = await ctx.adispatch_tool_call("notes_get_item", {"workspace_id": ids[owner], "index": 0})
            assert mine == f"{owner}: ml"
            for tool in ("notes_paginate", "notes_count", "notes_get_slice"):
                refusal = await ctx.adispatch_tool_call(tool, {"workspace_id": ids[other]})
                assert "not found" in refusal["error"]
                assert ids[other] not in refusal["available_workspaces"]
                assert f"{other}: ml" not in json.dumps(refusal)
            assert await ctx.list_workspaces() == [ids[owner], ids[None]]
            assert await ctx.workspace_meta(ids[other]) is None
            assert await ctx.drop_workspace(ids[other]) is False
            assert await ctx.sweep_expired() == []
    with ctx.session("ann"):
        await ctx.clear()
        assert await ctx.list_workspaces() == [ids[None]]
    assert set(await ctx.list_workspaces()) == {ids["bob"], ids[None]}


async def test_prefixes_that_begin_alike_do_not_meet() -> None:
    base = f"t{secrets.token_hex(5)}"
    url = shared_server("valkey").url
    async with RedisStore(url, prefix=base) as short, RedisStore(url, prefix=base + "2") as longer:
        for store in (short, longer):
            await Ctx(store).store_workspace([store.prefix], workspace_type="a", workspace_id="w", ttl=60)
        await short.clear()
        assert await short.list_workspaces() == []
        assert await longer.get_items("w") == [base + "2"]
        await longer.clear()


async def test_a_registry_forgets_by_itself_what_expired_long_ago() -> None:
    url, prefix = shared_server("valkey").url, f"t{secrets.token_hex(5)}"
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        ctx = Ctx(store)
        for number in range(5):
            await client.zadd(f"{prefix}:{{shared}}:created", {f"old{number}": number})
            await client.zadd(f"{prefix}:{{shared}}:expiring", {f"old{number}": number})
        await ctx.store_workspace([1], workspace_type="a", workspace_id="new", ttl=60)
        assert await client.zrange(f"{prefix}:{{shared}}:created", 0, -1) == [b"new"]
        assert await client.zrange(f"{prefix}:{{shared}}:expiring", 0, -1) == [b"new"]
