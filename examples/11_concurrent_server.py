"""Four server processes behind one port share every workspace: no sticky sessions, no state in any of them.

Run it with `python examples/11_concurrent_server.py`. It needs `fastapi`, `uvicorn` and `httpx`. It starts a data
store of its own, or uses the one in TOOLSTASH_URL. Your own: `uvicorn your_module:create_app --factory --workers 4`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from toolstash import Ctx
from toolstash.toolsets import paginator, pipeline, text_search

WORKERS = 4
CONVERSATIONS = {"ann": "exception", "bob": "class", "eve": "import"}
TOKENS = {f"token-of-{name}": name for name in ["start", *CONVERSATIONS]}  # in their place: your own login


def build() -> Ctx:
    """The tools. A server wants a session for every call, and an end for everything that it stores."""
    ctx = Ctx(require_session=True, default_ttl=600)  # the store that TOOLSTASH_URL names

    @ctx.producer(workspace_type="lines", toolsets=[paginator(ctx), text_search(ctx), pipeline(ctx)])
    def read_manual(word: str) -> list[dict[str, Any]]:
        """Find the lines of the Python manual that hold a word."""
        lines = ((topic, line.strip()) for topic, text in topics.items() for line in text.splitlines())
        return [{"topic": topic, "chars": len(line), "text": line} for topic, line in lines if word in line]

    return ctx


def session_of(bearer: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    """The session is that of whoever has logged in: a client that could name one would read all of it."""
    if bearer.credentials not in TOKENS:
        raise HTTPException(401)
    return TOKENS[bearer.credentials]


def create_app() -> FastAPI:
    """The application. Each worker process makes one; it connects when it is first asked, and closes in the end."""
    ctx = build()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with ctx:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/tools/{name}")
    async def call_tool(
        name: str, arguments: dict[str, Any], session_id: Annotated[str, Depends(session_of)]
    ) -> dict[str, Any]:
        answer = await ctx.adispatch_tool_call(name, arguments, session_id=session_id)
        return {"pid": os.getpid(), "answer": answer}

    return app


class Conversation:
    """A client in place of a model's tool calls. Each call is a new connection: any worker may take it."""

    def __init__(self, http: httpx.AsyncClient, session_id: str) -> None:
        self.http = http
        self.session_id = session_id

    async def call(self, tool: str, **arguments: Any) -> tuple[int, Any]:
        """The worker that answered, and its answer."""
        headers = {"authorization": f"Bearer token-of-{self.session_id}"}
        reply = (await self.http.post(f"/tools/{tool}", json=arguments, headers=headers)).raise_for_status().json()
        return reply["pid"], reply["answer"]


async def until_all_workers_answer(http: httpx.AsyncClient) -> None:
    """They start one after the other."""
    seen: set[int] = set()
    while len(seen) < WORKERS:
        try:
            answers = [Conversation(http, "start").call("lines_count", workspace_id="none") for _ in range(16)]
            seen |= {pid for pid, _ in await asyncio.gather(*answers)}
        except httpx.TransportError:
            await asyncio.sleep(0.05)


async def explore(conversation: Conversation, word: str) -> str:
    """One worker stores; whichever is free pages, searches and aggregates."""
    stored_by, notice = await conversation.call("read_manual", word=word)
    workspace_id = notice["workspace_id"]
    paged, searched, grouped = await asyncio.gather(
        conversation.call("lines_paginate", workspace_id=workspace_id, size=3),
        conversation.call("lines_search", workspace_id=workspace_id, query=word),
        conversation.call("lines_aggregate", workspace_id=workspace_id, group_by="topic", metrics={"lines": "count"}),
    )
    rows, hits, groups = paged[1]["result"]["total"], searched[1]["total_matches"], grouped[1]["group_count"]
    print(f"   {conversation.session_id}: {notice['item_count']} lines with {word!r}, stored by worker {stored_by}")
    print(f"        paged by {paged[0]} ({rows} rows), searched by {searched[0]} ({hits} hits),", end=" ")
    print(f"aggregated by {grouped[0]} ({groups} groups)")
    return workspace_id


async def pages_of_all_workers(conversation: Conversation, workspace_id: str) -> list[tuple[int, Any]]:
    """Single rows, 20 requests at once, from as many workers as there are."""
    answers: list[tuple[int, Any]] = []
    while len({pid for pid, _ in answers}) < WORKERS:
        pages = [len(answers) % 200 + offset for offset in range(20)]
        calls = (conversation.call("lines_paginate", workspace_id=workspace_id, page=page, size=1) for page in pages)
        answers += await asyncio.gather(*calls)
    return answers


async def talk(port: int) -> None:
    """Several conversations at once, then one that looks where it should not."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=30) as http:
        await asyncio.wait_for(until_all_workers_answer(http), 60)
        conversations = {name: Conversation(http, name) for name in CONVERSATIONS}
        print(f"1. {len(conversations)} conversations at once")
        ids = await asyncio.gather(*(explore(conversations[name], word) for name, word in CONVERSATIONS.items()))

        print("2. one of them pages until every worker has answered")
        answers = await asyncio.wait_for(pages_of_all_workers(conversations["ann"], ids[0]), 60)
        topics_seen = {answer["result"]["items"][0]["topic"] for _, answer in answers}
        print(f"   {len({pid for pid, _ in answers})} workers answered; the pages are of {len(topics_seen)} topics")

        print("3. another one asks for the same workspace")
        _, refusal = await conversations["bob"].call("lines_paginate", workspace_id=ids[0])
        print(f"   {refusal['error']}")


@contextmanager
def server(port: int) -> Iterator[None]:
    """`uvicorn --workers 4` with this file's application, stopped at the end, also by Ctrl-C."""
    command = [sys.executable, "-m", "uvicorn", f"{Path(__file__).stem}:create_app", "--factory"]
    options = ["--workers", str(WORKERS), "--port", str(port), "--app-dir", str(Path(__file__).parent)]
    with subprocess.Popen([*command, *options, "--log-level", "warning"], start_new_session=True) as process:
        try:
            yield
        finally:
            process.terminate()


async def main() -> None:
    """Starts the server, talks to it, stops it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with server(port):
        await talk(port)
    print("4. all workers have stopped")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        os.environ.setdefault("TOOLSTASH_URL", f"embedded:{directory}")  # the workers inherit it
        asyncio.run(main())
