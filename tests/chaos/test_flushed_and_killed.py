"""Scripts are forgotten and connections cut, over and over, while many write: each write has one effect (F19)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

from tests.chaos.ledger import TTL, Ledger, Whole, appenders, lasting, put
from tests.servers import NAMES, RealCluster, RealServer, shared_cluster, shared_server
from tests.wait import until
from toolstash import Ctx, RedisStore, WorkspaceMeta
from toolstash.store.payload import Payload
from toolstash.store.session import session_scope
from toolstash.wire import scripts

SESSIONS = (None, "alice", "bob", "carol", "dave")
Trouble = Callable[[], Awaitable[Any]]


async def under(trouble: Trouble, store: RedisStore, *, writers: int, rows: int) -> tuple[Ledger, Whole, int]:
    """Appends, stores and reads while something makes trouble; the books, and how often it was made."""
    ids: dict[str | None, str] = {}
    for session in SESSIONS:
        ids[session] = (await put(store, ["first"], f"log {session}", session_id=session)).workspace_id
    await put(store, [{"turn": 0}] * 2_500, "same")
    ledger, whole, done, rounds = Ledger(), Whole(), asyncio.Event(), 0

    async def make_trouble() -> None:
        nonlocal rounds
        while not done.is_set():
            await trouble()
            rounds += 1

    async def replace() -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            await put(store, [{"turn": turn}] * 2_500, "same")

    async def read() -> None:
        while not done.is_set():
            await whole.look(lambda: store.get_items("same"), 2_500)

    beside = [asyncio.ensure_future(work()) for work in (make_trouble, replace, read)]
    await appenders(ledger, store, ids, writers=writers, rows=rows)
    await until(lambda: whole.reads > 3 and rounds > 5, within=60, what="it was read while there was trouble")
    done.set()
    await asyncio.gather(*beside)
    held: list[str] = []
    for session in SESSIONS:
        with session_scope(session):
            rows_now = await store.get_items(ids[session])
            meta = await store.get_meta(ids[session])
        assert meta is not None
        assert int(meta.version.partition(".")[2]) == meta.item_count - 1 == len(rows_now) - 1
        held += rows_now[1:]
    ledger.check(held)
    return ledger, whole, rounds


def everywhere(nodes: list[RealServer], *words: str) -> Trouble:
    """A command to one node after the other, in an order that is the same in each run."""
    pick = random.Random(3)

    async def trouble() -> None:
        await asyncio.to_thread(RealCluster.command, None, pick.choice(nodes), *words)  # type: ignore[arg-type]

    return trouble


@pytest.fixture(params=[*NAMES, "cluster"])
async def place(request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[tuple[RedisStore, list[RealServer]]]:
    """A store on each server and on a cluster, and the nodes that trouble can be made at."""
    cluster = shared_cluster() if request.param == "cluster" else None
    nodes = cluster.nodes if cluster is not None else [shared_server(request.param)]
    url = cluster.url if cluster is not None else nodes[0].url
    async with RedisStore(url, prefix=prefix, max_connections=12, wait_seconds=15, command_timeout_seconds=10) as store:
        yield store, nodes
        for node in nodes:
            async with redis.asyncio.Redis.from_url(node.url) as client:
                assert await lasting(client, prefix) == []
        await store.clear()


@pytest.mark.parametrize(
    "words", [("SCRIPT", "FLUSH"), ("CLIENT", "KILL", "TYPE", "normal")], ids=lambda words: words[0]
)
async def test_each_write_has_one_effect(place: tuple[RedisStore, list[RealServer]], words: tuple[str, ...]) -> None:
    store, nodes = place
    ledger, whole, rounds = await under(everywhere(nodes, *words), store, writers=50, rows=6)
    assert (len(ledger.acknowledged), ledger.unsure) == (300, [])
    assert whole.wrong == []
    assert whole.reads > 3
    assert rounds > 5


@pytest.mark.parametrize("name", NAMES)
async def test_scripts_are_forgotten_between_the_parts_of_one_pipeline(name: str, prefix: str) -> None:
    """A pipeline whose first script is known and whose second is not, and the other way round, in every order."""
    url = shared_server(name).url
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        meta = await put(store, ["first"])
        keys = store._keys.workspace(await store.locate("w"))
        for number, known in enumerate([(), ("mutate",), ("read",), ("mutate", "read")]):
            await client.script_flush()
            for script in (scripts.MUTATE, scripts.READ):
                if script.name in known:
                    await client.script_load(script.body)
            calls: list[scripts.ScriptCall] = []
            for row in range(4):
                change = scripts.RowChange(clears=False, replaced=[], removed=[], added=[f'"{number}-{row}"'.encode()])
                calls += [
                    scripts.mutate(
                        keys, scripts.new_operation(), change, expected_version=None, codec="orjson", non_finite=0
                    ),
                    scripts.read(keys, 0, None, most_parts=200),
                ]
            replies = await store._connections.run_all(calls)
            assert [int(reply.split(b"\n")[5]) for reply in replies[::2]] == [4 * number + row + 2 for row in range(4)]
            assert all(len(reply[2]) > 4 * number + row + 1 for row, reply in enumerate(replies[1::2]))
        rows = [f"{number}-{row}" for number in range(4) for row in range(4)]
        assert await store.get_items("w") == ["first", *rows]
        assert (await store.get_meta("w")).version == meta.version.replace(".0", ".16")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "payload",
    [
        list(range(30_000)),
        {str(number): number for number in range(15_000)},
        "é" * 3_000_000,
    ],
    ids=["rows", "fields", "text"],
)
async def test_scripts_are_forgotten_in_the_middle_of_a_large_store(prefix: str, payload: Any) -> None:
    """Before each trip, the script that publishes is made known and the one that writes chunks is not."""
    url = shared_server("valkey").url
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        run_all = store._connections.run_all

        async def flush_and_run(calls: Any) -> Any:
            await client.script_flush()
            await client.script_load(scripts.COMMIT.body)
            return await run_all(calls)

        store._connections.run_all = flush_and_run  # type: ignore[method-assign]
        await put(store, ["old"])
        stored = await store.replace(WorkspaceMeta("w", "papers", ttl=TTL), Payload(payload))
        assert await store.get_items("w") == payload
        assert stored.meta.item_count == (1 if isinstance(payload, str) else len(payload))


async def test_a_flush_between_two_calls_of_a_model(prefix: str) -> None:
    url = shared_server("valkey").url
    async with RedisStore(url, prefix=prefix) as store, redis.asyncio.Redis.from_url(url) as client:
        ctx = Ctx(store)
        ref = await ctx.store_workspace([1], workspace_type="a", ttl=TTL)
        for number in range(2, 12):
            await client.script_flush()
            assert await store.append_items(ref.workspace_id, [number]) == number
            await client.script_flush()
            assert await store.get_items(ref.workspace_id) == list(range(1, number + 1))
