"""A caller that answers at once: it is asked here, in the process that ran the tool, which then goes on.

The call is in the store all the while. Whoever answers first counts, here or elsewhere, and a call whose resolver has
no answer, or whose process is killed, goes on waiting there.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio

from toolstash.asking import Answer, Request
from toolstash.contracts import Address, Outcome
from toolstash.errors import AnswerRefusedError, CallNotFoundError, StoreUnavailableError, UnstorableValueError
from toolstash.store.call_record import CallRecord, Ending
from toolstash.store.calls import Noted, change
from toolstash.tools.answering import found, record_answer
from toolstash.tools.call_values import pending_value, settled_outcome
from toolstash.tools.calling import call
from toolstash.tools.control import Control, StoppedError
from toolstash.tools.resuming import Claim, claim, go_on

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

logger = logging.getLogger("toolstash")

Resolver = Callable[[Request], Any]
"""Gives an `Answer`, its dict, or None for no answer; async or not."""


async def wait_for_answer(ctx: Ctx, resolver: Resolver, at: Address, request: Request, control: Control) -> Outcome:
    """Has a suspended call answered, as often as it asks, and goes on with it here.

    A store that is away meanwhile leaves the call as it is: waiting, for all that is known here.
    """
    try:
        while True:
            answer = await control.run(partial(_asked, ctx, resolver, at, request))
            claimed = await _claimed(ctx, at, answer, control)
            while claimed is None:
                settled = await control.run(partial(_settled, ctx, at))
                if settled is not None:
                    return settled
                claimed = await _claimed(ctx, at, None, control)
            outcome = await go_on(ctx, claimed, control)
            if outcome.request is None:
                return outcome
            request = outcome.request
    except StoppedError as stopped:
        return await _given_up(ctx, at, request, stopped)
    except StoreUnavailableError:
        logger.warning("the store does not answer; the call %s waits there", at.workspace_id, exc_info=True)
        return Outcome(pending_value(at.workspace_id, request), request=request)


async def _asked(ctx: Ctx, resolver: Resolver, at: Address, request: Request) -> Answer | None:
    """What the resolver answers; None if it has no answer, or the call waits no longer."""
    answer: Answer | None = None

    async def ask() -> None:
        nonlocal answer
        answer = await _answer_of(resolver, request)
        group.cancel_scope.cancel()

    async def look_out() -> None:
        try:
            await ctx.until_call(at, lambda held, seen: None if _waits_for(held, request, seen.now) else True)
        except StoreUnavailableError:
            logger.info("nobody looks whether %s is answered elsewhere", at.workspace_id, exc_info=True)
            return
        except (RuntimeError, CallNotFoundError):
            logger.info("nobody waits here any more: the Ctx is closed, or the call is gone", exc_info=True)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(look_out)
    return answer


def _waits_for(held: CallRecord, request: Request, now: float) -> bool:
    return held.is_waiting(now) and held.request is not None and held.request.id == request.id


async def _answer_of(resolver: Resolver, request: Request) -> Answer | None:
    try:
        answer = await call(resolver, request)
        if isinstance(answer, Mapping):
            return Answer.from_dict(cast(Mapping[str, Any], answer))
        if answer is None or isinstance(answer, Answer):
            return answer
        raise TypeError(f"wait_for gives an Answer, its dict, or None, not {type(answer).__name__}")
    except (Exception, SystemExit):
        logger.exception("the resolver of a suspended call failed; the call goes on waiting")
        return None


async def _claimed(ctx: Ctx, at: Address, answer: Answer | None, control: Control) -> Claim | None:
    """The call to go on with here; None where it waits, has ended, or somebody else goes on with it."""
    if answer is not None:
        owner = secrets.token_hex(8)
        try:
            record = await record_answer(ctx, at, answer, owner=owner)
            return None if record.state == "ended" else Claim(at, record, owner)
        except (AnswerRefusedError, UnstorableValueError, ValueError) as refused:
            logger.warning("the answer of a resolver was refused: %s", refused)
    if control.is_over:
        return None
    taken = await claim(ctx, at)
    return taken if isinstance(taken, Claim) else None


async def _settled(ctx: Ctx, at: Address) -> Outcome | None:
    """What the call came to, once whoever runs it is through; at once where it still waits. None: it is free."""
    free = object()

    def look(held: CallRecord, seen: Noted) -> Any:
        if held.state == "answered" and not seen.is_held and held.tool in ctx.entries:
            return free
        is_under_way = held.ending_at(seen.now) is None and not held.is_waiting(seen.now)
        return None if is_under_way else settled_outcome(at, held, seen.now)

    told = await ctx.until_call(at, look)
    return None if told is free else told


async def _given_up(ctx: Ctx, at: Address, request: Request, stopped: StoppedError) -> Outcome:
    """Nobody waits here any more. A call that still waits ends with that; one that was answered goes on elsewhere."""
    seen_at = 0.0

    def step(seen: Noted) -> CallRecord:
        nonlocal seen_at
        held, seen_at = found(at, seen), seen.now
        return held.ended(Ending(stopped.status)) if held.is_waiting(seen.now) else held

    try:
        record = await change(ctx.store.calls, at, step)
    except StoreUnavailableError:
        logger.warning("the store does not answer; the call %s waits there", at.workspace_id, exc_info=True)
        return Outcome(pending_value(at.workspace_id, request), request=request)
    assert record is not None
    return settled_outcome(at, record, seen_at)
