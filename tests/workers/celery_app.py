"""A Celery application with its Ctx at module level, so it is made before the pool forks.

With USED_BEFORE_THE_FORK the parent has also opened connections and the background loop of the blocking door.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown, worker_shutdown

from tests.workers.tool_set import make_ctx

ctx = make_ctx()
app = Celery("tests", broker=os.environ["BROKER_URL"], backend=os.environ["BROKER_URL"])
app.conf.update(broker_connection_retry_on_startup=True, worker_redirect_stdouts=False, result_expires=300)

if "USED_BEFORE_THE_FORK" in os.environ:
    ctx.dispatch_tool_call("load_papers", {"owner": "parent"}, session_id="parent")


@worker_process_shutdown.connect  # a process of a prefork pool
@worker_shutdown.connect  # the worker itself, whose threads run the tasks of a thread pool
def close(**_: Any) -> None:
    """Closes what this process has opened."""
    ctx.blocking.aclose()
    ctx.store.blocking.aclose()


@app.task
def run_tool(name: str, arguments: dict[str, Any], session_id: str) -> tuple[Any, int, int]:
    """The answer of a tool, and the process and thread that it ran in."""
    answer = ctx.dispatch_tool_call(name, arguments, session_id=session_id)
    return answer, os.getpid(), threading.get_native_id()
