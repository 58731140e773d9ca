"""One Ctx of a module in scripts, notebooks, thread pools, process pools and test clients."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import redis
from fastapi import FastAPI

from tests.servers import RealServer, shared_server
from tests.wait import until_sync
from tests.workers.processes import Program, run_script
from tests.workers.tool_set import ROWS, expect_right, make_ctx, question
from toolstash import Ctx
from toolstash.toolsets import paginator
from toolstash.wire import keys as layout

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # httpx will do, though it would rather have httpx2
    from fastapi.testclient import TestClient


@pytest.fixture
def server() -> RealServer:
    return shared_server("valkey")


@pytest.fixture
def environment(server: RealServer) -> dict[str, str]:
    return {"TOOLSTASH_URL": server.url, "TOOLSTASH_PREFIX": f"t{secrets.token_hex(5)}"}


@pytest.fixture
def ctx(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Ctx:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return make_ctx(max_connections=8)


THREE_RUNS = """
import asyncio
from tests.workers.tool_set import expect_right, make_ctx, question
ctx = make_ctx()
known = {}

async def main(number):
    if number == 0:
        known["notice"] = await ctx.adispatch_tool_call("load_papers", {"owner": "ann"}, session_id="ann")
    tool, arguments = question(number, known["notice"]["workspace_id"])
    expect_right(tool, await ctx.adispatch_tool_call(tool, arguments, session_id="ann"), "ann")
    print("right", number)

for number in range(3):
    asyncio.run(main(number))
notice = ctx.dispatch_tool_call("load_papers", {"owner": "bob"}, session_id="bob")
tool, arguments = question(3, notice["workspace_id"])
expect_right(tool, ctx.dispatch_tool_call(tool, arguments, session_id="bob"), "bob")
print("right", 3)
"""


def test_three_runs_in_a_row_and_the_blocking_form(environment: dict[str, str]) -> None:
    assert run_script(THREE_RUNS, environment=environment) == "".join(f"right {number}\n" for number in range(4))


POOLS = """
import multiprocessing, sys
from tests.workers.tool_set import expect_right, make_ctx, question
ctx = make_ctx()

def read(task):
    number, workspace_id = task
    tool, arguments = question(number, workspace_id)
    expect_right(tool, ctx.dispatch_tool_call(tool, arguments, session_id="ann"), "ann")
    notice = ctx.dispatch_tool_call("load_papers", {"owner": "ann"}, session_id="ann")
    return notice["workspace_id"], multiprocessing.current_process().name

if __name__ == "__main__":
    notice = ctx.dispatch_tool_call("load_papers", {"owner": "ann"}, session_id="ann")
    tasks = [(number, notice["workspace_id"]) for number in range(8)]
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        answers = pool.map(read, tasks, chunksize=1)
        pool.close()
        pool.join()
    ids, names = zip(*answers)
    read((0, ids[-1]))
    print(len(set(ids)), "stored by children:", "MainProcess" not in names)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_of_processes(method: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    program = tmp_path_factory.mktemp("pool") / "pools.py"
    program.write_text(POOLS)
    with Program(str(program), method, environment=environment | {"PYTHONPATH": "."}) as running:
        assert running.process.wait(60) == 0, running.output()
        running.expect_quiet()
        assert running.output() == "8 stored by children: True\n"


FORK_WHILE_BUSY = """
import os, threading
from tests.workers.tool_set import expect_right, make_ctx, question
ctx = make_ctx()
done = threading.Event()

def ask():
    notice = ctx.dispatch_tool_call("load_papers", {"owner": "ann"}, session_id="ann")
    for number in range(3):
        tool, arguments = question(number, notice["workspace_id"])
        expect_right(tool, ctx.dispatch_tool_call(tool, arguments, session_id="ann"), "ann")

def ask_on():
    while not done.is_set():
        ask()

ask()  # all modules are imported: a fork in the middle of an import hangs in Python itself
threads = [threading.Thread(target=ask_on) for _ in range(3)]
for thread in threads:
    thread.start()
children = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        ask()
        ctx.blocking.aclose()  # which waits for running calls: the parent's are not among them
        os._exit(0)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
done.set()
for thread in threads:
    thread.join()
ctx.blocking.aclose()
ctx.store.blocking.aclose()
print(codes)
"""


def test_a_fork_while_other_threads_are_in_the_middle_of_calls(environment: dict[str, str]) -> None:
    assert run_script(FORK_WHILE_BUSY, environment=environment) == f"{[0] * 10}\n"


def test_thirty_two_threads_through_the_blocking_door(ctx: Ctx, server: RealServer) -> None:
    def converse(number: int) -> None:
        owner = f"owner{number}"
        notice = ctx.dispatch_tool_call("load_papers", {"owner": owner}, session_id=owner)
        with ctx.session(owner):
            for turn in range(6):
                tool, arguments = question(turn, notice["workspace_id"])
                expect_right(tool, ctx.dispatch_tool_call(tool, arguments), owner)
            assert ctx.blocking.list_workspaces() == [notice["workspace_id"]]

    with ThreadPoolExecutor(32) as pool:
        for outcome in [pool.submit(converse, number) for number in range(64)]:
            outcome.result(60)
    assert len(ctx.store.blocking.list_workspaces()) == 64
    ctx.store.blocking.clear()
    ctx.store.blocking.aclose()


async def test_cells_of_a_notebook(ctx: Ctx) -> None:
    """A notebook runs every cell on one loop, which stays open between them."""
    notice = await asyncio.ensure_future(ctx.adispatch_tool_call("load_papers", {"owner": "ann"}, session_id="ann"))
    for cell in range(3):
        tool, arguments = question(cell, notice["workspace_id"])
        answer = await asyncio.ensure_future(ctx.adispatch_tool_call(tool, arguments, session_id="ann"))
        expect_right(tool, answer, "ann")

    @ctx.producer(workspace_type="notes")
    def load_notes() -> list[str]:
        return ["a"]

    with pytest.raises(RuntimeError, match=r"use `await …adispatch_tool_call\(…\)` instead"):
        ctx.dispatch_tool_call("papers_count", {"workspace_id": notice["workspace_id"]})
    with pytest.raises(RuntimeError, match=r"use `await …load_notes\(…\)` instead"):
        load_notes.blocking()
    with pytest.raises(RuntimeError, match=r"use `await …list_workspaces\(…\)` instead"):
        ctx.blocking.list_workspaces()
    assert await asyncio.to_thread(ctx.dispatch_tool_call, "papers_count", notice, session_id="ann")
    await ctx.store.clear()
    await ctx.store.aclose()


def test_a_test_client_twice(ctx: Ctx, server: RealServer) -> None:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await ctx.store.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/load")
    async def load(owner: str) -> dict[str, object]:
        return await ctx.adispatch_tool_call("load_papers", {"owner": owner}, session_id=owner)

    @app.post("/count")
    def count(owner: str, workspace_id: str) -> dict[str, object]:  # in a thread, as FastAPI runs `def`
        return ctx.dispatch_tool_call("papers_count", {"workspace_id": workspace_id}, session_id=owner)

    for owner in ("ann", "bob"):
        with TestClient(app) as client:
            notice = client.post("/load", params={"owner": owner}).json()
            counted = client.post("/count", params={"owner": owner, "workspace_id": notice["workspace_id"]}).json()
            assert counted["count"] == ROWS
    without_a_lifespan = TestClient(app)
    assert without_a_lifespan.post("/load", params={"owner": "eve"}).json()["item_count"] == ROWS
    assert without_a_lifespan.post("/load", params={"owner": "eve"}).json()["item_count"] == ROWS
    ctx.store.blocking.aclose()


INTERRUPTED = """
import sys
from tests.workers.tool_set import make_ctx
ctx = make_ctx()
try:
    ctx.dispatch_tool_call("load_endless", session_id="ann")
finally:
    print("the script goes on to its end")
"""


def test_ctrl_c_in_a_script_ends_the_call_and_leaves_nothing_half_written(
    environment: dict[str, str], server: RealServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mark = tmp_path_factory.mktemp("mark") / "storing"
    with (
        Program("-c", INTERRUPTED, environment=environment | {"STORING_MARK": str(mark)}) as program,
        redis.Redis.from_url(server.url) as client,
    ):
        until_sync(lambda: mark.exists() and mark.read_text(), within=40, what="rows are on their way")
        program.process.send_signal(signal.SIGINT)
        assert program.process.wait(20) == -signal.SIGINT  # as Python ends without toolstash
        assert "the script goes on to its end" in program.output()
        assert program.output().rstrip().endswith("KeyboardInterrupt")
        program.expect_closed()
        found = {key: client.pttl(key) for key in client.scan_iter(f"{environment['TOOLSTASH_PREFIX']}:*")}
        assert [key for key, left in found.items() if key.endswith(b":meta") or left == -1] == []
        assert all(left <= layout.UNFINISHED_MS for key, left in found.items() if b":rows:" in key)


def test_an_interrupted_call_is_cancelled_and_the_script_may_go_on() -> None:
    shown = run_script(CAUGHT)
    assert json.loads(shown) == {"cancelled": True, "after": 3}


CAUGHT = """
import asyncio, json, signal, threading
from toolstash import Ctx
ctx = Ctx("memory:")
seen = {"cancelled": False}

@ctx.producer(workspace_type="a")
async def wait_for_ever() -> list[int]:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        seen["cancelled"] = True

@ctx.producer(workspace_type="a")
def load() -> list[int]:
    return [1, 2, 3]

try:
    wait_for_ever.blocking()
except KeyboardInterrupt:
    seen["after"] = load.blocking()["item_count"]
    ctx.blocking.aclose()  # waits for the cancelled call
print(json.dumps(seen))
"""

NEVER_ENDING = """
import threading
from toolstash import Ctx
ctx = Ctx("memory:")

@ctx.producer(workspace_type="a")
def wait_for_ever() -> list[int]:
    print("waiting", flush=True)
    threading.Event().wait()

wait_for_ever.blocking()
"""


def test_ctrl_c_does_not_wait_for_a_sync_tool_that_never_ends() -> None:
    with Program("-c", NEVER_ENDING) as program:
        program.wait_for("waiting")
        program.process.send_signal(signal.SIGINT)
        assert program.process.wait(20) == -signal.SIGINT
        program.expect_closed()


def test_a_tool_that_exits_ends_its_caller_and_not_the_loop_of_all() -> None:
    ctx = Ctx("memory:")
    paginator(ctx, "a")

    @ctx.producer(workspace_type="a")
    async def leave() -> list[int]:
        raise SystemExit(7)

    @ctx.producer(workspace_type="a")
    def load() -> list[int]:
        return [1, 2, 3]

    with pytest.raises(SystemExit, match="7"):
        leave.blocking()
    assert load.blocking()["item_count"] == 3
