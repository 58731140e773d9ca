"""Where calls are kept that run or wait: one record each, which is only ever swapped for the next one.

A record has a revision, which every swap changes, and a lease while a worker runs the call. Of answered calls there is
a list of work, which any worker looks through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from toolstash.contracts import Address, EventKind, Progress
from toolstash.errors import QuotaExceededError, StoreUnavailableError
from toolstash.store.call_record import CallRecord

WORK_SPACE = "work"
"""What happens in this space wakes those who resume calls."""
LOOK_AGAIN_SECONDS = 10.0
"""After this long, work that somebody has in hand is looked at again."""
MOST_TRIES = 20
MOST_WAITING = 1_000
"""How many calls of one space may wait for answers."""


class Noted(NamedTuple):
    """What is known of a call at one moment by the store's clock. Revision 0 is that of no record."""

    record: CallRecord | None
    revision: int
    is_held: bool
    now: float


class Lease(NamedTuple):
    """Who holds which call."""

    at: Address
    owner: str


class CallBook(Protocol):
    """The calls of a store. An address is a space and a call id."""

    async def look(self, at: Address) -> Noted:
        """What is known of a call."""
        ...

    async def swap(self, at: Address, seen: Noted, record: CallRecord | None, *, in_time: bool = False) -> bool:
        """Puts a record in the place of the one that was seen, or takes it away; False if it is another one by now.

        A record with an owner gets a lease. What becomes of a call is told to those who watch its space: "suspended",
        "answered" (not each claim of it), "cancel" when it is cancelled or its worker told to stop, and "ended" for all
        other ends. An answered one is put on the list of work, and those who resume calls are woken.

        Args:
            in_time: Refuses also when the time of the record that was seen is over by now (`expires_at`).

        Raises:
            UnstorableValueError: The record holds something that has no JSON form.
            QuotaExceededError: It would wait, and too many of its space do.
        """
        ...

    async def keep(self, leases: Sequence[Lease]) -> list[int]:
        """Renews leases; the revision of each record, 0 where somebody else has it or it is gone."""
        ...

    async def leave(self, lease: Lease) -> None:
        """Takes a running call off, unless somebody else has it or it is gone."""
        ...

    async def waiting(self, spaces: Sequence[str] | None) -> list[tuple[Address, CallRecord]]:
        """The calls of some spaces (None for all) that wait for an answer, oldest first."""
        ...

    async def count_waiting(self, spaces: Sequence[str] | None) -> int:
        """How many these are."""
        ...

    async def work(self, limit: int, offset: int = 0) -> list[Address]:
        """Calls that may want to be resumed now, longest due first; after so many of them."""
        ...

    async def next_work_seconds(self) -> float | None:
        """How long until there may be some; None if there is none in sight."""
        ...

    async def put_off(self, at: Address, seconds: float) -> None:
        """Has others look at a piece of work only after that time, if it is still on the list."""
        ...

    async def strike(self, at: Address) -> None:
        """Takes a piece of work off the list."""
        ...

    async def find_space(self, label: str) -> str | None:
        """The space whose ids end in a label, if it has calls."""
        ...

    async def tell(self, at: Address, progress: Progress) -> None:
        """Tells those who watch the call's space how far it is."""
        ...

    async def call_back(self, inbox: str, call_id: str) -> None:
        """Tells a worker that one of its calls was cancelled, as an event of the space that is called `inbox`."""
        ...


def too_many_wait() -> QuotaExceededError:
    """The error for a call that may not wait."""
    return QuotaExceededError(
        f"{MOST_WAITING:,} calls wait for answers already.",
        suggested_action="Tell the user to answer or cancel some of them first.",
    )


async def change(
    book: CallBook, at: Address, step: Callable[[Noted], CallRecord | None], *, in_time: bool = False
) -> CallRecord | None:
    """Swaps a record for the one that `step` makes of it, as often as somebody else was faster; the new record.

    What `step` raises is raised; where it gives the record that it was given, nothing is written.

    Raises:
        StoreUnavailableError: Others change the call all the time, or the store does not answer.
    """
    for _ in range(MOST_TRIES):
        seen = await book.look(at)
        record = step(seen)
        if record is seen.record or await book.swap(at, seen, record, in_time=in_time):
            return record
    raise StoreUnavailableError(f"The call '{at.workspace_id:.150}' is being changed by others.")


def news_of(seen: CallRecord | None, record: CallRecord | None) -> EventKind | None:
    """What those who watch are told when one record takes the place of another. A declined call is "ended"."""
    if record is None:
        return None
    if record.is_cancelled and record.ending is None and not (seen is not None and seen.is_cancelled):
        return "cancel"
    if record.ending is not None and (seen is None or seen.ending is None):
        return "cancel" if record.ending.status == "cancelled" else "ended"
    if record.state == "pending" and (seen is None or seen.state != "pending"):
        return "suspended"
    return "answered" if len(record.answers) > (0 if seen is None else len(seen.answers)) else None


def is_new_work(seen: CallRecord | None, record: CallRecord | None) -> bool:
    """Whether that has to be noted in the list of work: the call is answered, or somebody else has it in hand."""
    if record is None or record.state != "answered":
        return False
    return seen is None or (seen.state, seen.owner) != (record.state, record.owner)


def wakes_workers(seen: CallRecord | None, record: CallRecord | None) -> bool:
    """Whether others should look at the list of work now: there is more of it, or somebody has let go of some."""
    if record is None or not is_new_work(seen, record):
        return False
    return not record.owner or seen is None or seen.state != "answered"
