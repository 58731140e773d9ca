"""People in the loop: F25 and F53 to F55 of the field's reports, each with processes that come and go.

| Case | Its input | At length |
|---|---|---|
| F25 a history with approvals does not load | here | chaos/test_suspended_calls.py: each question in another process |
| F53 two suspensions, one id | here: 2, 3, 1 | chaos/test_suspended_calls.py: a hundred in any order |
| F54 approval repeats earlier work | here | contract/test_suspended_calls.py: a tool asks again |
| F55 the answer is used up, nothing has run | here | chaos/test_lost_workers.py: lost before the tool, and in it |
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from tests.chaos.asker import Asker
from tests.chaos.office import SHORT, Office
from tests.servers import shared_server
from toolstash import Answer, Request


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    url = shared_server("valkey").url
    async with redis.asyncio.Redis.from_url(url) as client:
        made = Office(url, f"f{secrets.token_hex(5)}", client)
        yield made
        made.close()


async def turn(agent: Asker, *tools: str) -> list[Any]:
    """What the tools of one turn of a model give, which run at once and have the same arguments."""
    calls = [agent.begin("adispatch_tool_call", tool, {"n": 1}, session_id="alice") for tool in tools]
    return [await agent.reply(call) for call in calls]


async def test_f25_a_history_with_approvals_is_loaded_by_the_next_process(office: Office) -> None:
    history: list[dict[str, Any]] = []
    agent = office.asker()
    (suspended,) = await turn(agent, "steps")
    for step in range(3):
        history += json.loads(json.dumps([suspended]))
        await agent.kill()
        agent = office.asker()
        request = Request.from_dict(history[-1]["request"])
        assert request.to_dict() == suspended["request"]
        answer = Answer(request.id, True, {"approved_by": ["ann", "bob"], "step": step})
        history += json.loads(json.dumps([answer.to_dict()]))
        call_id = history[0]["call_id"]
        suspended = await agent.does("answer", call_id, history[-1], resume=True)
    assert suspended == [{"approved_by": ["ann", "bob"], "step": step} for step in range(3)]
    assert [Answer.from_dict(one).to_dict() for one in history[1::2]] == history[1::2]
    last = (await office.book.has("ran", 4))[-1]
    assert last["answers"] == {f"step {step}": suspended[step] for step in range(3)}


async def test_f53_three_suspensions_of_one_tool_have_three_ids_and_each_its_answer(office: Office) -> None:
    agent, person = office.asker(), office.asker()
    *suspended, counted = await turn(agent, "ask", "ask", "ask", "count")
    assert counted == "counted"
    assert len({value["call_id"] for value in suspended}) == len({value["request"]["id"] for value in suspended}) == 3
    office.worker()
    for number in (2, 3, 1):
        await person.says(suspended[number - 1], f"word {number}")
    results = [agent.does("call_result", value["call_id"], timeout=20) for value in suspended]
    assert [result["answer"] for result in await asyncio.gather(*results)] == ["word 1", "word 2", "word 3"]
    assert len(await office.book.lines("ran")) == 3
    assert len(await office.book.lines("counted")) == 1


async def test_f54_a_step_before_the_approval_is_not_done_again(office: Office) -> None:
    agent = office.asker()
    counted, suspended = await turn(agent, "count", "ask")
    await agent.kill()
    office.worker()
    web = office.asker()
    await web.says(suspended, "approved")
    assert (await web.does("call_result", suspended["call_id"], timeout=20))["answer"] == "approved"
    assert counted == "counted"
    assert len(await office.book.lines("counted")) == 1


async def test_f55_an_answer_whose_run_never_began_is_not_used_up(office: Office) -> None:
    web = office.asker(stops_before_the_tool=True, **SHORT)
    (suspended,) = await turn(web, "ask")
    answer = Answer(suspended["request"]["id"], True, "approved")
    web.begin("answer", suspended["call_id"], answer, resume=True)
    await office.book.has("claimed")
    await web.kill()
    office.worker(**SHORT)
    reader = office.asker()
    assert (await reader.does("call_result", suspended["call_id"], timeout=20))["answer"] == "approved"
    assert len(await office.book.lines("ran")) == 1
