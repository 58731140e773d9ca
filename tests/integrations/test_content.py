"""What is cut stays JSON, says what is missing, keeps to its bound, and never loses how a call goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integrations.openai_turns import chat
from toolstash import Ctx, Request
from toolstash.contracts import Outcome
from toolstash.integrations.content import content_of, waiting_call
from toolstash.integrations.openai import ahandle_tool_calls
from toolstash.tools.call_values import pending_value

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=60)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(TEXTS, inner, max_size=20), max_leaves=60
)


@given(VALUES, st.integers(20, 2_000))
def test_a_cut_content_is_json_within_its_bound(value: Any, most: int) -> None:
    whole, short = content_of(Outcome(value)), content_of(Outcome(value), most)
    assert whole
    assert whole.encode()
    assert len(short) <= most
    if short != whole:
        assert len(whole) > most
        cut = json.loads(short)
        assert cut["truncated"] is True or cut["truncated"]["total_chars"] == len(whole)


@given(st.integers(20, 700), st.integers(1, 3_000))
def test_wide_rows_and_long_texts(most: int, size: int) -> None:
    for value in ({f"k{n}": n for n in range(size)}, "é\n" * size, [{"a": "x" * size}], 10**size, {"k" * size: 1}):
        content = content_of(Outcome(value), most)
        assert len(content) <= most
        assert content == content_of(Outcome(value)) or json.loads(content)


def test_rows_and_fields_are_kept_while_they_fit() -> None:
    value = {"result": {"items": [{"id": n, "text": "x" * 50} for n in range(40)], "total": 40}, "_hint": "go on"}
    cut = json.loads(content_of(Outcome(value), 1_000))
    kept = cut["result"]["items"]
    assert kept == value["result"]["items"][: len(kept)]  # pyright: ignore
    assert 5 < len(kept) < 40
    assert (cut["result"]["total"], cut["_hint"]) == (40, "go on")
    assert cut["truncated"]["cut"] == [f"result.items: {len(kept)} of 40 items"]
    assert "Ask for less" in cut["suggested_action"]


def test_an_error_keeps_what_it_says() -> None:
    value = {"error": "No.", "suggested_action": "Do that.", "available_workspaces": [f"w{n}" for n in range(900)]}
    cut = json.loads(content_of(Outcome(value, is_error=True), 500))
    assert (cut["error"], cut["suggested_action"]) == ("No.", "Do that.")


def test_a_text_and_a_list_have_a_place_of_their_own() -> None:
    text = json.loads(content_of(Outcome("word " * 200), 300))
    assert text["text"].startswith("word word")
    assert text["truncated"]["cut"] == [f"text: {len(text['text']) - 1} of 1,000 characters"]
    rows = json.loads(content_of(Outcome(list(range(900))), 300))
    assert rows["items"] == list(range(len(rows["items"])))


@pytest.mark.parametrize("most", [20, 100, 300, 700, 5_000])
def test_a_suspended_call_can_be_found_whatever_its_bound(most: int) -> None:
    request = Request("r" * 36, "approval", "Delete? " * 200, data={"schema": {"enum": list(range(200))}})
    content = content_of(Outcome(pending_value("call_1", request), request=request), most)
    assert waiting_call(content) == "call_1"
    assert json.loads(content)["status"] == "pending"


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "pending",
        '["pending"]',
        '{"status": "pending"}',
        '{"status": "pending", "call_id": 1, "request": {}, "suggested_action": ""}',
        '{"status": "pending", "call_id": "c", "request": {}, "suggested_action": "", "more": 1}',
        '{"status": "pending", "call_id": "c"',
        '{"pending": ' + "[" * 100_000,
        [{"type": "text", "text": "pending"}],
    ],
)
def test_nothing_else_passes_for_a_suspended_call(content: Any) -> None:
    assert waiting_call(content) is None


async def test_the_bound_is_of_each_content(tools_ctx: Ctx) -> None:
    turn = chat(("echo", {"value": "x" * 500}), ("load_papers", {"count": 300}), ("echo", {"value": "short"}))
    messages = await ahandle_tool_calls(tools_ctx, turn, max_content_length=500)
    text, notice, short = (message["content"] for message in messages)
    assert (text, short) == ("x" * 500, "short")
    assert len(notice) <= 500
    assert json.loads(notice)["workspace_id"] == "papers_300"
