"""The Lua scripts for calls that run or wait, as in `scripts.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolstash.wire import keys as layout
from toolstash.wire.keys import WorkspaceKeys
from toolstash.wire.scripts import Script, ScriptCall

SWAP_CALL = Script("swap_call", prelude="writing")
LOOK_CALL = Script("look_call", prelude="writing")
KEEP_CALL = Script("keep_call", prelude="writing")
LEAVE_CALL = Script("leave_call")
TELL_PROGRESS = Script("tell_progress", prelude="writing")
WAKE = Script("wake")
SET_DUE = Script("set_due", prelude="writing")
FIND_DUE = Script("find_due", prelude="writing")
FIND_WAITING = Script("find_waiting", prelude="writing")
COUNT_WAITING = Script("count_waiting", prelude="writing")
READ_CALLS = Script("read_calls", prelude="writing")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is kept of a call: its document, who holds it ("" for nobody), until when it waits in Unix seconds (None: it
    does not), and how long it lives from now on, or from that time on.
    """

    document: bytes
    owner: str
    life_ms: int
    waits_until: float | None


@dataclass(frozen=True, kw_only=True)
class Swap:
    """A change of a call. `seen` is the revision before it (0 for none), `revision` a new one that no other swap has.

    `in_time` is the time before which it must happen. Times are Unix seconds. `most_waiting` calls of a space may wait.
    """

    seen: int
    revision: int
    kind: str
    in_time: float | None
    record: Record | None
    most_waiting: int


def swap_call(at: WorkspaceKeys, waiting: str, swap: Swap) -> ScriptCall:
    """Puts one record in the place of another. Reply: 1; 0 where it is another one, or too late; -1: too many wait."""
    record = swap.record
    in_time = "" if swap.in_time is None else f"{swap.in_time * 1e6:.0f}"
    args: list[str | bytes | int] = [at.base, at.part, swap.seen or "", in_time, swap.kind, swap.revision]
    if record is not None:
        waits = "" if record.waits_until is None else f"{record.waits_until * 1e3:.3f}"
        args += [record.document, record.owner, layout.FLIGHT_MS, record.life_ms, waits, swap.most_waiting]
    return ScriptCall(SWAP_CALL, (at.call, at.operation(f"{swap.revision:x}"), waiting, at.created, at.expiring), args)


def look_call(at: WorkspaceKeys) -> ScriptCall:
    """Reads a call. Reply: [document or "", revision, "1" if its lease goes on else "0", time in µs]."""
    return ScriptCall(LOOK_CALL, (at.call,), ())


def keep_call(at: WorkspaceKeys, owner: str) -> ScriptCall:
    """Renews a lease. Reply: the revision; 0 when it is no longer one's own."""
    return ScriptCall(KEEP_CALL, (at.call,), (owner, layout.FLIGHT_MS))


def leave_call(at: WorkspaceKeys, owner: str) -> ScriptCall:
    """Takes a running call off. Reply: 1; 0 when it is no longer one's own."""
    return ScriptCall(LEAVE_CALL, (at.call,), (owner,))


def tell_progress(at: WorkspaceKeys, events: str, done: float, total: float | None, message: bytes) -> ScriptCall:
    """Tells how far a call is."""
    args = (at.part, repr(done), "" if total is None else repr(total), message)
    return ScriptCall(TELL_PROGRESS, (events, at.created, at.expiring), args)


def wake(events: str, kind: str, part: str) -> ScriptCall:
    """Tells those who listen to a stream that is not kept."""
    return ScriptCall(WAKE, (events,), (kind, part, layout.WAKE_MS))


def set_due(due: str, work: str, in_ms: int) -> ScriptCall:
    """Puts work on the list, to be looked at then or earlier."""
    return ScriptCall(SET_DUE, (due,), (work, in_ms, layout.DUE_MS, "LT"))


def put_off(due: str, work: str, in_ms: int) -> ScriptCall:
    """Has work looked at only then, if it is on the list."""
    return ScriptCall(SET_DUE, (due,), (work, in_ms, layout.DUE_MS, "XX"))


def find_due(due: str, limit: int, offset: int = 0) -> ScriptCall:
    """Finds work. Reply: [ms until the first is due or "", what is due now, from `offset` on, …]."""
    return ScriptCall(FIND_DUE, (due,), (limit, offset))


def find_waiting(waiting: str) -> ScriptCall:
    """Finds calls that wait. Reply: their parts, soonest to expire first."""
    return ScriptCall(FIND_WAITING, (waiting,), ())


def count_waiting(waiting: str) -> ScriptCall:
    """Counts them."""
    return ScriptCall(COUNT_WAITING, (waiting,), ())


def read_calls(waiting: str, base: str, parts: Sequence[bytes], *, most_bytes: int) -> ScriptCall:
    """Reads calls, at least one, until they weigh that much. Reply: [time in µs, document or "", …]."""
    return ScriptCall(READ_CALLS, (waiting,), (base, most_bytes, *parts))
