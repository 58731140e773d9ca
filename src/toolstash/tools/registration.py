"""The first run of a call: when the store gets to know of it, and how it is taken off or left there to wait."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_changes
from functools import cached_property
from typing import Any

import anyio

from toolstash.asking import Answer, Request
from toolstash.contracts import Address
from toolstash.errors import CallExistsError, PayloadTooLargeError, StoreUnavailableError
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import CallBook, Lease, Noted, change
from toolstash.store.codec import pack, unpack
from toolstash.tools.control import Control, StoppedError
from toolstash.tools.overseer import Held, Overseer

logger = logging.getLogger("toolstash")

REGISTER_AFTER_SECONDS = 0.25
"""How long a call without a name of its own runs before it is worth a trip to the store."""
MOST_ARGUMENT_BYTES = 1_000_000
"""Of a call that waits; they are kept until it has ended."""
LEAVING_SECONDS = 2.0
"""How long a call that was cancelled may take to be taken off."""

_NOBODY = Noted(None, 0, is_held=False, now=0.0)


def askable(request: Request, arguments: Mapping[str, Any], answers: Sequence[Answer] = ()) -> Request:
    """The request as it is kept and shown, in plain JSON.

    Raises:
        ValueError: The call has asked under that id before: who answers twice would answer both.
        UnstorableValueError: The arguments, or the request's data, have no JSON form.
        PayloadTooLargeError: They are too large to be kept while somebody is asked.
    """
    if any(answer.id == request.id for answer in answers):
        raise ValueError(f"the request id {request.id!r:.80} was answered already; leave id out, or give a new one")
    document = pack([request.to_dict(), arguments])
    if len(document) > MOST_ARGUMENT_BYTES:
        raise PayloadTooLargeError(
            f"The call cannot wait: its arguments and its request have more than {MOST_ARGUMENT_BYTES:,} bytes."
        )
    return Request.from_dict(unpack(document)[0])


class Registration:
    """Keeps a call known while it runs for the first time.

    Args:
        describe: Gives what is kept of it, apart from who runs it.
    """

    def __init__(
        self, book: CallBook, overseer: Overseer, at: Address, describe: Callable[[], CallRecord], control: Control
    ) -> None:
        self._book = book
        self._overseer = overseer
        self._at = at
        self._describe = describe
        self._control = control
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._may_be_known = False
        self._has_ended = False

    @cached_property
    def _record(self) -> CallRecord:
        return with_changes(self._describe(), owner=secrets.token_hex(8), inbox=self._overseer.inbox)

    @cached_property
    def _held(self) -> Held:
        return Held(self._at, self._record.owner, self._control, self._record)

    async def begin(self) -> None:
        """Registers the call under a name that no other call may have.

        Raises:
            CallExistsError: There is one of that name.
            StoppedError: It was cancelled before it came here.
            StoreUnavailableError: The store does not answer.
        """
        self._may_be_known = True
        if await self._book.swap(self._at, _NOBODY, self._record):
            if not self._has_ended:
                self._overseer.hold(self._held)
            return
        self._may_be_known = False
        raise self._refusal((await self._book.look(self._at)).record)

    def begin_later(self) -> None:
        """Registers the call beside its run, once that has taken a while."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(REGISTER_AFTER_SECONDS, self._begin_now)

    def _begin_now(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._begin_beside())

    async def _begin_beside(self) -> None:
        try:
            await self.begin()
        except StoppedError as stopped:
            self._control.stop(stopped.status)
        except (StoreUnavailableError, CallExistsError):
            logger.info("a running call was not registered: it cannot be cancelled from elsewhere", exc_info=True)

    def _refusal(self, record: CallRecord | None) -> Exception:
        if record is not None and record.is_called_off:
            return StoppedError("cancelled")
        state = "just gone" if record is None else record.state
        return CallExistsError(
            f"There is a call '{self._at.workspace_id:.150}' already ({state}); nothing was run.",
            call_id=self._at.workspace_id,
        )

    async def suspend(self, request: Request, arguments: Mapping[str, Any]) -> CallRecord:
        """Leaves the call in the store, to wait for an answer.

        Raises:
            StoppedError: It was cancelled meanwhile.
            CallExistsError: Another call has its name.
            UnstorableValueError: Its arguments, or the request's data, have no JSON form.
            PayloadTooLargeError, QuotaExceededError: They are too large, or too many calls of the session wait.
        """
        self._stop_timer()
        await self._settle()
        asked = askable(request, arguments)
        whole = with_changes(self._record, arguments=arguments)

        def step(seen: Noted) -> CallRecord:
            held = seen.record
            if held is not None and held.was_cancelled:
                raise StoppedError("cancelled")
            if held is not None and held.owner != whole.owner:
                raise self._refusal(held)
            return whole.suspended(asked, seen.now)

        try:
            record = await change(self._book, self._at, step)
        except StoreUnavailableError as error:  # nobody knows whether the call waits
            raise StoreUnavailableError(
                f"The tool has asked '{asked.prompt:.200}', and the data store did not answer.",
                suggested_action="Do not call the tool again before you have looked whether the call waits.",
                call_id=self._at.workspace_id,
            ) from error
        assert record is not None
        self._may_be_known = False
        return record

    async def end(self) -> None:
        """Takes the call off, also where its caller was cancelled; if the store does not answer, it goes by itself."""
        self._stop_timer()
        if self._task is None and not self._may_be_known:
            return
        with anyio.move_on_after(LEAVING_SECONDS, shield=True):
            await self._settle()
            if self._may_be_known:
                try:
                    await self._book.leave(Lease(self._at, self._record.owner))
                except StoreUnavailableError:
                    logger.info("a call that has ended was not taken off the store", exc_info=True)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _settle(self) -> None:
        """Nothing is done beside the call any more."""
        self._has_ended = True
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
        finally:
            self._overseer.let_go(self._held)
