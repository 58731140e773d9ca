"""Calls that run or wait in one process, for stores that have no place of their own for them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolstash.contracts import Address, EventKind, Progress
from toolstash.store import calls
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import WORK_SPACE, Lease, Noted, is_new_work, news_of, wakes_workers
from toolstash.wire import keys as layout

TIDY_SECONDS = 1.0
"""How often records are looked through for those whose life is over."""


class CallNews(Protocol):
    """Tells those who watch a space what happened to a call."""

    def tell_of_call(self, space: str, kind: EventKind, call_id: str, progress: Progress | None = None) -> None:
        """For those who watch a session."""
        ...

    def wake(self, space: str, kind: EventKind, call_id: str) -> None:
        """For workers that listen just now."""
        ...


@dataclass(slots=True)
class _Kept:
    document: bytes
    revision: int
    owner: str
    lease_ends_at: float
    gone_at: float
    created_at: float
    waits_until: float

    def is_held(self, now: float) -> bool:
        return self.owner != "" and self.lease_ends_at > now


class LocalCalls:
    """The calls of one process, gone with it. Times are this machine's.

    Args:
        news: Tells those who watch; None where a store keeps no events.
    """

    def __init__(self, news: CallNews | None = None) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._calls: dict[Address, _Kept] = {}
        self._due: dict[Address, float] = {}
        self._revisions = itertools.count(1)
        self._tidied_at = 0.0

    async def look(self, at: Address) -> Noted:
        with self._lock:
            now = time.time()
            kept = self._live(at, now)
        if kept is None:
            return Noted(None, 0, is_held=False, now=now)
        return Noted(CallRecord.of_bytes(kept.document), kept.revision, kept.is_held(now), now)

    async def swap(self, at: Address, seen: Noted, record: CallRecord | None, *, in_time: bool = False) -> bool:
        document = b"" if record is None else record.to_bytes()
        with self._lock:
            now = time.time()
            kept = self._live(at, now)
            if (0 if kept is None else kept.revision) != seen.revision:
                return False
            if in_time and seen.record is not None and now >= seen.record.expires_at:
                return False
            if record is not None and record.is_waiting(now) and len(self._waiting([at.space])) >= calls.MOST_WAITING:
                raise calls.too_many_wait()
            self._put(at, record, document, now)
            if record is not None and is_new_work(seen.record, record):
                self._due[at] = now + (_lease_seconds() if record.owner else 0.0)
            self._tidy(now)
        self._tell_of_swap(at, seen.record, record)
        return True

    def _put(self, at: Address, record: CallRecord | None, document: bytes, now: float) -> None:
        if record is None:
            self._calls.pop(at, None)
            return
        self._calls[at] = _Kept(
            document,
            next(self._revisions),
            record.owner,
            lease_ends_at=now + _lease_seconds() if record.owner else 0.0,
            gone_at=now + record.life_seconds(now, _lease_seconds()),
            created_at=record.created_at,
            waits_until=record.expires_at if record.state == "pending" else 0.0,
        )

    def _tell_of_swap(self, at: Address, seen: CallRecord | None, record: CallRecord | None) -> None:
        kind = news_of(seen, record)
        if self._news is not None and kind is not None:
            self._news.tell_of_call(at.space, kind, at.workspace_id)
        if self._news is not None and wakes_workers(seen, record):
            self._news.wake(WORK_SPACE, "answered", at.workspace_id)

    async def keep(self, leases: Sequence[Lease]) -> list[int]:
        with self._lock:
            now = time.time()
            return [self._keep(lease, now) for lease in leases]

    def _keep(self, lease: Lease, now: float) -> int:
        kept = self._live(lease.at, now)
        if kept is None or kept.owner != lease.owner:
            return 0
        kept.lease_ends_at = now + _lease_seconds()
        kept.gone_at = max(kept.gone_at, kept.lease_ends_at)
        return kept.revision

    async def leave(self, lease: Lease) -> None:
        with self._lock:
            kept = self._calls.get(lease.at)
            if kept is not None and kept.owner == lease.owner:
                del self._calls[lease.at]

    async def waiting(self, spaces: Sequence[str] | None) -> list[tuple[Address, CallRecord]]:
        with self._lock:
            found = self._waiting(spaces)
        return [(at, CallRecord.of_bytes(kept.document)) for at, kept in found]

    async def count_waiting(self, spaces: Sequence[str] | None) -> int:
        with self._lock:
            return len(self._waiting(spaces))

    def _waiting(self, spaces: Sequence[str] | None) -> list[tuple[Address, _Kept]]:
        now = time.time()
        found = [
            (at, kept)
            for at, kept in self._calls.items()
            if kept.waits_until > now and (spaces is None or at.space in spaces)
        ]
        return sorted(found, key=lambda one: one[1].created_at)

    async def work(self, limit: int, offset: int = 0) -> list[Address]:
        with self._lock:
            now = time.time()
            due = sorted((when, at.space, at.workspace_id) for at, when in self._due.items() if when <= now)
        return [Address(space, call_id) for _, space, call_id in due[offset : offset + limit]]

    async def next_work_seconds(self) -> float | None:
        with self._lock:
            return max(0.0, min(self._due.values()) - time.time()) if self._due else None

    async def put_off(self, at: Address, seconds: float) -> None:
        with self._lock:
            if at in self._due:
                self._due[at] = time.time() + seconds

    async def strike(self, at: Address) -> None:
        with self._lock:
            self._due.pop(at, None)

    async def find_space(self, label: str) -> str | None:
        with self._lock:
            now = time.time()
            named = [at for at in self._calls if layout.label_of(at.space) == label]
            return next((at.space for at in named if self._live(at, now) is not None), None)

    async def tell(self, at: Address, progress: Progress) -> None:
        if self._news is not None:
            self._news.tell_of_call(at.space, "progress", at.workspace_id, progress)

    async def call_back(self, inbox: str, call_id: str) -> None:
        if self._news is not None:
            self._news.wake(inbox, "cancel", call_id)

    def _live(self, at: Address, now: float) -> _Kept | None:
        kept = self._calls.get(at)
        if kept is not None and kept.gone_at <= now:
            del self._calls[at]
            self._due.pop(at, None)
            return None
        return kept

    def _tidy(self, now: float) -> None:
        if now - self._tidied_at > TIDY_SECONDS:
            self._tidied_at = now
            for at in list(self._calls):
                self._live(at, now)


def _lease_seconds() -> float:
    return layout.FLIGHT_MS / 1000
