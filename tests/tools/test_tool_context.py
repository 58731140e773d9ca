"""What a running call knows of itself: a signal for all threads and loops, the time left, answers, progress."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolstash import Answer, ToolContext, session_scope
from toolstash.tools.tool_context import CancelSignal, context_scope, current_context, inherited_context

YES = Answer("pnd_1", ok=True, data={"env": "staging"})


async def test_a_signal_wakes_all_that_wait_in_a_loop() -> None:
    signal = CancelSignal()
    waiting = [asyncio.ensure_future(signal.wait()) for _ in range(20)]
    await asyncio.sleep(0)
    assert not signal.is_set()
    signal.set()
    await asyncio.wait_for(asyncio.gather(*waiting), 5)
    assert signal.is_set()
    await asyncio.wait_for(signal.wait(), 5)


def test_a_signal_set_in_one_thread_wakes_loops_in_others() -> None:
    signal = CancelSignal()
    all_there = threading.Barrier(5)

    async def wait() -> bool:
        waiting = asyncio.ensure_future(signal.wait())
        await asyncio.sleep(0)
        all_there.wait(5)
        await asyncio.wait_for(waiting, 5)
        return signal.is_set()

    with ThreadPoolExecutor(4) as pool:
        woken = [pool.submit(asyncio.run, wait()) for _ in range(4)]
        all_there.wait(5)
        signal.set()
        assert [one.result(5) for one in woken] == [True] * 4


def test_no_waiting_is_missed_by_a_signal_that_is_set_meanwhile() -> None:
    async def wait_for_all(signals: list[CancelSignal]) -> None:
        await asyncio.wait_for(asyncio.gather(*(signal.wait() for signal in signals)), 20)

    signals = [CancelSignal() for _ in range(2_000)]
    with ThreadPoolExecutor(3) as pool:
        loops = [pool.submit(asyncio.run, wait_for_all(signals)) for _ in range(2)]
        for signal in signals:
            signal.set()
        assert [loop.result(20) for loop in loops] == [None, None]


async def test_one_that_leaves_does_not_disturb_the_others() -> None:
    signal = CancelSignal()
    gone, waiting = asyncio.ensure_future(signal.wait()), asyncio.ensure_future(signal.wait())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    signal.set()
    await asyncio.wait_for(waiting, 5)
    assert gone.cancelled()


def test_a_signal_outlives_a_loop_that_waited_for_it() -> None:
    signal = CancelSignal()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(signal.wait())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    signal.set()
    assert signal.is_set()
    assert not waiting.done()
    waiting.get_coro().close()  # type: ignore[union-attr]
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_context_made_by_hand_has_three_fields_that_are_none() -> None:
    context = ToolContext()
    assert (context.signal, context.timeout, context.answer) == (None, None, None)
    assert (context.session_id, context.call_id, dict(context.answers)) == (None, "", {})
    assert ToolContext(timeout=5.0).timeout == 5.0
    flag = threading.Event()
    assert ToolContext(flag, 1.5, YES).signal is flag
    assert dict(ToolContext(answer=YES).answers) == {"pnd_1": YES}


def test_answers_are_those_of_the_caller_and_cannot_be_changed() -> None:
    mine = {"pnd_1": YES}
    context = ToolContext(answer=Answer("pnd_2", ok=False), answers=mine)
    mine.clear()
    assert dict(context.answers) == {"pnd_1": YES}
    with pytest.raises(TypeError):
        context.answers["pnd_3"] = YES  # type: ignore[index]


def test_an_answer_that_is_a_dict_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"Answer\.from_dict"):
        ToolContext(answer={"id": "pnd_1", "ok": True})  # type: ignore[arg-type]


def test_what_is_left_counts_down_and_stops_at_zero() -> None:
    context = ToolContext(deadline=time.monotonic() + 100)
    first = context.timeout
    assert first is not None
    assert 99 < first <= 100
    assert (context.timeout or 0) <= first
    assert ToolContext(deadline=time.monotonic() - 1).timeout == 0.0


async def test_progress_goes_to_whoever_listens() -> None:
    heard: list[tuple[float, float | None, str]] = []

    async def report(done: float, total: float | None, message: str) -> None:
        heard.append((done, total, message))

    context = ToolContext(report=report)
    await context.report_progress(1)
    await context.report_progress(2.5, 10, "half " * 100)
    assert heard[0] == (1, None, "")
    assert heard[1][:2] == (2.5, 10)
    assert len(heard[1][2]) == 200
    assert heard[1][2].startswith("half half")


async def test_progress_of_a_def_function_blocks() -> None:
    heard: list[float] = []

    async def report(done: float, total: float | None, message: str) -> None:
        heard.append(done)

    await asyncio.to_thread(ToolContext(report=report).blocking.report_progress, 3, total=4)
    assert heard == [3]


@pytest.mark.parametrize("report", [None, lambda *_: pytest.fail("was reported")])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("1",), TypeError),
        ((True,), TypeError),
        ((None,), TypeError),
        ((1, "2"), TypeError),
        ((1, 2, 3), TypeError),
        ((-1,), ValueError),
        ((math.nan,), ValueError),
        ((math.inf,), ValueError),
        ((1, -2), ValueError),
        ((10**400,), ValueError),
    ],
)
async def test_progress_that_says_nothing_is_refused(
    report: Callable[..., Any] | None, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    with pytest.raises(error, match="report_progress"):
        await ToolContext(report=report).report_progress(*arguments)


async def test_a_nested_context_has_all_but_the_answers() -> None:
    heard: list[float] = []

    async def report(done: float, total: float | None, message: str) -> None:
        heard.append(done)

    signal = CancelSignal()
    outer = ToolContext(signal, None, YES, session_id="s", call_id="c", deadline=time.monotonic() + 50, report=report)
    inner = outer.nested()
    assert (inner.signal, inner.session_id, inner.call_id, inner.deadline) == (signal, "s", "c", outer.deadline)
    assert (inner.answer, dict(inner.answers)) == (None, {})
    await inner.report_progress(7)
    assert heard == [7]
    assert ToolContext(timeout=3).nested().timeout == 3


async def test_the_current_context_follows_tasks_and_threads() -> None:
    assert current_context() is None
    context = ToolContext(call_id="c")
    with context_scope(context):
        assert current_context() is context
        assert await asyncio.to_thread(current_context) is context
        assert await asyncio.create_task(asyncio.wait_for(_current(), 5)) is context
    assert current_context() is None


async def _current() -> ToolContext | None:
    return current_context()


def test_outside_any_call_a_context_has_a_signal_and_the_session() -> None:
    with session_scope("mine"):
        context = inherited_context()
    assert context.signal.is_set() is False
    assert (context.session_id, context.timeout, context.call_id) == ("mine", None, "")


def test_a_context_tells_what_it_holds_and_no_more() -> None:
    assert repr(ToolContext()) == "ToolContext()"
    assert repr(ToolContext(CancelSignal(), 2.0, call_id="c")) == (
        "ToolContext(signal=<CancelSignal, not set>, timeout=2.0, call_id='c')"
    )
