"""Watching what happens: events in order, and waiting until something is true."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace as with_changes
from typing import Protocol, TypeVar

from toolstash.contracts import Event
from toolstash.errors import InvalidArgumentError, StoreUnavailableError
from toolstash.store.signal import Signal

T = TypeVar("T")

EVENTS_AT_ONCE = 100
OLDEST = "0"
_PLACE = re.compile(r"\d{1,20}-\d{1,20}\Z")


class Watched(Protocol):
    """What a store tells of events. A place is the id of an event in one space; "0-0" comes before all."""

    def listening(self, spaces: Sequence[str]) -> AbstractAsyncContextManager[Signal]:
        """A signal that is sent whenever something happened in one of the spaces, and now and then without need."""
        ...

    async def last_place(self, space: str) -> str:
        """The place of the newest event."""
        ...

    async def events_after(self, space: str, place: str, limit: int) -> Sequence[Event]:
        """The next events after a place, oldest first."""
        ...


async def events(store: Watched, spaces: Sequence[str], after: str | None) -> AsyncGenerator[Event]:
    """What happens in some spaces, from now on or after the event of that id. Outages of the store are waited out.

    An event's id names the place after it in each of the spaces, so going on from it repeats and misses nothing that
    is still kept.

    Raises:
        InvalidArgumentError: `after` is not an id of an event of these spaces.
        StoreUnavailableError: The store does not answer when watching begins, or for longer than the listener waits.
    """
    async with store.listening(spaces) as signal:
        places = await _places(store, spaces, after)
        while True:
            seen = signal.count
            found = await _next_events(store, places)
            for space, event in found:
                places[space] = event.id
                yield with_changes(event, id=",".join(places.values()))
            if not found:
                await signal.after(seen)


async def until(
    store: Watched, spaces: Sequence[str], look: Callable[[], Awaitable[T | None]], timeout_seconds: float | None
) -> T:
    """Looks until there is something to be seen, at once and then whenever something happened.

    Raises:
        TimeoutError: Not within that time.
    """
    async with asyncio.timeout(timeout_seconds):
        found = await look()
        if found is not None:
            return found
        async with store.listening(spaces) as signal:
            while True:
                seen = signal.count
                found = await look()
                if found is not None:
                    return found
                await signal.after(seen)


async def _places(store: Watched, spaces: Sequence[str], after: str | None) -> dict[str, str]:
    if after is None:
        return {space: await store.last_place(space) for space in spaces}
    if after == OLDEST:
        return dict.fromkeys(spaces, "0-0")
    places = after.split(",") if isinstance(after, str) else []  # pyright: ignore[reportUnnecessaryIsInstance]
    if len(places) != len(spaces) or not all(map(_PLACE.match, places)):
        raise InvalidArgumentError(
            f"after={after!r:.80} is not the id of an event that was seen in this session.",
            argument="after",
            suggested_action="Pass the id of an event from watch(), '0' for the oldest that is kept, or None for now.",
        )
    return dict(zip(spaces, places, strict=True))


async def _next_events(store: Watched, places: dict[str, str]) -> list[tuple[str, Event]]:
    """The next events of all spaces by time; none while the store does not answer, which the listener waits out."""
    found: list[tuple[str, Event]] = []
    try:
        for space, place in places.items():
            found += [(space, event) for event in await store.events_after(space, place, EVENTS_AT_ONCE)]
    except StoreUnavailableError:
        return []
    return sorted(found, key=lambda one: one[1].at)
