"""How an answer is written down: once, in time, to the request that waits, with data that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolstash.asking import Answer
from toolstash.contracts import Address
from toolstash.errors import AnswerMismatchError, CallNotFoundError
from toolstash.schema.json_schema import validated
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import Noted, change
from toolstash.store.codec import pack, unpack
from toolstash.threads import in_thread

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

MOST_ANSWER_BYTES = 1_000_000


async def record_answer(ctx: Ctx, at: Address, answer: Answer, *, owner: str = "") -> CallRecord:
    """Writes an answer down. With an owner, the call is claimed in the same step.

    Raises:
        CallNotFoundError: There is no such call.
        AnswerRefusedError: The answer does not count.
        UnstorableValueError: Its data has no JSON form.
        ValueError: It is to be resumed here, where its tool is not registered.
    """
    document = pack(answer.to_dict())
    if len(document) > MOST_ANSWER_BYTES:
        raise AnswerMismatchError(f"An answer has {MOST_ANSWER_BYTES:,} bytes at most.")
    plain = Answer.from_dict(unpack(document))
    await _check_data(ctx, at, plain)
    inbox = ctx.overseer.inbox if owner else ""

    def step(seen: Noted) -> CallRecord:
        held = found(at, seen)
        if owner and held.tool not in ctx.entries:
            raise ValueError(f"the tool '{held.tool}' is not registered here: leave resume=True out")
        return held.answered(plain, seen.now, owner=owner, inbox=inbox)

    record = await change(ctx.store.calls, at, step, in_time=True)
    assert record is not None
    return record


def found(at: Address, seen: Noted) -> CallRecord:
    """The record of a call.

    Raises:
        CallNotFoundError: There is none.
    """
    if seen.record is None or seen.record.is_called_off:
        raise CallNotFoundError(f"Call '{at.workspace_id:.150}' not found.", call_id=at.workspace_id[:150])
    return seen.record


async def _check_data(ctx: Ctx, at: Address, answer: Answer) -> None:
    """Refuses data that does not fit the request that it answers. Whether that still waits is seen later."""
    request = found(at, await ctx.store.calls.look(at)).request
    schema = (request.data or {}).get("schema") if request is not None and request.id == answer.id else None
    if schema is None or not answer.ok:
        return
    problem = await in_thread(validated, answer.data, schema)
    if problem is not None:
        raise AnswerMismatchError(f"The answer's data does not fit: {problem}.", expected_schema=schema)
