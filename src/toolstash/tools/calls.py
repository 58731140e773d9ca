"""What a Ctx does with calls: list those that wait, answer, cancel and resume them, and tell what they came to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from toolstash.asking import Answer, PendingCall, ResumedCall
from toolstash.contracts import Address, Outcome
from toolstash.errors import CallNotFoundError, InvalidArgumentError, StoreUnavailableError, WorkspaceNotFoundError
from toolstash.store import watching
from toolstash.store.base import BaseStore
from toolstash.store.call_record import CallRecord
from toolstash.store.calls import LOOK_AGAIN_SECONDS, WORK_SPACE, Noted, change
from toolstash.store.session import current_session, session_scope
from toolstash.tools.answering import found, record_answer
from toolstash.tools.call_values import outcome_of, pending_call
from toolstash.tools.control import Control
from toolstash.tools.overseer import Overseer
from toolstash.tools.resuming import Claim, claim, go_on
from toolstash.tools.toolset import ToolEntry
from toolstash.tools.workspaces import Workspaces
from toolstash.wire import keys as layout
from toolstash.wire.keys import label_of, shorten_id, space_of_session

if TYPE_CHECKING:
    from toolstash.tools.ctx import Ctx

logger = logging.getLogger("toolstash")

T = TypeVar("T")

WORK_AT_ONCE = 500
MOST_IDLE_SECONDS = 30.0
"""How long a worker that resumes calls waits at most before it looks again without being woken."""
NOT_OURS_SECONDS = 1.0
"""How long a worker waits at least while there is work that is not for it."""
MOST_FOREIGN = 10_000
"""Of so many calls it is remembered that their tools are not registered here."""


class Calls(Workspaces):
    """The calls that the caller sees: those of the current session; all, outside any."""

    entries: dict[str, ToolEntry]

    def __init__(self, store: BaseStore, *, require_session: bool) -> None:
        super().__init__(store, require_session=require_session)
        self._foreign: dict[Address, str] = {}
        self._overseers: WeakKeyDictionary[asyncio.AbstractEventLoop, Overseer] = WeakKeyDictionary()

    async def pending_calls(self, *, session_id: str | None = None, kind: str | None = None) -> list[PendingCall]:
        """The calls that wait for an answer, oldest first.

        Args:
            session_id: Only those of this session; None: of the current one, outside any of all.
            kind: Only those whose request is of this kind.

        Raises:
            SessionRequiredError: An empty session id.
        """
        here = current_session()
        with self.running(), session_scope(here if session_id is None else session_id):
            session = current_session()
            if here not in (None, session):
                return []
            spaces = None if session is None else [space_of_session(session)]
            waiting = [pending_call(at, record) for at, record in await self.store.calls.waiting(spaces)]
            return [one for one in waiting if kind in (None, one.request.kind)]

    async def answer(self, call_id: str, answer: Answer | Mapping[str, Any], *, resume: bool = False) -> Any:
        """Records the answer to a suspended call, once. A worker in `resume_answered` then goes on with the call.

        Args:
            call_id: From the suspended call, or `pending_calls`.
            answer: To the request that waits; its form on the wire will do.
            resume: Goes on with the call here and returns its result.

        Returns:
            `{"status": "answered", "call_id"}`, or the result. A call that is declined has ended with that.

        Raises:
            CallNotFoundError: The caller sees no such call.
            AlreadyAnsweredError, CallExpiredError, CallEndedError: It is too late for an answer.
            AnswerMismatchError: It is to another request, or its data does not fit the request's schema.
            ValueError, TypeError: It is no answer, or the tool is not registered here, where it is to be resumed.
        """
        given = answer if isinstance(answer, Answer) else Answer.from_dict(answer)
        with self.running():
            at = await self._locate_call(call_id)
            owner = secrets.token_hex(8) if resume else ""
            record = await record_answer(self._ctx, at, given, owner=owner)
            if not resume:
                return {"status": "answered", "call_id": at.workspace_id}
            if record.ending is not None:
                return outcome_of(record, at.workspace_id, record.ending).value
            return (await go_on(self._ctx, Claim(at, record, owner), Control(record.timeout))).value

    async def call_result(
        self,
        call_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - a caller's limit, in the words of asyncio.wait_for
    ) -> Any:
        """What a call that was suspended came to, as its dispatch would have returned it. Waits until it is over.

        It is kept for a day.

        Args:
            timeout: Seconds to wait at most; None: until the call has ended or expired.

        Raises:
            TimeoutError: It is not over in time.
            CallNotFoundError: The caller sees no such call, or its day is over.
            StoreUnavailableError: The store does not answer.
            RuntimeError: The Ctx or the store was closed meanwhile.
        """
        self._lifetime.check()
        at = await self._locate_call(call_id)

        def outcome(held: CallRecord, seen: Noted) -> Outcome | None:
            ending = held.ending_at(seen.now)
            return None if ending is None else outcome_of(held, at.workspace_id, ending)

        try:
            return (await self.until_call(at, outcome, timeout_seconds=timeout)).value
        except TimeoutError:
            raise TimeoutError(f"the call '{call_id}' was not over within {timeout} s") from None

    async def cancel(self, call_id: str) -> dict[str, Any]:
        """Ends a call, wherever it is: waiting for a person, or running in any worker.

        Returns:
            `{"status": "cancelled", "call_id"}` where it is over; "cancelling" where the worker that runs it was told.
            A call that nobody knows of is "cancelling" too: if it begins within a minute, it ends at once.

        Raises:
            CallEndedError: It was over before.
            CallNotFoundError: It belongs to another session.
        """
        with self.running():
            at = await self._locate_call(call_id)
            record = await change(self.store.calls, at, _cancelled)
            assert record is not None
            if record.is_cancelled:
                await self.store.calls.call_back(record.inbox, at.workspace_id)
            is_over = record.ending is not None and not record.is_called_off
            return {"status": "cancelled" if is_over else "cancelling", "call_id": at.workspace_id}

    async def resume_answered(self) -> AsyncGenerator[ResumedCall]:
        """Goes on with answered calls, one after the other, for ever: `async for resumed in ctx.resume_answered()`.

        Any number of workers may do so: each call is run by one of them at a time, in its own session. A call whose
        worker was lost before the tool began is taken up again; one that was lost in the middle of it ends as
        "interrupted", unless the tool is `idempotent`.

        Raises:
            StoreUnavailableError: The store does not answer at first, or for half a minute.
            RuntimeError: The Ctx or the store was closed meanwhile.
        """
        self._lifetime.check()
        lost_at: float | None = None
        async with self.store.listening([WORK_SPACE]) as signal:
            self._watching.add(signal)
            while True:
                seen = signal.count
                self._check_watching()
                signal.check()
                try:
                    resumed, seconds = await self._resume_next()
                    lost_at = None
                except StoreUnavailableError:
                    lost_at = lost_at or time.monotonic()
                    if time.monotonic() - lost_at > self.store.outage_seconds:
                        raise
                    resumed, seconds = None, NOT_OURS_SECONDS
                if resumed is not None:
                    yield resumed
                else:
                    await watching.next_signal(signal, seen, seconds)

    async def _resume_next(self) -> tuple[ResumedCall | None, float]:
        """Goes on with one call; without any, how long there is nothing to do unless somebody wakes us."""
        offset, has_others = 0, False
        while works := await self.store.calls.work(WORK_AT_ONCE, offset):
            ours = [at for at in works if self._is_visible(at) and not self._is_foreign(at)]
            random.shuffle(ours)  # so that workers do not all try the same one
            for at in ours:
                with self.running():
                    resumed = await self._resume(at)
                if resumed is not None:
                    return resumed, 0.0
            has_others = has_others or len(ours) < len(works)
            offset += len(works)
            if len(works) < WORK_AT_ONCE:
                break
        seconds = await self.store.calls.next_work_seconds()
        least = NOT_OURS_SECONDS if has_others else 0.0  # what is due and not ours goes on being due
        return None, MOST_IDLE_SECONDS if seconds is None else max(least, min(seconds, MOST_IDLE_SECONDS))

    def _is_foreign(self, at: Address) -> bool:
        """Whether that is known to be a call of a tool that is not registered here."""
        tool = self._foreign.get(at)
        return tool is not None and tool not in self.entries

    async def _resume(self, at: Address) -> ResumedCall | None:
        taken = await claim(self._ctx, at)
        if taken is None:
            await self._put_off(at)
            return None
        record = taken.record if isinstance(taken, Claim) else taken
        if isinstance(taken, Claim):
            outcome = await go_on(self._ctx, taken, Control(record.timeout))
        else:
            assert record.ending is not None
            outcome = outcome_of(record, at.workspace_id, record.ending)
            await self.store.calls.strike(at)
        return ResumedCall(at.workspace_id, record.tool, record.session_id, outcome.value, outcome.is_error)

    async def _put_off(self, at: Address) -> None:
        """Has nobody look at a piece of work for a while; takes it off the list where there is nothing to do."""
        book = self.store.calls
        seen = await book.look(at)
        if seen.record is None or seen.record.state == "ended":
            await book.strike(at)
            return
        if seen.record.tool not in self.entries:  # which is for others, who are not hindered
            self._foreign[at] = seen.record.tool
            while len(self._foreign) > MOST_FOREIGN:
                del self._foreign[next(iter(self._foreign))]
            return
        await book.put_off(at, LOOK_AGAIN_SECONDS)
        seen = await book.look(at)
        if seen.record is not None and seen.record.state == "answered" and not seen.is_held:  # just now
            await book.put_off(at, 0.0)

    def _is_visible(self, at: Address) -> bool:
        session = current_session()
        return session is None or at.space == space_of_session(session)

    # For what runs calls

    @property
    def overseer(self) -> Overseer:
        """What keeps the calls of this event loop registered."""
        loop = asyncio.get_running_loop()
        overseer = self._overseers.get(loop)
        if overseer is None:
            overseer = self._overseers[loop] = Overseer(self.store)
        return overseer

    def place_call(self, call_id: str | None) -> Address:
        """Where a new call is kept, with its full id: in the current session.

        Raises:
            InvalidArgumentError: Not an id, or one that ends like those of another session.
        """
        session = current_session()
        if call_id is not None:
            try:
                return self.store.place(call_id, "", session)
            except InvalidArgumentError:
                raise InvalidArgumentError(
                    f"The call_id '{call_id:.150}' ends like one of another session.",
                    argument="call_id",
                    suggested_action="Choose an id that does not end in '@' and 12 hexadecimal digits.",
                ) from None
        space = space_of_session(session)
        return Address(space, shorten_id(f"call_{secrets.token_hex(16)}{label_of(space)}"))

    async def until_call(
        self, at: Address, look: Callable[[CallRecord, Noted], T | None], *, timeout_seconds: float | None = None
    ) -> T:
        """Waits until `look` sees something in the record of a call, and in what else is known of it.

        Raises:
            TimeoutError: Not within that time.
            CallNotFoundError: There is no such call.
        """
        ends_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            seen = await self.store.calls.look(at)
            record = found(at, seen)
            told = look(record, seen)
            if told is not None:
                return told
            left = None if ends_at is None else ends_at - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            bounds = (left, _known_for(record, seen.now))
            await self._next_revision(at, seen, min((one for one in bounds if one is not None), default=None))

    async def _next_revision(self, at: Address, seen: Noted, seconds: float | None) -> None:
        """Waits until a call is another than was seen, or for that time."""

        async def look() -> Noted | None:
            noted = await self.store.calls.look(at)
            return None if noted.revision == seen.revision else noted

        with contextlib.suppress(TimeoutError):
            await watching.until(
                self.store,
                [at.space],
                look,
                concerns=lambda event: event.call_id == at.workspace_id,
                timeout_seconds=seconds,
                ticks=False,
                check=self._check_watching,
                signals=self._watching,
            )

    async def _locate_call(self, call_id: str) -> Address:
        session = current_session()
        try:
            return await self.store.locate(call_id) if session is None else self.store.place(call_id, "", session)
        except (InvalidArgumentError, WorkspaceNotFoundError):
            raise CallNotFoundError(f"Call {call_id!r:.150} not found.", call_id=str(call_id)[:150]) from None

    @property
    def _ctx(self) -> Ctx:
        return cast("Ctx", self)


def _known_for(record: CallRecord, now: float) -> float | None:
    """How long what is known of a call holds without anybody telling: until it expires, or its worker may be lost."""
    if record.is_waiting(now):
        return max(0.0, record.expires_at - now)
    return layout.FLIGHT_MS / 1000 if record.owner else None


def _cancelled(seen: Noted) -> CallRecord:
    held = seen.record
    if held is None:
        return CallRecord.called_off()
    if held.ending is not None and held.ending.status == "cancelled":
        return held
    return held.cancelled(seen.now, is_held=seen.is_held)
