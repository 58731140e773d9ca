"""Where calls are kept that run or wait: one record each, swapped for the next, on every back end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace as with_changes
from datetime import UTC, datetime, timedelta

import pytest

from tests.contract.books import ODD, RUNNING, address, answered, life_of, suspended, swapped, yes
from tests.wait import until
from toolstash import BaseStore, Ctx, MemoryStore, RedisStore, UnstorableValueError
from toolstash.asking import Answer, Request
from toolstash.contracts import SHARED_SPACE
from toolstash.store import redis_calls
from toolstash.store.call_record import CALLED_OFF_SECONDS, KEPT_SECONDS, WAIT_SECONDS, CallRecord, Ending
from toolstash.store.calls import Lease, Noted
from toolstash.wire import keys as layout
from toolstash.wire.keys import space_of_session

# Records


@pytest.mark.parametrize("name", ["call_1", "meta", "a:b *{x}\n \ud800é", "%25 %", "lease"])
async def test_a_record_comes_back_as_it_was(store: BaseStore, name: str) -> None:
    at, book = address(name), store.calls
    nothing = await book.look(at)
    assert (nothing.record, nothing.revision, nothing.is_held) == (None, 0, False)
    record = CallRecord(
        tool="t", arguments=ODD, session_id="\ud800", timeout=0.1, answers=(Answer("a", ok=True, data=ODD),), owner="me"
    )
    kept = await swapped(book, at, record)
    assert kept.record == record
    assert kept.is_held
    assert abs(kept.now - time.time()) < 60
    assert [one for one in await store.list_workspaces() if one == name] == []


async def test_workspaces_and_calls_of_one_name_do_not_meet(store: BaseStore) -> None:
    ctx = Ctx(store)
    await ctx.store_workspace([1], workspace_type="numbers", workspace_id="same")
    await swapped(store.calls, address("same"), RUNNING)
    await ctx.store_workspace([2], workspace_type="numbers", workspace_id="call")
    await swapped(store.calls, address("meta"), RUNNING)
    assert await store.get_items("same") == [1]
    await store.drop_workspace("same")
    assert (await store.calls.look(address("same"))).record == RUNNING
    assert await store.get_items("call") == [2]


async def test_what_has_no_json_form_is_refused_and_changes_nothing(store: BaseStore) -> None:
    seen = await swapped(store.calls, address(), RUNNING)
    with pytest.raises(UnstorableValueError):
        await store.calls.swap(address(), seen, with_changes(RUNNING, arguments={"x": object()}))
    assert (await store.calls.look(address())).revision == seen.revision


async def test_of_racing_swaps_one_wins(store: BaseStore) -> None:
    at, book = address(), store.calls
    for seen in (await book.look(at), await suspended(book, address("call_2"))):
        where = at if seen.record is None else address("call_2")
        records = [with_changes(RUNNING, owner=f"w{number}") for number in range(20)]
        won = await asyncio.gather(*(book.swap(where, seen, record) for record in records))
        assert won.count(True) == 1
        kept = await book.look(where)
        assert kept.record == records[won.index(True)]
        assert kept.revision not in (0, seen.revision)
        assert not await book.swap(where, seen, None)


async def test_a_record_may_be_taken_away(store: BaseStore) -> None:
    at, book = address(), store.calls
    seen = await suspended(book, at)
    assert await book.swap(at, seen, None)
    assert (await book.look(at)).revision == 0
    assert await book.waiting(None) == []
    assert not await book.swap(at, seen, RUNNING)
    assert (await swapped(book, at, RUNNING)).revision != seen.revision


async def test_nothing_is_answered_too_late(store: BaseStore) -> None:
    at, book = address(), store.calls
    soon = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    seen = await suspended(book, at, expires_at=soon)
    assert seen.record is not None
    record = yes(seen._replace(now=seen.record.expires_at - 0.001))  # looked at in time, by however little

    async def seen_late() -> Noted | None:
        late = await book.look(at)
        return None if late.record is None or late.record.is_waiting(late.now) else late

    late = await until(seen_late, what="its time is over")
    assert late.record.ending_at(late.now) == Ending("expired", reason="expired")
    assert not await book.swap(at, seen, record, in_time=True)
    assert (await book.look(at))[:2] == seen[:2]
    assert await book.work(1) == [at] or isinstance(store, MemoryStore), "noted beforehand, and put off by who looks"
    assert await book.swap(at, seen, seen.record.ended(Ending("expired")))


async def test_an_answer_in_time_counts(store: BaseStore) -> None:
    seen = await suspended(store.calls, address())
    assert await store.calls.swap(address(), seen, yes(seen), in_time=True)


# Leases


async def test_a_lease_ends_unless_it_is_kept(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FLIGHT_MS", 150)
    at, book = address(), store.calls
    seen = await answered(book, at, owner="me")
    assert seen.is_held

    async def lapsed() -> bool:
        return not (await book.look(at)).is_held

    await until(lapsed, what="the lease ends")
    assert await book.keep([Lease(at, "me")]) == [seen.revision]
    assert (await book.look(at)).is_held
    await until(lapsed, what="the lease ends")
    now = await book.look(at)
    assert now.record is not None
    claim = now.record.claimed("other", "in", is_held=now.is_held)
    assert claim is not None
    assert await book.swap(at, now, claim)
    assert await book.keep([Lease(at, "me"), Lease(address("none"), "me"), Lease(at, "other")]) == [
        0,
        0,
        (await book.look(at)).revision,
    ]


async def test_a_running_call_is_kept_as_long_as_its_lease(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    at, book = address(), store.calls
    seen = await swapped(book, at, RUNNING)
    assert 0 < await life_of(store, at) < 10.1
    monkeypatch.setattr(layout, "FLIGHT_MS", 60_000)
    assert await book.keep([Lease(at, "w1")]) == [seen.revision]
    assert 50 < await life_of(store, at) < 60.1
    monkeypatch.setattr(layout, "FLIGHT_MS", 100)
    assert await book.keep([Lease(at, "w1")]) == [seen.revision]
    assert 50 < await life_of(store, at) < 60.1
    await swapped(book, at, RUNNING)

    async def gone() -> bool:
        return (await book.look(at)).revision == 0

    await until(gone, what="nobody has renewed it")
    assert await book.keep([Lease(at, "w1")]) == [0]


async def test_what_was_not_looked_at_may_be_put_in_the_place_of_nothing(store: BaseStore) -> None:
    nothing = Noted(None, 0, is_held=False, now=0.0)
    at, other = address(), address("other")
    assert await store.calls.swap(at, nothing, RUNNING)
    assert not await store.calls.swap(at, nothing, RUNNING)
    pending = RUNNING.suspended(Request("q", "approval", "May I?"), (await store.calls.look(at)).now)
    assert await store.calls.swap(other, nothing, pending)
    assert await life_of(store, other) == pytest.approx(WAIT_SECONDS + KEPT_SECONDS, abs=30)


async def test_many_leases_are_kept_at_once(store: BaseStore) -> None:
    places = [address(f"call_{number}", session) for number in range(120) for session in (None, "one")]
    await asyncio.gather(*(swapped(store.calls, at, RUNNING) for at in places))
    revisions = await store.calls.keep([Lease(at, "w1") for at in places])
    assert len(set(revisions)) == 240
    assert revisions[7] == (await store.calls.look(places[7])).revision


async def test_how_long_records_are_kept(store: BaseStore) -> None:
    book = store.calls
    await suspended(book, address("pending"))
    await answered(book, address("answered"))
    await swapped(book, address("done"), RUNNING.ended(Ending("done", value=1)))
    await swapped(book, address("off"), CallRecord.called_off())
    lives = {
        "pending": WAIT_SECONDS + KEPT_SECONDS,
        "answered": WAIT_SECONDS,
        "done": KEPT_SECONDS,
        "off": CALLED_OFF_SECONDS,
    }
    for name, life in lives.items():
        assert life - 30 < await life_of(store, address(name)) <= life + 1, name


# What waits


async def test_sessions_see_their_own(store: BaseStore) -> None:
    book = store.calls
    places = [address("a"), address("b", "one"), address("c", "two"), address("d", "one")]
    for at in places:
        await suspended(book, at)
    await swapped(book, address("e", "one"), RUNNING)
    await answered(book, address("f", "one"))

    own = await book.waiting([space_of_session("one")])
    assert [at for at, _ in own] == [places[1], places[3]]
    assert own[0][1] == (await book.look(places[1])).record
    assert [at for at, _ in await book.waiting(None)] == places
    assert await book.waiting([]) == []
    assert await book.count_waiting([space_of_session("one"), SHARED_SPACE]) == 3
    assert await book.count_waiting(None) == 4
    ctx = Ctx(store)
    assert (await ctx.stats()).pending_calls == 4
    with ctx.session("one"):
        assert (await ctx.stats()).pending_calls == 2
    await answered(book, places[0])
    assert await book.count_waiting(None) == 3


async def test_the_oldest_comes_first_however_long_it_waits(store: BaseStore) -> None:
    ends = ["2090-01-01T00:00:00Z", "2050-01-01T00:00:00Z", "2070-01-01T00:00:00Z"]
    places = [address(f"call_{number}") for number in range(3)]
    for at, end in zip(places, ends, strict=True):
        await suspended(store.calls, at, expires_at=end)
    assert [at for at, _ in await store.calls.waiting(None)] == places


async def test_what_has_expired_is_not_listed(store: BaseStore) -> None:
    at, book = address(), store.calls
    await suspended(book, at, expires_at="2020-01-01T00:00:00Z")
    await suspended(book, address("other"))
    assert [found.workspace_id for found, _ in await book.waiting(None)] == ["other"]
    assert await book.count_waiting(None) == 1
    assert (await book.look(at)).record is not None
    if isinstance(store, RedisStore):
        assert await store._connections.command("ZCARD", store._keys.waiting(SHARED_SPACE)) == 1


async def test_many_and_large_records_come_in_pieces(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_calls, "BYTES_AT_ONCE", 20_000)
    monkeypatch.setattr(redis_calls, "RECORDS_AT_ONCE", 7)
    places = [address(f"call_{number}") for number in range(30)]
    for number, at in enumerate(places):
        await suspended(store.calls, at, arguments={"text": "x" * (number * 1_000)})
    found = await store.calls.waiting(None)
    assert [at for at, _ in found] == places
    assert [len(record.arguments["text"]) for _, record in found] == [number * 1_000 for number in range(30)]
