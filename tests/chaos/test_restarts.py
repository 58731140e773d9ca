"""A server is killed and comes back: with its data nothing acknowledged is lost; without, all is gone and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio

from tests.chaos.ledger import TTL, Ledger, Whole, appenders, lasting, put
from tests.servers import RealServer, start_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError, WorkspaceExpiredError, WorkspaceNotFoundError
from toolstash.store.session import session_scope

PERSISTENT = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=["valkey", "redis-8.2-plain", "redis-6.2"])
def server(request: pytest.FixtureRequest) -> Iterator[RealServer]:
    """A server that keeps its data."""
    made = start_server(request.param, *PERSISTENT)
    yield made
    made.stop()


class Life:
    """Workspaces that are stored, patched, emptied and dropped all the time; `known` is what was acknowledged last.

    None stands for a workspace that was dropped. A key that is not in `known` is one whose last change came back with
    an error, so it may or may not be done.
    """

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.known: dict[str, Any] = {}
        self.done = asyncio.Event()
        self.turns = 0

    async def run(self, name: str) -> None:
        turn = 0
        while not self.done.is_set():
            turn += 1
            rows = [{"n": number, "turn": turn} for number in range(300)]
            await self.change(name, rows, put(self.store, rows, name))
            if name not in self.known:
                continue
            patched = [rows[0] | {"patched": turn}, *rows[1:]]
            await self.change(name, patched, self.store.patch_item(name, 0, {"patched": turn}))
            if name not in self.known:
                continue
            await self.change(name, patched[:200], self.store.delete_items(name, list(range(200, 300))))
            if turn % 3 == 0:
                await self.change(name, None, self.store.drop_workspace(name))

    async def change(self, name: str, becomes: Any, work: Any) -> None:
        self.known.pop(name, None)
        try:
            await work
        except StoreUnavailableError:
            return
        self.known[name] = becomes
        self.turns += 1

    async def check(self) -> None:
        for name, rows in self.known.items():
            if rows is None:
                with pytest.raises(WorkspaceNotFoundError):
                    await self.store.get_items(name)
            else:
                assert await self.store.get_items(name) == rows


async def test_nothing_acknowledged_is_lost_with_its_data(server: RealServer, prefix: str) -> None:
    async with RedisStore(server.url, prefix=prefix, command_timeout_seconds=0.6) as store:
        ids: dict[str | None, str] = {}
        for session in ("alice", "bob", None):
            ids[session] = (await put(store, ["first"], f"log {session}", session_id=session)).workspace_id
        ledger, life, whole = Ledger(), Life(store), Whole()
        ledger.acknowledged += ["first"]
        await put(store, [{"same": 1}] * 3_000, "still")
        names = [f"w{number}" for number in range(4)]
        at_work = [asyncio.ensure_future(life.run(name)) for name in names]
        at_work.append(asyncio.ensure_future(appenders(ledger, store, ids, writers=20, rows=40)))
        for _ in range(2):
            turns = life.turns
            await until(lambda turns=turns: life.turns > turns + 10, what="writers are at work")
            server.kill()
            await whole.look(lambda: store.get_items("still"), 3_000)
            server.start()
            await whole.look(lambda: store.get_items("still"), 3_000)
        life.done.set()
        await asyncio.gather(*at_work)
        await life.check()
        held: list[str] = []
        for session, workspace_id in ids.items():
            with session_scope(session):
                rows = await store.get_items(workspace_id)
            assert rows[0] == "first"
            held += rows[1:] if session is not None else rows
        ledger.check(held)
        assert len(ledger.acknowledged) > 100
        assert whole.reads >= 2
        assert whole.wrong == []
        async with redis.asyncio.Redis.from_url(server.url) as client:
            assert await lasting(client, prefix) == []
            left = await client.pttl(f"{prefix}:{{shared}}:still:meta")
            assert 0 < left <= TTL * 1000


async def test_without_its_data_all_is_gone_and_goes_on(prefix: str) -> None:
    server = start_server("valkey")
    async with RedisStore(server.url, prefix=prefix) as store:
        ctx = Ctx(store)
        for session in ("alice", "bob"):
            with ctx.session(session):
                await ctx.store_workspace(list(range(5_000)), workspace_type="a", workspace_id="same", ttl=TTL)
        with ctx.session("alice"):
            (name,) = await ctx.list_workspaces()
            assert len(await store.get_items(name)) == 5_000
        sizes: set[int] = set()
        done = asyncio.Event()

        async def read() -> None:
            while not done.is_set():
                with ctx.session("alice"):
                    try:
                        sizes.add(len(await store.get_items(name)))
                    except WorkspaceNotFoundError:
                        sizes.add(0)
                    except StoreUnavailableError:
                        continue

        reader = asyncio.ensure_future(read())
        server.restart()
        await until(lambda: 0 in sizes, what="the loss is seen")
        done.set()
        await reader
        assert sizes <= {0, 5_000}
        assert await ctx.list_workspaces() == []
        with ctx.session("alice"):
            with pytest.raises(WorkspaceNotFoundError) as gone:
                await store.append_items(name, [1])
            assert not isinstance(gone.value, WorkspaceExpiredError)
            again = await ctx.store_workspace([1, 2], workspace_type="a", workspace_id="same", ttl=TTL)
            assert again.workspace_id == name
        assert await ctx.list_workspaces() == [name]
        assert await store.get_items(name) == [1, 2]
        async with RedisStore(server.url, prefix=prefix) as stranger:
            assert await stranger.get_items(name) == [1, 2]
        async with redis.asyncio.Redis.from_url(server.url) as client:
            assert await lasting(client, prefix) == []
    server.stop()
