"""Celery workers, prefork and with threads, run the tools of one Ctx that stands at module level."""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import redis
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from celery.result import AsyncResult

from tests.servers import shared_server, start_server
from tests.wait import until_sync
from tests.workers.processes import Program
from tests.workers.tool_set import expect_right, question
from toolstash.wire import keys as layout


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of Celery's own, so that its sockets can be told from those to the workspaces."""
    server = start_server("valkey")
    yield server.url
    server.stop()


class Pool:
    """A running worker of one kind and the means to send it tasks."""

    def __init__(self, url: str, *options: str, **more: str) -> None:
        self.queue = f"t{secrets.token_hex(5)}"  # and what its keys in the store begin with
        self.app = Celery(broker=url, backend=url)
        store = {"TOOLSTASH_URL": shared_server("valkey").url, "TOOLSTASH_PREFIX": self.queue}
        command = ("-m", "celery", "--app", "tests.workers.celery_app", "worker", "--loglevel", "WARNING")
        chosen = ("--queues", self.queue, "--hostname", self.queue, "--without-gossip", "--without-mingle", *options)
        self.program = Program(*command, *chosen, environment={**store, "BROKER_URL": url, **more})
        self._celerys_sockets = f"raddr=('127.0.0.1', {urlsplit(url).port})"

    def send(self, tool: str, arguments: dict[str, Any], owner: str, **options: Any) -> AsyncResult[Any]:
        task = "tests.workers.celery_app.run_tool"
        return self.app.send_task(task, (tool, arguments, owner), queue=self.queue, retry=False, **options)

    def expect_quiet_end(self) -> None:
        """A warm shutdown, after which nothing of toolstash was left open and nothing had failed."""
        assert self.program.end() == 0
        self.program.expect_quiet(but=self._celerys_sockets)

    def run(self, tool: str, arguments: dict[str, Any], owner: str) -> Any:
        return self.send(tool, arguments, owner).get(timeout=40)[0]


@contextmanager
def running(url: str, *options: str, **environment: str) -> Iterator[Pool]:
    """A pool that is gone afterwards, with this process's connections to it."""
    pool = Pool(url, *options, **environment)
    with pool.program:
        try:
            yield pool
        finally:
            pool.app.backend.result_consumer.stop()
            pool.app.backend.client.close()
            pool.app.close()


def run_until_two(pool: Pool) -> tuple[set[int], set[int]]:
    """Runs the tools until two processes or threads have taken part: a slow machine may start the second one late."""
    processes, threads = run_the_tools(pool, rounds=15)
    for _ in range(20):
        if len(processes) + len(threads) > 2:
            break
        more = run_the_tools(pool, rounds=15)
        processes, threads = processes | more[0], threads | more[1]
    return processes, threads


def run_the_tools(pool: Pool, *, rounds: int) -> tuple[set[int], set[int]]:
    """Two conversations store and read at once; the processes and threads that answered."""
    stored = {owner: pool.run("load_papers", {"owner": owner}, owner)["workspace_id"] for owner in ("ann", "bob")}
    sent = [(owner, question(n, stored[owner])) for n in range(rounds) for owner in stored]
    results = [pool.send(tool, arguments, owner) for owner, (tool, arguments) in sent]
    processes: set[int] = set()
    threads: set[int] = set()
    for (owner, (tool, _)), result in zip(sent, results, strict=True):
        answer, process, thread = result.get(timeout=40)
        expect_right(tool, answer, owner)
        processes.add(process)
        threads.add(thread)
    foreign = pool.run("papers_paginate", {"workspace_id": stored["ann"]}, "bob")
    assert "not found" in foreign["error"]
    assert "of ann" not in json.dumps(foreign)
    return processes, threads


@pytest.mark.parametrize("before_the_fork", [{}, {"USED_BEFORE_THE_FORK": "1"}], ids=["untouched", "used"])
def test_prefork_processes_share_a_ctx_of_the_module(url: str, before_the_fork: dict[str, str]) -> None:
    with running(url, "--pool", "prefork", "--concurrency", "2", **before_the_fork) as pool:
        processes, _ = run_until_two(pool)
        assert len(processes) == 2
        assert pool.program.process.pid not in processes
        pool.expect_quiet_end()


def test_threads_of_one_process_share_it(url: str) -> None:
    with running(url, "--pool", "threads", "--concurrency", "4") as pool:
        processes, threads = run_until_two(pool)
        assert processes == {pool.program.process.pid}
        assert len(threads) > 1
        pool.expect_quiet_end()


def test_children_that_are_replaced_after_some_tasks(url: str) -> None:
    with running(
        url, "--pool", "prefork", "--concurrency", "2", "--max-tasks-per-child", "4", USED_BEFORE_THE_FORK="1"
    ) as pool:
        processes, _ = run_the_tools(pool, rounds=8)
        assert len(processes) > 2
        pool.expect_quiet_end()


def test_tasks_that_are_ended_while_they_store_leave_nothing_half_written(url: str, tmp_path: Path) -> None:
    mark = tmp_path / "storing"
    with (
        running(url, "--pool", "prefork", "--concurrency", "1", STORING_MARK=str(mark)) as pool,
        redis.Redis.from_url(shared_server("valkey").url) as server,
    ):
        for end, options in ((revoke, {}), (kill_the_process, {}), (wait_for_its_time_limit, {"soft_time_limit": 2})):
            mark.unlink(missing_ok=True)
            end(pool.send("load_endless", {}, "ann", **options), mark)
            found = {key: server.pttl(key) for key in server.scan_iter(f"{pool.queue}:*")}
            rows = [left for key, left in found.items() if b":rows:" in key]
            assert rows != []  # some had been sent, and go by themselves
            assert all(0 < left <= layout.UNFINISHED_MS for left in rows)
            assert [key for key, left in found.items() if key.endswith(b":meta") or left == -1] == []
        run_the_tools(pool, rounds=3)
        assert pool.program.end() == 0  # closing waits for running calls: there is none
        pool.program.expect_closed()


def test_a_sync_tool_whose_task_was_ended_does_not_hold_up_its_process(url: str, tmp_path: Path) -> None:
    mark = tmp_path / "stuck"
    with (
        running(url, "--pool", "prefork", "--concurrency", "1", STORING_MARK=str(mark)) as pool,
        redis.Redis.from_url(shared_server("valkey").url) as server,
    ):
        task = pool.send("load_stuck", {}, "ann")
        pid = process_that_stores(mark)
        task.revoke(terminate=True, signal="SIGTERM")
        until_sync(lambda: not psutil.pid_exists(pid), within=8, what="the child is gone")
        with pytest.raises(SoftTimeLimitExceeded):
            pool.send("load_stuck", {}, "ann", soft_time_limit=1).get(timeout=10)
        run_the_tools(pool, rounds=2)
        assert [key for key in server.scan_iter(f"{pool.queue}:*") if b"stuck" in key and key.endswith(b":meta")] == []
        assert pool.program.end() == 0


def process_that_stores(mark: Path) -> int:
    """Waits until rows are on their way."""
    return int(until_sync(lambda: mark.exists() and mark.read_text(), within=40, what="rows are on their way"))


def revoke(task: AsyncResult[Any], mark: Path) -> None:
    """Celery's own way to end a task: SIGKILL of the child that runs it."""
    pid = process_that_stores(mark)
    task.revoke(terminate=True, signal="SIGKILL")
    until_sync(lambda: not psutil.pid_exists(pid), what="the child is gone")


def kill_the_process(_: AsyncResult[Any], mark: Path) -> None:
    """What the kernel does when memory is short."""
    pid = process_that_stores(mark)
    os.kill(pid, signal.SIGKILL)
    until_sync(lambda: not psutil.pid_exists(pid), what="the child is gone")


def wait_for_its_time_limit(task: AsyncResult[Any], _: Path) -> None:
    """The task gets an exception while it waits for the call."""
    with pytest.raises(SoftTimeLimitExceeded):
        task.get(timeout=40)
