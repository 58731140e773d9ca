"""The list of answered calls, what is told of calls, and how long their sessions are known, on every back end."""

from __future__ import annotations

import asyncio
import secrets
import time

import pytest

from tests.contract.books import DAY, RUNNING, address, answered, of_calls, pttl, suspended, swapped, yes
from tests.contract.conftest import make_store
from tests.servers import shared_server
from toolstash import BaseStore, Ctx, Event, MemoryStore, RedisStore
from toolstash.asking import Answer
from toolstash.contracts import SHARED_SPACE, Progress
from toolstash.store import local_calls
from toolstash.store.call_record import WAIT_SECONDS, CallRecord, Ending
from toolstash.store.calls import WORK_SPACE
from toolstash.store.local_calls import LocalCalls
from toolstash.wire import keys as layout
from toolstash.wire.keys import space_of_session

# Work


async def test_an_answer_is_work_until_it_is_struck(store: BaseStore) -> None:
    at, book = address(session="one"), store.calls
    assert (await book.work(10), await book.next_work_seconds()) == ([], None)
    await suspended(book, at)
    assert await book.next_work_seconds() is None
    await answered(book, at)
    assert await book.work(10) == [at]
    assert await book.next_work_seconds() == 0.0
    await book.put_off(at, 100)
    assert await book.work(10) == []
    assert 90 < (await book.next_work_seconds() or 0.0) <= 100
    await answered(book, at)
    assert await book.work(10) == [at], "a new answer is work at once"
    await book.strike(at)
    await book.put_off(at, 100)
    assert (await book.work(10), await book.next_work_seconds()) == ([], None)


async def test_work_comes_in_order_and_no_more_than_wanted(store: BaseStore) -> None:
    places = [address(f"call {number}", f"session {number % 3}") for number in range(6)]
    for at in places:
        await answered(store.calls, at)
    await store.calls.put_off(places[0], -0.0)
    assert {at.workspace_id for at in await store.calls.work(10)} == {at.workspace_id for at in places}
    assert len(await store.calls.work(4)) == 4
    await store.calls.put_off(places[3], -60.0)
    assert await store.calls.work(1) == [places[3]]


async def test_work_in_hand_is_due_when_the_lease_ends(store: BaseStore) -> None:
    at, book = address(), store.calls
    await answered(book, at, owner="me")
    assert await book.work(10) == []
    assert 8 < (await book.next_work_seconds() or 0.0) <= 10
    other = address("other")
    seen = await answered(book, other)
    assert await book.work(10) == [other]
    assert seen.record is not None
    claim = seen.record.claimed("me", "in", is_held=False)
    assert claim is not None
    assert await book.swap(other, seen, claim)
    assert await book.work(10) == []
    assert 8 < (await book.next_work_seconds() or 0.0) <= 10


async def test_who_loses_the_race_to_answer_does_not_put_the_work_off(store: BaseStore) -> None:
    at, book = address(), store.calls
    seen = await suspended(book, at)
    assert await book.swap(at, seen, yes(seen))
    assert not await book.swap(at, seen, yes(seen, owner="me"))
    assert await book.work(10) == [at]


async def test_declining_is_no_work(store: BaseStore) -> None:
    at, book = address(), store.calls
    seen = await suspended(book, at)
    assert seen.record is not None
    assert seen.record.request is not None
    await swapped(book, at, seen.record.answered(Answer(seen.record.request.id, ok=False), seen.now))
    assert await book.next_work_seconds() is None
    assert of_calls(await store.events_after(SHARED_SPACE, "0-0", 9))[-1] == ("ended", "call_1")


async def test_those_who_resume_calls_are_woken(store: BaseStore) -> None:
    at, book = address(session="one"), store.calls
    async with asyncio.timeout(20), store.listening([WORK_SPACE]) as signal:
        before = signal.count
        waiting = asyncio.ensure_future(signal.after(before))
        seen = await suspended(book, at)
        assert await book.swap(at, seen, yes(seen))
        await waiting
    assert await book.work(1) == [at]
    told = await store.events_after(WORK_SPACE, "0-0", 9)
    assert of_calls(told) == [("answered", at.workspace_id)]


async def test_work_that_is_given_back_is_taken_up_at_once(store: BaseStore) -> None:
    at, book = address(), store.calls
    seen = await answered(book, at, owner="me")
    assert await book.work(1) == []
    assert seen.record is not None
    async with asyncio.timeout(20), store.listening([WORK_SPACE]) as signal:
        waiting = asyncio.ensure_future(signal.after(signal.count))
        assert await book.swap(at, seen, seen.record.given_back(has_run=False))
        await waiting
    assert await book.work(1) == [at]


async def test_a_worker_is_called_back(store: BaseStore) -> None:
    book, inbox = store.calls, secrets.token_hex(8)
    async with asyncio.timeout(20), store.listening([inbox]) as signal:
        waiting = asyncio.ensure_future(signal.after(signal.count))
        await book.call_back(inbox, "call_1@x")
        await waiting
    assert of_calls(await store.events_after(inbox, "0-0", 9)) == [("cancel", "call_1@x")]
    if isinstance(store, RedisStore):
        assert 0 < await pttl(store, store._keys.events(inbox)) <= 60
    assert await store.list_workspaces() == []


async def test_an_inbox_in_memory_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(layout, "WAKE_MS", -1)
    await store.calls.call_back("old", "call_1")
    await store.calls.call_back("new", "call_1")
    assert await store.events_after("old", "0-0", 9) == []
    assert len(await store.events_after("new", "0-0", 9)) == 1


# What is told


async def test_events_tell_of_calls(store: BaseStore) -> None:
    at, book = address("a:b é", "one"), store.calls
    await swapped(book, at, RUNNING)
    steps = [Progress(1), Progress(0.5, 2.0, "half\ud800"), Progress(2, 2, "all of 2")]
    for step in steps:
        await book.tell(at, step)
    seen = await answered(book, at)
    assert seen.record is not None
    await swapped(book, at, seen.record.ended(Ending("interrupted")))
    done, off = address("done", "one"), address("off", "one")
    await swapped(book, done, RUNNING.ended(Ending("done", value=1)))
    await swapped(book, off, CallRecord.called_off())
    events = await store.events_after(at.space, "0-0", 20)
    kinds = ["progress"] * 3 + ["suspended", "answered", "ended"]
    told = [(kind, at.workspace_id) for kind in kinds]
    assert of_calls(events) == [*told, ("ended", done.workspace_id), ("cancel", off.workspace_id)]
    assert [event.progress for event in events] == [*steps, *[None] * 5]
    assert all((event.workspace_id, event.workspace_type, event.version) == ("", "", "") for event in events)
    assert await store.events_after(space_of_session("two"), "0-0", 20) == []


async def test_watchers_of_a_session_hear_of_its_calls(store: BaseStore) -> None:
    ctx, heard = Ctx(store), list[Event]()
    with ctx.session("one"):
        watching = ctx.watch(after="0", kinds=["suspended", "progress"])
    await suspended(store.calls, address("other", "two"))
    await suspended(store.calls, address("own", "one"))
    await store.calls.tell(address("own", "one"), Progress(1, message="begun"))
    async with asyncio.timeout(20):
        async for event in watching:
            heard.append(event)
            if event.progress is not None:
                break
    await watching.aclose()
    assert of_calls(heard) == [(kind, address("own", "one").workspace_id) for kind in ("suspended", "progress")]


# Sessions


async def test_the_label_of_a_call_leads_to_its_session(store: BaseStore) -> None:
    for session, record in (("one", RUNNING), ("two", RUNNING.ended(Ending("done")))):
        at = address("call", session)
        await swapped(store.calls, at, record)
        assert await store.find_space(layout.label_of(at.space)) == at.space
        assert await store.calls.find_space(layout.label_of(at.space)) == at.space
    await suspended(store.calls, address("call", "three"))
    assert await store.find_space(layout.label_of(space_of_session("three"))) == space_of_session("three")
    assert await store.find_space("@" + "0" * layout.LABEL_DIGITS) is None


async def test_the_last_workspace_goes_and_the_waiting_call_stays(store: BaseStore) -> None:
    ctx = Ctx(store)
    at = address("call", "one")
    with ctx.session("one"):
        ref = await ctx.store_workspace([1], workspace_type="numbers", ttl=60)
        seen = await suspended(store.calls, at)
        assert await ctx.drop_workspace(ref.workspace_id)
        await store.sweep_expired()
    await store.sweep_expired()
    assert await store.calls.waiting(None) == [(at, seen.record)]
    if isinstance(store, RedisStore):
        known_until = float(await store._connections.command("ZSCORE", store._keys.sessions, at.space)) / 1000
        assert known_until > time.time() + WAIT_SECONDS - 60
        assert await pttl(store, store._keys.sessions) > WAIT_SECONDS + DAY - 60


async def test_an_empty_session_is_forgotten_however_often_it_is_swept() -> None:
    async with RedisStore(shared_server("valkey").url, prefix=f"t{secrets.token_hex(5)}") as store:
        at, sessions = address("call", "one"), store._keys.sessions
        seen = await suspended(store.calls, at)
        await swapped(store.calls, at, None)
        scores: list[float] = []
        for _ in range(3):
            await store.sweep_expired()
            scores.append(float(await store._connections.command("ZSCORE", sessions, at.space)) / 1000)
        assert scores == [scores[0]] * 3
        assert scores[0] == pytest.approx(seen.now, abs=60)
        await store._connections.command("ZADD", sessions, "XX", int((seen.now - DAY - 60) * 1000), at.space)
        await swapped(store.calls, address("call", "two"), RUNNING)
        assert await store._connections.command("ZSCORE", sessions, at.space) is None


async def test_work_that_nobody_looks_at_goes_in_the_end(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await answered(store.calls, address("old"))
    await store.calls.put_off(address("old"), -9 * DAY)
    if isinstance(store.calls, LocalCalls):
        store.calls._calls[address("old")].gone_at = 0.0
        monkeypatch.setattr(local_calls, "TIDY_SECONDS", -1.0)
    await answered(store.calls, address("new"))
    assert await store.calls.work(9) == [address("new")]


async def test_events_are_kept_as_long_as_a_call_waits(store: BaseStore) -> None:
    ctx = Ctx(store)
    at = address("call", "one")
    seen = await suspended(store.calls, at)

    async def life_of_events() -> float:
        assert of_calls(await store.events_after(at.space, "0-0", 9))[0] == ("suspended", at.workspace_id)
        return await pttl(store, store._keys.events(at.space)) if isinstance(store, RedisStore) else WAIT_SECONDS + DAY

    long = pytest.approx(WAIT_SECONDS + DAY, abs=60)
    assert await life_of_events() == long
    with ctx.session("one"):
        ref = await ctx.store_workspace([1], workspace_type="numbers", ttl=1_000)
        assert await life_of_events() == long
        assert await ctx.drop_workspace(ref.workspace_id)
    assert await life_of_events() == long
    if isinstance(store, RedisStore):
        assert await pttl(store, store._keys.waiting(at.space)) == long
    await swapped(store.calls, at, yes(seen))
    if isinstance(store, RedisStore):
        assert await life_of_events() == pytest.approx(DAY, abs=60)


async def test_two_stores_on_one_server_are_one_book() -> None:
    one = make_store("valkey")
    assert isinstance(one, RedisStore)
    async with one, RedisStore(shared_server("valkey").url, prefix=one.prefix) as two:
        at = address("call", "one")
        seen = await suspended(one.calls, at)
        assert (await two.calls.look(at))[:3] == seen[:3]
        won = await asyncio.gather(*(book.swap(at, seen, yes(seen), in_time=True) for book in (one.calls, two.calls)))
        assert sorted(won) == [False, True]
        assert await two.find_space(layout.label_of(at.space)) == at.space
