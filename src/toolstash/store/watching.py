"""Watching what happens: events in order, and waiting until something is true."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableSet, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace as with_changes
from typing import Protocol, TypeVar

from toolstash.contracts import SHARED_SPACE, Event
from toolstash.errors import InvalidArgumentError, StoreUnavailableError
from toolstash.store.signal import Signal
from toolstash.wire import keys as layout

T = TypeVar("T")

EVENTS_AT_ONCE = 100
OLDEST = "0"
TICK_SECONDS = 1.0
"""How often what happens is looked for where nothing tells of it: outside any session, in all of them."""
_PLACE = re.compile(r"\d{1,20}-\d{1,20}\Z")
_MOST = 2**64


class Watched(Protocol):
    """What a store tells of events. A place is the id of an event in one space; "0-0" comes before all."""

    outage_seconds: float
    """How long the store may be away before those who watch are told."""

    def listening(self, spaces: Sequence[str]) -> AbstractAsyncContextManager[Signal]:
        """A signal that is sent whenever something happened in one of the spaces, and now and then without need."""
        ...

    async def last_place(self, space: str) -> str:
        """The place of the newest event."""
        ...

    async def events_after(self, space: str, place: str, limit: int) -> Sequence[Event]:
        """The next events after a place, oldest first."""
        ...


async def events(
    store: Watched,
    spaces: Sequence[str],
    after: str | None,
    *,
    wanted: Callable[[Event], bool],
    check: Callable[[], None],
    signals: MutableSet[Signal],
) -> AsyncGenerator[Event]:
    """What happens in some spaces, from now on or after the event of that id. Outages of the store are waited out.

    An event's id names the place after it in each of the spaces, so going on from it repeats nothing, and misses
    nothing that is still kept. The signal that is waited for is one of `signals`, so that the caller may end it;
    `check` raises when it has.

    Raises:
        InvalidArgumentError: `after` is not an id of an event of these spaces.
        StoreUnavailableError: The store does not answer when watching begins, or for too long.
    """
    async with store.listening(spaces) as signal:
        signals.add(signal)
        places = await _places(store, spaces, after)
        lost_at: float | None = None
        while True:
            seen = signal.count
            check()
            signal.check()
            try:
                found = await _next_events(store, places)
                lost_at = None
            except StoreUnavailableError:
                lost_at, found = lost_at or time.monotonic(), []
                if time.monotonic() - lost_at > store.outage_seconds:
                    raise
            for space, event in found:
                places[space] = event.id
                signal.check()
                if wanted(event):
                    yield with_changes(event, id=_id_of(places))
            if not found:
                await next_signal(signal, seen, None if lost_at is None else TICK_SECONDS)


async def until(
    store: Watched,
    spaces: Sequence[str],
    look: Callable[[], Awaitable[T | None]],
    *,
    concerns: Callable[[Event], bool],
    timeout_seconds: float | None,
    ticks: bool,
    check: Callable[[], None],
    signals: MutableSet[Signal],
) -> T:
    """Looks until there is something to be seen: at once, and then whenever something happened that concerns it.

    Args:
        ticks: Whether to look now and then, without asking what happened: it may happen elsewhere.
        check: Raises when the caller has ended what waits; so do `signals`.

    Raises:
        TimeoutError: Not within that time.
        StoreUnavailableError: The store does not answer.
    """
    async with asyncio.timeout(timeout_seconds or None):  # a look without waiting may take as long as a look takes
        found = await look()
    if found is not None:
        return found
    async with asyncio.timeout(timeout_seconds), store.listening(spaces) as signal:
        signals.add(signal)
        places = None if ticks else await _known_places(store, spaces)
        while True:
            check()
            found = await look()
            if found is not None:
                return found
            await _next_concern(store, signal, places, concerns)


async def _known_places(store: Watched, spaces: Sequence[str]) -> dict[str, str] | None:
    """Where events begin that are not seen yet; None for a store that keeps none."""
    try:
        return await _places(store, spaces, None)
    except NotImplementedError:
        return None


async def _next_concern(
    store: Watched, signal: Signal, places: dict[str, str] | None, concerns: Callable[[Event], bool]
) -> None:
    """Returns when something concerning happened, or, where nothing is told, after a while. Moves the places on."""
    while True:
        seen = signal.count
        signal.check()
        if places is None:
            return await next_signal(signal, seen, TICK_SECONDS)
        found = await _next_events(store, places)
        places |= {space: event.id for space, event in found}
        if len(found) >= EVENTS_AT_ONCE or any(concerns(event) for _, event in found):
            return None  # after many events, some may have gone unseen
        if not found:
            await signal.after(seen)


async def next_signal(signal: Signal, seen: int, seconds: float | None) -> None:
    """Waits for the signal, or for that time."""
    try:
        async with asyncio.timeout(seconds):
            await signal.after(seen)
    except TimeoutError:
        pass


async def _places(store: Watched, spaces: Sequence[str], after: str | None) -> dict[str, str]:
    if after is None:
        return {space: await store.last_place(space) for space in spaces}
    if after == OLDEST:
        return dict.fromkeys(spaces, "0-0")
    text = after if isinstance(after, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    numbers, _, label = text.partition("@")
    places = numbers.split(",")
    if len(places) != len(spaces) or not all(map(_is_place, places)) or label != _label_of(spaces):
        raise InvalidArgumentError(
            f"after={after!r:.80} is not the id of an event that was seen in this session.",
            argument="after",
            suggested_action="Pass the id of an event from watch(), '0' for the oldest that is kept, or None for now.",
        )
    return dict(zip(spaces, places, strict=True))


def _is_place(text: str) -> bool:
    return _PLACE.match(text) is not None and all(int(number) < _MOST for number in text.split("-"))


def _id_of(places: dict[str, str]) -> str:
    label = _label_of(list(places))
    return ",".join(places.values()) + (f"@{label}" if label else "")


def _label_of(spaces: Sequence[str]) -> str:
    """The session of the spaces, so that a place in one session is none in another."""
    own = next((space for space in spaces if space != SHARED_SPACE), None)
    return "" if own is None else layout.label_of(own).removeprefix("@")


async def _next_events(store: Watched, places: dict[str, str]) -> list[tuple[str, Event]]:
    """The next events of all spaces by time, as far as it is known what comes next."""
    found: list[tuple[str, Event]] = []
    known_until = float("inf")
    for space, place in places.items():
        batch = await store.events_after(space, place, EVENTS_AT_ONCE)
        found += [(space, event) for event in batch]
        if len(batch) == EVENTS_AT_ONCE:
            known_until = min(known_until, batch[-1].at)
    return sorted((one for one in found if one[1].at <= known_until), key=lambda one: one[1].at)
