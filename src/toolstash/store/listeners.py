"""Hears of events on a server: one waiting connection for each watched space, process and event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from toolstash.contracts import Event, EventKind
from toolstash.errors import StoreUnavailableError
from toolstash.store.codec import unpack
from toolstash.store.signal import Signal
from toolstash.wire import keys as layout
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys

logger = logging.getLogger("toolstash")

MOST_PAUSE_SECONDS = 1.0
"""Between two tries to listen again."""
OUTAGE_TIMEOUTS = 6
"""How many times the time limit of a command an outage may last before watchers are told."""

CLOSED = "the store was closed while it was watched"

_Key = tuple[int, asyncio.AbstractEventLoop, str]


class Listeners:
    """What a store hears of its events."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        self._listeners: dict[_Key, _Listener] = {}

    @asynccontextmanager
    async def listening(self, spaces: Sequence[str]) -> AsyncGenerator[Signal]:
        """A signal that is sent when something happens in one of the spaces.

        Raises:
            StoreUnavailableError: The store does not answer.
        """
        signal = Signal()
        async with AsyncExitStack() as stack:
            for space in spaces:
                await stack.enter_async_context(self._listening(space, signal))
            yield signal

    async def last_place(self, space: str) -> str:
        """The place of the newest event of a space."""
        return await _last_place(self._connections, self._keys.events(space))

    async def events_after(self, space: str, place: str, limit: int) -> list[Event]:
        """The next events of a space."""
        key = self._keys.events(space)
        reply: list[tuple[bytes, list[bytes]]] = await self._connections.command(
            "XRANGE", key, f"({place}", "+", "COUNT", limit
        )
        return [_event(entry, dict(zip(pairs[::2], pairs[1::2], strict=True))) for entry, pairs in reply]

    async def settle(self) -> None:
        """Stops listening in this event loop; whoever still watches gets a RuntimeError."""
        loop = asyncio.get_running_loop()
        here = [key for key in self._listeners if key[:2] == (os.getpid(), loop)]
        for listener in [self._listeners.pop(key) for key in here]:
            listener.tell(RuntimeError(CLOSED))
            await listener.stop()

    @asynccontextmanager
    async def _listening(self, space: str, signal: Signal) -> AsyncGenerator[None]:
        key = (os.getpid(), asyncio.get_running_loop(), space)
        listener = self._listeners.get(key)
        if listener is None or listener.has_ended:
            listener = self._listeners[key] = _Listener(self._connections, self._keys.events(space))
        listener.signals.add(signal)
        try:
            await listener.ready()
            yield
        finally:
            listener.signals.discard(signal)
            if not listener.signals:
                if self._listeners.get(key) is listener:
                    del self._listeners[key]
                await listener.stop()


class _Listener:
    """Waits for the next event of one stream, over and over."""

    def __init__(self, connections: Connections, key: str) -> None:
        self.signals: set[Signal] = set()
        self._connections = connections
        self._key = key
        self._start = asyncio.get_running_loop().create_task(_last_place(connections, key))
        self._task: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        start_failed = self._start.done() and (self._start.cancelled() or self._start.exception() is not None)
        return start_failed or (self._task is not None and self._task.done())

    async def ready(self) -> None:
        """Returns when nothing that happens from now on is missed."""
        try:
            place = await asyncio.shield(self._start)
        except asyncio.CancelledError:
            if self._start.cancelled():
                raise RuntimeError(CLOSED) from None
            raise
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen(place))

    async def stop(self) -> None:
        for task in (self._start, self._task):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _listen(self, place: str) -> None:
        lost_at: float | None = None
        while True:
            try:
                newest = await self._wait(place)
            except StoreUnavailableError as error:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > self._connections.command_seconds * OUTAGE_TIMEOUTS:
                    return self.tell(error)
                logger.info("listening for events failed, trying again", exc_info=True)
                await asyncio.sleep(random.uniform(0.05, MOST_PAUSE_SECONDS))
            else:
                if newest != place or lost_at is not None:
                    self.tell()
                place, lost_at = newest, None

    async def _wait(self, place: str) -> str:
        """Waits for events after a place, not for ever; the newest place that is known then."""
        most_ms = int(self._connections.command_seconds * 1000 * 0.6)
        words = ("XREAD", "COUNT", 1, "BLOCK", max(1, most_ms), "STREAMS", self._key, place)
        reply = await self._connections.wait(self._key, words)
        return await _last_place(self._connections, self._key) if reply else place

    def tell(self, failure: Exception | None = None) -> None:
        """Wakes all who watch, with an error where there is one."""
        for signal in list(self.signals):
            if failure is None:
                signal.send()
            else:
                signal.fail(failure)


async def _last_place(connections: Connections, key: str) -> str:
    newest = await connections.command("XREVRANGE", key, "+", "-", "COUNT", 1)
    return newest[0][0].decode() if newest else "0-0"


def _event(entry: bytes, fields: dict[bytes, bytes]) -> Event:
    place = entry.decode()
    kind: EventKind = fields[b"kind"].decode()  # pyright: ignore[reportAssignmentType]
    workspace_type = fields.get(b"type", b"")
    return Event(
        id=place,
        kind=kind,
        workspace_id=layout.decode_id(fields.get(b"part", b"").decode()),
        workspace_type=unpack(workspace_type) if workspace_type else "",
        version=fields.get(b"version", b"").decode(),
        call_id=fields.get(b"call", b"").decode(),
        at=int(place.partition("-")[0]) / 1000,
    )
