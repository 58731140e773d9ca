"""No key stays for ever unless its workspace does: every family, on a real server (F21)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.servers import NAMES, shared_server
from toolstash import Ctx, RedisStore
from toolstash.asking import Answer, Request
from toolstash.contracts import Address, Progress
from toolstash.store.call_record import CallRecord, Ending
from toolstash.store.calls import Lease
from toolstash.toolsets import paginator
from toolstash.wire.keys import space_of_session

LASTING_FAMILIES = {"meta", "rows", "text", "names", "fields", "gone", "created", "expiring", "events"}
"""What may be without expiry while a workspace is."""


async def lasting(client: redis.asyncio.Redis, prefix: str) -> set[str]:
    """Keys under the prefix that have no time to live."""
    return {key.decode() async for key in client.scan_iter(f"{prefix}:*") if await client.ttl(key) == -1}


def family(key: str) -> str:
    parts = key.split(":")
    return next((part for part in reversed(parts) if part in LASTING_FAMILIES | {"op", "sessions"}), parts[-1])


async def use_calls(store: RedisStore, session: str | None) -> None:
    """Calls at each step of their way: running, waiting, answered, claimed, kept, ended in each way, taken away."""
    book, space = store.calls, space_of_session(session)

    async def swap(name: str, record: CallRecord | None) -> None:
        at = Address(space, name)
        assert await book.swap(at, await book.look(at), record)

    running = CallRecord(tool="t", owner="w", inbox="in")
    pending = running.suspended(Request("q", "approval", "May I?"), (await book.look(Address(space, "pending"))).now)
    answered = pending.answered(Answer("q", ok=True), pending.created_at)
    ways = {
        "running": [running],
        "pending": [running, pending],
        "answered": [pending, answered],
        "claimed": [pending, answered, answered.claimed("w", "in", is_held=False)],
        "done": [pending, answered, answered.ended(Ending("done", value=1))],
        "declined": [pending, pending.answered(Answer("q", ok=False), pending.created_at)],
        "cancelled": [pending, pending.cancelled(pending.created_at, is_held=False)],
        "off": [CallRecord.called_off()],
        "taken-away": [pending, None],
    }
    for name, way in ways.items():
        for record in way:
            await swap(name, record)
    assert all(await book.keep([Lease(Address(space, name), "w") for name in ("running", "claimed")]))
    for at in await book.work(100):
        await book.put_off(at, 3)
    await book.strike(Address(space, "done"))
    await book.tell(Address(space, "running"), Progress(1, 2, "half"))
    await book.call_back("in", "running")


async def use_everything(ctx: Ctx, ttl: float | None) -> None:
    """Every kind of payload, replaced, appended, patched, failed, cancelled and dropped."""

    async def endless() -> AsyncIterator[str]:
        while True:
            yield "x" * 1_000

    for session in (None, "alice"):
        with ctx.session(session):
            for payload in ([1, 2], {"a": 1}, "text" * 3_000, 5):
                for _ in range(2):
                    ref = await ctx.store_workspace(payload, workspace_type="a", workspace_id="same", ttl=ttl)
            rows = await ctx.store_workspace([{"n": 1}], workspace_type="a", ttl=ttl)
            await ctx.store.append_items(rows.workspace_id, [2])
            await ctx.store.patch_item(rows.workspace_id, 0, {"m": 2})
            await ctx.store.delete_items(rows.workspace_id, [1])
            await ctx.store.get_items(ref.workspace_id)
            task = asyncio.ensure_future(ctx.store_workspace(endless(), workspace_type="a", ttl=ttl))
            done, _ = await asyncio.wait({task}, timeout=0.8)
            assert not done
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            dropped = await ctx.store_workspace([1], workspace_type="a", ttl=ttl)
            await ctx.drop_workspace(dropped.workspace_id)
            await use_calls(ctx.store, session)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
async def test_with_a_time_to_live_every_key_has_one(name: str) -> None:
    url, prefix = shared_server(name).url, f"t{secrets.token_hex(5)}"
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        ctx = Ctx(store, max_bytes=None)
        paginator(ctx, "a")
        await use_everything(ctx, ttl=60.0)
        assert await lasting(client, prefix) == set()


async def test_without_one_only_the_workspaces_own_keys_last_and_dropping_ends_them() -> None:
    url, prefix = shared_server("valkey").url, f"t{secrets.token_hex(5)}"
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        ctx = Ctx(store, max_bytes=None)
        await use_everything(ctx, ttl=None)
        kept = await lasting(client, prefix)
        assert kept
        assert {family(key) for key in kept} <= LASTING_FAMILIES | {"sessions"}
        await ctx.clear()
        assert {family(key) for key in await lasting(client, prefix)} <= {"sessions"}


async def test_calls_alone_leave_nothing_for_ever() -> None:
    url, prefix = shared_server("valkey").url, f"t{secrets.token_hex(5)}"
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        for session in (None, "alice"):
            await use_calls(store, session)
        keys = {key.decode().removeprefix(prefix) async for key in client.scan_iter(f"{prefix}:*")}
        assert {key.split(":")[-1] for key in keys if ":op:" not in key} == {
            *("call", "waiting", "events", "due", "sessions")
        }
        assert await lasting(client, prefix) == set()
