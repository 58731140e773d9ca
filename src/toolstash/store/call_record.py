"""What is kept of a call while it runs or waits for a person, and for a day afterwards; and how that may change.

    running ──▶ pending ──▶ answered ──▶ (claimed, started) ──▶ ended
                   ▲                            │
                   └──────── asks again ────────┘

Everything here is pure: the store only swaps one record for the next, if nobody else has done so meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from dataclasses import replace as with_changes
from typing import Any, Final, Literal, Self, cast

from toolstash.asking import Answer, Request
from toolstash.contracts import Status
from toolstash.errors import (
    AlreadyAnsweredError,
    AnswerMismatchError,
    AnswerRefusedError,
    CallEndedError,
    CallExpiredError,
)
from toolstash.store.codec import pack, unpack

CallState = Literal["running", "pending", "answered", "ended"]

FORMAT: Final = 1
WAIT_SECONDS: Final = 7 * 86_400.0
"""How long a call waits for an answer, where its request names no end."""
MOST_WAIT_SECONDS: Final = 366 * 86_400.0
"""What a request may ask for at most; later ends count as this one."""
KEPT_SECONDS: Final = 86_400.0
"""How long the outcome of a call is kept."""
CALLED_OFF_SECONDS: Final = 60.0
"""How long it is remembered that a call was cancelled which nobody knew of: it may just be on its way."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended. `value` and `is_error` are of a call that is "done"; `reason` says why it is not."""

    status: Status
    value: Any = None
    is_error: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call as it is kept. Times are Unix seconds by the store's clock.

    Attributes:
        tool: The tool's name.
        arguments: As the model sent them, parsed, whole.
        session_id: Whose call it is.
        timeout: Seconds that each run of the tool may take; None for no bound.
        is_idempotent: Whether it may run again after a worker was lost in the middle of it.
        state: What it is at.
        created_at: When it was suspended first; 0 before.
        request: What was asked last.
        expires_at: Until when an answer counts.
        answers: All answers so far, oldest first.
        owner: The token of the worker that runs it; "" for none.
        inbox: Where that worker hears that a call was cancelled.
        has_started: Whether the tool itself was begun since the last answer.
        is_cancelled: Whether its worker was told to stop.
        ending: How it ended.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session_id: str | None = None
    timeout: float | None = None
    is_idempotent: bool = False
    state: CallState = "running"
    created_at: float = 0.0
    request: Request | None = None
    expires_at: float = 0.0
    answers: tuple[Answer, ...] = ()
    owner: str = ""
    inbox: str = ""
    has_started: bool = False
    is_cancelled: bool = False
    ending: Ending | None = None

    # What is known

    def ending_at(self, now: float) -> Ending | None:
        """How it has ended by that time; None while it has not."""
        if self.state == "pending" and now >= self.expires_at:
            return Ending("expired", reason="expired")
        return self.ending

    def is_waiting(self, now: float) -> bool:
        """Whether it waits for an answer."""
        return self.state == "pending" and now < self.expires_at

    def life_seconds(self, now: float, lease_seconds: float) -> float:
        """How much longer the record is of use."""
        if self.state == "running":
            return lease_seconds
        if self.state == "pending":
            return max(0.0, self.expires_at - now) + KEPT_SECONDS
        if self.state == "answered":
            return WAIT_SECONDS
        return KEPT_SECONDS if self.tool else CALLED_OFF_SECONDS

    # How it goes on

    def suspended(self, request: Request, now: float) -> Self:
        """It asks a person. Whoever ran it is free for other work."""
        ends = request.expires_at
        return with_changes(
            self,
            state="pending",
            request=request,
            created_at=self.created_at or now,
            expires_at=now + WAIT_SECONDS if ends is None else min(ends, now + MOST_WAIT_SECONDS),
            owner="",
            inbox="",
            has_started=False,
        )

    def answered(self, answer: Answer, now: float, *, owner: str = "", inbox: str = "") -> Self:
        """It is answered, and claimed by `owner` in the same step if there is one; declined, it has ended.

        Raises:
            AnswerRefusedError: Somebody has answered, it is too late, or the answer is to another request.
        """
        self._check_answerable(answer, now)
        answers = (*self.answers, answer)
        if not answer.ok:
            ended = self.ended(Ending("declined", reason=answer.reason or "declined"))
            return with_changes(ended, answers=answers)
        return with_changes(self, state="answered", answers=answers, owner=owner, inbox=inbox)

    def _check_answerable(self, answer: Answer, now: float) -> None:
        request = self.request
        if request is not None and self.is_waiting(now) and answer.id == request.id:
            return
        if any(earlier.id == answer.id for earlier in self.answers):
            raise AlreadyAnsweredError("Somebody has answered this request already; that answer counts.")
        ending = self.ending_at(now)
        if ending is not None and ending.status == "expired":
            raise CallExpiredError("The time to answer is over.")
        if ending is not None:
            raise CallEndedError(
                f"The call has ended ({ending.status}); no answer is wanted any more.", status=ending.status
            )
        if request is None or self.state != "pending":
            raise AnswerRefusedError("The call waits for no answer just now.")
        raise AnswerMismatchError("The answer is to another request than the one that waits.", expected_id=request.id)

    def claimed(self, owner: str, inbox: str, *, is_held: bool) -> Self | None:
        """A worker takes it up, or finds that another one was lost in the middle of it; None if there is nothing to do.

        Args:
            is_held: Whether the lease of its owner goes on.
        """
        if self.state != "answered" or (self.owner and is_held):
            return None
        if self.is_cancelled:
            return self.ended(Ending("cancelled"))
        if self.has_started and not self.is_idempotent:
            return self.ended(Ending("interrupted"))
        return with_changes(self, owner=owner, inbox=inbox, has_started=False)

    def started(self) -> Self:
        """Its owner begins the tool itself: from now on it is not repeated, unless it is idempotent."""
        return with_changes(self, has_started=True)

    def given_back(self, *, has_run: bool) -> Self:
        """Its owner stops: another one takes it up, or, where the tool had been begun, nobody does."""
        if has_run and not self.is_idempotent:
            return self.ended(Ending("interrupted"))
        return with_changes(self, owner="", inbox="", has_started=False)

    def ended(self, ending: Ending) -> Self:
        """It is over."""
        return with_changes(self, state="ended", ending=ending, owner="", inbox="")

    def cancelled(self, now: float, *, is_held: bool) -> Self:
        """It is over, or the worker that runs it is told to stop.

        Raises:
            CallEndedError: It was over before.
        """
        ending = self.ending_at(now)
        if ending is not None:
            raise CallEndedError(f"The call has ended already ({ending.status}).", status=ending.status)
        if self.owner and is_held:
            return with_changes(self, is_cancelled=True)
        return self.ended(Ending("cancelled"))

    @classmethod
    def called_off(cls) -> Self:
        """What is kept of a call that was cancelled before anybody knew of it."""
        return cls(tool="", state="ended", ending=Ending("cancelled"))

    @property
    def is_called_off(self) -> bool:
        """Whether it was cancelled before anybody knew of it."""
        return not self.tool

    @property
    def was_cancelled(self) -> bool:
        """Whether somebody has cancelled it, be it over or not."""
        return self.is_cancelled or (self.ending is not None and self.ending.status == "cancelled")

    # How it is kept

    def to_bytes(self) -> bytes:
        """One document.

        Raises:
            UnstorableValueError: An argument, an answer or a request's data has no JSON form.
        """
        named = {one.name: getattr(self, one.name) for one in fields(self)}
        named["request"] = None if self.request is None else self.request.to_dict()
        named["answers"] = [answer.to_dict() for answer in self.answers]
        if self.ending is not None:
            named["ending"] = {one.name: getattr(self.ending, one.name) for one in fields(Ending)}
        return pack({"format": FORMAT, **named})

    @classmethod
    def of_bytes(cls, document: bytes) -> Self:
        """The record of a document; what a newer version has added is passed over."""
        kept = unpack(document)
        named = {one.name: kept[one.name] for one in fields(cls) if one.name in kept}
        named["request"] = named["request"] and Request.from_dict(named["request"])
        named["answers"] = tuple(map(Answer.from_dict, cast(Sequence[Mapping[str, Any]], named["answers"])))
        if named["ending"] is not None:
            ending = named["ending"]
            named["ending"] = Ending(**{one.name: ending[one.name] for one in fields(Ending) if one.name in ending})
        return cls(**named)
