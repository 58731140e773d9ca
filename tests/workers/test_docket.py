"""Worker processes of docket, whose tasks are async, run the tools of one Ctx."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from docket import Docket

from tests.servers import start_server
from tests.workers.processes import Program
from tests.workers.tool_set import expect_right, question

LIMIT = timedelta(seconds=60)


async def run_tool(name: str, arguments: dict[str, Any], session_id: str) -> tuple[Any, int]:
    """What `docket_app.py` does; this process only sends it."""
    raise NotImplementedError


async def run(docket: Docket, tool: str, arguments: dict[str, Any], owner: str) -> tuple[Any, int]:
    """Sends a task and waits for what it gave."""
    execution = await docket.add(run_tool)(tool, arguments, owner)
    return await execution.get_result(timeout=LIMIT)


async def read_everything(docket: Docket, owners: list[str]) -> set[int]:
    """Each conversation stores and reads through whichever worker is free; the processes that answered."""
    notices = await asyncio.gather(*(run(docket, "load_papers", {"owner": owner}, owner) for owner in owners))
    stored = {owner: notice["workspace_id"] for owner, (notice, _) in zip(owners, notices, strict=True)}

    async def read(number: int, owner: str) -> int:
        tool, arguments = question(number, stored[owner])
        answer, pid = await run(docket, tool, arguments, owner)
        expect_right(tool, answer, owner)
        return pid

    pids = await asyncio.gather(*(read(number, owner) for number in range(15) for owner in owners))
    foreign, _ = await run(docket, "papers_paginate", {"workspace_id": stored[owners[0]]}, owners[1])
    assert "not found" in foreign["error"]
    assert f"of {owners[0]}" not in json.dumps(foreign)
    return set(pids)


async def test_two_workers_of_docket_run_the_tools() -> None:
    server = start_server("valkey")
    command = ("-m", "docket", "worker", "--docket", "tools", "--tasks", "tests.workers.docket_app:tasks")
    options = ("--url", server.url, "--concurrency", "4")
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                Program(*command, *options, "--name", name, environment={"TOOLSTASH_URL": f"{server.url}/1"})
            )
            for name in ("one", "two")
        ]
        for worker in workers:
            worker.wait_for("Starting worker")
        async with Docket(name="tools", url=server.url) as docket:
            pids = await read_everything(docket, ["ann", "bob"])
            for _ in range(20):  # a slow machine may start the second one late
                if len(pids) < 2:
                    pids |= await read_everything(docket, ["ann", "bob"])
        assert pids == {worker.process.pid for worker in workers}
        for worker in workers:
            assert worker.end() == 0
            worker.expect_quiet()
    server.stop()
