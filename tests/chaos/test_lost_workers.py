"""A worker that goes on with an answered call is killed, frozen or ended: the tool runs once, or it is said why not."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from tests.chaos.asker import Asker
from tests.chaos.office import SHORT, Office
from tests.servers import start_server
from tests.wait import until

BEFORE_THE_LEASE_ENDS = 8.0
ENDINGS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture
def agent(office: Office) -> Asker:
    return office.asker()


async def result(agent: Asker, value: dict[str, Any], seconds: float = 25) -> Any:
    """What a call came to, in time."""
    outcome = await agent.does("call_result", value["call_id"], timeout=seconds)
    assert isinstance(outcome, dict), outcome
    return outcome


async def test_a_worker_killed_between_its_claim_and_the_tool_is_replaced(office: Office, agent: Asker) -> None:
    value = await agent.asks()
    first = office.worker(stops_before_the_tool=True, **SHORT)
    await agent.says(value, "yes")
    await office.book.has("claimed")
    second = office.worker(**SHORT)
    await first.kill()
    assert (await result(agent, value))["answer"] == "yes"
    (ran,) = await office.book.has("ran")
    assert ran["pid"] == second.pid
    await office.book.has("resumed")


async def test_a_tool_whose_worker_is_killed_in_it_is_not_repeated_and_that_is_said(
    office: Office, agent: Asker
) -> None:
    value = await agent.asks(tool="hold")
    first = office.worker(**SHORT)
    await agent.says(value, "yes")
    await office.book.has("ran")
    await first.kill()
    office.worker(**SHORT)
    outcome = await result(agent, value)
    assert (outcome["status"], outcome["call_id"]) == ("interrupted", value["call_id"])
    assert "nobody knows how far it came" in outcome["error"]
    (resumed,) = await office.book.has("resumed")
    assert (resumed["result"], resumed["is_error"]) == (outcome, True)
    assert len(await office.book.has("ran")) == 1
    assert (await agent.says(value, "yes")).error == "AlreadyAnsweredError"


async def test_an_idempotent_tool_runs_again_elsewhere(office: Office, agent: Asker) -> None:
    value = await agent.asks(tool="hold_again", n=5)
    first = office.worker(**SHORT)
    await agent.says(value, "yes")
    await office.book.has("ran")
    second = office.worker(**SHORT)
    await first.kill()
    ran = await office.book.has("ran", 2)
    await office.book.go()
    assert await result(agent, value) == {"answer": "yes", "n": 5, "by": second.pid}
    assert [line["pid"] for line in ran][1] == second.pid
    assert {line["answer"] for line in ran} == {"yes"}


async def test_a_worker_that_slept_through_its_lease_does_not_begin_the_tool(office: Office, agent: Asker) -> None:
    value = await agent.asks()
    first = office.worker(stops_before_the_tool=True, **SHORT)
    await agent.says(value, "yes")
    await office.book.has("claimed")
    first.signal(signal.SIGSTOP)
    second = office.worker(**SHORT)
    outcome = await result(agent, value)
    await office.book.go()
    first.signal(signal.SIGCONT)
    resumed = await office.book.has("resumed", 2)
    (ran,) = await office.book.lines("ran")
    assert ran["pid"] == second.pid
    assert {line["pid"]: line["is_error"] for line in resumed} == {first.pid: True, second.pid: False}
    assert await result(agent, value) == outcome == {"answer": "yes", "n": None}


async def test_what_a_late_worker_comes_to_does_not_count(office: Office, agent: Asker) -> None:
    value = await agent.asks(tool="hold")
    first = office.worker(**SHORT)
    await agent.says(value, "yes")
    await office.book.has("ran")
    first.signal(signal.SIGSTOP)
    office.worker(**SHORT)
    outcome = await result(agent, value)
    assert outcome["status"] == "interrupted"
    await office.book.go()
    first.signal(signal.SIGCONT)
    resumed = await office.book.has("resumed", 2)
    assert [line["is_error"] for line in resumed] == [True, True]
    assert await result(agent, value) == outcome
    assert len(await office.book.lines("ran")) == 1


async def test_a_late_worker_does_not_take_the_work_from_the_one_that_took_over(office: Office, agent: Asker) -> None:
    value = await agent.asks(tool="hold_again")
    first = office.worker(**SHORT)
    await agent.says(value, "yes")
    await office.book.has("ran")
    first.signal(signal.SIGSTOP)
    second = office.worker(**SHORT)
    await office.book.has("ran", 2)
    first.signal(signal.SIGCONT)
    (cancelled,) = await office.book.has("cancelled")
    (resumed,) = await office.book.has("resumed")
    assert cancelled["pid"] == resumed["pid"] == first.pid
    assert resumed["result"]["status"] == "interrupted"
    await second.kill()
    await office.book.has("ran", 3)
    await office.book.go()
    assert (await result(agent, value))["by"] == first.pid


async def test_what_a_tool_comes_to_while_the_server_is_away_is_kept(office: Office) -> None:
    server = start_server("valkey", "--appendonly", "yes", "--appendfsync", "always")
    try:
        office.url = server.url
        agent, worker = office.asker(), office.worker(command_timeout_seconds=0.3)
        value = await agent.asks(tool="hold")
        await agent.says(value, "yes")
        await office.book.has("ran")
        server.kill()
        await office.book.go()
        await office.book.has("went on")
        away_until = time.monotonic() + 1.0  # longer than the worker's store tries
        await until(lambda: time.monotonic() > away_until, what="the worker has tried in vain")
        server.start()
        assert (await result(agent, value))["by"] == worker.pid
    finally:
        server.stop()


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_worker_that_is_ended_before_the_tool_gives_its_call_back_at_once(
    office: Office, agent: Asker, ending: int
) -> None:
    value, other = await agent.asks(), await agent.asks()
    first = office.worker(stops_before_the_tool=True)
    await agent.says(value, "yes")
    await office.book.has("claimed")
    second = office.worker()
    await agent.says(other, "yes")
    await office.book.has("resumed")  # by the second one, which then finds nothing to do
    first.signal(ending)
    assert await first.ends() == 3
    assert (await result(agent, value, BEFORE_THE_LEASE_ENDS))["answer"] == "yes"
    assert {line["pid"] for line in await office.book.has("ran", 2)} == {second.pid}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_worker_that_is_ended_in_the_tool_says_so_at_once(office: Office, agent: Asker, ending: int) -> None:
    once, again = await agent.asks(tool="hold"), await agent.asks(tool="hold_again")
    first, other = office.worker(), office.worker()
    await agent.says(once, "yes")
    await agent.says(again, "yes")
    begun = {line["call_id"]: line["pid"] for line in await office.book.has("ran", 2)}
    assert set(begun.values()) == {first.pid, other.pid}
    for worker in (first, other):
        worker.signal(ending)
        assert await worker.ends() == 3
    outcome = await result(agent, once, BEFORE_THE_LEASE_ENDS)
    assert outcome["status"] == "interrupted"
    assert len(await office.book.has("cancelled", 2)) == 2
    last = office.worker()
    await office.book.has("ran", 3)
    await office.book.go()
    assert (await result(agent, again, BEFORE_THE_LEASE_ENDS))["by"] == last.pid
