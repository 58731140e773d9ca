"""Sync code suspends, answers, resumes, cancels and bounds calls through the blocking door; its tools are `def`s."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.servers import shared_server
from tests.wait import until_sync
from toolstash import Answer, Ctx, RedisStore, ResumedCall, Tool, ToolContext, ToolResult, pending
from toolstash.errors import AlreadyAnsweredError

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Program:
    """A Ctx with sync tools; `stopped` holds the calls whose tools have seen that they should stop."""

    def __init__(self, prefix: str) -> None:
        self.store = RedisStore(shared_server("valkey").url, prefix=prefix)
        self.ctx = Ctx(self.store)
        self.threads: list[str] = []
        self.stopped: list[str] = []
        for name, execute in {"deploy": self.deploy, "wait": self.wait}.items():
            self.ctx.add_tool(Tool(name, "A tool.", OBJECT, execute=execute))

    def deploy(self, args: dict[str, Any], call: ToolContext) -> ToolResult:
        self.threads.append(threading.current_thread().name)
        call.report_progress(1, 2)  # pyright: ignore[reportUnusedCoroutine] - which blocks here
        if call.answer is None:
            return pending(kind="approval", prompt="Deploy?")
        return ToolResult(f"deployed {args['n']}, approved by {call.answer.data}")

    def wait(self, _: dict[str, Any], call: ToolContext) -> ToolResult:
        self.threads.append(call.call_id)
        until_sync(call.signal.is_set, what="the tool is told to stop")
        self.stopped.append(call.call_id)
        return ToolResult("stopped")

    def asks(self, number: int) -> dict[str, Any]:
        value = self.ctx.dispatch_tool_call("deploy", {"n": number}, timeout=20)
        assert value["status"] == "pending"
        return value

    def close(self) -> None:
        self.ctx.blocking.aclose()
        self.store.blocking.aclose()


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """An agent, a web process and a worker."""
    prefix = f"t{secrets.token_hex(5)}"
    made = [Program(prefix) for _ in range(3)]
    yield made
    for program in made:
        program.close()


def yes(value: dict[str, Any]) -> Answer:
    return Answer(value["request"]["id"], ok=True, data="ann")


def test_calls_are_answered_resumed_and_read(programs: list[Program]) -> None:
    agent, web, worker = programs
    done: list[ResumedCall] = []

    def work() -> None:
        for resumed in worker.ctx.blocking.resume_answered():
            done.append(resumed)
            if len(done) == 3:
                break

    with ThreadPoolExecutor() as threads:
        working = threads.submit(work)
        values = list(threads.map(agent.asks, range(3)))
        assert {one.call_id for one in web.ctx.blocking.pending_calls()} == {value["call_id"] for value in values}
        for value in values:
            told = web.ctx.blocking.answer(value["call_id"], yes(value))
            assert told == {"status": "answered", "call_id": value["call_id"]}
        results = [agent.ctx.blocking.call_result(value["call_id"], timeout=20) for value in values]
        working.result(20)
    assert results == [f"deployed {number}, approved by ann" for number in range(3)]
    assert {one.call_id: one.result for one in done} == {
        value["call_id"]: result for value, result in zip(values, results, strict=True)
    }
    with pytest.raises(AlreadyAnsweredError):
        web.ctx.blocking.answer(values[0]["call_id"], yes(values[0]))


def test_an_answer_is_resumed_where_it_is_given_and_a_sync_resolver_answers_inline(programs: list[Program]) -> None:
    agent, web, _ = programs
    value = agent.asks(7)
    assert web.ctx.blocking.answer(value["call_id"], yes(value), resume=True) == "deployed 7, approved by ann"
    inline = agent.ctx.dispatch_tool_call("deploy", {"n": 8}, wait_for=lambda request: Answer(request.id, True, "bob"))
    assert inline == "deployed 8, approved by bob"
    assert threading.current_thread().name not in agent.threads + web.threads


def test_a_blocking_call_is_cancelled_from_another_program(programs: list[Program]) -> None:
    agent, web, _ = programs
    with ThreadPoolExecutor() as threads:
        call = threads.submit(agent.ctx.dispatch_tool_call, "wait", {}, call_id="mine")
        until_sync(lambda: agent.threads == ["mine"], what="the tool runs")
        assert web.ctx.blocking.cancel("mine") == {"status": "cancelling", "call_id": "mine"}
        assert call.result(20)["status"] == "cancelled"
    until_sync(lambda: agent.stopped == ["mine"], what="the tool has seen it")
    assert web.ctx.blocking.pending_calls() == []


def test_a_blocking_call_runs_out_of_time_or_its_signal_is_set(programs: list[Program]) -> None:
    agent = programs[0]
    late = agent.ctx.dispatch_tool_call("wait", {}, timeout=0.2)
    assert late["status"] == "timeout"
    signal = threading.Event()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(agent.ctx.dispatch_tool_call, "wait", {}, signal=signal)
        until_sync(lambda: len(agent.threads) == 2, what="the tool runs")
        signal.set()
        stopped = call.result(20)
    assert stopped["status"] == "cancelled"
    until_sync(lambda: len(agent.stopped) == 2, what="both tools have seen it")
    assert sorted(agent.stopped) == sorted([late["call_id"], stopped["call_id"]])
