"""How an answered call goes on: one worker claims it, runs the tool again, and keeps what it comes to."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from toolstash.contracts import Address, Outcome
from toolstash.errors import QuotaExceededError, StoreUnavailableError, UnstorableValueError
from toolstash.store.call_record import CallRecord, Ending
from toolstash.store.calls import Noted, change
from toolstash.store.codec import pack
from toolstash.store.session import session_scope
from toolstash.tools.attempt import attempt, refusal_of
from toolstash.tools.call_values import settled_outcome, stopped_value
from toolstash.tools.control import Control, StoppedError
from toolstash.tools.overseer import OUTAGE_PAUSE_SECONDS, Held
from toolstash.tools.registration import LEAVING_SECONDS, askable
from toolstash.tracing import Span, tool_call

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

logger = logging.getLogger("toolstash")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claim:
    """An answered call that one worker, and no other, goes on with. `owner` is the token of that worker's lease."""

    at: Address
    record: CallRecord
    owner: str


async def claim(ctx: Ctx, at: Address) -> Claim | CallRecord | None:
    """Takes up a call; its record where it turns out to have ended; None where there is nothing to do."""
    owner = secrets.token_hex(8)
    seen = await ctx.store.calls.look(at)
    if seen.record is None or seen.record.tool not in ctx.entries:
        return None
    record = seen.record.claimed(owner, ctx.overseer.inbox, is_held=seen.is_held)
    if record is None:
        return None
    claimed = Claim(at, record, owner)
    try:
        is_ours = await carried_out(ctx.store.calls.swap(at, seen, record))
    except asyncio.CancelledError:
        await _Run(ctx, claimed, Control(None)).give_back()
        raise
    if not is_ours:
        return None
    return record if record.state == "ended" else claimed


async def go_on(ctx: Ctx, claimed: Claim, control: Control) -> Outcome:
    """Runs a claimed call to its end or to its next question.

    A run that is torn off leaves the call to others: to be begun again, or as interrupted.

    Raises:
        StoreUnavailableError: The tool was not begun.
    """
    record, at = claimed.record, claimed.at
    held = Held(at, claimed.owner, control)
    ctx.overseer.hold(held)
    run = _Run(ctx, claimed, control)
    try:
        with (
            session_scope(record.session_id),
            tool_call(record.tool, session_id=record.session_id, call_id=at.workspace_id) as span,
        ):
            outcome = await run.outcome(span)
            span.note("toolstash.is_error", outcome.is_error)
            return outcome
    except BaseException:
        await run.give_back()
        raise
    finally:
        ctx.overseer.let_go(held)


class _Run:
    """One run of a claimed call."""

    def __init__(self, ctx: Ctx, claimed: Claim, control: Control) -> None:
        self._ctx = ctx
        self._at = claimed.at
        self._record = claimed.record
        self._owner = claimed.owner
        self._control = control
        self._has_begun = False

    async def outcome(self, span: Span) -> Outcome:
        """What it comes to, once that is kept."""
        try:
            begun = await self._step(lambda held, _: held.started())
            if begun.is_cancelled:
                self._control.stop("cancelled")
            self._has_begun = True
            outcome = await self._attempt(span)
            return await self._kept_in_time(outcome)
        except StoppedError as stopped:  # somebody else has taken over
            span.fail(stopped.status)
            value = stopped_value(stopped.status, self._record.tool, self._at.workspace_id)
            return Outcome(value, is_error=True, status=stopped.status)

    async def _attempt(self, span: Span) -> Outcome:
        record, at, entry = self._record, self._at, self._ctx.entries[self._record.tool]
        outcome = await attempt(
            self._ctx, entry, record.arguments, at, self._control, span, answers=record.answers, safe=True
        )
        if outcome.request is None:
            return outcome
        try:
            if self._control.is_over:
                raise StoppedError(self._control.status)
            return Outcome(None, request=askable(outcome.request, record.arguments, record.answers))
        except Exception as error:
            return await refusal_of(self._ctx, entry, error, at.workspace_id, span, safe=True)

    async def _kept_in_time(self, outcome: Outcome) -> Outcome:
        """Keeps what a run came to; a caller with a deadline does not wait for a store that is away beyond it."""
        deadline = self._control.deadline
        within = None if deadline is None else max(0.0, deadline - time.monotonic()) + LEAVING_SECONDS
        try:
            return await carried_out(self._kept(outcome), within=within)
        except TimeoutError:
            return self._unkept(outcome)

    async def _kept(self, outcome: Outcome) -> Outcome:
        """Keeps what a run came to. A store that is away for a while is waited for: nobody else knows the outcome."""
        ends_at = time.monotonic() + self._ctx.store.outage_seconds
        while True:
            try:
                record = await self._step(partial(_after, outcome))
                break
            except QuotaExceededError as error:
                outcome = Outcome(error.to_llm_dict(), is_error=True)
            except StoreUnavailableError:
                if time.monotonic() > ends_at:
                    return self._unkept(outcome)
                await anyio.sleep(OUTAGE_PAUSE_SECONDS)
        if record.state == "ended":
            await self._strike()
        return outcome if outcome.request is None else settled_outcome(self._at, record, record.created_at)

    def _unkept(self, outcome: Outcome) -> Outcome:
        """What is told here of a run whose end the store does not know: to all others it is interrupted."""
        logger.error("what the call %s came to could not be kept", self._at.workspace_id)
        if outcome.request is None:
            return outcome
        value = stopped_value("interrupted", self._record.tool, self._at.workspace_id)
        return Outcome(value, is_error=True, status="interrupted")

    async def _step(self, step: Callable[[CallRecord, float], CallRecord]) -> CallRecord:
        """Changes the record of the call, as long as it is ours.

        Raises:
            StoppedError: It is not.
        """

        def checked(seen: Noted) -> CallRecord:
            if seen.record is None or seen.record.owner != self._owner:
                raise StoppedError("interrupted")
            return step(seen.record, seen.now)

        record = await change(self._ctx.store.calls, self._at, checked)
        assert record is not None
        return record

    async def _strike(self) -> None:
        """Takes a call that has ended off the list of work; otherwise whoever looks at it does so."""
        try:
            await self._ctx.store.calls.strike(self._at)
        except StoreUnavailableError:
            logger.info("the call %s is still on the list of work", self._at.workspace_id, exc_info=True)

    async def give_back(self) -> None:
        """Lets others take the call up; if the store does not answer, they do so when its lease ends."""
        await carried_out(self._give_back())

    async def _give_back(self) -> None:
        with anyio.move_on_after(LEAVING_SECONDS):
            try:
                record = await self._step(lambda held, _: held.given_back(has_run=self._has_begun))
                if record.state == "ended":
                    await self._strike()
            except (StoppedError, StoreUnavailableError):
                logger.info("the call %s was not given back", self._at.workspace_id, exc_info=True)


_carried: set[asyncio.Task[Any]] = set()


async def carried_out(work: Coroutine[Any, Any, T], *, within: float | None = None) -> T:
    """Does the work to its end, also where the caller is cancelled meanwhile, who then waits a moment for it.

    Args:
        within: Seconds after which the caller goes on without it.

    Raises:
        TimeoutError: It goes on by itself.
    """
    task = asyncio.get_running_loop().create_task(work)
    _carried.add(task)
    task.add_done_callback(_forget)
    try:
        async with asyncio.timeout(within):
            return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=LEAVING_SECONDS)
        raise


def _forget(task: asyncio.Task[Any]) -> None:
    _carried.discard(task)
    if not task.cancelled():
        task.exception()  # of which nobody may be there to hear


def _after(outcome: Outcome, held: CallRecord, now: float) -> CallRecord:
    """The record of a call after a run that came to this."""
    if outcome.request is not None:
        return held.ended(Ending("cancelled")) if held.is_cancelled else held.suspended(outcome.request, now)
    if outcome.status != "done":
        return held.ended(Ending(outcome.status))
    return held.ended(Ending("done", _storable(outcome.value), is_error=outcome.is_error))


def _storable(value: Any) -> Any:
    try:
        pack(value)
    except UnstorableValueError as error:
        return error.to_llm_dict()
    return value
