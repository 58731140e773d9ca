"""How an answered call goes on: one worker claims it, runs the tool again, and keeps what it comes to."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from toolstash.contracts import Address, Outcome, WorkspaceRef
from toolstash.errors import StoreUnavailableError, UnstorableValueError
from toolstash.store.call_record import CallRecord, Ending
from toolstash.store.calls import Noted, change
from toolstash.store.codec import pack
from toolstash.store.session import session_scope
from toolstash.tools.attempt import attempt
from toolstash.tools.call_values import settled_outcome, stopped_value
from toolstash.tools.control import Control, StoppedError
from toolstash.tools.overseer import OUTAGE_PAUSE_SECONDS, Held
from toolstash.tools.registration import LEAVING_SECONDS
from toolstash.tracing import Span, tool_call

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

logger = logging.getLogger("toolstash")


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
    if record is None or not await ctx.store.calls.swap(at, seen, record):
        return None
    return record if record.state == "ended" else Claim(at, record, owner)


async def go_on(ctx: Ctx, claimed: Claim, control: Control) -> Outcome:
    """Runs a claimed call to its end or to its next question.

    A run that is torn off leaves the call to others: to be begun again, or as interrupted.
    """
    held = Held(claimed.at, claimed.owner, control)
    ctx.overseer.hold(held)
    record = claimed.record
    try:
        with (
            session_scope(record.session_id),
            tool_call(record.tool, session_id=record.session_id, call_id=claimed.at.workspace_id) as span,
        ):
            return await _run(ctx, claimed, control, span)
    except BaseException:
        await _give_back(ctx, claimed)
        raise
    finally:
        ctx.overseer.let_go(held)


async def _run(ctx: Ctx, claimed: Claim, control: Control, span: Span) -> Outcome:
    record, at = claimed.record, claimed.at
    entry = ctx.entries[record.tool]
    try:
        begun = await _step(ctx, claimed, lambda held, _: held.started())
        if begun.is_cancelled:
            control.stop("cancelled")
        outcome = await attempt(ctx, entry, record.arguments, at, control, span, answers=record.answers, safe=True)
        kept = await _keep(ctx, claimed, outcome)
        if kept.state == "ended":
            await _strike(ctx, at)
    except StoppedError as stopped:  # somebody else has taken over
        value = stopped_value(stopped.status, record.tool, at.workspace_id)
        outcome = Outcome(value, is_error=True, status=stopped.status)
        span.fail(stopped.status)
    else:
        outcome = settled_outcome(at, kept, kept.created_at) if outcome.request is not None else outcome
    span.note("toolstash.is_error", outcome.is_error)
    return outcome


async def _keep(ctx: Ctx, claimed: Claim, outcome: Outcome) -> CallRecord:
    """Keeps what a run came to. A store that is away for a while is waited for: nobody else knows the outcome."""
    ends_at = time.monotonic() + ctx.store.outage_seconds
    while True:
        try:
            return await _step(ctx, claimed, partial(_after, outcome))
        except StoreUnavailableError:
            if time.monotonic() > ends_at:
                raise
            await anyio.sleep(OUTAGE_PAUSE_SECONDS)


def _after(outcome: Outcome, held: CallRecord, now: float) -> CallRecord:
    """The record of a call after a run that came to this."""
    if outcome.request is not None:
        return held.ended(Ending("cancelled")) if held.is_cancelled else held.suspended(outcome.request, now)
    if outcome.status != "done":
        return held.ended(Ending(outcome.status))
    return held.ended(Ending("done", _storable(outcome.value), is_error=outcome.is_error))


def _storable(value: Any) -> Any:
    told = value.to_dict() if isinstance(value, WorkspaceRef) else value
    try:
        pack(told)
    except UnstorableValueError as error:
        return error.to_llm_dict()
    return told


async def _step(ctx: Ctx, claimed: Claim, step: Callable[[CallRecord, float], CallRecord]) -> CallRecord:
    """Changes the record of a call that is ours.

    Raises:
        StoppedError: It is not ours any more.
    """

    def checked(seen: Noted) -> CallRecord:
        if seen.record is None or seen.record.owner != claimed.owner:
            raise StoppedError("interrupted")
        return step(seen.record, seen.now)

    record = await change(ctx.store.calls, claimed.at, checked)
    assert record is not None
    return record


async def _strike(ctx: Ctx, at: Address) -> None:
    """Takes a call that has ended off the list of work; if the store does not answer, whoever looks at it does so."""
    try:
        await ctx.store.calls.strike(at)
    except StoreUnavailableError:
        logger.info("the call %s has ended and is still on the list of work", at.workspace_id, exc_info=True)


async def _give_back(ctx: Ctx, claimed: Claim) -> None:
    """Lets others take the call up; if the store does not answer, they do so when the lease ends."""
    with anyio.move_on_after(LEAVING_SECONDS, shield=True):
        try:
            await _step(ctx, claimed, lambda held, _: held.given_back())
        except (StoppedError, StoreUnavailableError):
            logger.info("the call %s was not given back", claimed.at.workspace_id, exc_info=True)
