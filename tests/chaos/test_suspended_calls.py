"""A suspended call belongs to no process: any one may list, answer, resume and read it, and its answer counts once."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import redis.asyncio

from tests.chaos.asker import Asker, Refused
from tests.chaos.ledger import lasting
from tests.chaos.office import Office
from tests.servers import RealServer, shared_cluster, shared_server, start_server
from tests.wait import until
from toolstash import Answer, Ctx, RedisStore
from toolstash.store.calls import LOOK_AGAIN_SECONDS, WORK_SPACE
from toolstash.wire.scripts import ScriptCall

PERSISTENT = ("--appendonly", "yes", "--appendfsync", "always")
CALLS = 100


def url_of(place: str) -> str:
    return shared_cluster().url if place == "cluster" else shared_server(place).url


@pytest.mark.parametrize("place", ["valkey", "redis-6.2", "cluster"])
async def test_a_call_outlives_the_process_that_asked(office: Office, place: str) -> None:
    office.url = url_of(place)
    agent, web, reader = office.asker(), office.asker(), office.asker()
    arguments = {"n": 7, "text": "naïve \N{SNOWMAN}", "nested": [{"a": None}, 1.5, 2**53]}
    value = await agent.asks(**arguments, session_id="alice")
    await agent.kill()
    workers = [office.worker(), office.worker()]
    (waiting,) = await web.does("pending_calls")
    assert (waiting.call_id, waiting.tool, waiting.session_id) == (value["call_id"], "ask", "alice")
    assert waiting.arguments == arguments
    assert waiting.request.to_dict() == json.loads(json.dumps(value))["request"]
    assert await web.says(value, "swordfish") == {"status": "answered", "call_id": value["call_id"]}
    again = await reader.says(value, "tuna")
    outcome = await reader.does("call_result", value["call_id"], timeout=20)
    assert again.error == "AlreadyAnsweredError"
    assert outcome == {"answer": "swordfish", "n": 7}
    (resumed,) = await office.book.has("resumed")
    assert (resumed["call_id"], resumed["result"], resumed["is_error"]) == (value["call_id"], outcome, False)
    (ran,) = await office.book.has("ran")
    assert ran["pid"] in [worker.pid for worker in workers]
    assert (await web.says(value, "swordfish")).error == "AlreadyAnsweredError"


async def test_a_hundred_answers_each_land_on_their_call(office: Office) -> None:
    agent = office.asker()
    begun = [agent.begin("adispatch_tool_call", "ask", {"n": 1}, session_id="alice") for _ in range(CALLS)]
    values = [await agent.reply(number) for number in begun]
    assert len({value["call_id"] for value in values}) == len({value["request"]["id"] for value in values}) == CALLS
    order = list(enumerate(values))
    random.Random(6).shuffle(order)
    workers = [office.worker() for _ in range(3)]
    people = [office.asker(), office.asker()]
    answers = [people[turn % 2].says(value, f"word {number}") for turn, (number, value) in enumerate(order)]
    assert {told["status"] for told in await asyncio.gather(*answers)} == {"answered"}
    ran = await office.book.has("ran", CALLS)
    assert {line["call_id"]: line["answer"] for line in ran} == {
        value["call_id"]: f"word {number}" for number, value in enumerate(values)
    }
    assert 1 < len({line["pid"] for line in ran} & {worker.pid for worker in workers}) <= len(workers)
    await office.book.has("resumed", CALLS)
    results = [agent.does("call_result", value["call_id"], timeout=20, session="alice") for value in values]
    assert await asyncio.gather(*results) == [{"answer": f"word {number}", "n": 1} for number in range(CALLS)]


@pytest.mark.parametrize("place", ["valkey", "cluster"])
async def test_of_two_answers_at_once_one_wins_and_the_other_is_told(office: Office, place: str) -> None:
    office.url = url_of(place)
    left, right = office.asker(), office.asker()
    values = [await left.asks() for _ in range(20)]
    pairs = [await asyncio.gather(left.says(value, "left"), right.says(value, "right")) for value in values]
    winners = [[told for told in pair if not isinstance(told, Refused)] for pair in pairs]
    assert [len(told) for told in winners] == [1] * len(values)
    assert {told.error for pair in pairs for told in pair if isinstance(told, Refused)} == {"AlreadyAnsweredError"}
    office.worker()
    words = ["right" if isinstance(pair[0], Refused) else "left" for pair in pairs]
    results = [left.does("call_result", value["call_id"], timeout=20) for value in values]
    assert [result["answer"] for result in await asyncio.gather(*results)] == words
    assert len(await office.book.lines("ran")) == len(values)


async def test_three_questions_each_answered_in_another_process(office: Office) -> None:
    value = await office.asker().asks(tool="steps")
    for step in range(3):
        worker, person = office.worker(), office.asker()
        await until(lambda step=step, person=person: waits_at(person, step), what="the next question")
        answer = Answer(f"step {step}", True, f"word {step}")
        assert (await person.does("answer", value["call_id"], answer))["status"] == "answered"
        ran = await office.book.has("ran", step + 2)
        assert ran[-1]["answers"] == {f"step {number}": f"word {number}" for number in range(step + 1)}
        await office.book.has("resumed", step + 1)
        assert (await person.does("answer", value["call_id"], answer)).error == "AlreadyAnsweredError"
        await worker.kill()
    assert await office.asker().does("call_result", value["call_id"]) == ["word 0", "word 1", "word 2"]


async def waits_at(person: Asker, step: int) -> bool:
    return [one.request.id for one in await person.does("pending_calls")] == [f"step {step}"]


async def test_nothing_is_lost_when_the_server_restarts_with_its_data(office: Office) -> None:
    server = start_server("valkey", *PERSISTENT)
    try:
        office.url = server.url
        await restarted_between_all_steps(office, server)
        assert len(await office.book.lines("ran")) == 1
    finally:
        server.stop()


async def restarted_between_all_steps(office: Office, server: RealServer) -> None:
    agent = office.asker()
    value = await agent.asks(tool="hold", n=3)
    server.restart()
    (waiting,) = await office.asker().does("pending_calls")
    assert (waiting.call_id, waiting.arguments) == (value["call_id"], {"n": 3})
    await agent.says(value, "yes")
    server.restart()
    worker = office.worker()
    await office.book.has("ran")
    server.kill()
    await office.book.go()
    server.start()
    outcome = {"answer": "yes", "n": 3, "by": worker.pid}
    assert await agent.does("call_result", value["call_id"], timeout=20) == outcome
    await office.book.has("resumed")
    server.restart()
    assert await office.asker().does("call_result", value["call_id"], timeout=20) == outcome


async def test_who_is_asked_inline_and_who_answers_elsewhere_see_the_same(office: Office) -> None:
    inline, web = office.asker(), office.asker()
    asking = inline.begin("adispatch_tool_call", "ask", {"n": 1}, wait_for=True)
    await office.book.has("read")
    (waiting,) = await web.does("pending_calls")
    answer = Answer(waiting.request.id, True, "from elsewhere")
    assert (await web.does("answer", waiting.call_id, answer, resume=True))["answer"] == "from elsewhere"
    outcome = await inline.reply(asking)
    assert outcome == {"answer": "from elsewhere", "n": 1} == await web.does("call_result", waiting.call_id)
    await office.book.has("sent away")
    (ran,) = await office.book.has("ran")
    assert ran["pid"] == web.pid
    assert (await web.does("answer", waiting.call_id, answer)).error == "AlreadyAnsweredError"


async def test_an_answer_here_and_one_elsewhere_at_the_same_moment(office: Office) -> None:
    inline, web = office.asker(), office.asker()
    office.worker()
    asking = [inline.begin("adispatch_tool_call", "ask", {"n": n}, wait_for=True) for n in range(20)]
    await office.book.has("read", 20)
    waiting = await web.does("pending_calls")
    told = [web.does("answer", one.call_id, Answer(one.request.id, True, "from elsewhere")) for one in waiting]
    _, *replies = await asyncio.gather(office.book.go(), *told)
    outcomes = [await inline.reply(number) for number in asking]
    by_call = {line["call_id"]: line["answer"] for line in await office.book.has("ran", 20)}
    for call, reply in zip(waiting, replies, strict=True):
        lost = isinstance(reply, Refused)
        assert not lost or reply.error == "AlreadyAnsweredError"
        assert by_call[call.call_id] == ("from the person here" if lost else "from elsewhere")
    assert [one["answer"] for one in outcomes] == [by_call[call.call_id] for call in by_n(waiting)]


def by_n(waiting: list[Any]) -> list[Any]:
    return sorted(waiting, key=lambda one: one.arguments["n"])


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
async def test_the_call_of_an_inline_process_that_ends_stays_answerable(office: Office, ending: int) -> None:
    inline, web = office.asker(), office.asker()
    inline.begin("adispatch_tool_call", "ask", {"n": 1}, wait_for=True)
    await office.book.has("read")
    inline.signal(ending)
    await inline.ends()
    (waiting,) = await web.does("pending_calls")
    answer = Answer(waiting.request.id, True, "late but in time")
    assert (await web.does("answer", waiting.call_id, answer, resume=True))["answer"] == "late but in time"


async def test_a_call_may_have_expired_before_it_is_asked(office: Office) -> None:
    agent = office.asker()
    value = await agent.does("adispatch_tool_call", "ask", {"until": "1970-01-01T00:00:00Z"})
    assert value["status"] == "expired"
    assert (await agent.does("call_result", value["call_id"]))["status"] == "expired"
    assert await agent.does("pending_calls") == []


@pytest.mark.parametrize("clock_is_off", [0.0, 86_400.0])
async def test_a_call_expires_by_the_servers_clock(office: Office, prefix: str, clock_is_off: float) -> None:
    agent, person = office.asker(clock_is_off=clock_is_off), office.asker(clock_is_off=-clock_is_off)
    late, in_time = await at_the_server(office.url, 0.6), await at_the_server(office.url, 60)
    value, other = await agent.asks(until=late), await agent.asks(until=in_time)
    assert (await person.says(other, "in time"))["status"] == "answered"
    outcome = await person.does("call_result", value["call_id"], timeout=20)
    assert (outcome["status"], outcome["reason"]) == ("expired", "expired")
    assert datetime.fromisoformat(late) <= datetime.fromisoformat(await at_the_server(office.url, 0))
    assert (await person.says(value, "too late")).error == "CallExpiredError"
    assert await agent.does("pending_calls") == []
    assert (await agent.does("cancel", value["call_id"])).error == "CallEndedError"
    async with redis.asyncio.Redis.from_url(office.url) as client:
        assert await lasting(client, prefix) == []


async def test_a_worker_that_looks_while_an_answer_is_written_down_does_not_put_it_off(
    office: Office, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = await office.asker().asks()
    office.worker()
    async with RedisStore(office.url, prefix=prefix) as store, Ctx(store) as web:
        connections = store._connections
        at_once = connections.run_all

        async def one_by_one(scripts: Sequence[ScriptCall]) -> list[Any]:
            """Lets the worker look before each of them: it takes a call up and puts off what it cannot take up."""
            replies: list[Any] = []
            for script in scripts:
                replies += await at_once([script])
                await store.calls.call_back(WORK_SPACE, "look")
                await until(partial(has_put_off, store), what="the worker has looked")
            return replies

        monkeypatch.setattr(connections, "run_all", one_by_one)
        await web.answer(value["call_id"], Answer(value["request"]["id"], True, "yes"))
        assert (await web.call_result(value["call_id"], timeout=LOOK_AGAIN_SECONDS / 2))["answer"] == "yes"


async def has_put_off(store: RedisStore) -> bool:
    """Whether there is no work that waits for somebody to look at it."""
    return await store.calls.next_work_seconds() != 0.0


async def at_the_server(url: str, seconds: float) -> str:
    """A time so many seconds ahead of the server's clock."""
    async with redis.asyncio.Redis.from_url(url) as client:
        now, micros = await client.time()
    return datetime.fromtimestamp(now + micros / 1e6 + seconds, UTC).isoformat()


async def test_another_session_can_neither_list_answer_cancel_nor_read(office: Office) -> None:
    agent, other = office.asker(), office.asker()
    value = await agent.asks(session_id="alice")
    named = await agent.does("adispatch_tool_call", "ask", {}, session_id="alice", call_id="mine")
    assert await other.does("pending_calls", session="bob") == []
    for one in (value, named, named | {"call_id": "mine"}):
        refusals = [
            await other.says(one, "hello", session="bob"),
            await other.does("call_result", one["call_id"], timeout=1, session="bob"),
        ]
        assert [refused.error for refused in refusals] == ["CallNotFoundError"] * 2
    assert (await other.does("cancel", value["call_id"], session="bob")).error == "CallNotFoundError"
    assert (await other.does("cancel", "mine", session="bob"))["status"] == "cancelling"  # of bob's, if it comes
    with_label = [one.call_id for one in await other.does("pending_calls")]
    assert with_label == [value["call_id"], named["call_id"]]
    assert (await other.does("cancel", named["call_id"]))["status"] == "cancelled"
    assert (await other.says(value, "hello"))["status"] == "answered"
    office.worker()
    assert (await other.does("call_result", value["call_id"], timeout=20))["answer"] == "hello"
    assert (await other.does("call_result", value["call_id"], session="bob")).error == "CallNotFoundError"
    assert (await agent.does("call_result", value["call_id"], session="alice"))["answer"] == "hello"


async def test_a_worker_in_a_session_goes_on_with_its_calls_only(office: Office) -> None:
    agent, worker = office.asker(), office.asker()
    values = {name: await agent.asks(session_id=name) for name in ("alice", "bob")}
    for value in values.values():
        await agent.says(value, "yes")
    worker.begin("resume_answered", session="bob")
    await office.book.has("resumed")
    (ran,) = await office.book.lines("ran")
    assert ran["call_id"] == values["bob"]["call_id"]


async def test_a_workers_store_finds_a_call_with_its_approvals(office: Office, prefix: str) -> None:
    agent = office.asker()
    value = await agent.asks(tool="steps")
    answer = {"id": "step 0", "ok": True, "data": {"approved_by": ["ann", "bob"], "at": 1.5, "list": [[], {}]}}
    await agent.kill()
    await office.asker().does("answer", value["call_id"], answer)
    async with RedisStore(office.url, prefix=prefix) as store:
        record = (await store.calls.look(store.place(value["call_id"], "", None))).record
    assert record is not None
    assert [one.to_dict() for one in record.answers] == [answer]
    assert (record.state, record.tool, record.arguments) == ("answered", "steps", {})
