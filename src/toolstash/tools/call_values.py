"""What the caller of a tool reads of a call that waits, or that ended before its time."""

from __future__ import annotations

from dataclasses import replace as with_changes
from typing import Any

from toolstash.asking import PendingCall, Request
from toolstash.contracts import Address, Outcome, Status
from toolstash.schema.mismatch import shortened
from toolstash.store.call_record import CallRecord, Ending
from toolstash.tools.bound import json_chars

_TOLD = {
    "timeout": "{tool} did not end in time and was stopped.",
    "cancelled": "{tool} was cancelled.",
    "declined": "{tool} was not allowed to go on: {reason}. It had asked: {prompt}",
    "expired": "Nobody answered {tool} in time (expired). It had asked: {prompt}",
    "interrupted": "{tool} was interrupted: the worker that ran it was lost, and nobody knows how far it came.",
}
_ACTIONS = {
    "timeout": "Ask for less, or tell the user that the tool takes too long.",
    "cancelled": "Go on without it; call it again only if the user asks for it.",
    "declined": "Go on without it, and tell the user that it was declined.",
    "expired": "Tell the user that nobody answered; call the tool again only if they still want it.",
    "interrupted": "Find out what it has done before it is called again, or ask the user.",
}
_MOST_PROMPT_CHARS = 500
MOST_REQUEST_CHARS = 8_000


def pending_value(call_id: str, request: Request) -> dict[str, Any]:
    """A suspended call, as an agent loop can store it.

    Data that is too large for a model's context is left out; `pending_calls` has it.
    """
    if json_chars(request.to_dict()) > MOST_REQUEST_CHARS:
        request = with_changes(request, data=None, prompt=shortened(request.prompt, MOST_REQUEST_CHARS // 2))
    return {
        "status": "pending",
        "call_id": call_id,
        "request": request.to_dict(),
        "suggested_action": "Tell the user what is asked; the call goes on by itself once it is answered.",
    }


def stopped_value(
    status: Status, tool: str, call_id: str, *, reason: str = "", request: Request | None = None
) -> dict[str, Any]:
    """A call that has no result, with the reason."""
    prompt = "" if request is None else shortened(request.prompt, _MOST_PROMPT_CHARS)
    value = {
        "error": _TOLD[status].format(tool=tool, reason=reason, prompt=prompt),
        "status": status,
        "call_id": call_id,
        "suggested_action": _ACTIONS[status],
    }
    return value | ({"reason": reason} if reason else {})


def outcome_of(record: CallRecord, call_id: str, ending: Ending) -> Outcome:
    """What a call came to."""
    if ending.status == "done":
        return Outcome(ending.value, is_error=ending.is_error)
    value = stopped_value(ending.status, record.tool, call_id, reason=ending.reason, request=record.request)
    return Outcome(value, is_error=True, status=ending.status)


def settled_outcome(at: Address, record: CallRecord, now: float) -> Outcome:
    """What is known of a call by then: how it ended, or that it waits for an answer or for a worker."""
    ending = record.ending_at(now)
    if ending is not None:
        return outcome_of(record, at.workspace_id, ending)
    assert record.request is not None
    return Outcome(pending_value(at.workspace_id, record.request), request=record.request)


def pending_call(at: Address, record: CallRecord) -> PendingCall:
    """A call that waits, as those see it who answer."""
    assert record.request is not None
    return PendingCall(
        at.workspace_id,
        record.tool,
        record.arguments,
        record.session_id,
        record.request,
        record.created_at,
        record.expires_at,
    )
