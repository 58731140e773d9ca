"""Four uvicorn workers behind one port, without sticky sessions (F43), and clients that leave in the middle (F13)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import redis.asyncio
from anyio.from_thread import start_blocking_portal

from tests.proxy import Proxy, proxied
from tests.servers import RealServer, start_server
from tests.wait import until_sync
from tests.workers.processes import Program
from tests.workers.tool_set import expect_right, question

WORKERS = 4
MOST_CONNECTIONS = 4  # of each worker, as http_app.py says
AT_ONCE = 24


class Site:
    """The running workers, the server that they share, and the proxy on the way, which may be slow."""

    def __init__(self, server: RealServer, proxy: Proxy) -> None:
        self.server = server
        self.proxy = proxy
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = ("-m", "uvicorn", "tests.workers.http_app:create_app", "--factory", "--workers", str(WORKERS))
        environment = {"TOOLSTASH_URL": proxy.url, "TOOLSTASH_PREFIX": "http"}
        self.program = Program(*command, "--port", str(self.port), "--no-access-log", environment=environment)

    def client(self) -> httpx.AsyncClient:
        """Every request is a new connection, so any worker may take it."""
        limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=0)
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", limits=limits, timeout=30, trust_env=False)

    def expect_clean_stop(self) -> None:
        """All workers end their lifespan, nothing was left open, and the server has no client any more."""
        assert self.program.end(signal.SIGINT) == 0
        assert self.program.output().count("Application shutdown complete") == WORKERS
        self.program.expect_quiet(but=f"laddr=('127.0.0.1', {self.port})>")  # uvicorn's own listening socket
        with redis.Redis.from_url(self.server.url) as own:
            until_sync(lambda: len(own.client_list()) == 1, what="no connection of the workers is left")


@contextmanager
def proxy_in_a_thread(server: RealServer) -> Iterator[Proxy]:
    """A proxy that outlives the event loops of single tests."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(proxied(server.url)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    server = start_server("valkey")
    with proxy_in_a_thread(server) as proxy:
        running = Site(server, proxy)
        with running.program as program:
            program.wait_for("Application startup complete", times=WORKERS)
            yield running
            running.expect_clean_stop()
    server.stop()


@pytest.fixture
async def client(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as made:
        yield made


async def ask(client: httpx.AsyncClient, owner: str | None, tool: str, arguments: dict[str, Any]) -> tuple[Any, int]:
    """The answer, and the process that gave it."""
    headers = {} if owner is None else {"x-session-id": owner}
    reply = await client.post(f"/tools/{tool}", json=arguments, headers=headers)
    told = reply.json()
    return told.get("answer", told), told["pid"]


async def store(client: httpx.AsyncClient, owner: str) -> tuple[str, int]:
    notice, pid = await ask(client, owner, "load_papers", {"owner": owner})
    return notice["workspace_id"], pid


async def test_what_one_worker_stored_all_workers_read(client: httpx.AsyncClient, site: Site) -> None:
    owners = ["ann", "bob", "eve"]
    stored = dict(zip(owners, await asyncio.gather(*(store(client, owner) for owner in owners)), strict=True))
    by_others: set[str] = set()
    pids: set[int] = set()

    async def read(number: int) -> None:
        owner = owners[number % 7 % 3]
        workspace_id, stored_by = stored[owner]
        tool, arguments = question(number, workspace_id)
        answer, pid = await ask(client, owner, tool, arguments)
        expect_right(tool, answer, owner)
        pids.add(pid)
        if pid != stored_by:
            by_others.add(tool)

    done = 0
    while done < 210 or ((len(pids) < 3 or len(by_others) < 3) and done < 2_000):
        await asyncio.gather(*(read(number) for number in range(done, done + 2 * AT_ONCE)))
        done += 2 * AT_ONCE
    assert len(pids) >= 3
    assert by_others == {"papers_paginate", "papers_search", "papers_aggregate"}
    async with redis.asyncio.Redis.from_url(site.server.url) as own:
        assert 1 < len(await own.client_list()) <= WORKERS * MOST_CONNECTIONS + 1


async def test_conversations_do_not_see_each_other_on_any_worker(client: httpx.AsyncClient) -> None:
    workspace_id, _ = await store(client, "ann")
    foreign = await asyncio.gather(*(ask(client, "bob", *question(n, workspace_id)) for n in range(AT_ONCE)))
    assert all("not found" in answer["error"] for answer, _ in foreign)
    assert "of ann" not in json.dumps(foreign)
    without, _ = await ask(client, None, *question(0, workspace_id))
    assert "requires a session" in without["error"]


async def leave_in_the_middle(site: Site, owner: str, number: int, workspace_id: str, patience: float) -> None:
    """A client that asks, waits for less than the answer takes, and goes."""
    tool, arguments = question(number, workspace_id)
    body = json.dumps(arguments)
    head = f"POST /tools/{tool} HTTP/1.1\r\nhost: x\r\nx-session-id: {owner}\r\ncontent-length: {len(body)}"
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(f"{head}\r\n\r\n{body}".encode())
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(reader.read(1), patience)
    writer.transport.abort()


async def test_clients_that_leave_do_not_disturb_the_others(client: httpx.AsyncClient, site: Site) -> None:
    owners = [f"owner{number}" for number in range(6)]
    stored = dict(zip(owners, await asyncio.gather(*(store(client, owner) for owner in owners)), strict=True))
    pick = random.Random(13)
    site.proxy.delay = 0.03

    async def read(number: int) -> None:
        owner = pick.choice(owners)
        tool, arguments = question(number, stored[owner][0])
        answer, _ = await ask(client, owner, tool, arguments)
        expect_right(tool, answer, owner)

    for start in range(0, 150, 30):
        leaving = [
            leave_in_the_middle(site, owner, number, stored[owner][0], pick.uniform(0.005, 0.09))
            for number, owner in ((number, pick.choice(owners)) for number in range(start, start + 30))
        ]
        await asyncio.gather(*leaving, *(read(number) for number in range(start, start + 12)))
    site.proxy.delay = 0.0
    await asyncio.gather(*(read(number) for number in range(60)))
    assert site.program.output().count("a call was cancelled") > 50
    async with redis.asyncio.Redis.from_url(site.server.url) as own:
        assert len(await own.client_list()) <= WORKERS * MOST_CONNECTIONS + 1
