"""How a call may go on, and how it may not: the record alone, without a store."""

from __future__ import annotations

from dataclasses import replace as with_changes
from typing import Any

import pytest

from toolstash import ToolstashError
from toolstash.asking import Answer, Request
from toolstash.errors import (
    AlreadyAnsweredError,
    AnswerMismatchError,
    AnswerRefusedError,
    CallEndedError,
    CallExpiredError,
    UnstorableValueError,
)
from toolstash.store.call_record import (
    CALLED_OFF_SECONDS,
    KEPT_SECONDS,
    WAIT_SECONDS,
    CallRecord,
    Ending,
    Status,
)
from toolstash.store.calls import is_new_work, news_of
from toolstash.store.codec import pack, unpack

NOW = 1_000_000.0
ASKED = Request("q1", "approval", "May I?")
YES, NO = Answer("q1", ok=True, data={"n": 1}), Answer("q1", ok=False)

RUNNING = CallRecord(tool="deploy", arguments={"to": "prod"}, owner="w1", inbox="in1")
PENDING = RUNNING.suspended(ASKED, NOW)
ANSWERED = PENDING.answered(YES, NOW + 1)
CLAIMED = PENDING.answered(YES, NOW + 1, owner="w2", inbox="in2")
STARTED = CLAIMED.started()
TOLD = RUNNING.cancelled(NOW, is_held=True)
DONE = STARTED.ended(Ending("done", value=[1]))
CALLED_OFF = CallRecord.called_off()


def test_it_is_suspended_and_free_of_its_worker() -> None:
    assert (PENDING.state, PENDING.owner, PENDING.inbox, PENDING.created_at) == ("pending", "", "", NOW)
    assert PENDING.expires_at == NOW + WAIT_SECONDS
    assert PENDING.is_waiting(NOW)
    assert not PENDING.is_waiting(PENDING.expires_at)


def test_a_request_may_name_an_end() -> None:
    request = Request("q", "input", "Name?", expiresAt="1970-01-12T14:00:00Z")
    assert RUNNING.suspended(request, NOW).expires_at == 1_000_800.0


def test_an_answer_is_noted_and_may_be_claimed_in_the_same_step() -> None:
    assert (ANSWERED.state, ANSWERED.owner, ANSWERED.answers) == ("answered", "", (YES,))
    assert (CLAIMED.state, CLAIMED.owner, CLAIMED.inbox) == ("answered", "w2", "in2")


def test_a_declined_call_has_ended() -> None:
    declined = PENDING.answered(NO, NOW + 1, owner="w2")
    assert (declined.state, declined.owner, declined.answers) == ("ended", "", (NO,))
    assert declined.ending == Ending("declined", reason="declined")
    because = PENDING.answered(with_changes(NO, reason="not on a Friday"), NOW)
    assert because.ending == Ending("declined", reason="not on a Friday")


@pytest.mark.parametrize(
    ("record", "answer", "now", "error"),
    [
        (RUNNING, YES, NOW, AnswerRefusedError),
        (PENDING, Answer("q2", ok=True), NOW, AnswerMismatchError),
        (PENDING, YES, NOW + WAIT_SECONDS, CallExpiredError),
        (ANSWERED, YES, NOW + 2, AlreadyAnsweredError),
        (ANSWERED, Answer("q2", ok=True), NOW + 2, AnswerRefusedError),
        (STARTED, NO, NOW + 2, AlreadyAnsweredError),
        (DONE, YES, NOW + 2, AlreadyAnsweredError),
        (PENDING.ended(Ending("cancelled")), YES, NOW, CallEndedError),
        (PENDING.answered(NO, NOW), YES, NOW, AlreadyAnsweredError),
        (CALLED_OFF, YES, NOW, CallEndedError),
        (ANSWERED.suspended(Request("q2", "input", "Name?"), NOW + 2), YES, NOW + 3, AlreadyAnsweredError),
    ],
)
def test_answers_that_do_not_count(record: CallRecord, answer: Answer, now: float, error: type[ToolstashError]) -> None:
    with pytest.raises(error) as refused:
        record.answered(answer, now)
    assert type(refused.value) is error


def test_a_tool_may_ask_again() -> None:
    again = STARTED.suspended(Request("q2", "input", "Name?"), NOW + 5)
    assert (again.state, again.owner, again.has_started, again.created_at) == ("pending", "", False, NOW)
    assert again.expires_at == NOW + 5 + WAIT_SECONDS
    both = again.answered(Answer("q2", ok=True), NOW + 6)
    assert [answer.id for answer in both.answers] == ["q1", "q2"]


@pytest.mark.parametrize("record", [RUNNING, PENDING, DONE, CALLED_OFF])
def test_only_an_answered_call_is_claimed(record: CallRecord) -> None:
    assert record.claimed("w3", "in3", is_held=False) is None


def test_a_claim_waits_for_the_lease() -> None:
    claimed = ANSWERED.claimed("w3", "in3", is_held=False)
    assert claimed is not None
    assert (claimed.owner, claimed.inbox, claimed.has_started) == ("w3", "in3", False)
    assert CLAIMED.claimed("w3", "in3", is_held=True) is None
    assert CLAIMED.claimed("w3", "in3", is_held=False) == claimed


def test_a_worker_that_was_lost_inside_the_tool() -> None:
    lost = STARTED.claimed("w3", "in3", is_held=False)
    assert lost is not None
    assert (lost.state, lost.ending) == ("ended", Ending("interrupted"))
    repeated = with_changes(STARTED, is_idempotent=True).claimed("w3", "in3", is_held=False)
    assert repeated is not None
    assert (repeated.state, repeated.owner, repeated.has_started) == ("answered", "w3", False)
    stopped = with_changes(STARTED, is_cancelled=True).claimed("w3", "in3", is_held=False)
    assert stopped is not None
    assert stopped.ending == Ending("cancelled")


def test_cancelling() -> None:
    assert PENDING.cancelled(NOW, is_held=False).ending == Ending("cancelled")
    assert ANSWERED.cancelled(NOW, is_held=False).ending == Ending("cancelled")
    assert STARTED.cancelled(NOW, is_held=False).ending == Ending("cancelled")
    for record in (RUNNING, STARTED):
        told = record.cancelled(NOW, is_held=True)
        assert (told.is_cancelled, told.state, told.owner, told.ending) == (True, record.state, record.owner, None)


@pytest.mark.parametrize(
    ("record", "now", "status"),
    [
        (DONE, NOW, "done"),
        (PENDING.answered(NO, NOW), NOW, "declined"),
        (PENDING, NOW + WAIT_SECONDS, "expired"),
        (CALLED_OFF, NOW, "cancelled"),
    ],
)
def test_what_is_over_is_not_cancelled(record: CallRecord, now: float, status: Status) -> None:
    with pytest.raises(CallEndedError, match=status) as refused:
        record.cancelled(now, is_held=False)
    assert refused.value.details["status"] == status


def test_how_it_ended() -> None:
    assert [one.ending_at(NOW) for one in (RUNNING, PENDING, ANSWERED)] == [None] * 3
    assert PENDING.ending_at(PENDING.expires_at) == Ending("expired", reason="expired")
    assert ANSWERED.ending_at(PENDING.expires_at) is None
    assert DONE.ending_at(NOW) == Ending("done", value=[1])
    assert (CALLED_OFF.is_called_off, DONE.is_called_off) == (True, False)


def test_how_long_it_is_kept() -> None:
    assert RUNNING.life_seconds(NOW, 10.0) == 10.0
    assert PENDING.life_seconds(NOW + 5, 10.0) == WAIT_SECONDS - 5 + KEPT_SECONDS
    assert PENDING.life_seconds(NOW + 2 * WAIT_SECONDS, 10.0) == KEPT_SECONDS
    assert ANSWERED.life_seconds(NOW, 10.0) == CLAIMED.life_seconds(NOW, 10.0) == WAIT_SECONDS
    assert DONE.life_seconds(NOW, 10.0) == KEPT_SECONDS
    assert CALLED_OFF.life_seconds(NOW, 10.0) == CALLED_OFF_SECONDS


ODD = CallRecord(
    tool="odd \ud800",
    arguments={"big": 2**200, "lone": "\udfff", "deep": [{"a": None}], "float": 1e300, "": "é"},
    session_id="a{b}*",
    timeout=0.5,
    is_idempotent=True,
    state="ended",
    request=Request("q", "any kind", "Why?", data={"schema": {"type": "object"}}, expiresAt="2030-01-31T12:00:00Z"),
    answers=(Answer("q", ok=True, data=[2**70]), Answer("r", ok=False, reason="no")),
    ending=Ending("done", value={"rows": [1, "\ud800"]}, is_error=True),
)


@pytest.mark.parametrize("record", [RUNNING, PENDING, ANSWERED, CLAIMED, STARTED, DONE, CALLED_OFF, ODD])
def test_a_record_comes_back_as_it_was(record: CallRecord) -> None:
    assert CallRecord.of_bytes(record.to_bytes()) == record


def test_what_a_newer_version_adds_is_passed_over() -> None:
    kept = unpack(ODD.to_bytes())
    for part in (kept, kept["request"], kept["answers"][0], kept["ending"]):
        part["added later"] = 1
    assert CallRecord.of_bytes(pack(kept)) == ODD


@pytest.mark.parametrize("value", [object(), {"a": {1: object()}}])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(UnstorableValueError):
        with_changes(RUNNING, arguments={"x": value}).to_bytes()


@pytest.mark.parametrize(
    ("seen", "record", "news", "is_work"),
    [
        (None, RUNNING, None, False),
        (None, PENDING, "suspended", False),
        (RUNNING, PENDING, "suspended", False),
        (STARTED, STARTED.suspended(Request("q2", "input", "Name?"), NOW), "suspended", False),
        (PENDING, ANSWERED, "answered", True),
        (PENDING, CLAIMED, "answered", True),
        (PENDING, PENDING.answered(NO, NOW), "ended", False),
        (ANSWERED, CLAIMED, None, True),
        (CLAIMED, STARTED, None, False),
        (CLAIMED, CLAIMED.given_back(has_run=False), None, True),
        (STARTED, DONE, "ended", False),
        (STARTED, STARTED.ended(Ending("interrupted")), "ended", False),
        (PENDING, PENDING.ended(Ending("cancelled")), "cancel", False),
        (RUNNING, TOLD, "cancel", False),
        (TOLD, TOLD, None, False),
        (TOLD, TOLD.ended(Ending("cancelled")), "cancel", False),
        (TOLD, TOLD.suspended(ASKED, NOW), "suspended", False),
        (None, CALLED_OFF, "cancel", False),
        (PENDING, None, None, False),
        (DONE, DONE, None, False),
    ],
)
def test_what_is_told_and_what_is_work(
    seen: CallRecord | None, record: CallRecord | None, news: str | None, is_work: bool
) -> None:
    assert news_of(seen, record) == news
    assert is_new_work(seen, record) is is_work
