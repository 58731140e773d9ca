"""Celery workers, a prefork pool and a pool of threads, run the same tools on the same workspaces.

Run it with `python examples/12_celery_workers.py`. It needs `celery` and starts a data store of its own, which is the
broker too. Your own worker: `celery --app your_module worker`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown, worker_shutdown

from toolstash import Ctx, RedisStore
from toolstash.toolsets import pipeline, text_search

BROKER = os.environ.get("CELERY_BROKER", "memory://")
POOLS = ["prefork", "threads"]

# At module level, so it is made before the pool forks. Connections are opened later, by each process for itself.
ctx = Ctx(require_session=True, default_ttl=600)  # the store that TOOLSTASH_URL names
app = Celery("tools", broker=BROKER, backend=BROKER)
app.conf.update(broker_connection_retry_on_startup=True, result_expires=600)


@ctx.producer(workspace_type="lines", toolsets=[text_search(ctx), pipeline(ctx)])
def read_manual(topic: str) -> list[dict[str, Any]]:
    """Read a chapter of the Python manual, line by line."""
    return [
        {"line": number, "chars": len(text), "text": text} for number, text in enumerate(topics[topic].splitlines())
    ]


@app.task(name="store_chapter")
def store_chapter(topic: str, session_id: str) -> dict[str, Any]:
    """A producer in a task: `.blocking(…)`, because tasks of Celery are sync. What comes back is the notice."""
    with ctx.session(session_id):
        return read_manual.blocking(topic)


@app.task(name="run_tool")
def run_tool(name: str, arguments: dict[str, Any], session_id: str) -> tuple[int, Any]:
    """A model's tool call in a task."""
    return os.getpid(), ctx.dispatch_tool_call(name, arguments, session_id=session_id)


@worker_process_shutdown.connect  # a process of the prefork pool, after `worker_max_tasks_per_child` or with the worker
@worker_shutdown.connect  # the worker itself, where the threads of the other pool run
def close(**_: Any) -> None:
    """Closes what this process has opened."""
    ctx.blocking.aclose()


def explore(stored_by: str, read_by: str) -> None:
    """One pool stores, the other one reads."""
    notice = store_chapter.apply_async(("execmodel", "ann"), queue=stored_by).get(timeout=60)
    at = {"workspace_id": notice["workspace_id"]}
    calls = {
        "lines_search": {"query": "local variable"},
        "lines_aggregate": {"metrics": {"lines": "count", "longest": "max:chars"}},
    }
    print(f"   {stored_by} stored {notice['item_count']} lines; {read_by} reads them")
    sent = {
        tool: run_tool.apply_async((tool, at | arguments, "ann"), queue=read_by) for tool, arguments in calls.items()
    }
    for tool, task in sent.items():
        pid, answer = task.get(timeout=60)
        shown = answer["result"] if tool == "lines_aggregate" else f"{answer['total_matches']} hits"
        print(f"   {tool}, in process {pid}: {shown}")
    _, refusal = run_tool.apply_async(("lines_search", at | {"query": "x"}, "bob"), queue=read_by).get(timeout=60)
    print(f"   another session: {refusal['error']}")


@contextmanager
def worker(pool: str) -> Iterator[None]:
    """A Celery worker with two processes or threads, which takes tasks from the queue that is called like its pool."""
    command = [sys.executable, "-m", "celery", "--quiet", "--app", Path(__file__).stem, "worker"]
    options = ["--pool", pool, "--concurrency", "2", "--queues", pool, "--hostname", pool, "--loglevel", "ERROR"]
    with subprocess.Popen(
        [*command, *options],
        cwd=Path(__file__).parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield
        finally:
            process.terminate()  # a warm shutdown: running tasks end first


def main() -> None:
    """Starts both workers, lets each read what the other one stored, and stops them."""
    with worker("prefork"), worker("threads"):
        for number, (stored_by, read_by) in enumerate([POOLS, POOLS[::-1]], 1):
            print(f"{number}. {stored_by} → {read_by}")
            explore(stored_by, read_by)
    print("3. both workers have stopped")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        store = RedisStore(f"embedded:{directory}")
        socket_path = store.blocking.socket_path()  # one server for the workspaces and for Celery
        broker = os.environ["CELERY_BROKER"] = f"redis+socket://{socket_path}"
        os.environ["TOOLSTASH_URL"] = f"unix://{socket_path}"  # the workers inherit both addresses
        app.conf.update(broker_url=broker, result_backend=broker)
        main()
