"""Spans: what they are called, what they say and do not say, whose children they are, and that they end."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextvars import copy_context
from typing import Any

import pytest
import redis
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, Tracer, get_current_span

from tests.house.repository import python_blocks
from tests.house.sources import repository_texts
from tests.proxy import proxied
from tests.servers import shared_server
from toolstash import Ctx, MemoryStore, RedisStore, SessionRequiredError, StoreUnavailableError, tracing
from toolstash.tools.calling import call
from toolstash.toolsets import paginator

SECRET = "hunter2-is-secret"


class Recorded:
    """The spans that have ended, in order, and the application's own tracer."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.application: Tracer = provider.get_tracer("application")

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.all if span.name == name]
        return found

    def ancestors(self, name: str) -> list[str]:
        """The names above a span, the nearest first."""
        by_id = {span.context.span_id: span for span in self.all}
        found: list[str] = []
        parent = self.one(name).parent
        while parent is not None:
            found.append(by_id[parent.span_id].name)
            parent = by_id[parent.span_id].parent
        return found


def use(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("toolstash"))
    monkeypatch.setattr(tracing, "_is_unsought", False)
    return Recorded(provider)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    provider = TracerProvider(shutdown_on_exit=False)
    yield use(provider, monkeypatch)
    provider.shutdown()


@pytest.fixture
async def on_redis() -> AsyncIterator[Ctx]:
    async with RedisStore(shared_server("valkey").url, prefix=f"t{secrets.token_hex(5)}") as store, Ctx(store) as ctx:
        yield ctx


def add_papers(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx)])
    def load_papers(count: int = 3, password: str = "") -> list[dict[str, Any]]:
        return [{"n": number, "text": SECRET} for number in range(count)]


def status(span: ReadableSpan) -> tuple[StatusCode, str | None]:
    return span.status.status_code, span.status.description


async def test_a_call_has_a_span_that_says_what_it_made(ctx: Ctx, spans: Recorded) -> None:
    add_papers(ctx)
    notice = await ctx.adispatch_tool_call("load_papers", session_id="ann")

    span = spans.one("execute_tool load_papers")
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "load_papers",
        "toolstash.session": notice["workspace_id"].rpartition("@")[2],
        "toolstash.workspace_id": notice["workspace_id"],
        "toolstash.workspace_type": "papers",
        "toolstash.item_count": 3,
        "toolstash.is_error": False,
    }
    assert span.kind is SpanKind.INTERNAL
    assert status(span) == (StatusCode.UNSET, None)


async def test_a_producer_that_gives_no_notice_says_the_same(ctx: Ctx, spans: Recorded) -> None:
    @ctx.producer(workspace_type="rows", key="rows", notify=False)
    async def load() -> list[int]:
        return [1, 2]

    await ctx.adispatch_tool_call("load")
    attributes = spans.one("execute_tool load").attributes or {}
    assert (attributes["toolstash.workspace_id"], attributes["toolstash.item_count"]) == ("rows", 2)


async def test_a_tool_says_which_workspace_it_read(ctx: Ctx, spans: Recorded) -> None:
    add_papers(ctx)
    notice = await ctx.adispatch_tool_call("load_papers")
    await ctx.adispatch_tool_call("Papers-Paginate", {"workspace_id": notice["workspace_id"]})

    attributes = spans.one("execute_tool papers_paginate").attributes or {}
    assert attributes["toolstash.workspace_id"] == notice["workspace_id"]
    assert attributes["toolstash.workspace_type"] == "papers"
    assert "toolstash.item_count" not in attributes
    assert "toolstash.session" not in attributes


@pytest.mark.parametrize(
    ("name", "arguments", "span", "kind"),
    [
        ("papers_count", {"workspace_id": SECRET}, "execute_tool papers_count", "WorkspaceNotFoundError"),
        ("papers_count", {"workspace": SECRET}, "execute_tool papers_count", "InvalidArgumentError"),
        ("papers_count", SECRET, "execute_tool papers_count", "InvalidArgumentError"),
        ("breaks", {}, "execute_tool breaks", "ValueError"),
        (SECRET, {}, "execute_tool", "tool_not_found"),
        ("large", {}, "execute_tool large", "result_refused"),
    ],
)
async def test_an_error_value_is_told_by_its_kind(
    spans: Recorded, name: str, arguments: Any, span: str, kind: str
) -> None:
    async with Ctx(MemoryStore(), max_result_chars=4_000) as ctx:
        add_papers(ctx)

        @ctx.toolset("own").tool(name="breaks")
        def breaks() -> None:
            raise ValueError(SECRET)

        @ctx.toolset("own").tool(name="large")
        def large() -> list[str]:
            return [SECRET * 1_000]

        assert "error" in await ctx.adispatch_tool_call(name, arguments)
    found = spans.one(span)
    attributes = found.attributes or {}
    assert str(attributes["error.type"]).rpartition(".")[2] == kind
    assert attributes["toolstash.is_error"] is True
    assert status(found) == (StatusCode.ERROR, attributes["error.type"])
    assert "toolstash.workspace_id" not in attributes
    assert found.events == ()
    assert SECRET not in found.to_json()


async def test_what_is_raised_is_told_by_its_type(spans: Recorded) -> None:
    async with Ctx(MemoryStore(), safe=False, require_session=True) as ctx:

        @ctx.producer(workspace_type="rows")
        async def load() -> list[int]:
            raise LookupError(SECRET)

        with pytest.raises(LookupError):
            await ctx.adispatch_tool_call("load", session_id="ann")
        with pytest.raises(SessionRequiredError):
            await ctx.adispatch_tool_call("load")
    produced, raised, refused = spans.all
    assert produced.name == "toolstash.produce load"
    assert status(produced) == status(raised)
    assert status(raised) == (StatusCode.ERROR, "LookupError")
    assert status(refused) == (StatusCode.ERROR, "toolstash.errors.SessionRequiredError")
    assert SECRET not in raised.to_json()


async def test_a_cancelled_call_ends_its_span(ctx: Ctx, spans: Recorded) -> None:
    started = asyncio.Event()

    @ctx.producer(workspace_type="rows")
    async def load() -> list[int]:
        started.set()
        await asyncio.Event().wait()
        return []

    task = asyncio.create_task(ctx.adispatch_tool_call("load"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    span = spans.one("execute_tool load")
    assert status(span) == (StatusCode.ERROR, "cancelled")
    assert (span.attributes or {})["error.type"] == "cancelled"
    assert span.end_time is not None


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_coroutine_that_is_left_behind_ends_its_span(
    spans: Recorded, caplog: pytest.LogCaptureFixture, elsewhere: bool
) -> None:
    async def run_tool() -> None:
        with tracing.tool_call("load"):
            await asyncio.Event().wait()

    async def begin() -> Any:
        coroutine = run_tool()
        coroutine.send(None)
        return coroutine

    def begin_and_close() -> bool:
        asyncio.run(begin()).close() if elsewhere else asyncio.run(close_at_once())
        return get_current_span().get_span_context().is_valid

    async def close_at_once() -> None:
        (await begin()).close()
        assert not get_current_span().get_span_context().is_valid

    assert not copy_context().run(begin_and_close)
    assert status(spans.one("execute_tool load")) == (StatusCode.ERROR, "cancelled")
    assert caplog.records == []


async def test_users_spans_in_threads_are_children_of_the_call(ctx: Ctx, spans: Recorded) -> None:
    @ctx.producer(workspace_type="rows")
    def load() -> list[int]:
        with spans.application.start_as_current_span("fetch"):
            return [1]

    @ctx.producer(workspace_type="rows")
    def stream() -> Iterator[int]:
        with spans.application.start_as_current_span("read a row"):
            row = 1
        yield row

    with spans.application.start_as_current_span("request"):
        await ctx.adispatch_tool_call("load")
        await ctx.adispatch_tool_call("stream")
    assert spans.ancestors("fetch") == ["toolstash.produce load", "execute_tool load", "request"]
    assert spans.ancestors("read a row") == ["execute_tool stream", "request"]


async def test_calls_at_once_keep_their_children_apart(ctx: Ctx, spans: Recorded) -> None:
    both = asyncio.Barrier(2)

    @ctx.toolset("own").tool(name="left")
    async def left() -> None:
        await both.wait()
        spans.application.start_span("in left").end()

    @ctx.toolset("own").tool(name="right")
    async def right() -> None:
        await both.wait()
        spans.application.start_span("in right").end()

    await asyncio.gather(ctx.adispatch_tool_call("left"), ctx.adispatch_tool_call("right"))
    assert spans.ancestors("in left") == ["execute_tool left"]
    assert spans.ancestors("in right") == ["execute_tool right"]


def test_the_blocking_door_takes_the_callers_span_along(spans: Recorded) -> None:
    ctx = Ctx(RedisStore(shared_server("valkey").url, prefix=f"t{secrets.token_hex(5)}"))
    own = ctx.toolset("papers")

    @own.tool(name="count_twice")
    def count_twice(workspace_id: str) -> int:
        with spans.application.start_as_current_span("twice"):
            return 2 * len(own.store.get_items(workspace_id))

    add_papers(ctx)
    try:
        with spans.application.start_as_current_span("task"):
            notice = ctx.dispatch_tool_call("load_papers")
            assert ctx.dispatch_tool_call("count_twice", {"workspace_id": notice["workspace_id"]}) == 6
    finally:
        ctx.blocking.aclose()
        ctx.store.blocking.aclose()
    assert spans.ancestors("execute_tool load_papers") == ["task"]
    assert spans.ancestors("twice") == ["execute_tool count_twice", "task"]
    below_twice = [
        span for span in spans.all if span.parent and span.parent.span_id == spans.one("twice").context.span_id
    ]
    assert [span.kind for span in below_twice] == [SpanKind.CLIENT] * len(below_twice) != []
    assert len({span.context.trace_id for span in spans.all}) == 1


async def test_each_trip_has_a_span_below_the_call(on_redis: Ctx, spans: Recorded) -> None:
    add_papers(on_redis)
    notice = await on_redis.adispatch_tool_call("load_papers")
    stored = spans.names()
    await on_redis.adispatch_tool_call("papers_get_slice", {"workspace_id": notice["workspace_id"]})
    (trip, read) = spans.all[len(stored) :]

    assert dict(trip.attributes or {}) == {
        "db.system.name": "redis",
        "db.operation.name": "read",
        "db.stored_procedure.name": "read",
        "server.address": "127.0.0.1",
        "server.port": shared_server("valkey").port,
    }
    assert (trip.name, trip.kind) == ("read", SpanKind.CLIENT)
    assert trip.parent is not None
    assert trip.parent.span_id == read.context.span_id
    assert stored[-1] == "execute_tool load_papers"
    assert len(stored) > 1


async def test_batches_and_commands_are_named_after_what_is_in_them(on_redis: Ctx, spans: Recorded) -> None:
    connections = on_redis.store._connections
    await connections.command("PING")
    await connections.together([("EXISTS", "{a}1"), ("EXISTS", "{a}2")])
    await connections.pipelined("a", [("EXISTS", SECRET), ("GET", SECRET)], seconds=5)
    await connections.pipelined("a", [("GET", SECRET)], seconds=5)
    await connections.everywhere(("DBSIZE",), seconds=5)

    sizes = [(span.name, (span.attributes or {}).get("db.operation.batch.size")) for span in spans.all]
    assert sizes == [("PING", None), ("MULTI EXISTS", 2), ("PIPELINE", 2), ("GET", None), ("DBSIZE", None)]
    assert not any("db.stored_procedure.name" in (span.attributes or {}) for span in spans.all)
    assert not any(SECRET in span.to_json() for span in spans.all)


async def test_a_repeated_trip_is_one_span_that_says_so(spans: Recorded) -> None:
    server = shared_server("valkey")
    async with RedisStore(server.url, prefix=f"t{secrets.token_hex(5)}", max_connections=1) as store:
        number = await store._connections.command("CLIENT", "ID")
        with redis.Redis(port=server.port) as other:
            other.client_kill_filter(_id=str(number))
        assert await store._connections.command("ECHO", SECRET) == SECRET.encode()
    trip = spans.one("ECHO")
    assert (trip.attributes or {})["toolstash.retries"] == 1
    assert [(event.name, dict(event.attributes or {})) for event in trip.events] == [
        ("toolstash.retry", {"error.type": "redis.exceptions.ConnectionError"})
    ]
    assert status(trip) == (StatusCode.UNSET, None)
    assert SECRET not in trip.to_json()


async def test_a_trip_that_fails_is_told_by_what_redis_said(on_redis: Ctx, spans: Recorded) -> None:
    with pytest.raises(StoreUnavailableError):
        await on_redis.store._connections.command("NOSUCH", SECRET)
    trip = spans.one("NOSUCH")
    assert status(trip) == (StatusCode.ERROR, "redis.exceptions.ResponseError")
    assert SECRET not in trip.to_json()


async def test_a_cancelled_trip_ends_its_span(spans: Recorded) -> None:
    async with proxied(shared_server("valkey").url) as proxy, RedisStore(proxy.url) as store:
        await store._connections.command("PING")
        proxy.delay = 30.0
        task = asyncio.create_task(store._connections.command("DBSIZE"))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.delay = 0.0
    assert status(spans.one("DBSIZE")) == (StatusCode.ERROR, "cancelled")


async def test_nothing_secret_is_in_any_span(on_redis: Ctx, spans: Recorded) -> None:
    add_papers(on_redis)
    notice = await on_redis.adispatch_tool_call("load_papers", {"password": SECRET}, session_id=SECRET)
    for arguments in ({"workspace_id": notice["workspace_id"]}, {"workspace_id": SECRET}, {SECRET: SECRET}):
        assert await on_redis.adispatch_tool_call("papers_paginate", arguments, session_id=SECRET)
    assert len(spans.all) >= 8
    assert not any(SECRET in span.to_json() for span in spans.all)


async def test_a_result_that_only_looks_like_a_workspace_is_data(ctx: Ctx, spans: Recorded) -> None:
    @ctx.toolset("own").tool(name="lookup")
    def lookup(workspace_id: int = 0) -> dict[str, Any]:
        return {"workspace_id": SECRET, "workspace_type": SECRET, "item_count": 5}

    await ctx.adispatch_tool_call("lookup")
    assert "toolstash.workspace_id" not in (spans.one("execute_tool lookup").attributes or {})


async def test_a_producers_own_function_can_have_a_span(spans: Recorded) -> None:
    def fetch() -> int:
        with spans.application.start_as_current_span("fetch"):
            return 1

    with tracing.tool_call("load", call_id="call_1\ud800"), tracing.producing("load", "papers"):
        assert await call(fetch) == 1
    assert spans.ancestors("fetch") == ["toolstash.produce load", "execute_tool load"]
    attributes = dict(spans.one("toolstash.produce load").attributes or {})
    assert attributes == {"toolstash.producer": "load", "toolstash.workspace_type": "papers"}
    assert (spans.one("execute_tool load").attributes or {})["gen_ai.tool.call.id"] == "call_1?"


async def test_calls_that_are_not_sampled_stay_unsampled_below(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    spans = use(provider, monkeypatch)

    @ctx.toolset("own").tool(name="sampled")
    def sampled() -> bool:
        with spans.application.start_as_current_span("inside") as span:
            return span.get_span_context().trace_flags.sampled

    assert await ctx.adispatch_tool_call("sampled", session_id="ann") is False
    assert "error" in await ctx.adispatch_tool_call("nothing")
    assert spans.all == []
    provider.shutdown()


PROGRAM = """
import asyncio
from toolstash import Ctx, MemoryStore

ctx = Ctx(MemoryStore())

@ctx.producer(workspace_type="rows")
def load() -> list[int]:
    return [1, 2]

async def main() -> None:
    notice = await ctx.adispatch_tool_call("load", session_id="ann")
    refusal = await ctx.adispatch_tool_call("nothing")
    print(notice["item_count"], "error" in refusal)

asyncio.run(main())
"""

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ImportError(name)

sys.meta_path.insert(0, Blocker())
"""


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_without_the_package_nothing_is_said_and_everything_works() -> None:
    shown = run(f"{BLOCKER}{PROGRAM}from toolstash import tracing\nprint(tracing._tracer, tracing._is_unsought)")
    assert shown.split() == ["2", "True", "None", "False"]


def test_without_a_provider_nothing_is_said_and_everything_works() -> None:
    assert run(PROGRAM).split() == ["2", "True"]


def test_a_provider_that_is_set_after_the_first_call_gets_the_spans() -> None:
    set_provider = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
asyncio.run(main())
print(*(span.name for span in exporter.get_finished_spans()), sep="|")
"""
    names = "toolstash.produce load|execute_tool load|execute_tool"
    assert run(PROGRAM + set_provider).split("\n")[:3] == ["2 True", "2 True", names]


def test_the_program_in_the_documents_shows_its_spans() -> None:
    page = next(text for text in repository_texts() if text.path == "docs/tracing.md")
    ((_, code),) = python_blocks(page)
    shown = run(code)
    assert shown.index('"name": "fetch"') < shown.index('"name": "execute_tool load_papers"')
    assert "conversation-17" not in shown


def test_importing_toolstash_loads_no_opentelemetry() -> None:
    code = "import sys, toolstash, toolstash.threads, toolstash.tracing\nprint('opentelemetry' in sys.modules)"
    assert run(code) == "False\n"


def test_a_broken_setup_of_opentelemetry_breaks_no_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def get_tracer(name: str) -> Tracer:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(tracing, "_tracer", None)
    monkeypatch.setattr(tracing, "_is_unsought", True)
    monkeypatch.setattr("opentelemetry.trace.get_tracer", get_tracer)
    for _ in range(2):
        with tracing.tool_call("load") as span:
            span.note("a", 1)
    assert [record.getMessage() for record in caplog.records] == [
        "OpenTelemetry could not be set up (RuntimeError): no spans are made"
    ]
