"""Keeps the calls that run here known to all workers, so that any of them can cancel one.

A call that has a name, runs for a while or was suspended before is registered in the store under a lease, which is
renewed for as long as it runs. Each process hears in an inbox of its own which of its calls were cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from toolstash.contracts import Address
from toolstash.errors import StoreUnavailableError
from toolstash.store.base import BaseStore
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import Lease, Noted
from toolstash.store.flights import renewal_seconds
from toolstash.store.signal import Signal
from toolstash.tools.control import Control

logger = logging.getLogger("toolstash")

EVENTS_AT_ONCE = 100
OUTAGE_PAUSE_SECONDS = 1.0


@dataclass(slots=True)
class Held:
    """A call that runs here.

    `record` is put back where the store has lost it; None for a call that is not ours any more then.
    """

    at: Address
    owner: str
    control: Control
    record: CallRecord | None = None
    revision: int = -1


class Overseer:
    """The registered calls of one event loop."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self.inbox = f"inbox-{secrets.token_hex(8)}"
        self._held: dict[str, Held] = {}
        self._place = "0-0"
        self._task: asyncio.Task[None] | None = None

    def hold(self, held: Held) -> None:
        """Renews the lease of a call from now on, and stops the call when it is cancelled."""
        self._held[held.at.workspace_id] = held
        if self._task is None or self._task.done() or self._task.cancelling():
            self._task = asyncio.get_running_loop().create_task(self._oversee())

    def let_go(self, held: Held) -> None:
        """Leaves a call alone again."""
        if self._held.get(held.at.workspace_id) is held:
            del self._held[held.at.workspace_id]
        if not self._held and self._task is not None:
            self._task.cancel()

    async def settle(self) -> None:
        """Waits until nothing runs here any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _oversee(self) -> None:
        was_away = False
        while True:
            try:
                async with self._store.listening([self.inbox]) as signal:
                    if was_away:  # the leases may be about to end
                        await self._renew()
                    await self._listen(signal)
            except RuntimeError:
                return  # the store is closed
            except StoreUnavailableError:
                was_away = True
                logger.info("running calls could not be kept registered, trying again", exc_info=True)
                await asyncio.sleep(OUTAGE_PAUSE_SECONDS)

    async def _listen(self, signal: Signal) -> None:
        loop = asyncio.get_running_loop()
        renewal = loop.time() + renewal_seconds()
        while True:
            seen = signal.count
            await self._hear()
            try:
                async with asyncio.timeout_at(renewal):
                    await signal.after(seen)
            except TimeoutError:
                await self._renew()
                renewal = loop.time() + renewal_seconds()

    async def _hear(self) -> None:
        """Stops the calls of which the inbox says that they were cancelled."""
        try:
            events = await self._store.events_after(self.inbox, self._place, EVENTS_AT_ONCE)
        except NotImplementedError:  # a store that tells of nothing
            await self._renew()
            return
        for event in events:
            self._place = event.id
            held = self._held.get(event.call_id)
            if held is not None:
                held.control.stop("cancelled")

    async def _renew(self) -> None:
        held = list(self._held.values())
        revisions = await self._store.calls.keep([Lease(one.at, one.owner) for one in held])
        for one, revision in zip(held, revisions, strict=True):
            if revision != one.revision and self._holds(one):
                await self._look_at(one)

    def _holds(self, held: Held) -> bool:
        return self._held.get(held.at.workspace_id) is held

    async def _look_at(self, held: Held) -> None:
        """Finds out what became of a call whose record has changed. One that was let go meanwhile is left alone."""
        seen = await self._store.calls.look(held.at)
        record = seen.record
        if not self._holds(held):
            return
        if record is None and held.record is not None:
            await self._put_back(held, seen)
        elif record is not None and record.was_cancelled:
            held.control.stop("cancelled")
        elif record is None or record.owner != held.owner:
            held.control.stop("interrupted")
        else:
            held.revision = seen.revision

    async def _put_back(self, held: Held, seen: Noted) -> None:
        """Registers a running call again that the store has lost."""
        await self._store.calls.swap(held.at, seen, held.record)
        if not self._holds(held):
            await self._store.calls.leave(Lease(held.at, held.owner))
