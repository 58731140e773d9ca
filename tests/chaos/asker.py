"""A process with tools that ask. It does what the test tells it, and what its tools do they write into a book on Redis.

ask           asks once; with the answer it writes "ran" and gives {"answer", "n"}
hold          the same, but goes on with the answer only when the test lets it (`Book.go`); notes "cancelled"
hold_again    the same, idempotent
hold_sync     the same as a `def`
steps         asks three times
slow, slow_sync, load  ask nothing and end when the test lets them; `load` is a keyed producer
ask_late      asks once the test lets it
stubborn      as slow, and does not end at the first cancellation
count         counts
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import anyio
import redis.asyncio

from tests.wait import until, until_sync
from toolstash import Answer, Ctx, RedisStore, Tool, ToolContext, ToolResult, pending
from toolstash.tools import calls, resuming
from toolstash.wire import keys as layout

OBJECT = {"type": "object", "properties": {name: {} for name in ("n", "text", "nested", "until")}}

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Refused:
    """What a call of an asker raised."""

    error: str
    message: str


@dataclass(frozen=True)
class Ways:
    """How an asker differs from others: a clock that is that many seconds off, a stop between claim and tool."""

    lease_ms: int = layout.FLIGHT_MS
    look_again_seconds: float = calls.LOOK_AGAIN_SECONDS
    clock_is_off: float = 0.0
    command_timeout_seconds: float = 5.0
    stops_before_the_tool: bool = False


class Asker:
    """One such process."""

    def __init__(self, url: str, book: str, prefix: str, **ways: Any) -> None:
        self._ours, theirs = _processes.Pipe()
        self.process: BaseProcess = _processes.Process(
            target=_run, args=(url, book, prefix, Ways(**ways), theirs), daemon=True
        )
        self.process.start()
        theirs.close()
        self._replies: dict[int, Any] = {}
        self._sent = 0

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    async def does(self, method: str, *args: Any, session: str | None = None, **kwargs: Any) -> Any:
        """What a method of its Ctx gives, or the `Refused` of what it raises."""
        return await self.reply(self.begin(method, *args, session=session, **kwargs))

    def begin(self, method: str, *args: Any, session: str | None = None, **kwargs: Any) -> int:
        """Has it call a method, and goes on at once; the number of the call."""
        self._sent += 1
        self._ours.send((self._sent, method, args, kwargs, session))
        return self._sent

    async def reply(self, number: int, within: float = 30) -> Any:
        """What became of a call that was begun."""

        def has_come() -> bool:
            while self._ours.poll():
                got, reply = self._ours.recv()
                self._replies[got] = reply
            return number in self._replies

        await until(has_come, within=within, what="the process replies")
        return self._replies.pop(number)

    async def asks(self, **arguments: Any) -> dict[str, Any]:
        """Runs the tool `ask`, or the one that is named; the suspended call."""
        tool, session = arguments.pop("tool", "ask"), arguments.pop("session_id", None)
        value = await self.does("adispatch_tool_call", tool, arguments, session_id=session)
        assert isinstance(value, dict), value
        assert value.get("status") == "pending", value
        return value

    async def says(self, value: dict[str, Any], data: Any = None, **options: Any) -> Any:
        """Answers a suspended call with yes."""
        return await self.does("answer", value["call_id"], Answer(value["request"]["id"], True, data), **options)

    def signal(self, number: int) -> None:
        """Sends a signal."""
        os.kill(self.pid, number)

    async def ends(self) -> int:
        """Waits until it is gone; its exit code."""
        await until(lambda: not self.process.is_alive(), what="the process is gone")
        code = self.process.exitcode
        assert code is not None
        self._ours.close()
        self.process.close()
        return code

    async def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        await self.ends()

    def discard(self) -> None:
        """SIGKILL, if the test has left it alive."""
        if not self._ours.closed:
            self.process.kill()
            self.process.join(10)
            self._ours.close()


class Book:
    """What the tools of all askers of one prefix have written, and the key that lets them end."""

    def __init__(self, client: redis.asyncio.Redis, url: str, prefix: str) -> None:
        self._client = client
        self.url = url
        self.name = f"{prefix}-book"
        self.permission = f"{prefix}-go"

    async def write(self, what: str, **more: Any) -> None:
        """Writes one line."""
        await self._client.rpush(self.name, json.dumps({"what": what, "pid": os.getpid(), **more}))  # type: ignore[misc]

    async def lines(self, what: str) -> list[dict[str, Any]]:
        """All lines of that kind so far."""
        found = map(json.loads, await self._client.lrange(self.name, 0, -1))  # type: ignore[misc]
        return [line for line in found if line["what"] == what]

    async def has(self, what: str, times: int = 1) -> list[dict[str, Any]]:
        """Waits until there are so many lines of that kind."""

        async def enough() -> list[dict[str, Any]]:
            lines = await self.lines(what)
            return lines if len(lines) >= times else []

        lines = await until(enough, within=30, what=f"{times} times {what!r}")
        assert len(lines) == times, lines
        return lines

    async def go(self) -> None:
        """Lets the tools end."""
        await self._client.set(self.permission, 1, ex=60)

    async def may_go(self) -> bool:
        """Whether the tools may end."""
        return bool(await self._client.exists(self.permission))

    async def told_to_go(self) -> None:
        """Waits for it. Shielded, for redis-py swallows a cancellation that comes while it reads a reply."""
        await until(lambda: asyncio.shield(self.may_go()), within=60, what="the test lets it end")


def _run(url: str, book: str, prefix: str, ways: Ways, told: Connection) -> None:
    layout.FLIGHT_MS = ways.lease_ms
    calls.LOOK_AGAIN_SECONDS = ways.look_again_seconds
    clock = time.time
    if ways.clock_is_off:
        time.time = lambda: clock() + ways.clock_is_off
    try:
        asyncio.run(_serve(url, book, prefix, ways, told))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise SystemExit(3) from None


async def _serve(url: str, book_url: str, prefix: str, ways: Ways, told: Connection) -> None:
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None
    loop.add_signal_handler(signal.SIGTERM, main.cancel)
    async with (
        redis.asyncio.Redis.from_url(book_url) as client,
        RedisStore(url, prefix=prefix, command_timeout_seconds=ways.command_timeout_seconds) as store,
        Ctx(store, default_ttl=60) as ctx,
    ):
        book = Book(client, book_url, prefix)
        _add_tools(ctx, book)
        if ways.stops_before_the_tool:
            resuming._Run.outcome = _stopping(book)  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as group:

            def take() -> None:
                try:
                    number, *call = told.recv()
                except EOFError:
                    main.cancel()
                else:
                    group.create_task(_do(ctx, book, told, number, *call))

            loop.add_reader(told.fileno(), take)
            await loop.create_future()


async def _do(ctx: Ctx, book: Book, told: Connection, number: int, method: str, args: Any, kwargs: Any, session: Any):
    if "wait_for" in kwargs:
        kwargs = kwargs | {"wait_for": _person(book)}
    try:
        with ctx.session(session):
            work = _go_on(ctx, book) if method == "resume_answered" else getattr(ctx, method)(*args, **kwargs)
            reply = await work
    except Exception as error:
        reply = Refused(type(error).__name__, str(error))
    told.send((number, reply))


async def _go_on(ctx: Ctx, book: Book) -> None:
    async for one in ctx.resume_answered():
        await book.write("resumed", call_id=one.call_id, result=one.result, is_error=one.is_error)


def _person(book: Book) -> Any:
    """Somebody who reads the question and answers once the test lets them."""

    async def answer(request: Any) -> Answer:
        await book.write("read", id=request.id)
        try:
            await book.told_to_go()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await book.write("sent away", id=request.id)
            raise
        return Answer(request.id, True, "from the person here")

    return answer


def _stopping(book: Book) -> Any:
    """In place of what runs a claimed call: the same, once the test lets it."""
    run = resuming._Run.outcome

    async def stop(*claimed: Any) -> Any:
        await book.write("claimed")
        await book.told_to_go()
        return await run(*claimed)

    return stop


def _add_tools(ctx: Ctx, book: Book) -> None:
    async def ask(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        if ctx.answer is None:
            await book.write("asked", call_id=ctx.call_id)
            return pending(kind="question", prompt="What is the word?", expiresAt=args.get("until"))
        await book.write("ran", call_id=ctx.call_id, answer=ctx.answer.data)
        return ToolResult({"answer": ctx.answer.data, "n": args.get("n")})

    async def hold(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        result = await ask(args, ctx)
        if ctx.answer is not None:
            await _to_the_end(book, ctx)
        return ToolResult(result.output | {"by": os.getpid()}) if ctx.answer is not None else result

    def hold_sync(args: dict[str, Any], ctx: Any) -> ToolResult:
        if ctx.answer is None:
            return pending(kind="question", prompt="What is the word?")
        _to_the_end_sync(book, ctx)
        return ToolResult({"answer": ctx.answer.data})

    async def steps(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        await book.write("ran", call_id=ctx.call_id, answers={key: one.data for key, one in ctx.answers.items()})
        if len(ctx.answers) < 3:
            return pending(id=f"step {len(ctx.answers)}", kind="question", prompt="And then?")
        return ToolResult([answer.data for answer in ctx.answers.values()])

    async def slow(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        await book.write("ran", call_id=ctx.call_id)
        await _to_the_end(book, ctx)
        return ToolResult("done")

    def slow_sync(args: dict[str, Any], ctx: Any) -> ToolResult:
        _to_the_end_sync(book, ctx)
        return ToolResult("done")

    async def ask_late(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        await book.write("ran", call_id=ctx.call_id)
        await _to_the_end(book, ctx)
        return pending(kind="question", prompt="What is the word?")

    async def stubborn(args: dict[str, Any], ctx: ToolContext) -> ToolResult:
        await book.write("ran", call_id=ctx.call_id)
        try:
            await book.told_to_go()
        except asyncio.CancelledError:  # as redis-py does, in the middle of a reply
            await book.told_to_go()
        return ToolResult("done")

    async def count(args: dict[str, Any]) -> ToolResult:
        await book.write("counted")
        return ToolResult("counted")

    named = {"ask": ask, "hold": hold, "hold_again": hold, "hold_sync": hold_sync, "steps": steps}
    for name, execute in (
        named | {"slow": slow, "slow_sync": slow_sync, "stubborn": stubborn, "ask_late": ask_late, "count": count}
    ).items():
        ctx.add_tool(Tool(name, "A tool.", OBJECT, execute=execute, idempotent=name == "hold_again"))

    @ctx.producer(workspace_type="rows", key="w")
    async def load(context: ToolContext) -> list[int]:
        await book.write("ran", call_id=context.call_id)
        await _to_the_end(book, context)
        return [1, 2, 3]


async def _to_the_end(book: Book, context: ToolContext) -> None:
    try:
        await book.told_to_go()
        await book.write("went on", call_id=context.call_id)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await book.write("cancelled", call_id=context.call_id)
        raise


def _to_the_end_sync(book: Book, context: Any) -> None:
    line = {"pid": os.getpid(), "call_id": context.call_id}
    with redis.Redis.from_url(book.url) as client:
        client.rpush(book.name, json.dumps(line | {"what": "ran"}))
        until_sync(lambda: context.signal.is_set() or client.exists(book.permission), within=60, what="the end")
        if context.signal.is_set():
            client.rpush(book.name, json.dumps(line | {"what": "cancelled"}))
