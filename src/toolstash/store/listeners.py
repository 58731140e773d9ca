"""Hears of events on a server: one waiting connection for each watched space, process and event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Sequence

from toolstash.contracts import Event, EventKind, Progress
from toolstash.errors import StoreUnavailableError
from toolstash.store.background import Background
from toolstash.store.codec import unpack
from toolstash.store.signal import CLOSED, Signal
from toolstash.wire import keys as layout
from toolstash.wire.connection import Connections
from toolstash.wire.keys import Keys

logger = logging.getLogger("toolstash")

MOST_PAUSE_SECONDS = 1.0
"""Between two tries to listen again."""
OUTAGE_TIMEOUTS = 6
"""How many times the time limit of a command an outage may last before watchers are told."""

_Key = tuple[int, asyncio.AbstractEventLoop, str]


class Listeners:
    """What a store hears of its events."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        self._listeners: dict[_Key, _Listener] = {}
        self._ending = Background()

    @property
    def outage_seconds(self) -> float:
        """How long the store may be away before those who watch are told."""
        return self._connections.command_seconds * OUTAGE_TIMEOUTS

    def listening(self, spaces: Sequence[str]) -> ListeningToSpaces:
        """A context that gives a signal which is sent when something happens in one of the spaces."""
        return ListeningToSpaces(self, spaces)

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
        """Ends all watching of the store in this process, and waits for what listens in this event loop to stop."""
        loop = asyncio.get_running_loop()
        for (pid, home, _), listener in list(self._listeners.items()):
            if pid == os.getpid():
                listener.tell(RuntimeError(CLOSED))
                if home is loop:
                    listener.stop()
        await self._ending.settle()

    def join(self, space: str, signal: Signal) -> _Listener:
        """Adds a signal to the listener of a space in this event loop; the first one starts it."""
        key = (os.getpid(), asyncio.get_running_loop(), space)
        listener = self._listeners.get(key)
        if listener is None or listener.has_ended:
            self._forget_ended_loops()
            stream = self._keys.events(space)
            listener = self._listeners[key] = _Listener(self._connections, stream, self.outage_seconds)
            self._ending.later(listener.task)
        listener.signals.add(signal)
        return listener

    def _forget_ended_loops(self) -> None:
        for key in list(self._listeners):
            if key[1].is_closed():
                self._listeners.pop(key, None)

    def leave(self, space: str, listener: _Listener, signal: Signal) -> None:
        """Takes a signal away again; the last one ends the listener."""
        listener.signals.discard(signal)
        if not listener.signals:
            listener.stop()
            key = (os.getpid(), asyncio.get_running_loop(), space)
            if self._listeners.get(key) is listener:
                del self._listeners[key]


class ListeningToSpaces:
    """Listens to some spaces as long as it lasts. Entering waits until nothing that happens is missed.

    Raises:
        StoreUnavailableError: The store does not answer on entering.
    """

    def __init__(self, listeners: Listeners, spaces: Sequence[str]) -> None:
        self._listeners = listeners
        self._spaces = spaces
        self._joined: list[tuple[str, _Listener]] = []
        self._signal = Signal()

    async def __aenter__(self) -> Signal:
        try:
            for space in self._spaces:
                self._joined.append((space, self._listeners.join(space, self._signal)))
            for _, listener in self._joined:
                await listener.ready()
                self._signal.check()
        except BaseException:
            self._leave()
            raise
        return self._signal

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        for space, listener in self._joined:
            self._listeners.leave(space, listener, self._signal)


class _Listener:
    """Waits for the next event of one stream, over and over, in a task of its own."""

    def __init__(self, connections: Connections, key: str, outage_seconds: float) -> None:
        self._outage_seconds = outage_seconds
        self.signals: set[Signal] = set()
        self._connections = connections
        self._key = key
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def has_ended(self) -> bool:
        """Whether it listens no more."""
        return self.task.done()

    async def ready(self) -> None:
        """Returns when nothing that happens from now on is missed.

        Raises:
            StoreUnavailableError: The store does not answer.
        """
        await asyncio.shield(self._ready)

    def stop(self) -> None:
        """Lets the task end soon."""
        self.task.cancel()

    def tell(self, failure: Exception | None = None) -> None:
        """Wakes all who watch, with an error where there is one."""
        for signal in list(self.signals):
            if failure is None:
                signal.send()
            else:
                signal.fail(failure)

    async def _run(self) -> None:
        try:
            place = await _last_place(self._connections, self._key)
            self._ready.set_result(None)
            await self._listen(place)
        except StoreUnavailableError as error:
            if not self._ready.done():
                self._ready.set_exception(error)
                self._ready.exception()  # somebody has seen it
            self.tell(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(RuntimeError(CLOSED))
                self._ready.exception()

    async def _listen(self, place: str) -> None:
        lost_at: float | None = None
        while True:
            try:
                newest = await self._wait(place)
            except StoreUnavailableError:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > self._outage_seconds:
                    raise
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
        call_id=layout.decode_id(fields.get(b"call", b"").decode()),
        at=int(place.partition("-")[0]) / 1000,
        progress=_progress(fields) if kind == "progress" else None,
    )


def _progress(fields: dict[bytes, bytes]) -> Progress:
    total = fields[b"total"]
    return Progress(_number(fields[b"done"]), _number(total) if total else None, unpack(fields[b"message"]))


def _number(text: bytes) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
