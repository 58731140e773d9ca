"""Slots of a cluster move back and forth under load: nothing is torn, doubled, or taken for gone on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator

import pytest
import redis.asyncio

from tests.chaos.ledger import TTL, Ledger, Whole, appenders, lasting, put
from tests.servers import RealCluster, RealServer
from tests.wait import until
from toolstash import RedisStore, StoreUnavailableError, ToolstashError
from toolstash.asking import Answer, Request
from toolstash.contracts import Address
from toolstash.store.call_record import CallRecord
from toolstash.store.session import session_scope
from toolstash.wire import keys as layout

HALVES = [":meta", ":gone", ":rows:", ":names:", ":fields:", ":text:", ":created", ":expiring"]
PAYLOADS = {"rows": list(range(900)), "fields": {str(n): n for n in range(900)}, "text": "é" * 20_000, "value": 5}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    """A cluster of this file's own, whose slots move."""
    made = RealCluster()
    yield made
    made.stop()


@pytest.fixture
async def store(cluster: RealCluster, prefix: str) -> AsyncIterator[RedisStore]:
    async with RedisStore(cluster.url, prefix=prefix, command_timeout_seconds=0.6) as made:
        yield made
        async with RedisStore(cluster.url, prefix=prefix) as patient:
            await patient.clear()
        for node in cluster.nodes:
            async with redis.asyncio.Redis.from_url(node.url) as client:
                assert await lasting(client, prefix) == []


def another(cluster: RealCluster, base: str) -> RealServer:
    """The next node after the one that holds a key."""
    return cluster.nodes[(cluster.nodes.index(cluster.owner(base)) + 1) % len(cluster.nodes)]


@pytest.mark.parametrize("left", HALVES)
@pytest.mark.parametrize("direction", ["but", "only"])
async def test_what_is_on_another_node_is_not_taken_for_gone(
    cluster: RealCluster, store: RedisStore, prefix: str, left: str, direction: str
) -> None:
    """A family of keys stays behind, or goes ahead. Whole answers or a short error; and afterwards all is there."""
    for name, payload in PAYLOADS.items():
        await put(store, payload, name)
    base = layout.Keys(prefix).base("shared")
    target = another(cluster, base)
    cluster.begin_to_move(base, target)
    only_some = {"but": left} if direction == "but" else {"only": left}
    assert cluster.move_keys(base, target, **only_some) > 0
    whole = [outcome(store.get_items(name), payload) for name, payload in PAYLOADS.items()]
    outcomes = await asyncio.gather(
        *whole, outcome(store.list_workspaces(), [*PAYLOADS]), outcome(store.sweep_expired(), [])
    )
    cluster.move_keys(base, target)
    cluster.end_move(base, target)
    assert {*outcomes} <= {"whole", "its data is moving to another node"}
    assert await store.list_workspaces() == [*PAYLOADS]
    for name, payload in PAYLOADS.items():
        assert await store.get_items(name) == payload


async def outcome(answer: Awaitable[object], expected: object) -> str:
    """Whether a call gave all there is, or why not."""
    try:
        found = await answer
    except ToolstashError as told:
        return str(told).partition(" (")[2].removesuffix(").") or str(told)
    return "whole" if found == expected else f"not whole: {found!s:.80}"


@pytest.mark.parametrize("ahead", [":call", ":waiting", ":none"])
async def test_calls_on_another_node_are_not_taken_for_gone(
    cluster: RealCluster, store: RedisStore, prefix: str, ahead: str
) -> None:
    """Their records or the list of them go ahead: all calls are listed, looked at and answered, or a short error."""
    places = [Address("shared", f"call_{number}") for number in range(3)]
    for at in places:
        pending = CallRecord(tool="t").suspended(Request("q", "approval", "May I?"), time.time())
        assert await store.calls.swap(at, await store.calls.look(at), pending)
    seen = await store.calls.look(places[0])
    assert seen.record is not None
    answered = seen.record.answered(Answer("q", ok=True), seen.now)
    listed = await store.calls.waiting(None)
    assert [at for at, _ in listed] == places

    base = layout.Keys(prefix).base("shared")
    target = another(cluster, base)
    cluster.begin_to_move(base, target)
    assert (cluster.move_keys(base, target, only=ahead) > 0) == (ahead != ":none")
    outcomes = await asyncio.gather(
        outcome(store.calls.waiting(None), listed),
        outcome(store.calls.count_waiting(None), 3),
        outcome(known(store, places[1]), True),
        outcome(store.calls.swap(places[0], seen, answered), True),
    )
    cluster.move_keys(base, target)
    cluster.end_move(base, target)
    assert {*outcomes} <= {"whole", "its data is moving to another node"}
    was_answered = (await store.calls.look(places[0])).record == answered
    assert was_answered == (outcomes[3] == "whole")
    assert [at for at, _ in await store.calls.waiting(None)] == places[was_answered:]


async def known(store: RedisStore, at: Address) -> bool:
    return (await store.calls.look(at)).record is not None


async def test_slots_move_back_and_forth_under_load(cluster: RealCluster, prefix: str) -> None:
    async with RedisStore(cluster.url, prefix=prefix, command_timeout_seconds=15, wait_seconds=15) as store:
        ids: dict[str | None, str] = {}
        for session in (None, "alice", "bob"):
            ids[session] = (await put(store, ["first"], f"log {session}", session_id=session)).workspace_id
        bases = [layout.Keys(prefix).base(layout.space_of_session(session)) for session in ids]
        await put(store, [{"turn": 0}] * 600, "same")
        ledger, whole, done, moves = Ledger(), Whole(), asyncio.Event(), 0

        def move(base: str) -> None:
            target = another(cluster, base)
            cluster.begin_to_move(base, target)
            cluster.move_keys(base, target, but=":rows:")
            while cluster.move_keys(base, target):
                pass
            cluster.end_move(base, target)

        async def keep_moving() -> None:
            nonlocal moves
            while not done.is_set():
                await asyncio.to_thread(move, bases[moves % len(bases)])
                moves += 1
                told = len(ledger.acknowledged) + whole.reads
                await until(lambda told=told: done.is_set() or len(ledger.acknowledged) + whole.reads > told + 8)

        async def replace() -> None:
            turn = 0
            while not done.is_set():
                turn += 1
                await put(store, [{"turn": turn}] * 600, "same")

        async def read() -> None:
            while not done.is_set():
                await whole.look(lambda: store.get_items("same"), 600)
                assert "same" in await store.list_workspaces()

        beside = [asyncio.ensure_future(work()) for work in (keep_moving, replace, read)]
        await appenders(ledger, store, ids, writers=30, rows=20)
        done.set()
        await asyncio.gather(*beside)
        held: list[str] = []
        for session in ids:
            with session_scope(session):
                held += (await store.get_items(ids[session]))[1:]
        ledger.check(held)
        assert (len(ledger.acknowledged), ledger.unsure) == (600, [])
        assert whole.wrong == []
        assert whole.reads > 3
        assert moves >= 3
        for node in cluster.nodes:
            async with redis.asyncio.Redis.from_url(node.url) as client:
                assert await lasting(client, prefix) == []
        await store.clear()


async def test_a_write_to_a_slot_that_moves_for_long_is_told_so(
    cluster: RealCluster, store: RedisStore, prefix: str
) -> None:
    meta = await put(store, [1])
    base = layout.Keys(prefix).base("shared")
    target = another(cluster, base)
    cluster.begin_to_move(base, target)
    for write in (store.append_items("w", [2]), put(store, [3]), store.drop_workspace("w")):
        with pytest.raises(StoreUnavailableError) as told:
            await write
        assert str(told.value).endswith("(its data is moving to another node).")
        assert "Try again in a moment" in told.value.suggested_action
    cluster.move_keys(base, target)
    cluster.end_move(base, target)
    assert (await store.get_meta("w")).version == meta.version  # type: ignore[union-attr]
    async with redis.asyncio.Redis.from_url(target.url) as client:
        left = await client.pttl(f"{base}w:meta")
        assert 0 < left <= TTL * 1000
