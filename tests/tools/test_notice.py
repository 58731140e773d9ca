"""A notice says what is stored and what of it is shown, and stays small whatever the data."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tools.json_values import LONG_TEXT, ROWS, TEXT, VALUES
from toolstash.contracts import WorkspaceMeta
from toolstash.schema.infer import item_schema_of
from toolstash.tools.bound import json_chars
from toolstash.tools.notice import DATA_CHARS, WHOLE_CHARS, ToolListing, build_ref
from toolstash.tools.notice_message import message_of
from toolstash.tools.notice_schema import shorten_schema

TOOLS = [
    ToolListing("papers_paginate", "Return one page of items from the workspace."),
    ToolListing("papers_count", "Return how many items the workspace holds."),
    ToolListing("papers_get_item", "Return one item by its index."),
    ToolListing("papers_search", "Find items by words."),
    ToolListing("papers_pipe", "Filter, sort, group and count in one call."),
    ToolListing("papers_cite", "Write the references of some papers."),
]


def notice_of(
    sample: Any,
    *,
    count: int | None = None,
    chars: int | None = None,
    shape: Any = "list",
    workspace_id: str = "papers_1",
    schema: dict[str, Any] | None = None,
    tools: list[ToolListing] | None = None,
    extra: dict[str, Any] | None = None,
    ttl: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    size = len(sample) if isinstance(sample, str) else json_chars(sample)
    meta = WorkspaceMeta(
        workspace_id,
        "papers",
        data_shape=shape,
        extra=extra or {},
        ttl=ttl,
        item_count=(len(sample) if shape != "scalar" else 1) if count is None else count,
        chars=size if chars is None else chars,
    )
    tools = TOOLS if tools is None else tools
    return build_ref(meta, sample=sample, item_schema=schema, tools=tools, **more).to_dict()


def check_bounds(notice: dict[str, Any]) -> None:
    added = [json_chars(notice[key]) for key in ("item_schema", "preview", "metadata") if key in notice]
    assert sum(added, json_chars(notice["workspace_id"])) <= DATA_CHARS
    assert json_chars(notice) <= WHOLE_CHARS


# Bounds, whatever the data


@given(
    sample=st.lists(ROWS, max_size=4),
    schema=st.none() | st.just("inferred") | st.dictionaries(TEXT, VALUES, max_size=40),
    extra=st.dictionaries(TEXT, VALUES, max_size=8),
    tools=st.lists(st.builds(ToolListing, st.text(max_size=64), TEXT | LONG_TEXT), max_size=60),
    workspace_id=st.text(max_size=1_400) | TEXT,
    note=LONG_TEXT,
)
def test_a_notice_of_rows_is_bounded(
    sample: list[Any], schema: Any, extra: dict[str, Any], tools: list[ToolListing], workspace_id: str, note: str
) -> None:
    if json_chars(workspace_id) > DATA_CHARS:
        workspace_id = workspace_id[:200]
    if schema == "inferred":
        schema = item_schema_of(sample)
    elif schema is not None:
        schema = {"type": "object", "properties": schema, "required": list(schema)}
    notice = notice_of(
        sample,
        count=10**9,
        schema=schema,
        extra=extra,
        tools=tools,
        workspace_id=workspace_id,
        note=note,
        ttl=3_600.0,
        non_finite=10**6,
    )
    check_bounds(notice)
    assert notice["workspace_id"] == workspace_id
    shown = notice.get("preview", [])
    assert len(shown) <= 3
    assert (f"of {10**9:,}" in notice["message"]) == bool(shown) or not sample


@given(st.dictionaries(TEXT, VALUES, max_size=40), st.integers(0, 10**6))
def test_a_notice_of_a_dict_is_bounded(sample: dict[str, Any], more: int) -> None:
    count = len(sample) + more
    notice = notice_of(sample, shape="dict", count=count, schema=item_schema_of([sample]), extra={"a": "b" * 500})
    check_bounds(notice)
    assert ("all of it" in notice["message"]) == (bool(sample) and not more and notice.get("preview") == sample)


@given(LONG_TEXT.map(lambda text: text[:2_000]) | VALUES, st.integers(0, 10**9))
@example("", 0)
@example("…", 0)
@example("…", 5)
def test_a_notice_of_a_scalar_is_bounded(sample: Any, more: int) -> None:
    chars = (len(sample) if isinstance(sample, str) else json_chars(sample)) + more
    notice = notice_of(sample, shape="scalar", chars=chars)
    check_bounds(notice)
    if isinstance(sample, str) and "preview" in notice:
        assert sample.startswith(notice["preview"].removesuffix("…") if more else notice["preview"][:-1])


@pytest.mark.parametrize(
    "row",
    [
        {f"column_{number}": number for number in range(3_000)},
        {"html": "<p>" * 1_700_000},
        {"k" * 1_500: "v", "k" * 1_499 + "m": "w"},
        {"🚀" * 1_500: "🚀" * 5_000},
        {"a": "\x00" * 5_000, "b": "\ud834" * 5_000, "c": '"\\' * 5_000},
        [[[["deep"] * 50] * 50] * 50] * 50,
        10**4_000,
    ],
    ids=["wide", "5 MB", "long keys", "emoji", "escapes", "nested", "long number"],
)
@pytest.mark.parametrize("extra", [{}, {"log": "x" * 100_000}, {f"key_{number}": "x" for number in range(9_000)}])
def test_hostile_rows_give_a_small_notice(row: Any, extra: dict[str, Any]) -> None:
    tools = [ToolListing(f"a_tool_with_a_name_of_forty_characters_{number:02}", "Does. " * 90) for number in range(60)]
    notice = notice_of([row] * 3, count=10_000, schema=item_schema_of([row]), extra=extra, tools=tools, ttl=60)
    check_bounds(notice)
    assert "10,000 rows are stored" in notice["message"]
    assert notice["available_tools"]
    assert bool(notice.get("metadata")) == bool(extra)


def test_an_id_of_almost_all_the_room_stays_whole() -> None:
    notice = notice_of([{"n": 1}] * 3, workspace_id="w" * 1_490, extra={"source": "arxiv"})
    check_bounds(notice)
    assert "preview" not in notice
    assert "metadata" not in notice
    assert "No preview fits here." in notice["message"]
    assert notice["available_tools"] == [tool.name for tool in TOOLS]


# What gives way


def issues(count: int, body_chars: int) -> list[dict[str, Any]]:
    return [
        {"number": number, "title": f"Crash {number}", "labels": ["bug"], "body": "Step. " * (body_chars // 6)}
        for number in range(count)
    ]


def test_a_golden_notice_of_issues() -> None:
    rows = issues(3, 30_000)
    notice = notice_of(
        rows, count=10_000, chars=300_000_000, schema=item_schema_of(rows), extra={"source": "github"}, ttl=3_600
    )
    bodies = [row.pop("body") for row in notice["preview"]]
    assert [len(body) for body in bodies] == [309] * 3
    assert all(body == ("Step. " * 100)[:308] + "…" for body in bodies)
    assert notice == {
        "status": "workspace_ready",
        "workspace_id": "papers_1",
        "workspace_type": "papers",
        "item_count": 10_000,
        "data_shape": "list",
        "chars": 300_000_000,
        "message": "10,000 rows are stored, not shown in full. The preview shows rows 0-2 of 10,000, long values cut. "
        "Search or page through the rest with the tools before concluding that something is not there. "
        "Kept for 1 hour.",
        "item_schema": {
            "type": "object",
            "properties": {
                "number": {"type": "integer"},
                "title": {"type": "string"},
                "labels": {"type": "array", "items": {"type": "string"}},
                "body": {"type": "string"},
            },
            "required": ["number", "title", "labels", "body"],
        },
        "preview": [{"number": number, "title": f"Crash {number}", "labels": ["bug"]} for number in range(3)],
        "available_tools": [f"{tool.name}(workspace_id='papers_1')" for tool in TOOLS],
        "next_steps": [
            "papers_search: Find items by words.",
            "papers_pipe: Filter, sort, group and count in one call.",
            "papers_paginate: Return one page of items from the workspace.",
            "papers_cite: Write the references of some papers.",
        ],
        "expires_in_seconds": 3_600,
        "metadata": {"source": "github"},
    }


def test_wide_rows_give_fewer_preview_rows_and_thirty_fields_at_most() -> None:
    row = {f"c{number}": number for number in range(3_000)}
    notice = notice_of([row] * 3, count=500, schema=item_schema_of([row]))
    fields = notice["item_schema"]["properties"]
    assert list(fields)[:2] == ["c0", "c1"]
    assert fields["…"] == {"description": f"+{3_000 - len(fields) + 1} more fields"}
    assert len(notice["item_schema"]["required"]) == len(fields) - 1 <= 30
    assert notice["preview"][0]["c0"] == 0
    assert notice["preview"][0]["…"].endswith(" more")


def test_less_room_shows_fewer_rows() -> None:
    rows = issues(3, 6_000)
    notices = [notice_of(rows, workspace_id="w" * chars) for chars in range(50, 1_480, 5)]
    shown = [len(notice.get("preview", [])) for notice in notices]
    assert shown == sorted(shown, reverse=True)
    assert set(shown) == {3, 2, 1, 0}


def test_tools_are_calls_then_names_then_a_number() -> None:
    def listed(count: int, name_chars: int) -> list[str]:
        tools = [ToolListing("t" * name_chars + f"{number:02}", "Does.") for number in range(count)]
        return notice_of([1] * 3, count=9, tools=tools)["available_tools"]

    assert all(call.endswith("(workspace_id='papers_1')") for call in listed(10, 10))
    some = listed(45, 30)
    assert len(some) == 45
    assert some[0].endswith("(workspace_id='papers_1')")
    assert some[-1] == "t" * 30 + "44"
    many = listed(99, 60)
    assert many[-1] == f"+{99 - len(many) + 1} more"
    assert "(" not in "".join(many)


def test_long_metadata_is_cut_and_what_is_left_out_is_counted() -> None:
    notice = notice_of([1], extra={"source": "arxiv", "log": "x" * 100_000})
    assert notice["metadata"] == {"source": "arxiv", "log": notice["metadata"]["log"]}
    assert notice["metadata"]["log"].endswith("x…")
    many = notice_of([1], extra={f"key_{number}": "x" * 100 for number in range(1_000)})["metadata"]
    assert many["…"] == f"+{1_000 - len(many) + 1:,} more"


def test_metadata_takes_its_json_form() -> None:
    notice = notice_of([1], extra={"at": dt.date(2026, 1, 2), "tags": {"a"}})
    assert json.loads(json.dumps(notice))["metadata"] == {"at": "2026-01-02", "tags": ["a"]}


def test_a_schema_of_any_form_is_shortened() -> None:
    assert shorten_schema({"type": "string"}, 100) == {"type": "string"}
    assert shorten_schema({"type": "string", "description": "d" * 500}, 100) == {"type": "string"}
    wide = {"type": "object", "properties": {f"c{number}": {} for number in range(31)}, "required": ["c0", "c30"]}
    shown = shorten_schema(wide, 5_000)
    assert shown is not None
    assert shown["properties"]["…"] == {"description": "+1 more fields"}
    assert shown["required"] == ["c0"]
    again = shorten_schema(shown, 150)
    assert again is not None
    assert again["properties"]["…"] == {"description": f"+{31 - len(again['properties']) + 1} more fields"}
    assert shorten_schema(wide, 20) is None


# The message


def message(sample: Any, preview: Any, **meta: Any) -> str:
    ttl = meta.pop("ttl", None)
    known = {"item_count": 1, "chars": 0} | meta
    return message_of(WorkspaceMeta("w", "t", ttl=ttl, **known), sample, preview, has_tools=False)


def test_empty_answers_are_said_in_words() -> None:
    assert message([], None, item_count=0) == "No rows: the tool returned an empty list, []."
    assert message({}, None, item_count=0, data_shape="dict") == "No rows: the tool returned an empty object, {}."
    assert message("", None, data_shape="scalar") == "No rows: the tool returned an empty text."
    assert message(None, None, data_shape="scalar", chars=4) == "No rows: the tool returned nothing (null)."
    blank = "   "
    assert message(blank, blank, data_shape="scalar", chars=3) == (
        "A text of 3 characters is stored; it holds only white space."
    )


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_an_empty_answer_asks_for_no_search(empty: Any) -> None:
    shape = {list: "list", dict: "dict"}.get(type(empty), "scalar")
    notice = notice_of(empty, shape=shape)
    assert notice["message"].startswith("No rows: ")
    assert "tools" not in notice["message"]
    assert "preview" not in notice


def test_the_message_tells_a_whole_preview_from_a_part() -> None:
    rows = [{"n": 0}, {"n": 1}, {"n": 2}]
    assert notice_of(rows)["message"] == "3 rows are stored; the preview shows all of them."
    assert notice_of([None])["message"] == "1 row is stored; the preview shows it."
    assert "The preview shows rows 0-2 of 4. Search" in notice_of(rows, count=4)["message"]
    text = "some text"
    assert (
        notice_of(text, shape="scalar")["message"] == "A text of 9 characters is stored; the preview shows all of it."
    )
    part = notice_of(text, shape="scalar", chars=500)
    assert part["preview"] == "some text…"
    assert "The preview shows its first 9 characters. Search" in part["message"]
    assert notice_of(7.5, shape="scalar")["message"] == "One value is stored; the preview shows it."


def test_a_dict_says_how_many_of_its_keys_are_shown() -> None:
    fields = {f"key.{number}": "v" * 8 for number in range(100)}
    notice = notice_of(fields, shape="dict", count=3_000)
    shown = len(notice["preview"]) - 1
    assert notice["preview"]["…"] == f"+{3_000 - shown:,} more"
    assert (
        f"An object with 3,000 keys is stored, not shown in full. The preview shows {shown} of 3,000 keys."
        in (notice["message"])
    )
    long = notice_of({"a.b": "v" * 9_000}, shape="dict")
    assert "The preview shows 1 of 1 keys, long values cut." in long["message"]


def test_a_text_of_minified_json_is_shown_as_its_start() -> None:
    text = json.dumps([{"id": number, "value": "v" * 10} for number in range(10_000)], separators=(",", ":"))
    notice = notice_of(text[:2_000], shape="scalar", chars=len(text))
    shown = notice["preview"].removesuffix("…")
    assert len(text) > 300_000
    assert text.startswith(shown)
    assert f"A text of {len(text):,} characters is stored, not shown in full." in notice["message"]
    assert f"The preview shows its first {len(shown):,} characters." in notice["message"]


def test_nulls_that_were_numbers_are_counted() -> None:
    assert "2 NaN or infinite numbers stored as null." in notice_of([None, None], non_finite=2)["message"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 second"),
        (0.5, "0.5 seconds"),
        (90, "1.5 minutes"),
        (3_600.0, "1 hour"),
        (2_592_000, "30 days"),
        (None, None),
    ],
)
def test_the_time_to_live_is_said_in_words(seconds: float | None, words: str | None) -> None:
    notice = notice_of([1], ttl=seconds)
    assert notice.get("expires_in_seconds") == seconds
    assert ("Kept for" in notice["message"]) == (words is not None)
    assert words is None or notice["message"].endswith(f"Kept for {words}.")


def test_a_note_and_a_status_of_ones_own() -> None:
    notice = notice_of([1], note="To make room, 'a' was dropped.", status="pipeline_result_saved")
    assert notice["status"] == "pipeline_result_saved"
    assert notice["message"].endswith(" To make room, 'a' was dropped.")


def test_the_same_data_gives_the_same_notice() -> None:
    rows = issues(3, 9_000)
    first, second = (notice_of(rows, schema=item_schema_of(rows), extra={"b": 1, "a": {"z", "y"}}) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


def test_a_field_of_the_data_may_be_called_like_the_count() -> None:
    schema = {"type": "object", "properties": {"…": {"type": "string"}}, "required": ["…"]}
    assert shorten_schema(schema, 800) == schema
    assert shorten_schema(schema | {"title": "t" * 900}, 800) == schema
