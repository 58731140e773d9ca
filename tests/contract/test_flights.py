"""Callers that make the same workspace at the same time share one run of the producer, on every back end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.wait import until
from toolstash import BaseStore, Ctx, PayloadTooLargeError, ProducerFailedError, ToolstashError, WorkspaceRef
from toolstash.contracts import Address
from toolstash.store.flights import OvertakenError, Standing
from toolstash.tools import single_flight
from toolstash.toolsets import paginator
from toolstash.wire import keys as layout


@pytest.fixture
def asked(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tokens of all callers that have asked for a lease and have their answer."""
    tokens: set[str] = set()
    join = store.flights.join

    async def noted(at: Address, token: str, digest: str, followed: str = "") -> Standing:
        standing = await join(at, token, digest, followed)
        tokens.add(token)
        return standing

    monkeypatch.setattr(store.flights, "join", noted)
    return tokens


@pytest.fixture
def unrenewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that end soon, because nobody renews them, as of a worker that gives no sign of life."""
    monkeypatch.setattr(layout, "FLIGHT_MS", 100)
    monkeypatch.setattr(single_flight, "renewal_seconds", lambda: 60.0)


class Slow:
    """A producer that says what it was called with and goes on when it is let."""

    def __init__(self, ctx: Ctx, **options: Any) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

        async def load(query: str, name: str = "w") -> list[dict[str, Any]]:
            self.calls.append(query)
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
            return [{"query": query, "call": len(self.calls)}] * 3

        self.load = ctx.producer(workspace_type="papers", key="{name}", **options)(load)

    def started(self, count: int = 1) -> bool:
        return len(self.calls) == count


async def test_overlapping_calls_run_once_and_get_the_same_notice(store: BaseStore, asked: set[str]) -> None:
    workers = [Ctx(store) for _ in range(3)]
    slow = [Slow(ctx) for ctx in workers]
    tasks = [asyncio.create_task(ctx.adispatch_tool_call("load", {"query": "a"})) for ctx in workers for _ in range(4)]
    await until(lambda: len(asked) == 12, what="all have asked")
    for one in slow:
        one.gate.set()
    notices = [await task for task in tasks]
    assert sum(len(one.calls) for one in slow) == 1
    assert all(notice == notices[0] for notice in notices)
    assert notices[0]["status"] == "workspace_ready"

    again = await workers[0].adispatch_tool_call("load", {"query": "a"})
    assert sum(len(one.calls) for one in slow) == 2
    assert again["workspace_id"] == notices[0]["workspace_id"]


async def test_other_arguments_wait_and_then_replace(store: BaseStore) -> None:
    ctx = Ctx(store)
    slow = Slow(ctx)
    first = asyncio.create_task(slow.load("a"))
    await until(slow.started)
    second = asyncio.create_task(slow.load("b"))
    other = asyncio.create_task(slow.load("c", "another"))
    await until(lambda: slow.started(2), what="another workspace is not waited for")
    assert slow.calls == ["a", "c"]
    slow.gate.set()
    await asyncio.gather(first, second, other)
    assert slow.calls == ["a", "c", "b"]
    assert {row["query"] for row in await store.get_items("w")} == {"b"}


async def test_sessions_do_not_share(store: BaseStore) -> None:
    ctx = Ctx(store)
    slow = Slow(ctx)
    tasks = [
        asyncio.create_task(ctx.adispatch_tool_call("load", {"query": "a"}, session_id=session))
        for session in ("one", "two")
    ]
    await until(lambda: slow.started(2), what="both run")
    slow.gate.set()
    assert len({(await task)["workspace_id"] for task in tasks}) == 2


async def test_two_versions_of_a_program_do_not_share(store: BaseStore) -> None:
    started: list[str] = []
    gate = asyncio.Event()
    old, new = Ctx(store), Ctx(store)

    @old.producer(workspace_type="papers", key="w")
    async def load() -> list[int]:
        started.append("old")
        await gate.wait()
        return [1]

    @new.producer(workspace_type="papers", key="w")
    async def load() -> list[int]:  # noqa: F811
        started.append("new")
        return [2]

    first = asyncio.create_task(old.adispatch_tool_call("load"))
    await until(lambda: started == ["old"])
    second = asyncio.create_task(new.adispatch_tool_call("load"))
    gate.set()
    await asyncio.gather(first, second)
    assert started == ["old", "new"]
    assert await store.get_items("w") == [2]


async def test_a_failure_is_told_to_all(store: BaseStore, asked: set[str]) -> None:
    ctx = Ctx(store)
    slow = Slow(ctx)
    slow.failure = ValueError("secret text")
    tasks = [asyncio.create_task(ctx.adispatch_tool_call("load", {"query": "a"})) for _ in range(5)]
    direct = asyncio.create_task(slow.load("a"))
    await until(lambda: len(asked) == 6, what="all have asked")
    slow.gate.set()
    answers = [await task for task in tasks]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["error"] == "load failed (ValueError)."
    with pytest.raises((ProducerFailedError, ValueError)):
        await direct
    assert len(slow.calls) == 1


async def test_a_refusal_is_told_to_all(store: BaseStore, asked: set[str]) -> None:
    ctx = Ctx(store, max_items=2)
    slow = Slow(ctx)
    tasks = [asyncio.create_task(slow.load("a")) for _ in range(4)]
    await until(lambda: len(asked) == 4, what="all have asked")
    slow.gate.set()
    refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(error, PayloadTooLargeError) for error in refused)
    assert len({str(error) for error in refused}) == 1
    assert all(error.to_llm_dict() == refused[0].to_llm_dict() for error in refused)  # type: ignore[union-attr]
    assert len(slow.calls) == 1


async def test_a_cancelled_leader_is_replaced(store: BaseStore, asked: set[str]) -> None:
    ctx = Ctx(store)
    slow = Slow(ctx)
    leader = asyncio.create_task(slow.load("a"))
    await until(slow.started)
    followers = [asyncio.create_task(slow.load("a")) for _ in range(3)]
    await until(lambda: len(asked) == 4, what="all wait")
    leader.cancel()
    await until(lambda: slow.started(2), what="another one leads")
    slow.gate.set()
    notices = [await follower for follower in followers]
    assert len(slow.calls) == 2
    assert all(notice == notices[0] for notice in notices)
    with pytest.raises(asyncio.CancelledError):
        await leader


async def test_a_lost_leader_is_replaced_when_its_lease_ends(store: BaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FLIGHT_MS", 200)
    await store.flights.join(Address("shared", "w"), "dead", "digest")
    slow = Slow(Ctx(store))
    slow.gate.set()
    notice = await slow.load("a")
    assert notice["item_count"] == 3


async def test_a_leader_renews_its_lease(store: BaseStore, asked: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FLIGHT_MS", 1_500)
    monkeypatch.setattr(single_flight, "renewal_seconds", lambda: 0.1)
    ctx = Ctx(store)
    slow = Slow(ctx)
    kept: list[str] = []
    keep = store.flights.keep

    async def counted(at: Address, token: str) -> None:
        await keep(at, token)
        kept.append(token)

    monkeypatch.setattr(store.flights, "keep", counted)
    leader = asyncio.create_task(slow.load("a"))
    follower = asyncio.create_task(slow.load("a"))
    await until(lambda: len(kept) >= 17 and len(asked) == 2, what="more than the life of a lease")
    slow.gate.set()
    assert await leader == await follower
    assert len(slow.calls) == 1


async def test_refs_and_small_results_are_shared_too(store: BaseStore, asked: set[str]) -> None:
    ctx = Ctx(store)
    slow = Slow(ctx, notify=False)
    tasks = [asyncio.create_task(slow.load("a")) for _ in range(3)]
    await until(lambda: len(asked) == 3, what="all have asked")
    slow.gate.set()
    refs = [await task for task in tasks]
    assert all(isinstance(ref, WorkspaceRef) and ref.to_dict() == refs[0].to_dict() for ref in refs)

    inline = Ctx(store, inline_below_chars=1_000)
    small = Slow(inline)
    tasks = [asyncio.create_task(small.load("a")) for _ in range(3)]
    await until(lambda: len(asked) == 6, what="all have asked")
    small.gate.set()
    assert [await task for task in tasks] == [[{"query": "a", "call": 1}] * 3] * 3


async def test_what_can_be_read_once_is_read_once(store: BaseStore) -> None:
    ctx = Ctx(store)

    @ctx.producer(workspace_type="numbers", key="w")
    async def keep(numbers: Iterator[int]) -> list[int]:
        return list(numbers)

    await keep(iter(range(3)))
    assert await store.get_items("w") == [0, 1, 2]


async def test_a_producer_may_call_itself(store: BaseStore) -> None:
    ctx = Ctx(store)

    @ctx.producer(workspace_type="numbers", key="w")
    async def count(depth: int) -> list[int]:
        if depth:
            await count(depth - 1)
        return [depth]

    async with asyncio.timeout(20):
        await count(2)
    assert await store.get_items("w") == [2]


async def test_nothing_is_left_of_a_flight(store: BaseStore) -> None:
    slow = Slow(Ctx(store))
    slow.gate.set()
    await slow.load("a")
    standing = await store.flights.join(Address("shared", "w"), "mine", "digest")
    assert standing.role == "leading"
    await store.flights.land(Address("shared", "w"), "mine")


async def test_who_asks_late_learns_how_the_successor_of_a_lost_leader_ended(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, flights = Address("shared", "w"), store.flights
    monkeypatch.setattr(layout, "FLIGHT_MS", 50)
    assert (await flights.join(at, "lost", "digest")).role == "leading"

    async def taken_over() -> bool:
        return (await flights.join(at, "second", "digest", followed="lost")).role == "leading"

    await until(taken_over, what="the lease ends")
    await flights.land(at, "second", b"outcome")
    assert await flights.join(at, "third", "digest", followed="lost") == Standing("busy", "second", is_same=True)
    assert (await flights.join(at, "third", "digest", followed="second")).outcome == b"outcome"
    assert (await flights.join(at, "later", "digest")).role == "leading"
    await flights.land(at, "later")


async def test_a_caller_that_leaves_while_it_asks_keeps_no_lease(
    store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(Ctx(store))
    slow.gate.set()
    join = store.flights.join
    asked = asyncio.Event()

    async def held_up(at: Address, token: str, digest: str, followed: str = "") -> Standing:
        standing = await join(at, token, digest, followed)
        if not asked.is_set():
            asked.set()
            await asyncio.Event().wait()
        return standing

    monkeypatch.setattr(store.flights, "join", held_up)
    leaving = asyncio.create_task(slow.load("a"))
    await asked.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    async with asyncio.timeout(5):
        assert (await slow.load("a"))["item_count"] == 3


async def test_a_leader_that_was_overtaken_does_not_store_over_its_successor(store: BaseStore, unrenewed: None) -> None:
    ctx = Ctx(store)
    slow = Slow(ctx)
    first = asyncio.create_task(slow.load("a"))
    await until(slow.started)
    second = asyncio.create_task(slow.load("b"))
    await until(lambda: slow.started(2), what="the lease of the first has ended")
    slow.gate.set()
    await asyncio.gather(first, second)
    rows = await store.get_items("w")
    assert slow.calls[:2] == ["a", "b"]
    assert [row["call"] for row in rows] == [len(slow.calls)] * 3
    assert {row["query"] for row in rows} == {slow.calls[-1]}


async def test_a_leader_whose_lease_ended_unnoticed_may_still_store(store: BaseStore, unrenewed: None) -> None:
    slow = Slow(Ctx(store))
    await store.append_items((await Ctx(store).store_workspace([0], workspace_type="x")).workspace_id, [1])
    leader = asyncio.create_task(slow.load("a"))
    await until(slow.started)
    at = Address("shared", "w")

    async def is_free() -> bool:
        free = (await store.flights.join(at, "look", "other")).role == "leading"
        await store.flights.land(at, "look")
        return free

    await until(is_free, what="the lease has ended")
    slow.gate.set()
    assert (await leader)["item_count"] == 3
    assert slow.calls == ["a"]


class OddError(ToolstashError):
    """A user's own, with a form of its own."""

    def __init__(self, number: int) -> None:
        super().__init__("odd", number=number, thing=object())

    def to_llm_dict(self) -> dict[str, Any]:
        raise ValueError("cannot")


OddError.__name__ = "WorkspaceNotFoundError"


async def test_refusals_of_the_users_own_kinds_are_told_too(store: BaseStore, asked: set[str]) -> None:
    slow = Slow(Ctx(store))
    slow.failure = OddError(3)
    tasks = [asyncio.create_task(slow.load("a")) for _ in range(3)]
    await until(lambda: len(asked) == 3, what="all have asked")
    slow.gate.set()
    failed = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(error, "message", "") for error in failed] == ["odd"] * 3
    assert len(slow.calls) == 1


async def test_what_is_started_on_the_way_is_not_in_the_flight_for_ever(store: BaseStore, asked: set[str]) -> None:
    ctx = Ctx(store)
    runs: list[int] = []
    later: list[asyncio.Task[Any]] = []
    over = asyncio.Event()

    @ctx.producer(workspace_type="numbers", key="w")
    async def count(depth: int) -> list[int]:
        runs.append(depth)
        if depth:

            async def again() -> None:
                await over.wait()
                await asyncio.gather(count(0), count(0), count(0))

            later.append(asyncio.create_task(again()))
        else:
            await until(lambda: len(asked) == 4, what="all have asked")
        return [depth]

    await count(1)
    over.set()
    await later[0]
    assert runs == [1, 0]


def test_an_async_key_is_the_programmers_mistake() -> None:
    async def key(arguments: dict[str, Any]) -> str:
        return "w"

    with pytest.raises(ValueError, match="key"):

        @Ctx("memory:").producer(workspace_type="x", key=key)  # type: ignore[arg-type]
        async def load() -> list[int]:
            return []


async def test_an_overtaken_leader_does_not_run_again_with_a_spent_stream(store: BaseStore, unrenewed: None) -> None:
    ctx = Ctx(store)
    gate, runs = asyncio.Event(), []

    @ctx.producer(workspace_type="numbers", key="w")
    async def keep(numbers: Iterator[int]) -> list[int]:
        rows = list(numbers)
        runs.append(rows)
        await gate.wait()
        return rows

    first = asyncio.create_task(keep(iter([1, 2, 3])))
    await until(lambda: len(runs) == 1)
    second = asyncio.create_task(keep(iter([4, 5])))
    await until(lambda: len(runs) == 2, what="the lease of the first has ended")
    gate.set()
    await second
    with pytest.raises(OvertakenError):
        await first
    assert runs == [[1, 2, 3], [4, 5]]
    assert await store.get_items("w") == [4, 5]


async def test_a_nested_call_of_a_lost_leader_stores_nothing(store: BaseStore, unrenewed: None) -> None:
    ctx = Ctx(store)
    gate, runs = asyncio.Event(), []

    @ctx.producer(workspace_type="numbers", key="w")
    async def count(who: str, depth: int) -> list[str]:
        runs.append((who, depth))
        if depth:
            await gate.wait()
            await count(who, depth - 1)
        return [f"{who}{depth}"]

    first = asyncio.create_task(count("a", 1))
    await until(lambda: len(runs) == 1)
    await until(lambda: count("b", 0), what="another one takes over and stores")
    gate.set()
    await first
    assert runs[:4] == [("a", 1), ("b", 0), ("a", 0), ("a", 1)]
    assert await store.get_items("w") == ["a1"]


async def test_two_programs_with_other_tools_do_not_share_a_notice(store: BaseStore, asked: set[str]) -> None:
    one, other = Ctx(store), Ctx(store)
    gate, runs = asyncio.Event(), []
    for ctx, options in ((one, {"mutations": True}), (other, {})):

        @ctx.producer(workspace_type="numbers", key="w", toolsets=[paginator(ctx, "numbers", **options)])
        async def load() -> list[int]:
            runs.append(1)
            await gate.wait()
            return [1]

    tasks = [asyncio.create_task(ctx.adispatch_tool_call("load")) for ctx in (one, other)]
    await until(lambda: len(asked) == 2, what="both have asked")
    gate.set()
    notices = [await task for task in tasks]
    assert [len(notice["available_tools"]) for notice in notices] == [8, 4]
    assert len(runs) == 2
