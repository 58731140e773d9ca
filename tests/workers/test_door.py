"""The blocking door at awkward moments: in signal handlers, inside event loops, and when the process ends."""

from __future__ import annotations

import secrets
import signal
import time

import pytest

from tests.servers import shared_server
from tests.workers.processes import Program, run_script
from toolstash import Ctx

TOOLS = """
import asyncio, atexit, os, signal, sys, threading
from toolstash import Ctx, blocking
ctx = Ctx(os.environ.get("STORE", "memory:"))

@ctx.producer(workspace_type="a")
def load() -> list[int]:
    return [1, 2, 3]

@ctx.producer(workspace_type="b")
def wait_for_ever() -> list[int]:
    print("waiting", flush=True)
    threading.Event().wait()

def try_to(call):
    try:
        print("answered", call(), flush=True)
    except RuntimeError as error:
        print("refused:", error, flush=True)
"""
REFUSED = "refused: the process is ending: toolstash takes no more blocking calls\n"

INTERRUPTED_AT_EACH_STEP = f"""{TOOLS}
answers = []
signal.signal(signal.SIGALRM, lambda *_: answers.append(load.blocking()["item_count"]))

def interrupt_at(step):
    steps = 0
    def trace(frame, event, _):
        nonlocal steps
        if frame.f_code.co_filename != blocking.__file__:
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        if steps == step:
            sys.settrace(None)
            signal.raise_signal(signal.SIGALRM)
        return trace
    blocking._door.close()
    blocking._leave_parents_door()  # the next call is a first one
    sys.settrace(trace)
    count = load.blocking()["item_count"]
    sys.settrace(None)
    assert count == 3
    return steps < step

step = 1
while not interrupt_at(step):
    step += 1
print(step > 60, set(answers), len(answers) > 20)
"""


def test_a_signal_handler_may_call_at_any_moment_of_the_first_call() -> None:
    with Program("-c", INTERRUPTED_AT_EACH_STEP) as program:
        assert program.process.wait(60) == 0, program.output()
        program.expect_quiet()
        assert program.output() == "True {3} True\n"


@pytest.mark.parametrize("before", ["", "load.blocking()"], ids=["unused", "used"])
def test_calls_of_a_process_that_ends_are_refused(before: str) -> None:
    code = f"""
import atexit
atexit.register(lambda: try_to(load.blocking))  # runs after the door has closed
{TOOLS}
class Late:
    def __del__(self):
        try_to(load.blocking)

late = Late()
late.itself = late
{before}
"""
    assert run_script(code) == REFUSED * 2


DAEMONS = """
calls = {
    "watch": lambda: [event for event in ctx.blocking.watch()],
    "call": wait_for_ever.blocking,
    "calls": lambda: [load.blocking() for _ in iter(int, 1)],
}
load.blocking()
threading.Thread(target=lambda: try_to(calls[sys.argv[1]]), daemon=True).start()
"""
WATCHED = "while not ctx._watching: pass\n"


@pytest.mark.parametrize("kind", ["watch", "call", "calls"])
def test_daemon_threads_end_quietly_with_the_process(kind: str) -> None:
    code = TOOLS + DAEMONS + (WATCHED if kind == "watch" else "") + "print('the end', flush=True)\n"
    with Program("-c", code, kind) as program:
        if kind == "call":
            program.wait_for("waiting")
        program.process.wait(30)
        program.expect_quiet()
        assert program.process.returncode == 0
        assert REFUSED in program.output()


def test_a_watch_in_an_unguarded_daemon_thread_says_it_shortly_and_ends_in_time() -> None:
    watch = "threading.Thread(target=lambda: list(ctx.blocking.watch()), daemon=True).start()\n"
    code = TOOLS + watch + WATCHED + "import time; atexit.register(print, time.time(), flush=True)\n"
    with Program("-c", code) as program:
        assert program.process.wait(30) == 0
        ended, shown = time.time(), program.output()
        program.expect_closed()
        (began,) = [float(line) for line in shown.splitlines() if line.replace(".", "").isdigit()]
        assert ended - began < 3.5  # 2 s, and what Python takes to leave
        assert shown.count("Traceback") == 1
        assert "RuntimeError: the process is ending" in shown
        assert len(shown.splitlines()) < 25


LEFT_OPEN = """
events = ctx.blocking.watch()
thread = threading.Thread(target=lambda: print(next(events).kind))
thread.start()
while not ctx._watching: pass
load.blocking()
thread.join()
"""


@pytest.mark.parametrize("end", ["", "async def main():\n    global events\n    del events\nasyncio.run(main())"])
def test_a_watch_that_is_left_open_closes_quietly(end: str) -> None:
    store = {"STORE": shared_server("valkey").url, "TOOLSTASH_PREFIX": f"t{secrets.token_hex(5)}"}
    assert run_script(TOOLS + LEFT_OPEN + end, environment=store) == "created\n"


async def test_streams_in_an_event_loop_name_their_async_form() -> None:
    ctx = Ctx("memory:")
    with pytest.raises(RuntimeError, match=r"use `async for … in ….watch\(…\)` instead"):
        next(ctx.blocking.watch())
    with pytest.raises(RuntimeError, match=r"use `async for … in ….iter_items\(…\)` instead"):
        list(ctx.store.blocking.iter_items("a_1"))


ENDED_FROM_OUTSIDE = """
def leave(*_):
    raise SystemExit(3)  # as Celery does when a task is revoked

signal.signal(signal.SIGTERM, leave)
try:
    wait_for_ever.blocking()
finally:
    ctx.blocking.aclose()
    print("closed")
"""


def test_a_sync_tool_whose_caller_was_ended_is_not_waited_for() -> None:
    with Program("-c", TOOLS + ENDED_FROM_OUTSIDE) as program:
        program.wait_for("waiting")
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(10) == 3
        program.expect_quiet()
        assert program.output() == "waiting\nclosed\n"
