"""One call, from a name to an outcome: which tool it means, in whose session, and what is done when the tool asks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from toolstash.contracts import Address, Call, Outcome
from toolstash.errors import UnstorableValueError
from toolstash.schema.coerce import parse_arguments
from toolstash.schema.names import near_names, repair_name
from toolstash.store.call_record import CallRecord
from toolstash.store.codec import pack, unpack
from toolstash.store.session import current_session, session_scope
from toolstash.tools.attempt import attempt, attempt_builtin, refusal_of
from toolstash.tools.call_values import settled_outcome
from toolstash.tools.control import Control, Following, StoppedError
from toolstash.tools.registration import Registration
from toolstash.tools.resolver import wait_for_answer
from toolstash.tools.tool_context import current_context
from toolstash.tools.toolset import ToolEntry
from toolstash.tracing import Span, tool_call

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

MOST_NAMES = 50
MOST_OF_A_KIND = 20


async def dispatch(ctx: Ctx, call: Call) -> Outcome:
    """Runs a call.

    Raises:
        SessionRequiredError: The Ctx wants a session and there is none, or the session id is empty.
        Exception: What a tool raised, where `safe=False` asks for it.
    """
    if call.session_id is None:
        return await _in_session(ctx, call)
    with session_scope(call.session_id):
        return await _in_session(ctx, call)


async def _in_session(ctx: Ctx, call: Call) -> Outcome:
    entry = _find(ctx, call.tool)
    name = entry.name if isinstance(entry, ToolEntry) else None
    with tool_call(name, session_id=current_session(), call_id=call.call_id) as span:
        ctx.check_session()
        if isinstance(entry, Outcome):
            span.fail("tool_not_found")
            outcome = entry
        else:
            outcome = await _run(ctx, entry, call, span)
        span.note("toolstash.is_error", outcome.is_error)
        return outcome


async def _run(ctx: Ctx, entry: ToolEntry, call: Call, span: Span) -> Outcome:
    call_id = call.call_id or ""
    around = current_context()
    has_limits = any(one is not None for one in (call.call_id, call.timeout, call.signal, around))
    if entry.is_builtin and not has_limits:
        return await attempt_builtin(ctx, entry, call.arguments, span)
    try:
        at = ctx.place_call(call.call_id)
        call_id = at.workspace_id
        control = Control(_least(call.timeout, None if around is None else around.timeout))
        with Following(control, call.signal), Following(control, None if around is None else around.signal):
            if entry.is_builtin and call.call_id is None:  # which is too short to be worth registering
                return await attempt(ctx, entry, call.arguments, at, control, span, safe=entry.safe)
            return await _registered(ctx, entry, call, at, control, span)
    except Exception as error:
        return await refusal_of(ctx, entry, error, call_id, span, safe=entry.safe)


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


async def _registered(ctx: Ctx, entry: ToolEntry, call: Call, at: Address, control: Control, span: Span) -> Outcome:
    describe = partial(
        CallRecord,
        tool=entry.name,
        session_id=current_session(),
        timeout=call.timeout,
        is_idempotent=entry.idempotent,
    )
    registration = Registration(ctx.store.calls, ctx.overseer, at, describe, control)
    arguments = _Kept(call.arguments)
    try:
        if call.call_id is None:
            registration.begin_later()
        else:
            await control.run(registration.begin)
        outcome = await attempt(ctx, entry, call.arguments, at, control, span, safe=entry.safe)
        if outcome.request is None:
            return outcome
        if control.is_over:
            raise StoppedError(control.status)
        record = await registration.suspend(outcome.request, arguments.parsed())
    finally:
        await registration.end()
    span.note("toolstash.status", "pending")
    span.note("gen_ai.tool.call.id", at.workspace_id)
    outcome = settled_outcome(at, record, record.created_at)
    if call.wait_for is None or outcome.request is None:
        return outcome
    return await wait_for_answer(ctx, call.wait_for, at, outcome.request, control)


class _Kept:
    """A call's arguments as they came, whatever a tool does to them."""

    def __init__(self, arguments: Any) -> None:
        self._arguments = arguments
        self._document: bytes | None = None
        if isinstance(arguments, Mapping):
            with suppress(UnstorableValueError):  # said when they have to be stored
                self._document = pack(arguments)

    def parsed(self) -> dict[str, Any]:
        return parse_arguments(self._arguments if self._document is None else unpack(self._document))


def _find(ctx: Ctx, wanted: Any) -> ToolEntry | Outcome:
    entries = ctx.entries
    if isinstance(wanted, str):
        entry = entries.get(wanted)
        if entry is not None:
            return entry
        repaired = repair_name(wanted[:200], entries)
        if repaired is not None:
            return entries[repaired]
    name = wanted[:80] if isinstance(wanted, str) else type(wanted).__name__
    near = near_names(name, entries)
    action = f"Did you mean {' or '.join(near[:3])}?" if near else "Use one of the available tools."
    refusal = {
        "error": f"Tool '{name}' not found.",
        "available_tools": [*near, *(tool for tool in entries if tool not in near)][:MOST_NAMES],
        "suggested_action": action if entries else "This program has registered no tools.",
    }
    kinds = {"available_producers": ctx.producers, "available_consumers": ctx.exposed_consumers}
    listed = {key: [tool for tool in entries if tool in names][:MOST_OF_A_KIND] for key, names in kinds.items()}
    return Outcome(refusal | {key: names for key, names in listed.items() if names}, is_error=True)
