"""Workers of docket, an async task library, run the same tools on the same workspaces.

Run it with `python examples/13_async_workers.py`. It needs `pydocket` and starts a data store of its own, which is
docket's too. Your own worker: `docket worker --docket tools --tasks your_module:tasks`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from docket import Docket

from toolstash import Ctx, RedisStore
from toolstash.toolsets import pipeline, text_search

WORKERS = 2
CHAPTERS = {"ann": "execmodel", "bob": "formatstrings", "eve": "debugger"}

ctx = Ctx(require_session=True, default_ttl=600)  # the store that TOOLSTASH_URL names


@ctx.producer(workspace_type="lines", toolsets=[text_search(ctx), pipeline(ctx)])
def read_manual(topic: str) -> list[dict[str, Any]]:
    """Read a chapter of the Python manual, line by line."""
    return [{"line": number, "text": text} for number, text in enumerate(topics[topic].splitlines())]


async def run_tool(name: str, arguments: dict[str, Any], session_id: str) -> tuple[int, Any]:
    """A model's tool call as a task."""
    return os.getpid(), await ctx.adispatch_tool_call(name, arguments, session_id=session_id)


tasks = [run_tool]


async def call(docket: Docket, tool: str, session_id: str, **arguments: Any) -> tuple[int, Any]:
    """Sends a task and waits for its result: the process that ran it, and the answer."""
    execution = await docket.add(run_tool)(tool, arguments, session_id)
    return await execution.get_result(timeout=timedelta(seconds=60))


async def explore(docket: Docket, session_id: str, topic: str) -> list[int]:
    """One worker stores; whichever is free answers. Returns the processes that did."""
    stored_by, notice = await call(docket, "read_manual", session_id, topic=topic)
    at = {"workspace_id": notice["workspace_id"]}
    words = ["name", "value", "used", "default", "must", "section"]
    answers = await asyncio.gather(*(call(docket, "lines_search", session_id, query=word, **at) for word in words))
    hits = {word: answer["total_matches"] for word, (_, answer) in zip(words, answers, strict=True)}
    print(f"   {session_id}: {notice['item_count']} lines of {topic!r}, stored by {stored_by}; hits: {hits}")
    _, refusal = await call(docket, "lines_search", "somebody else", query="name", **at)
    print(f"        somebody else: {refusal['error']}")
    return [pid for pid, _ in answers]


@contextmanager
def worker(name: str, url: str) -> Iterator[None]:
    """A worker process. Its connections to the store close with its event loop."""
    command = [sys.executable, "-m", "docket", "worker", "--docket", "tools", "--tasks", f"{Path(__file__).stem}:tasks"]
    options = ["--url", url, "--name", name, "--concurrency", "4", "--logging-level", "WARNING"]
    with subprocess.Popen([*command, *options], cwd=Path(__file__).parent, start_new_session=True) as process:
        try:
            yield
        finally:
            process.terminate()  # running tasks end first


async def main(url: str) -> None:
    """Starts the workers, sends them the calls of three conversations, and stops them."""
    with worker("one", url), worker("two", url):
        async with Docket(name="tools", url=url) as docket:
            print(f"1. {len(CHAPTERS)} conversations at once")
            pids = await asyncio.gather(*(explore(docket, session_id, topic) for session_id, topic in CHAPTERS.items()))
    print(f"2. searches answered by each process: {dict(Counter(chain.from_iterable(pids)))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        store = RedisStore(f"embedded:{directory}")
        server_url = f"unix://{store.blocking.socket_path()}"  # one server for the workspaces and for docket
        os.environ["TOOLSTASH_URL"] = server_url  # the workers inherit it
        asyncio.run(main(server_url))
