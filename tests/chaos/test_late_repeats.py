"""A reply is lost and the write comes again late, when others have changed what it wrote; connections die."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import replace as with_changes
from typing import Any

import pytest
import redis.asyncio

from tests.chaos.ledger import TTL, put
from tests.proxy import proxied
from tests.servers import shared_server
from tests.wait import until
from toolstash import RedisStore, WorkspaceExpiredError
from toolstash.asking import Answer, Request
from toolstash.contracts import Address
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import Noted
from toolstash.wire.keys import space_of_session
from toolstash.wire.server import Server


class Delayed(RedisStore):
    """A store that does something of others' before it repeats a command."""

    before_repeat: Any = None

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(url, prefix=prefix)
        revive = self._connections._revive

        async def first_others(client: Any) -> None:
            await revive(client)
            if self.before_repeat is not None:
                others, self.before_repeat = self.before_repeat, None
                await others()

        self._connections._revive = first_others  # type: ignore[method-assign]


@pytest.mark.parametrize(("rows", "left"), [(3, 0), (5_000, 4_000), (5_000, 0)])
async def test_rows_that_others_removed_are_not_written_again(prefix: str, rows: int, left: int) -> None:
    """The store was done and published, its reply was lost, and another worker has deleted rows since."""
    url = shared_server("valkey").url
    async with proxied(url) as proxy, Delayed(proxy.url, prefix) as store, RedisStore(url, prefix=prefix) as other:
        await put(store, ["old"])

        async def deleting() -> None:
            assert await other.delete_items("w", range(left, rows)) == left

        store.before_repeat = deleting
        proxy.lose_replies = 1
        meta = await put(store, list(range(rows)))
        assert store.before_repeat is None
        assert meta.item_count == rows
        assert await other.get_items("w") == list(range(left))
        assert await other.append_items("w", ["more"]) == left + 1


async def test_a_workspace_that_others_dropped_does_not_come_back(prefix: str) -> None:
    url = shared_server("valkey").url
    async with (
        proxied(url) as proxy,
        Delayed(proxy.url, prefix) as store,
        RedisStore(url, prefix=prefix) as other,
        redis.asyncio.Redis.from_url(url) as client,
    ):
        await put(store, ["old"])

        async def dropping() -> None:
            assert await other.drop_workspace("w")

        store.before_repeat = dropping
        proxy.lose_replies = 1
        await put(store, list(range(3)))
        assert store.before_repeat is None
        assert await other.get_meta("w") is None
        assert await other.list_workspaces() == []
        lives = [await client.pttl(key) async for key in client.scan_iter(f"{prefix}:*")]
        assert all(0 < life <= TTL * 1000 + 24 * 3_600_000 for life in lives)


async def test_an_answer_whose_reply_is_lost_counts_though_others_have_gone_on(prefix: str) -> None:
    """Its sender is not told that somebody was first, and what others made of the call since is not undone."""
    url = shared_server("valkey").url
    async with proxied(url) as proxy, Delayed(proxy.url, prefix) as store, RedisStore(url, prefix=prefix) as other:

        async def asked(name: str) -> tuple[Address, Noted, CallRecord]:
            at = Address(space_of_session("one"), name)
            seen = await other.calls.look(at)
            pending = CallRecord(tool="t").suspended(Request(f"q_{name}", "approval", "May I?"), seen.now)
            assert await other.calls.swap(at, seen, pending)
            seen = await other.calls.look(at)
            return at, seen, pending.answered(Answer(f"q_{name}", ok=True), seen.now)

        assert await store.calls.swap(*(await asked("first")), in_time=True)  # so that the server knows the scripts
        at, seen, answered = await asked("second")

        async def claiming() -> None:
            now = await other.calls.look(at)
            assert now.record == answered
            assert await other.calls.swap(at, now, now.record.claimed("w", "in", is_held=False))

        run_all = store._connections.run_all

        async def lose_the_swaps(calls: Any) -> Any:
            proxy.lose_replies = any(call.script.name == "swap_call" for call in calls)
            return await run_all(calls)

        store._connections.run_all = lose_the_swaps  # type: ignore[method-assign]
        store.before_repeat = claiming
        assert await store.calls.swap(at, seen, answered, in_time=True)
        assert (store.before_repeat, proxy.lost) == (None, 1)
        assert (await other.calls.look(at)).record == with_changes(answered, owner="w", inbox="in")
        kinds = [event.kind for event in await other.events_after(at.space, "0-0", 20) if event.call_id == "second"]
        assert kinds == ["suspended", "answered"]
        await other.calls.strike(Address(at.space, "first"))
        seconds = await other.calls.next_work_seconds()
        assert seconds is not None, "the repeat may have others look once more; it takes nothing off the list"
        assert seconds <= 10

        assert await store.calls.swap(at, await other.calls.look(at), None)
        assert proxy.lost == 2
        assert not await other.calls.swap(at, seen, answered)


async def test_a_part_that_is_evicted_while_fields_are_read(prefix: str) -> None:
    """The names of a large dict are there and its values are gone, in the middle of a read in chunks."""
    url = shared_server("valkey").url
    async with (
        proxied(url) as proxy,
        RedisStore(proxy.url, prefix=prefix) as store,
        redis.asyncio.Redis.from_url(url) as client,
    ):
        await put(store, {f"name {number}": "x" * 2_000 for number in range(3_000)})
        run, evicted = store._connections.run, False

        async def run_and_evict(call: Any) -> Any:
            nonlocal evicted
            reply = await run(call)
            if call.script.name == "read" and not evicted:
                evicted = True
                await client.unlink(*[key async for key in client.scan_iter(f"{prefix}:*:fields:*")])
            return reply

        store._connections.run = run_and_evict  # type: ignore[method-assign]
        with pytest.raises(WorkspaceExpiredError):
            await store.get_items("w")
        assert evicted


async def test_idle_connections_are_closed_while_others_take_them(prefix: str) -> None:
    """A call that had a fault closes what is idle; a call that begins at that moment is not hit by it."""
    url = shared_server("valkey").url
    async with RedisStore(url, prefix=prefix, max_connections=20) as store:
        await put(store, list(range(20)))
        pool = await store._connections._pool()
        assert isinstance(pool.client, Server)

        async def page(number: int) -> list[Any]:
            (reply,) = await pool.client.trip("", [("ECHO", number)])
            return reply

        for start in range(0, 2_000, 20):
            forgetting = [asyncio.ensure_future(pool.client.forget_idle()) for _ in range(3)]
            replies = await asyncio.gather(*(page(number) for number in range(start, start + 20)))
            assert replies == [str(number).encode() for number in range(start, start + 20)]
            await asyncio.gather(*forgetting)
        gc.collect()  # a socket that somebody forgot would warn here, which fails the test


async def test_killed_connections_are_replaced_one_by_one(prefix: str) -> None:
    """Connections that the server closed while they were idle cost no call an error, however short its limit."""
    url = shared_server("valkey").url
    async with proxied(url) as proxy, RedisStore(proxy.url, prefix=prefix, command_timeout_seconds=2) as store:
        await put(store, list(range(20)))
        for _ in range(20):
            await asyncio.gather(*(store.get_page("w", 0, 5) for _ in range(10)))
            await proxy.stop()
            pages = await asyncio.gather(*(store.get_page("w", 0, 5) for _ in range(20)))
            assert pages == [[0, 1, 2, 3, 4]] * 20


async def test_a_call_that_waited_long_still_has_its_time(prefix: str) -> None:
    """What a call waits for a free connection is not taken off the time that its command may take."""
    url = shared_server("valkey").url
    async with (
        proxied(url) as proxy,
        RedisStore(proxy.url, prefix=prefix, max_connections=1, command_timeout_seconds=1.0) as store,
    ):
        await put(store, [1])
        await store.get_items("w")
        await store._background.settle()
        pool, token = await store._connections._pool(), object()
        await pool.take(token, store._connections._settings)
        waiting, began = asyncio.ensure_future(store.get_page("w", 0, 1)), time.monotonic()
        await until(lambda: time.monotonic() > began + 1.1, what="it waited for longer than a command may take")
        assert not waiting.done()
        proxy.lose_replies = 1
        pool.limiter.release_on_behalf_of(token)
        assert await waiting == [1]
        assert proxy.lost == 1
