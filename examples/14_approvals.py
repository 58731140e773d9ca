"""A deploy tool that asks a person first, who answers in a web process while nobody holds the call.

Run it with `python examples/14_approvals.py`. It needs `fastapi`, `uvicorn` and `httpx`, and starts a data store of its
own, or uses the one in TOOLSTASH_URL. It runs three programs, each in processes of their own: an agent, which calls the
tool, stores its history and ends; a web server, where people answer; a worker, which goes on with what is answered.
Your own: name your store in TOOLSTASH_URL and run this file with `web 8000`, `worker`, `agent history.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import httpx
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from toolstash import (
    AlreadyAnsweredError,
    Answer,
    AnswerMismatchError,
    AnswerRefusedError,
    CallEndedError,
    CallExpiredError,
    CallNotFoundError,
    Ctx,
    Tool,
    ToolContext,
    ToolResult,
    ToolstashError,
    pending,
)

RELEASES = {"shop": "1.4", "billing": "2.0", "search": "0.9"}  # what the model wants to be deployed
HOSTS = ["web-1", "web-2", "web-3"]
TEAM = "team-shop"  # the session of the agent's calls, and of those who may answer them
USERS = {"token-of-ann": ("ann", TEAM), "token-of-bob": ("bob", TEAM), "token-of-eve": ("eve", "team-other")}

# The tool, which the agent and the worker both register

DECISION = {
    "type": "object",
    "properties": {"to": {"enum": ["staging", "production"]}, "by": {"type": "string"}},
    "required": ["to", "by"],
}


async def deploy(args: dict[str, Any], context: ToolContext) -> ToolResult | str:
    """Asks in its first run, and is run again with the answer. A declined call is not run again."""
    what = f"{args['service']} {args['version']}"
    if context.answer is None:
        question = f"Deploy {what}? Where to?"
        return pending(kind="approval", prompt=question, data={"schema": DECISION}, expiresAt=timedelta(hours=8))
    for count, host in enumerate(HOSTS, 1):
        await asyncio.sleep(0.15)  # in its place: the work
        await context.report_progress(count, len(HOSTS), f"{what} on {host}")
    decision = context.answer.data
    return f"{what} is on {len(HOSTS)} hosts of {decision['to']}, approved by {decision['by']}"


def build() -> Ctx:
    """What the agent and the worker have in common. The store is the one that TOOLSTASH_URL names."""
    ctx = Ctx(require_session=True)
    texts = {name: {"type": "string"} for name in ("service", "version")}
    schema = {"type": "object", "properties": texts, "required": list(texts)}
    ctx.add_tool(Tool(name="deploy", description="Deploy a service.", input_schema=schema, execute=deploy))
    return ctx


# The agent


def take_turn(history: Path) -> None:
    """One turn of an agent. Between two turns, its history is all that there is of it."""
    messages = json.loads(history.read_text(encoding="utf-8")) if history.exists() else []
    history.write_text(json.dumps(asyncio.run(agent(messages))), encoding="utf-8")


async def agent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history after a turn."""
    async with build() as ctx:
        with ctx.session(TEAM):
            return await fill_in(ctx, messages) if messages else await first_turn(ctx)


async def first_turn(ctx: Ctx) -> list[dict[str, Any]]:
    """The model's calls, and what came of each. A suspended call is a value like any other."""
    calls = [
        {"id": f"toolu_{service}", "function": {"name": "deploy", "arguments": json.dumps(wanted)}}
        for service, version in RELEASES.items()
        for wanted in [{"service": service, "version": version}]
    ]
    messages: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": calls}]
    for call in calls:
        result = await ctx.adispatch_tool_call(call["function"]["name"], call["function"]["arguments"])
        print(f"   {result['status']}: {result['request']['prompt']}")
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    return messages


async def fill_in(ctx: Ctx, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Puts what the suspended calls came to into their place: now the model can have its next turn."""
    for message in messages:
        result = json.loads(message["content"]) if message["role"] == "tool" else None
        if isinstance(result, dict) and result.get("status") == "pending":
            result = await ctx.call_result(result["call_id"])  # waits until it is over; kept for a day
            message["content"] = json.dumps(result)
            print(f"   {result['error'] if isinstance(result, dict) else result}")
    return messages


# The worker


async def work() -> None:
    """Goes on with answered calls, one after the other. Start as many of these as you like."""
    async with build() as ctx:
        me = asyncio.current_task()
        assert me is not None
        for stop in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(stop, me.cancel)
        with suppress(asyncio.CancelledError):
            async for resumed in ctx.resume_answered():
                print(f"   {resumed.tool} in {resumed.session_id}: {resumed.result}", flush=True)


# The web process


@dataclass
class User:
    """Somebody who has logged in."""

    name: str
    session_id: str


@dataclass
class Decision:
    """What a person sends. Who it is, the login says and not the body."""

    request_id: str
    ok: bool
    data: dict[str, Any] | None = None
    reason: str | None = None


def user_of(bearer: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> User:
    """In its place: your own login."""
    if bearer.credentials not in USERS:
        raise HTTPException(401)
    return User(*USERS[bearer.credentials])


LoggedIn = Annotated[User, Depends(user_of)]
STATUS_OF: dict[type[Exception], int] = {
    CallNotFoundError: 404,
    AlreadyAnsweredError: 409,
    CallExpiredError: 410,
    CallEndedError: 410,
    AnswerMismatchError: 422,
    AnswerRefusedError: 409,
}


async def refuse(_: Request, error: Exception) -> JSONResponse:
    """Tells a person why the answer was not taken."""
    told = error.to_llm_dict() if isinstance(error, ToolstashError) else {"error": str(error)}
    return JSONResponse(told, STATUS_OF.get(type(error), 503))


def create_app() -> FastAPI:
    """The application. It needs no tools, only the store."""
    ctx = Ctx(require_session=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with ctx:
            yield

    app = FastAPI(lifespan=lifespan)
    app.add_exception_handler(ToolstashError, refuse)

    @app.get("/calls")
    async def waiting_calls(user: LoggedIn) -> list[dict[str, Any]]:
        calls = await ctx.pending_calls(session_id=user.session_id)
        return [
            {"call_id": call.call_id, "arguments": call.arguments, "request": call.request.to_dict()} for call in calls
        ]

    @app.post("/calls/{call_id}")
    async def decide(call_id: str, decision: Decision, user: LoggedIn) -> dict[str, Any]:
        data = {**(decision.data or {}), "by": user.name}
        with ctx.session(user.session_id):
            return await ctx.answer(call_id, Answer(decision.request_id, decision.ok, data, decision.reason))

    @app.get("/progress")
    async def progress(user: LoggedIn, after: str = "0") -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            with ctx.session(user.session_id):
                events = ctx.watch(kinds=["progress"], after=after)
            async for event in events:
                assert event.progress is not None
                told = event.progress
                yield f"{told.done:.0f} of {told.total:.0f}: {told.message}\n"

        return StreamingResponse(lines(), media_type="text/plain")

    return app


# The demonstration: starts all of them, and is the people in the browser


class Person:
    """Somebody with the web process in front of them."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        headers = {"authorization": f"Bearer token-of-{name}"}
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30)

    async def calls(self) -> list[dict[str, Any]]:
        """What this person may answer."""
        return (await self.http.get("/calls")).raise_for_status().json()

    async def decide(self, call: dict[str, Any], **decision: Any) -> None:
        """Answers, and says how that was taken."""
        body = {"request_id": call["request"]["id"], **decision}
        reply = await self.http.post(f"/calls/{call['call_id']}", json=body)
        told = reply.json()
        print(f"   {self.name}, on {call['arguments']['service']}: {reply.status_code}, {told.get('error', 'taken')}")

    async def watch(self, count: int) -> None:
        """Follows the work until so many deployments are through."""
        async with self.http.stream("GET", "/progress") as reply:
            async for line in reply.aiter_lines():
                print(f"   {line}")
                count -= line.startswith(f"{len(HOSTS)} of {len(HOSTS)}")
                if count == 0:
                    return


async def people(port: int, history: Path) -> None:
    """Ann and bob are of the team, eve is not."""
    ann, bob, eve = (Person(port, name) for name in ("ann", "bob", "eve"))
    async with ann.http, bob.http, eve.http:
        await asyncio.wait_for(until_it_answers(ann), 30)
        print("1. the agent calls the tool three times, stores its history and ends", flush=True)
        await run("agent", str(history))
        print(f"2. what ann sees; eve sees {len(await eve.calls())} calls")
        calls = await ann.calls()
        for call in calls:
            print(f"   {call['request']['kind']}: {call['request']['prompt']} {call['arguments']}")
        shop, billing, search = calls
        print("3. a wrong answer, a foreign one, an approval, a decline, and two who answer at once")
        await ann.decide(shop, ok=True, data={"to": "the moon"})
        await eve.decide(shop, ok=True, data={"to": "production"})
        await ann.decide(shop, ok=True, data={"to": "production"})
        await bob.decide(billing, ok=False, reason="not before the audit")
        await asyncio.gather(*(one.decide(search, ok=True, data={"to": "staging"}) for one in (ann, bob)))
        print("4. the worker's progress, in the web process")
        await asyncio.wait_for(ann.watch(2), 30)
        print("5. another process of the agent reads the history and goes on", flush=True)
        await run("agent", str(history))


async def until_it_answers(person: Person) -> None:
    """The server takes a moment to start."""
    while True:
        with suppress(httpx.TransportError):
            await person.calls()
            return
        await asyncio.sleep(0.05)


async def run(*role: str) -> None:
    """Runs this file in another process, to its end."""
    async with started(*role) as process:
        assert await process.wait() == 0


@asynccontextmanager
async def started(*role: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """This file in another process, which is stopped in the end."""
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, *role, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def demonstrate(directory: Path) -> None:
    """Starts the server and a worker, and lets the people and the agent do their part."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with AsyncExitStack() as stack:
        ctx = await stack.enter_async_context(Ctx())
        await ctx.ping()  # an embedded server lives as long as somebody uses it
        await stack.enter_async_context(started("web", str(port)))
        worker = await stack.enter_async_context(started("worker", stdout=asyncio.subprocess.PIPE))
        await people(port, directory / "history.json")
        print("6. what the worker said; then all of them stop")
        worker.terminate()
        said, _ = await worker.communicate()
        print(said.decode().rstrip())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one of the programs, or the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part")
    parts.add_parser("web", help="the web server").add_argument("port", type=int)
    parts.add_parser("worker", help="a worker")
    parts.add_parser("agent", help="one turn of the agent").add_argument("history", type=Path)
    given = parser.parse_args(arguments)
    if given.part == "web":
        uvicorn.run(create_app(), port=given.port, log_level="warning", ws="none")
    elif given.part == "worker":
        asyncio.run(work())
    elif given.part == "agent":
        take_turn(given.history)
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            os.environ.setdefault("TOOLSTASH_URL", f"embedded:{directory}")  # the others inherit it
            asyncio.run(demonstrate(Path(directory)))


if __name__ == "__main__":
    main()
