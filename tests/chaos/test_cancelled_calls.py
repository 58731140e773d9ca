"""Calls that are cancelled from another process, or run out of time: in a tool, in a thread, waiting for a person."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.chaos.asker import Asker
from tests.chaos.office import SHORT, Office
from tests.servers import start_server
from tests.wait import until
from toolstash import Answer


@pytest.fixture
def agent(office: Office) -> Asker:
    return office.asker()


@pytest.fixture
def web(office: Office) -> Asker:
    return office.asker()


def ended(outcome: Any, status: str, call_id: str) -> bool:
    """Whether a call was stopped, and its caller was told in full."""
    assert outcome.keys() >= {"error", "status", "call_id", "suggested_action"}, outcome
    return (outcome["status"], outcome["call_id"]) == (status, call_id)


@pytest.mark.parametrize("tool", ["slow", "slow_sync", "load"])
@pytest.mark.parametrize("name", [None, "mine"])
async def test_a_running_tool_is_cancelled_from_another_process(
    office: Office, agent: Asker, web: Asker, tool: str, name: str | None
) -> None:
    call = agent.begin("adispatch_tool_call", tool, {}, session_id="alice", call_id=name)
    (ran,) = await office.book.has("ran")
    assert (await web.does("cancel", ran["call_id"], session="bob")).error == "CallNotFoundError"
    told = await web.does("cancel", ran["call_id"], session="alice")
    assert told == {"status": "cancelling", "call_id": ran["call_id"]}
    assert ended(await agent.reply(call), "cancelled", ran["call_id"])
    await office.book.has("cancelled")


async def test_a_process_that_waits_for_a_cancelled_producer_makes_the_workspace(office: Office, web: Asker) -> None:
    leader, follower = office.asker(), office.asker()
    cancelled = leader.begin("adispatch_tool_call", "load", {})
    (ran,) = await office.book.has("ran")
    followed = follower.begin("adispatch_tool_call", "load", {}, call_id="mine")
    await office.knows("mine")
    await web.does("cancel", ran["call_id"])
    assert ended(await leader.reply(cancelled), "cancelled", ran["call_id"])
    await office.book.has("ran", 2)
    await office.book.go()
    assert (await follower.reply(followed))["item_count"] == 3


async def test_a_process_that_waits_for_a_producer_is_cancelled_alone(office: Office, web: Asker) -> None:
    leader, follower = office.asker(), office.asker()
    made = leader.begin("adispatch_tool_call", "load", {})
    await office.book.has("ran")
    waiting = follower.begin("adispatch_tool_call", "load", {}, call_id="mine")
    await office.knows("mine")
    await web.does("cancel", "mine")
    assert ended(await follower.reply(waiting), "cancelled", "mine")
    await office.book.go()
    assert (await leader.reply(made))["item_count"] == 3
    assert len(await office.book.lines("ran")) == 1


@pytest.mark.parametrize("tool", ["hold", "hold_sync"])
async def test_a_resumed_tool_is_cancelled_and_its_worker_goes_on(
    office: Office, agent: Asker, web: Asker, tool: str
) -> None:
    value, other = await agent.asks(tool=tool), await agent.asks()
    office.worker()
    await agent.says(value, "yes")
    await office.book.has("ran")
    assert (await web.does("cancel", value["call_id"]))["status"] == "cancelling"
    assert ended(await agent.does("call_result", value["call_id"], timeout=20), "cancelled", value["call_id"])
    await office.book.has("cancelled")
    assert (await web.does("cancel", value["call_id"]))["status"] == "cancelled"
    await agent.says(other, "yes")
    assert (await agent.does("call_result", other["call_id"], timeout=20))["answer"] == "yes"


async def test_a_call_that_is_asked_inline_is_cancelled(office: Office, agent: Asker, web: Asker) -> None:
    call = agent.begin("adispatch_tool_call", "ask", {}, wait_for=True)
    await office.book.has("read")
    (waiting,) = await web.does("pending_calls")
    assert await web.does("cancel", waiting.call_id) == {"status": "cancelled", "call_id": waiting.call_id}
    assert ended(await agent.reply(call), "cancelled", waiting.call_id)
    await office.book.has("sent away")
    answer = Answer(waiting.request.id, True)
    assert (await web.does("answer", waiting.call_id, answer)).error == "CallEndedError"
    assert await office.book.lines("ran") == []


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_call_that_is_left_to_wait_is_cancelled(
    office: Office, agent: Asker, web: Asker, is_answered: bool
) -> None:
    value = await agent.asks()
    if is_answered:
        await agent.says(value, "yes")
    await agent.kill()
    for _ in range(2):
        assert await web.does("cancel", value["call_id"]) == {"status": "cancelled", "call_id": value["call_id"]}
    assert await web.does("pending_calls") == []
    refused = "AlreadyAnsweredError" if is_answered else "CallEndedError"
    assert (await web.says(value, "yes")).error == refused
    worker = office.worker()
    other = await web.asks()
    await web.says(other, "yes")
    await web.does("call_result", other["call_id"], timeout=20)
    assert ended(await worker.does("call_result", value["call_id"]), "cancelled", value["call_id"])
    assert [line["call_id"] for line in await office.book.lines("ran")] == [other["call_id"]]


@pytest.mark.parametrize("tool", ["slow", "slow_sync", "load"])
async def test_a_tool_runs_out_of_time(office: Office, agent: Asker, tool: str) -> None:
    outcome = await agent.does("adispatch_tool_call", tool, {}, timeout=0.4)
    (ran,) = await office.book.has("ran")
    assert ended(outcome, "timeout", ran["call_id"])
    await office.book.has("cancelled")


async def test_a_tool_that_swallows_a_cancellation_runs_out_of_time_all_the_same(office: Office, agent: Asker) -> None:
    call = agent.begin("adispatch_tool_call", "stubborn", {}, timeout=0.3)
    (ran,) = await office.book.has("ran")
    assert ended(await agent.reply(call, within=8), "timeout", ran["call_id"])


@pytest.mark.parametrize("tool", ["hold", "hold_sync"])
async def test_a_resumed_tool_has_its_time_again_and_runs_out_of_it(office: Office, agent: Asker, tool: str) -> None:
    value = await agent.does("adispatch_tool_call", tool, {}, timeout=0.4)
    office.worker()
    await agent.says(value, "yes")
    outcome = await agent.does("call_result", value["call_id"], timeout=20)
    assert ended(outcome, "timeout", value["call_id"])
    await office.book.has("cancelled")


async def test_a_person_who_is_asked_inline_takes_too_long(office: Office, agent: Asker, web: Asker) -> None:
    call = agent.begin("adispatch_tool_call", "ask", {}, wait_for=True, timeout=0.6)
    (asked,) = await office.book.has("asked")
    outcome = await agent.reply(call)
    assert ended(outcome, "timeout", asked["call_id"])
    await office.book.has("sent away")
    assert await web.does("pending_calls") == []
    assert await web.does("call_result", asked["call_id"]) == outcome


async def test_a_frozen_worker_hears_of_it_when_it_wakes_up(office: Office, agent: Asker, web: Asker) -> None:
    call = agent.begin("adispatch_tool_call", "slow", {}, call_id="mine")
    await office.book.has("ran")
    agent.signal(signal.SIGSTOP)
    assert (await web.does("cancel", "mine"))["status"] == "cancelling"
    agent.signal(signal.SIGCONT)
    assert ended(await agent.reply(call), "cancelled", "mine")


async def test_a_call_that_is_cancelled_after_its_lease_does_not_ask_any_more(office: Office, web: Asker) -> None:
    agent = office.asker(**SHORT)
    call = agent.begin("adispatch_tool_call", "ask_late", {}, call_id="mine")
    await office.book.has("ran")
    await office.knows("mine")
    agent.signal(signal.SIGSTOP)
    await office.forgets("mine")
    assert (await web.does("cancel", "mine"))["status"] == "cancelling"
    await office.book.go()
    agent.signal(signal.SIGCONT)
    assert ended(await agent.reply(call), "cancelled", "mine")
    assert await web.does("pending_calls") == []


async def test_a_call_that_is_cancelled_between_its_claim_and_the_tool_does_not_run(
    office: Office, agent: Asker, web: Asker
) -> None:
    value = await agent.asks()
    office.worker(stops_before_the_tool=True)
    await agent.says(value, "yes")
    await office.book.has("claimed")
    assert (await web.does("cancel", value["call_id"]))["status"] == "cancelling"
    await office.book.go()
    assert ended(await agent.does("call_result", value["call_id"], timeout=20), "cancelled", value["call_id"])
    assert await office.book.lines("ran") == []


async def test_the_name_of_a_call_whose_process_was_killed_is_free_again(office: Office, web: Asker) -> None:
    agent = office.asker(**SHORT)
    agent.begin("adispatch_tool_call", "slow", {}, call_id="mine")
    await office.book.has("ran")
    refused = await web.does("adispatch_tool_call", "count", {}, call_id="mine")
    assert "nothing was run" in refused["error"]
    await agent.kill()
    await until(lambda: is_free(web), what="the name is free again")
    assert len(await office.book.lines("counted")) == 1


async def is_free(web: Asker) -> bool:
    return await web.does("adispatch_tool_call", "count", {}, call_id="mine") == "counted"


async def test_a_running_call_is_known_again_after_the_server_has_lost_all(office: Office) -> None:
    server = start_server("valkey")
    try:
        office.url = server.url
        agent, web = office.asker(lease_ms=600), office.asker()
        call = agent.begin("adispatch_tool_call", "slow", {}, call_id="mine")
        await office.book.has("ran")
        server.restart()
        await office.knows("mine")
        assert (await web.does("cancel", "mine"))["status"] == "cancelling"
        assert ended(await agent.reply(call), "cancelled", "mine")
    finally:
        server.stop()
