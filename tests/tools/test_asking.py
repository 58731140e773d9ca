"""Questions, answers and their form on the wire."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest

from toolstash import Answer, Request, ToolResult, auth_required, pending, pending_of

WHOLE = {
    "id": "pnd_1",
    "kind": "approval",
    "prompt": "Deploy?",
    "url": "https://example.com/go",
    "data": {"schema": {"type": "object"}},
    "expiresAt": "2030-01-31T12:00:00Z",
}


def asked(**parts: Any) -> Request:
    found = pending_of(pending(**({"kind": "input", "prompt": "Which?"} | parts)))
    assert found is not None
    return found


def test_a_request_keeps_its_form_on_the_wire() -> None:
    request = Request.from_dict(WHOLE)
    assert request.to_dict() == WHOLE
    assert json.loads(json.dumps(request.to_dict())) == WHOLE
    assert Request.from_dict(request.to_dict()) == request
    assert list(request.to_dict()) == ["id", "kind", "prompt", "url", "data", "expiresAt"]


def test_absent_parts_are_left_out_and_explicit_nulls_are_read() -> None:
    request = Request("pnd_1", "input", "Which?")
    assert request.to_dict() == {"id": "pnd_1", "kind": "input", "prompt": "Which?"}
    assert Request.from_dict(request.to_dict() | {"url": None, "data": None, "expiresAt": None}) == request
    assert Answer("pnd_1", ok=False).to_dict() == {"id": "pnd_1", "ok": False}
    assert Answer.from_dict({"id": "pnd_1", "ok": False, "data": None, "reason": None}) == Answer("pnd_1", ok=False)


def test_keys_of_a_newer_sender_are_passed_over() -> None:
    assert Request.from_dict(WHOLE | {"version": 2, "assignee": "ann"}) == Request.from_dict(WHOLE)
    assert Answer.from_dict({"id": "a", "ok": True, "data": 1, "by": "ann"}) == Answer("a", ok=True, data=1)


def test_data_in_any_mapping_has_a_json_form() -> None:
    request = Request("pnd_1", "input", "Which?", data=MappingProxyType({"path": [1]}))
    assert json.loads(json.dumps(request.to_dict()))["data"] == {"path": [1]}


@pytest.mark.parametrize(
    "wire",
    [
        {"kind": "input", "prompt": "Which?"},
        {"id": "", "kind": "input", "prompt": "Which?"},
        {"id": "a", "kind": None, "prompt": "Which?"},
        {"id": "a", "kind": "input", "prompt": 3},
        {"id": "a", "kind": "input", "prompt": "Which?", "url": 3},
        {"id": "a", "kind": "input", "prompt": "Which?", "data": [1]},
        {"id": "a", "kind": "input", "prompt": "Which?", "expiresAt": "tomorrow"},
        {"id": "a", "kind": "input", "prompt": "Which?", "expiresAt": "2030-01-31T12:00:00"},
        {"id": "a", "kind": "input", "prompt": "Which?", "expiresAt": 5},
        "text",
    ],
)
def test_a_request_that_is_none_is_refused(wire: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Request.from_dict(wire)


@pytest.mark.parametrize(
    "wire",
    [
        {"ok": True},
        {"id": "a"},
        {"id": "", "ok": True},
        {"id": "a", "ok": 1},
        {"id": "a", "ok": "yes"},
        {"id": "a", "ok": False, "reason": 3},
        {"id": "a", "ok": False, "reason": "x" * 1_001},
        None,
    ],
)
def test_an_answer_that_is_none_is_refused(wire: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Answer.from_dict(wire)


def test_ids_differ_while_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    ids = {asked().id for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(name.startswith("pnd_") and len(name) == 36 for name in ids)


def test_an_id_may_be_given_and_an_empty_one_is_made() -> None:
    assert asked(id="mine").id == "mine"
    assert asked(id="").id.startswith("pnd_")


def test_the_model_reads_the_prompt_and_where_to_go() -> None:
    result = auth_required("https://example.com/go")
    assert (result.output, result.is_error) == ("Authorization required to continue\nhttps://example.com/go", True)
    request = pending_of(result)
    assert request is not None
    assert (request.kind, request.url) == ("authorization", "https://example.com/go")
    assert pending(kind="input", prompt="Which?").output == "Which?"


@pytest.mark.parametrize(
    "moment",
    [
        "2030-01-31T12:00:00Z",
        "2030-01-31T13:00:00+01:00",
        datetime(2030, 1, 31, 12, tzinfo=UTC),
        datetime(2030, 1, 31, 7, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_an_end_may_be_said_in_many_ways(moment: Any) -> None:
    assert asked(expiresAt=moment).expires_at == datetime(2030, 1, 31, 12, tzinfo=UTC).timestamp()


def test_an_end_may_be_counted_from_now() -> None:
    before = time.time()
    end = asked(expiresAt=timedelta(hours=1)).expires_at
    assert end is not None
    assert before + 3_599 < end < time.time() + 3_601
    assert asked().expires_at is None


def test_an_end_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        asked(expiresAt=datetime(2030, 1, 31))


def test_a_request_in_its_form_on_the_wire_is_found_in_metadata() -> None:
    assert pending_of(ToolResult("Deploy?", metadata={"pending": dict(WHOLE)})) == Request.from_dict(WHOLE)


@pytest.mark.parametrize(
    "result",
    [ToolResult("x"), ToolResult("x", metadata={}), ToolResult("x", metadata={"pending": False}), {"pending": 1}, None],
)
def test_where_nothing_is_asked_there_is_no_request(result: Any) -> None:
    assert pending_of(result) is None


@pytest.mark.parametrize("wrong", [True, {"id": "a"}, "text", 7])
def test_metadata_that_asks_nothing_sensible_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        pending_of(ToolResult("x", metadata={"pending": wrong}))


@pytest.mark.parametrize("make", [lambda: Answer("a", ok=True), lambda: Request.from_dict(WHOLE)])
def test_neither_can_be_changed_once_made(make: Callable[[], Any]) -> None:
    with pytest.raises(AttributeError):
        make().id = "other"
