"""What happens in the spaces of a memory store."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace as with_changes

from toolstash.contracts import Event, EventKind, Progress, WorkspaceMeta
from toolstash.store.signal import CLOSED, Listening, Signal
from toolstash.wire import keys as layout


class MemoryEvents:
    """The last events of each space, and those who wait for more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, list[Event]] = {}
        self._brief: dict[str, float] = {}
        self._signals: set[Signal] = set()

    def tell(self, space: str, kind: EventKind, meta: WorkspaceMeta) -> None:
        """Adds an event of a workspace."""
        self._add(space, Event("", kind, meta.workspace_id, meta.workspace_type, meta.version))

    def tell_of_call(self, space: str, kind: EventKind, call_id: str, progress: Progress | None = None) -> None:
        """Adds an event of a call."""
        self._add(space, Event("", kind, call_id=call_id, progress=progress))

    def wake(self, space: str, kind: EventKind, call_id: str) -> None:
        """Adds an event that is of use to those who listen just now: such a space is forgotten after a minute."""
        now = time.monotonic()
        with self._lock:
            for name in [name for name, until in self._brief.items() if until < now]:
                del self._brief[name]
                self._events.pop(name, None)
            self._brief[space] = now + layout.WAKE_MS / 1000
        self._add(space, Event("", kind, call_id=call_id))

    def after(self, space: str, place: str, limit: int) -> Sequence[Event]:
        """The next events of a space after a place, oldest first."""
        with self._lock:
            held = self._events.get(space, [])
            first = bisect_right(held, _order(place), key=lambda event: _order(event.id))
            return held[first : first + limit]

    def listening(self) -> Listening:
        """A context that gives a signal which is sent when something happens."""
        return Listening(self._signals.add, self._signals.discard)

    def close(self) -> None:
        """Ends what watches."""
        for signal in list(self._signals):
            signal.fail(RuntimeError(CLOSED))

    def _add(self, space: str, event: Event) -> None:
        """Adds an event; its id is later than all before."""
        with self._lock:
            events = self._events.setdefault(space, [])
            now_ms = int(time.time() * 1000)
            last_ms, last_number = _order(events[-1].id) if events else (0, 0)
            place = f"{now_ms}-0" if now_ms > last_ms else f"{last_ms}-{last_number + 1}"
            events.append(with_changes(event, id=place, at=max(now_ms, last_ms) / 1000))
            if len(events) > layout.MOST_EVENTS * 1.1:
                del events[: -layout.MOST_EVENTS]
        for signal in list(self._signals):
            signal.send()


def _order(place: str) -> tuple[int, int]:
    milliseconds, _, number = place.partition("-")
    return int(milliseconds), int(number)
