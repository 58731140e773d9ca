"""Calls that wait for a person, on every back end: suspended, listed, answered once, resumed, their outcome kept."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.wait import until
from toolstash import (
    Answer,
    BaseStore,
    Ctx,
    Request,
    ResumedCall,
    Tool,
    ToolContext,
    ToolResult,
    auth_required,
    pending,
)
from toolstash.errors import (
    AlreadyAnsweredError,
    AnswerMismatchError,
    CallEndedError,
    CallExistsError,
    CallExpiredError,
    CallNotFoundError,
)
from toolstash.store import calls
from toolstash.tools import calls as calls_of_ctx
from toolstash.toolsets import paginator

ENVIRONMENT = {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"]}
NOTHING = {"type": "object", "properties": {}}


class Deploy:
    """A tool that asks where to, and counts its runs; `make()` is a worker that has it."""

    def __init__(self, store: BaseStore) -> None:
        self.store = store
        self.runs: list[ToolContext] = []
        self.asked: dict[str, Any] = {"data": {"schema": ENVIRONMENT}}

    async def execute(self, args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        self.runs.append(ctx)
        if ctx.answer is None:
            return pending(kind="input", prompt="Which environment?", **self.asked)
        return ToolResult(f"deployed {args} to {ctx.answer.data['env']}")

    def make(self, **options: Any) -> Ctx:
        ctx = Ctx(self.store, **options)
        schema = {"type": "object", "properties": {"version": {"type": "integer"}}}
        ctx.add_tool(Tool(name="deploy", description="Deploys.", input_schema=schema, execute=self.execute))
        return ctx


@pytest.fixture
def deploy(store: BaseStore) -> Deploy:
    return Deploy(store)


def yes(value: dict[str, Any], **data: Any) -> Answer:
    """An answer to a suspended call's request."""
    return Answer(value["request"]["id"], ok=True, data=data or {"env": "staging"})


@asynccontextmanager
async def working(*workers: Ctx) -> AsyncGenerator[list[ResumedCall]]:
    """Has workers go on with answered calls; what they came to."""
    done: list[ResumedCall] = []

    async def work(ctx: Ctx) -> None:
        async with aclosing(ctx.resume_answered()) as resumed:
            async for one in resumed:
                done.append(one)

    tasks = [asyncio.create_task(work(ctx)) for ctx in workers]
    try:
        yield done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_suspended_call_is_listed_answered_resumed_and_its_outcome_kept(deploy: Deploy) -> None:
    agent, web, worker = deploy.make(), deploy.make(), deploy.make()
    value = await agent.adispatch_tool_call("deploy", {"version": "3"}, session_id="alice")
    assert value.keys() == {"status", "call_id", "request", "suggested_action"}
    assert value["status"] == "pending"
    assert value["request"] == {
        "id": value["request"]["id"],
        "kind": "input",
        "prompt": "Which environment?",
        "data": {"schema": ENVIRONMENT},
    }
    assert json.loads(json.dumps(value)) == value

    (waiting,) = await web.pending_calls()
    assert (waiting.call_id, waiting.tool, waiting.session_id) == (value["call_id"], "deploy", "alice")
    assert waiting.arguments == {"version": "3"}
    assert waiting.request == Request.from_dict(value["request"])
    assert waiting.expires_at - waiting.created_at == pytest.approx(7 * 86_400, abs=1)
    assert (await web.stats()).pending_calls == 1

    async with working(worker) as done:
        assert await web.answer(value["call_id"], yes(value)) == {"status": "answered", "call_id": value["call_id"]}
        outcome = await agent.call_result(value["call_id"], timeout=20)
        await until(lambda: done, what="the worker has told")
    assert outcome == "deployed {'version': 3} to staging"
    assert done == [ResumedCall(value["call_id"], "deploy", "alice", outcome)]
    assert await web.pending_calls() == []
    assert (await web.stats()).pending_calls == 0
    first, second = deploy.runs
    assert (first.answer, first.answers) == (None, {})
    assert second.answers == {value["request"]["id"]: second.answer}
    assert first.call_id == second.call_id == value["call_id"]
    assert second.session_id == "alice"


async def test_a_resolver_answers_at_once_async_or_not_with_an_answer_or_its_dict(deploy: Deploy) -> None:
    ctx = deploy.make()

    async def later(request: Request) -> Answer:
        await asyncio.sleep(0)
        return Answer(request.id, ok=True, data={"env": "a"})

    def at_once(request: Request) -> dict[str, Any]:
        return {"id": request.id, "ok": True, "data": {"env": "b"}, "unknown": 1}

    assert await ctx.adispatch_tool_call("deploy", {"version": 1}, wait_for=later) == "deployed {'version': 1} to a"
    assert await ctx.adispatch_tool_call("deploy", {"version": 2}, wait_for=at_once) == "deployed {'version': 2} to b"
    assert await ctx.pending_calls() == []


@pytest.mark.parametrize("fault", ["nothing", "raises", "another request", "wrong data", "no answer at all"])
async def test_a_resolver_without_a_proper_answer_leaves_the_call_waiting(deploy: Deploy, fault: str) -> None:
    ctx = deploy.make()

    def resolver(request: Request) -> Any:
        if fault == "raises":
            raise RuntimeError("no terminal")
        wrong = {"another request": Answer("other", ok=True), "wrong data": Answer(request.id, ok=True, data={"e": 1})}
        return wrong.get(fault) or (42 if fault == "no answer at all" else None)

    value = await ctx.adispatch_tool_call("deploy", {}, wait_for=resolver)
    assert value["status"] == "pending"
    assert [one.call_id for one in await ctx.pending_calls()] == [value["call_id"]]
    assert await ctx.answer(value["call_id"], yes(value), resume=True) == "deployed {} to staging"


async def test_two_questions_of_one_turn_are_asked_at_the_same_time(deploy: Deploy) -> None:
    ctx, both, asked = deploy.make(), asyncio.Event(), []

    async def resolver(request: Request) -> Answer:
        asked.append(request.id)
        if len(asked) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 20)
        return Answer(request.id, ok=True, data={"env": "x"})

    calls = [ctx.adispatch_tool_call("deploy", {"version": n}, wait_for=resolver) for n in (1, 2)]
    assert await asyncio.gather(*calls) == ["deployed {'version': 1} to x", "deployed {'version': 2} to x"]


async def test_an_answer_counts_once_and_late_foreign_and_mismatched_ones_are_refused_by_name(deploy: Deploy) -> None:
    agent, web = deploy.make(), deploy.make()
    value = await agent.adispatch_tool_call("deploy", {}, session_id="alice")
    call_id = value["call_id"]
    with pytest.raises(AnswerMismatchError, match="another request"):
        await web.answer(call_id, Answer("pnd_other", ok=True, data={"env": "x"}))
    with pytest.raises(AnswerMismatchError, match="'env'"):
        await web.answer(call_id, Answer(value["request"]["id"], ok=True, data={"environment": "x"}))
    with web.session("mallory"), pytest.raises(CallNotFoundError):
        await web.answer(call_id, yes(value))
    with pytest.raises(CallNotFoundError):
        await web.answer("call_unknown", yes(value))
    assert len(await web.pending_calls()) == 1, "refused answers change nothing"

    outcomes = await asyncio.gather(*(web.answer(call_id, yes(value)) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(one, dict) for one in outcomes) == 1
    assert sum(isinstance(one, AlreadyAnsweredError) for one in outcomes) == 7
    async with working(agent, web):
        assert await web.call_result(call_id, timeout=20) == "deployed {} to staging"
    with pytest.raises(AlreadyAnsweredError):
        await web.answer(call_id, yes(value))
    assert len(deploy.runs) == 2


async def test_a_declined_call_ends_with_the_reason_and_the_tool_does_not_run_again(deploy: Deploy) -> None:
    ctx = deploy.make()
    value = await ctx.adispatch_tool_call("deploy", {})
    await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=False, reason="not on a Friday"))
    outcome = await ctx.call_result(value["call_id"])
    assert outcome["status"] == "declined"
    assert outcome["reason"] == "not on a Friday"
    assert outcome["call_id"] == value["call_id"]
    assert "not on a Friday" in outcome["error"]
    assert "Which environment?" in outcome["error"]
    assert outcome["suggested_action"]
    assert len(deploy.runs) == 1

    inline = await ctx.adispatch_tool_call("deploy", {}, wait_for=lambda request: Answer(request.id, ok=False))
    assert (inline["status"], inline["reason"]) == ("declined", "declined")
    with pytest.raises(CallEndedError):
        await ctx.cancel(value["call_id"])


async def test_a_call_expires_by_the_time_of_its_request(deploy: Deploy) -> None:
    ctx = deploy.make()
    deploy.asked = {"expiresAt": timedelta(seconds=0.4)}
    value = await ctx.adispatch_tool_call("deploy", {})
    assert value["status"] == "pending"
    outcome = await ctx.call_result(value["call_id"], timeout=20)
    assert (outcome["status"], outcome["reason"]) == ("expired", "expired")
    with pytest.raises(CallExpiredError):
        await ctx.answer(value["call_id"], yes(value))
    assert await ctx.pending_calls() == []
    assert (await ctx.stats()).pending_calls == 0

    inline = await ctx.adispatch_tool_call("deploy", {}, wait_for=lambda request: asyncio.Event().wait())
    assert inline["status"] == "expired"
    deploy.asked = {"expiresAt": "2000-01-01T00:00:00Z"}
    assert (await ctx.adispatch_tool_call("deploy", {}))["status"] == "expired"
    assert len(deploy.runs) == 3


async def test_a_tool_may_ask_again_and_sees_all_answers(store: BaseStore) -> None:
    ctx = Ctx(store)
    seen: list[dict[str, Any]] = []

    async def survey(args: dict[str, Any], context: ToolContext) -> Any:
        seen.append({key: answer.data for key, answer in context.answers.items()})
        for question in ("name", "quest", "color"):
            if question not in context.answers:
                return pending(kind="question", prompt=f"What is your {question}?", id=question)
        return {key: answer.data for key, answer in context.answers.items()}

    ctx.add_tool(Tool(name="survey", description="Asks.", input_schema=NOTHING, execute=survey))
    value = await ctx.adispatch_tool_call("survey")
    call_id, expected = value["call_id"], {"name": 1, "quest": [2], "color": {"rgb": 3}}
    for question in expected:
        (waiting,) = await ctx.pending_calls()
        assert (waiting.call_id, waiting.request.id) == (call_id, question)
        value = await ctx.answer(call_id, Answer(question, ok=True, data=expected[question]), resume=True)
    assert value == expected
    assert await ctx.call_result(call_id) == expected
    assert seen == [{}, {"name": 1}, {"name": 1, "quest": [2]}, expected]

    asked: list[str] = []

    def resolver(request: Request) -> Answer:
        asked.append(request.prompt)
        return Answer(request.id, ok=True, data=expected[request.id])

    assert await ctx.adispatch_tool_call("survey", wait_for=resolver) == expected
    assert len(asked) == 3


async def test_producers_consumers_and_tool_set_tools_can_ask_too(store: BaseStore) -> None:
    ctx = Ctx(store)
    runs: list[str] = []

    @ctx.producer(workspace_type="papers", toolsets=paginator(ctx, "papers"), key="papers_{query}")
    def load(query: str, context: ToolContext) -> Any:
        runs.append(query)
        if context.answer is None:
            return auth_required("https://example.org/login")
        return [{"title": query}] * 3

    @ctx.consumer("papers")
    async def publish(workspace_id: str, context: ToolContext | None = None) -> Any:
        assert context is not None
        return pending(kind="approval", prompt="Publish?") if context.answer is None else {"published": workspace_id}

    @ctx.toolset("papers").tool
    def mark(workspace_id: str, index: int, context: ToolContext) -> Any:
        return pending(kind="approval", prompt="Mark?") if context.answer is None else f"marked {index}"

    def agree(request: Request) -> Answer:
        return Answer(request.id, ok=True)

    value = await ctx.adispatch_tool_call("load", {"query": "ml"}, session_id="alice")
    assert value["request"]["url"] == "https://example.org/login"
    assert await ctx.list_workspaces() == []
    notice = await ctx.answer(value["call_id"], yes(value), resume=True)
    assert (notice["status"], notice["item_count"]) == ("workspace_ready", 3)
    assert runs == ["ml", "ml"]
    with ctx.session("alice"):
        arguments = {"workspace_id": notice["workspace_id"]}
        assert await ctx.adispatch_tool_call("publish", arguments, wait_for=agree) == {
            "published": notice["workspace_id"]
        }
        marked = await ctx.adispatch_tool_call("papers_mark", {**arguments, "index": "2"}, wait_for=agree)
        assert marked == "marked 2"


async def test_only_the_session_itself_and_who_is_outside_any_sees_a_call(deploy: Deploy) -> None:
    ctx = deploy.make()
    values = [await ctx.adispatch_tool_call("deploy", {}, session_id=name) for name in ("alice", "bob", None)]
    alices, bobs, shared = (value["call_id"] for value in values)

    async def seen(**options: Any) -> list[str]:
        return [one.call_id for one in await ctx.pending_calls(**options)]

    assert await seen() == [alices, bobs, shared]
    assert await seen(session_id="bob") == [bobs]
    assert await seen(kind="approval") == []
    assert len(await seen(kind="input")) == 3
    with ctx.session("alice"):
        assert await seen() == [alices]
        assert await seen(session_id="bob") == []
        assert (await ctx.stats()).pending_calls == 1
        with pytest.raises(CallNotFoundError):
            await ctx.cancel(bobs)
        for foreign in (bobs, shared):
            with pytest.raises(CallNotFoundError):
                await ctx.answer(foreign, yes(values[1]))
            with pytest.raises(CallNotFoundError):
                await ctx.call_result(foreign, 1)
        assert (await ctx.cancel(shared))["call_id"] != shared, "an id without a session's ending is one's own"
    assert len(await seen()) == 3


async def test_a_name_belongs_to_one_call_of_its_session(deploy: Deploy) -> None:
    ctx, other = deploy.make(), deploy.make()
    value = await ctx.adispatch_tool_call("deploy", {}, session_id="alice", call_id="toolu_1")
    assert value["call_id"].startswith("toolu_1@")
    again = await other.adispatch_tool_call("deploy", {}, session_id="alice", call_id="toolu_1")
    assert "toolu_1" in again["error"]
    assert again["suggested_action"] == CallExistsError.default_action
    assert len(deploy.runs) == 1, "a call that waits is not run again under its name"
    elsewhere = await other.adispatch_tool_call("deploy", {}, session_id="bob", call_id="toolu_1")
    assert elsewhere["status"] == "pending"
    with other.session("alice"):
        assert await other.answer("toolu_1", yes(value), resume=True) == "deployed {} to staging"
        assert await ctx.call_result("toolu_1") == "deployed {} to staging"
    refused = await ctx.adispatch_tool_call("deploy", {}, call_id=value["call_id"])
    assert "another session" in refused["error"]


async def test_what_happens_to_a_call_is_told_to_those_who_watch(deploy: Deploy) -> None:
    ctx = deploy.make()
    with ctx.session("alice"):
        value = await ctx.adispatch_tool_call("deploy", {})
        declined = await ctx.adispatch_tool_call("deploy", {})
        await ctx.answer(declined["call_id"], Answer(declined["request"]["id"], ok=False))
        cancelled = await ctx.adispatch_tool_call("deploy", {})
        assert (await ctx.cancel(cancelled["call_id"]))["status"] == "cancelled"
        await ctx.answer(value["call_id"], yes(value), resume=True)
        told: list[tuple[str, str]] = []
        async with asyncio.timeout(20), aclosing(ctx.watch(after="0")) as events:
            async for event in events:
                told.append((event.kind, event.call_id))
                if len(told) == 7:
                    break
    first, second, third = value["call_id"], declined["call_id"], cancelled["call_id"]
    assert told[:5] == [
        ("suspended", first),
        ("suspended", second),
        ("ended", second),
        ("suspended", third),
        ("cancel", third),
    ]
    assert told[5:] == [("answered", first), ("ended", first)]


async def test_a_turn_with_several_questions_runs_each_call_once_and_lists_all_that_wait(deploy: Deploy) -> None:
    ctx = deploy.make()
    sides: list[int] = []

    async def side(args: dict[str, Any]) -> str:
        sides.append(args["n"])
        return f"side {args['n']}"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    ctx.add_tool(Tool(name="side", description="Has an effect.", input_schema=schema, execute=side))
    turn = [("deploy", {}), ("side", {"n": 1}), ("deploy", {}), ("side", {"n": 2})]
    values = await asyncio.gather(*(ctx.adispatch_tool_call(tool, arguments) for tool, arguments in turn))
    assert (values[1], values[3]) == ("side 1", "side 2")
    asked = [values[0]["call_id"], values[2]["call_id"]]
    assert sorted(one.call_id for one in await ctx.pending_calls()) == sorted(asked)
    assert len({values[0]["request"]["id"], values[2]["request"]["id"]}) == 2
    async with working(deploy.make(), deploy.make()):
        for value in (values[2], values[0]):
            await ctx.answer(value["call_id"], yes(value, env=value["call_id"]))
        outcomes = [await ctx.call_result(call_id, timeout=20) for call_id in asked]
    assert outcomes == [f"deployed {{}} to {call_id}" for call_id in asked]
    assert sides == [1, 2]


async def test_a_sync_resolver_does_not_stop_the_event_loop(deploy: Deploy) -> None:
    ctx, gate = deploy.make(), threading.Event()

    def resolver(request: Request) -> Answer:
        assert gate.wait(20)
        return Answer(request.id, ok=True, data={"env": "x"})

    task = asyncio.create_task(ctx.adispatch_tool_call("deploy", {}, wait_for=resolver))
    await until(ctx.pending_calls, what="the call waits")
    gate.set()  # which this loop could not do if the resolver held it
    assert await asyncio.wait_for(task, 20) == "deployed {} to x"


async def test_a_tool_that_raises_gives_a_value_in_its_first_run_and_in_the_one_after_the_answer(
    store: BaseStore, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = Ctx(store)

    async def fragile(args: dict[str, Any], context: ToolContext) -> Any:
        if args.get("at") == "first" or context.answer is not None:
            raise RuntimeError("secret detail")
        return pending(kind="approval", prompt="Go on?")

    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    ctx.add_tool(Tool(name="fragile", description="Breaks.", input_schema=schema, execute=fragile))
    first = await ctx.adispatch_tool_call("fragile", {"at": "first"})
    assert first["error"] == "fragile failed (RuntimeError)."
    value = await ctx.adispatch_tool_call("fragile")
    second = await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True), resume=True)
    assert second == first == await ctx.call_result(value["call_id"])
    assert caplog.text.count("secret detail") >= 2


async def test_arguments_that_have_no_json_form_are_refused_when_the_call_is_to_wait(deploy: Deploy) -> None:
    ctx = deploy.make()

    @ctx.producer(workspace_type="papers")
    async def load(query: Any) -> Any:
        return pending(kind="approval", prompt="Load?")

    value = await ctx.adispatch_tool_call("load", {"query": object()})
    assert "query" in value["error"]
    assert await ctx.pending_calls() == []


async def test_what_may_wait_is_bounded(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = deploy.make()
    monkeypatch.setattr(calls, "MOST_WAITING", 2)
    values = [await ctx.adispatch_tool_call("deploy", {}, session_id="alice") for _ in range(3)]
    assert [value.get("status") for value in values] == ["pending", "pending", None]
    assert "already" in values[2]["error"]
    assert (await ctx.adispatch_tool_call("deploy", {}, session_id="bob"))["status"] == "pending"
    deploy.asked = {"data": {"diff": "x" * 1_000_001}}
    assert "1,000,000 bytes" in (await ctx.adispatch_tool_call("deploy", {}))["error"]
    deploy.asked = {"data": {"diff": "x" * 100_000}}
    value = await ctx.adispatch_tool_call("deploy", {})
    assert len(json.dumps(value)) < 2_000, "what a model reads leaves large data out"
    (waiting,) = [one for one in await ctx.pending_calls() if one.call_id == value["call_id"]]
    assert waiting.request.data == deploy.asked["data"]


async def test_closing_lets_a_call_that_waits_here_go_on_waiting_in_the_store(deploy: Deploy) -> None:
    ctx, other = deploy.make(), deploy.make()
    task = asyncio.create_task(ctx.adispatch_tool_call("deploy", {}, wait_for=lambda _: asyncio.Event().wait()))
    await until(other.pending_calls, what="the call waits")
    await asyncio.wait_for(ctx.aclose(), 20)
    value = await task
    assert value["status"] == "pending"
    assert await other.answer(value["call_id"], yes(value), resume=True) == "deployed {} to staging"


async def test_a_question_with_a_schema_that_is_none_is_not_asked(deploy: Deploy) -> None:
    ctx = deploy.make()
    deploy.asked = {"data": {"schema": {"type": "nonsense"}}}
    assert (await ctx.adispatch_tool_call("deploy", {}))["error"] == "deploy failed (ValueError)."
    assert await ctx.pending_calls() == []


async def test_no_more_calls_wait_than_may_however_many_ask_at_once(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = deploy.make()
    monkeypatch.setattr(calls, "MOST_WAITING", 5)
    values = await asyncio.gather(*(ctx.adispatch_tool_call("deploy", {}, session_id="alice") for _ in range(30)))
    assert sum(value.get("status") == "pending" for value in values) == 5
    assert len(await ctx.pending_calls(session_id="alice")) == 5


async def test_the_second_question_is_bounded_like_the_first_and_its_faults_are_values(store: BaseStore) -> None:
    ctx = Ctx(store)
    second: dict[str, Any] = {}

    async def asks(args: dict[str, Any], context: ToolContext) -> Any:
        return pending(kind="input", prompt="Again?", **(second if context.answer else {"id": "first"}))

    ctx.add_tool(Tool(name="asks", description="Asks.", input_schema=NOTHING, execute=asks))
    for fault, told in (
        ({"data": {"x": object()}}, "x"),
        ({"data": {"x": "y" * 1_000_001}}, "1,000,000 bytes"),
        ({"data": {"schema": {"type": "nonsense"}}}, "asks failed"),
        ({"id": "first"}, "asks failed"),
    ):
        second = fault
        value = await ctx.adispatch_tool_call("asks")
        outcome = await ctx.answer(value["call_id"], Answer("first", ok=True), resume=True)
        assert told in outcome["error"]
        assert await ctx.call_result(value["call_id"]) == outcome
        assert await ctx.pending_calls() == []


async def test_what_is_told_and_what_a_tool_gets_is_plain_json_wherever_it_runs(store: BaseStore) -> None:
    ctx = Ctx(store)
    got: list[Any] = []

    async def asks(args: dict[str, Any], context: ToolContext) -> Any:
        if context.answer is not None:
            got.append(context.answer.data)
            return "done"
        schema = {"properties": {"list": {"type": "array"}, "rate": {"type": "number"}}}
        return pending(
            kind="input", prompt="What?", data={"at": datetime(2030, 1, 2), "x": float("nan"), "schema": schema}
        )

    ctx.add_tool(Tool(name="asks", description="Asks.", input_schema=NOTHING, execute=asks))
    data = {"list": (1, 2), 3: "key"}
    given: list[Any] = []

    def resolver(request: Request) -> Answer:
        given.append(json.loads(json.dumps(request.to_dict(), allow_nan=False)))
        return Answer(request.id, ok=True, data=data)

    assert await ctx.adispatch_tool_call("asks", wait_for=resolver) == "done"
    value = await ctx.adispatch_tool_call("asks")
    json.dumps(value, allow_nan=False)
    with pytest.raises(AnswerMismatchError, match="rate"):
        await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True, data={"rate": float("nan")}))
    assert await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True, data=data), resume=True) == "done"
    assert got == [{"list": [1, 2], "3": "key"}] * 2


async def test_a_call_that_is_stopped_does_not_wait(store: BaseStore) -> None:
    ctx, signal = Ctx(store), threading.Event()

    async def polite(args: dict[str, Any], context: ToolContext) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return pending(kind="approval", prompt="Go on all the same?")

    ctx.add_tool(Tool(name="polite", description="Asks.", input_schema=NOTHING, execute=polite))
    assert (await ctx.adispatch_tool_call("polite", timeout=0.1))["status"] == "timeout"
    task = asyncio.create_task(ctx.adispatch_tool_call("polite", signal=signal))
    signal.set()
    assert (await task)["status"] == "cancelled"
    assert await ctx.pending_calls() == []


async def test_a_call_that_is_answered_elsewhere_as_its_time_ends_here_is_not_said_to_be_stopped(
    deploy: Deploy,
) -> None:
    ctx, other = deploy.make(), Ctx(deploy.store)
    task = asyncio.create_task(
        ctx.adispatch_tool_call("deploy", {}, wait_for=lambda _: asyncio.Event().wait(), timeout=0.4, call_id="one")
    )
    (waiting,) = await until(other.pending_calls, what="the call waits")
    at = await other.store.locate(waiting.call_id)
    seen = await other.store.calls.look(at)
    assert seen.record is not None
    claimed = seen.record.answered(Answer(waiting.request.id, ok=True, data={"env": "x"}), seen.now, owner="elsewhere")
    assert await other.store.calls.swap(at, seen, claimed), "a worker has it, and takes its time"
    value = await asyncio.wait_for(task, 20)
    assert (value["status"], value["call_id"]) == ("pending", waiting.call_id)
    assert len(deploy.runs) == 1


async def test_a_worker_finds_its_work_behind_that_of_others(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_of_ctx, "WORK_AT_ONCE", 3)
    monkeypatch.setattr(calls_of_ctx, "NOT_OURS_SECONDS", 0.05)
    ctx, stranger = deploy.make(), Ctx(deploy.store)
    for session in ["alice"] * 7 + ["bob"]:
        value = await ctx.adispatch_tool_call("deploy", {}, session_id=session)
        await ctx.answer(value["call_id"], yes(value))
    async with working(stranger):
        with ctx.session("bob"):
            async with working(ctx) as done:
                await until(lambda: done, what="the worker of one session finds its call")
        assert [one.session_id for one in done] == ["bob"]
        async with working(ctx) as done:
            await until(lambda: len(done) == 7, what="the others' are done by a worker that has the tool")


async def test_work_for_a_tool_that_is_not_here_costs_next_to_nothing(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_of_ctx, "NOT_OURS_SECONDS", 0.02)
    ctx, stranger = deploy.make(), Ctx(deploy.store)
    for _ in range(20):
        value = await ctx.adispatch_tool_call("deploy", {})
        await ctx.answer(value["call_id"], yes(value))
    looks, rounds = 0, 0
    look, work = deploy.store.calls.look, deploy.store.calls.work

    async def counted_look(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await look(*args)

    async def counted_work(*args: Any) -> Any:
        nonlocal rounds
        rounds += 1
        return await work(*args)

    monkeypatch.setattr(deploy.store.calls, "look", counted_look)
    monkeypatch.setattr(deploy.store.calls, "work", counted_work)
    async with working(stranger):
        await until(lambda: rounds > 10, what="the worker has looked often")
    assert looks <= 2 * 20, "each is looked at once and remembered"


async def test_a_tool_that_changes_its_arguments_does_not_change_what_is_kept(store: BaseStore) -> None:
    ctx = Ctx(store)

    async def greedy(args: dict[str, Any], context: ToolContext) -> Any:
        if context.answer is None:
            args["list"].append("more")
            return pending(kind="approval", prompt="Go on?")
        return args

    schema = {"type": "object", "properties": {"list": {"type": "array"}}}
    ctx.add_tool(Tool(name="greedy", description="Takes.", input_schema=schema, execute=greedy))
    value = await ctx.adispatch_tool_call("greedy", {"list": ["a"]})
    assert (await ctx.pending_calls())[0].arguments == {"list": ["a"]}
    assert await ctx.answer(value["call_id"], Answer(value["request"]["id"], ok=True), resume=True) == {"list": ["a"]}
