"""What a model reads stays within bounds, and whatever was cut can be read on to the end."""

from __future__ import annotations

import enum
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tools.json_values import ANY_LONG_TEXT, KEYS, LONG_TEXT, ROWS, TEXT, VALUES
from toolstash.fieldpath import escape_key, read_path, split_path
from toolstash.tools.bound import (
    FIELD_CHARS,
    PAGE_CHARS,
    FittedRows,
    fit_rows,
    guard_result,
    json_chars,
    json_text,
    level,
    take_piece,
)

LEAST_ROW = 100


def test_json_text_is_compact_and_keeps_characters() -> None:
    assert json_text({"a": [1, None, "é🚀"], "b": 1.5}) == '{"a":[1,null,"é🚀"],"b":1.5}'
    assert json_chars({"a": "é🚀"}) == len('{"a":"é🚀"}')


@given(VALUES)
@example([2**70, "\ud834", "\x00"])
def test_json_text_reads_back_and_json_chars_is_its_length(value: Any) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert json_chars(value) == len(text)


# Pieces of a text


@given(ANY_LONG_TEXT, st.integers(-5, 300), st.integers(-3, 300))
def test_a_piece_is_the_longest_that_fits(text: str, offset: int, budget: int) -> None:
    piece = take_piece(text, offset, budget)
    start = min(max(offset, 0), len(text))
    end = start + len(piece.text)
    assert (piece.offset, piece.total_chars, piece.has_more) == (start, len(text), end < len(text))
    assert piece.text == text[start:end]
    assert piece.next_offset == (end if end < len(text) else None)
    assert escaped(piece.text) <= budget or len(piece.text) <= 1
    if piece.has_more and not halves(text, end) and not halves(text, end + 1):
        assert escaped(text[start : end + 1]) > budget


@given(ANY_LONG_TEXT, st.integers(1, 200))
@example('"' * 500, 7)
@example("\x00" * 50, 1)
def test_all_pieces_together_are_the_text(text: str, budget: int) -> None:
    pieces, offset = [], 0
    while True:
        piece = take_piece(text, offset, budget)
        pieces.append(piece.text)
        if piece.next_offset is None:
            break
        assert piece.next_offset > offset
        offset = piece.next_offset
    assert "".join(pieces) == text


def test_a_surrogate_pair_is_not_split_where_there_is_room() -> None:
    assert take_piece("ab\ud83d\ude80cd", 0, 3).text == "ab"
    assert take_piece("\ud83d\ude80cd", 0, 1).text == "\ud83d"


class Unscannable(str):
    """A text that fails when more than a slice of it is read."""

    def encode(self, *args: Any, **kwargs: Any) -> bytes:
        raise AssertionError("the whole text was encoded")

    def __getitem__(self, place: Any) -> str:
        assert isinstance(place, slice)
        assert place.stop - place.start <= PAGE_CHARS + 2
        return str.__getitem__(self, place)


def test_a_piece_of_a_large_text_reads_only_the_piece() -> None:
    piece = take_piece(Unscannable("x" * 5_000_000), 4_000_000, PAGE_CHARS)
    assert (len(piece.text), piece.next_offset) == (PAGE_CHARS, 4_000_000 + PAGE_CHARS)


# Rows of a page


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(0, 600))
def test_level_is_the_largest_cap_that_fits(sizes: list[int], room: int) -> None:
    cap = level(sizes, room)
    assert sum(min(size, cap) for size in sizes) <= room
    assert cap >= max(sizes) or sum(min(size, cap + 1) for size in sizes) > room


def check_fitted(rows: list[Any], fitted: FittedRows, limit: int, field_limit: int) -> None:
    """Bounded, one item a row, what is not cut is whole, and what is cut can be read on."""
    assert len(fitted.items) == len(rows)
    size = json_chars(fitted.items) + json_chars(fitted.cut)
    assert size <= max(limit, LEAST_ROW * len(rows)) + len(rows) + 5
    for index, (row, item) in enumerate(zip(rows, fitted.items, strict=True), 7):
        cuts = [entry for entry in fitted.cut if entry["index"] == index]
        assert len(cuts) <= 5
        check_row(row, item, cuts, field_limit)


def check_row(row: Any, item: Any, cuts: list[dict[str, Any]], field_limit: int) -> None:
    if not cuts:
        assert item == row
    for entry in cuts:
        assert list(entry) == ["index", "field", "total_chars", "next_offset"]
        text = whole_text(row, entry["field"])
        assert entry["total_chars"] == len(text)
        if entry["field"] is not None:
            name = next(key for key in row if row[key] is read_path(row, entry["field"]))
            check_prefix(text, item[name], entry["next_offset"])
        elif entry["next_offset"]:
            check_prefix(text, item, entry["next_offset"])
        else:
            assert list(item) == list(row)
    if isinstance(row, dict) and isinstance(item, dict):
        assert all(json_chars(value) <= field_limit for value in item.values())
        named = {entry["field"] for entry in cuts}
        untouched = [key for key in row if None not in named and not named & {key, escape_key(key)}]
        assert all(item[key] == row[key] for key in untouched)


def whole_text(row: Any, field: str | None) -> str:
    """What get_item(index, field, offset) reads in."""
    value = row if field is None else read_path(row, field)
    return value if isinstance(value, str) else json_text(value)


def check_prefix(text: str, shown: Any, next_offset: int) -> None:
    assert shown[-1] == "…"
    assert 0 < next_offset < len(text)
    assert shown[:-1] + text[next_offset:] == text


@given(st.lists(ROWS, max_size=30), st.sampled_from([PAGE_CHARS, 3_000, 400]), st.sampled_from([FIELD_CHARS, 200]))
def test_fitted_rows(rows: list[Any], limit: int, field_limit: int) -> None:
    check_fitted(rows, fit_rows(rows, 7, limit=limit, field_limit=field_limit), limit, field_limit)


@given(ROWS, st.integers(1, 130))
def test_many_copies_of_one_row(row: Any, times: int) -> None:
    rows = [row] * times
    check_fitted(rows, fit_rows(rows, 7), PAGE_CHARS, FIELD_CHARS)


@given(st.lists(st.dictionaries(KEYS, LONG_TEXT, min_size=1, max_size=8), min_size=1, max_size=100))
def test_names_with_dots_and_backslashes_lead_to_their_field(rows: list[dict[str, str]]) -> None:
    check_fitted(rows, fit_rows(rows, 7, limit=2_000, field_limit=50), 2_000, 50)


@given(TEXT)
def test_an_escaped_key_is_one_segment(key: str) -> None:
    assert split_path(escape_key(key)) == [key]


def test_rows_that_fit_are_the_same_objects() -> None:
    rows = [{"id": number, "title": "a"} for number in range(100)]
    fitted = fit_rows(rows, 0)
    assert fitted.cut == []
    assert all(item is row for item, row in zip(fitted.items, rows, strict=True))


def issue(number: int, body_chars: int) -> dict[str, Any]:
    return {
        "number": number,
        "title": f"Crash on start {number}",
        "user": {"login": "octo", "id": 7},
        "labels": [{"name": "bug"}, {"name": "ui"}],
        "state": "open",
        "body": "Steps to reproduce. " * (body_chars // 20),
    }


def test_only_the_long_field_of_an_issue_is_cut() -> None:
    rows = [issue(1, 200), issue(2, 90_000), issue(3, 200)]
    fitted = fit_rows(rows, 40)
    assert fitted.items[0] is rows[0]
    assert fitted.items[1] == rows[1] | {"body": fitted.items[1]["body"]}
    assert fitted.cut == [{"index": 41, "field": "body", "total_chars": 90_000, "next_offset": 1_997}]


def test_a_field_above_its_limit_is_cut_though_the_page_has_room() -> None:
    fitted = fit_rows([{"a.b": "x" * 2_500, "n": 1}], 0)
    assert fitted.items == [{"a.b": "x" * 1_997 + "…", "n": 1}]
    assert fitted.cut == [{"index": 0, "field": "a\\.b", "total_chars": 2_500, "next_offset": 1_997}]


def test_a_name_that_looks_like_another_ones_path_is_given_as_it_is() -> None:
    row = {"a.b": "x" * 2_500, "a\\.b": "short"}
    (entry,) = fit_rows([row], 0).cut
    assert read_path(row, entry["field"]) == row["a.b"]


def test_what_short_rows_leave_goes_to_the_long_ones() -> None:
    rows = [{"n": 1}] * 9 + [{"a": "x" * 1_900, "b": "y" * 1_900, "c": "z" * 1_900}]
    assert fit_rows(rows, 0).items == rows


def test_one_row_of_minified_json_becomes_a_prefix_that_can_be_read_on() -> None:
    text = json_text([{"id": number, "value": "v" * 10} for number in range(10_000)])
    fitted = fit_rows([text], 0)
    check_fitted([text], FittedRows(fitted.items, [entry | {"index": 7} for entry in fitted.cut]), PAGE_CHARS, 2_000)
    assert len(text) > 300_000
    assert escaped(fitted.items[0]) > 9_000
    assert fitted.cut[0] | {"next_offset": None} == {
        "index": 0,
        "field": None,
        "total_chars": len(text),
        "next_offset": None,
    }


def test_many_cut_fields_are_one_entry() -> None:
    row = {f"field_{number}": "x" * 3_000 for number in range(9)}
    fitted = fit_rows([row], 3)
    assert list(fitted.items[0]) == list(row)
    assert fitted.cut == [{"index": 3, "field": None, "total_chars": json_chars(row), "next_offset": 0}]


def test_a_row_of_three_thousand_columns_becomes_a_prefix_of_its_json() -> None:
    row = {f"column_{number}": number for number in range(3_000)}
    fitted = fit_rows([row] * 10, 0)
    assert all(item.startswith('{"column_0":0,"column_1":1,') for item in fitted.items)
    assert {entry["field"] for entry in fitted.cut} == {None}


def test_a_hundred_huge_rows_still_yield_something_each() -> None:
    rows = [issue(number, 50_000) for number in range(100)]
    fitted = fit_rows(rows, 0)
    assert all(f'{{"number":{number},' in item for number, item in enumerate(fitted.items))
    assert json_chars(fitted.items) + json_chars(fitted.cut) <= PAGE_CHARS + 105


def test_no_rows() -> None:
    assert fit_rows([], 0) == FittedRows([], [])


# The last resort


@given(VALUES, st.none() | st.integers(500, 5_000))
def test_a_guarded_result_is_within_the_limit(value: Any, most: int | None) -> None:
    guarded = guard_result(value, most)
    text = value if isinstance(value, str) else json_text(value)
    size = len(text)
    if most is None or size <= most:
        assert guarded == value
        return
    assert json_chars(guarded) <= most
    assert list(guarded) == ["error", "truncated", "result_chars", "preview", "suggested_action"]
    assert (guarded["truncated"], guarded["result_chars"]) == (True, size)
    assert text.startswith(guarded["preview"])


def test_a_plain_result_is_the_same_object() -> None:
    result = {"items": [{"id": 1, "none": None, "text": "null"}], "page": 0, "score": 1.5, "ok": True}
    assert guard_result(result, 60_000) is result
    assert guard_result(result, None) is result
    assert guard_result("text", 4) == "text"


def test_the_largest_result_that_passes() -> None:
    assert guard_result(["x" * 496], 500) == ["x" * 496]
    assert guard_result(["x" * 497], 500)["result_chars"] == 501
    assert guard_result("é" * 500, 500) == "é" * 500
    assert guard_result("é" * 501, 500)["preview"] == "é" * 250


def test_a_preview_has_at_most_two_thousand_characters() -> None:
    assert len(guard_result("x" * 70_000, 60_000)["preview"]) == 2_000
    assert json_chars(guard_result("\x00" * 70_000, 60_000)) < 2_500


class Colour(enum.Enum):
    RED = "red"


def test_what_no_encoder_takes_is_converted() -> None:
    result = {
        "id": UUID(int=1),
        "colour": Colour.RED,
        "price": Decimal("1.5"),
        "seen": {1},
        "odd": [float("nan"), float("inf")],
        3: (1, 2),
    }
    guarded = guard_result(result, 60_000)
    assert guarded == {
        "id": "00000000-0000-0000-0000-000000000001",
        "colour": "red",
        "price": 1.5,
        "seen": [1],
        "odd": [None, None],
        "3": [1, 2],
    }
    assert orjson.loads(json.dumps(guarded, allow_nan=False)) == guarded


@pytest.mark.parametrize("value", [UUID(int=1), Colour.RED, float("nan")])
def test_one_value_that_the_fast_encoder_converts_is_converted(value: Any) -> None:
    (guarded,) = guard_result([value], None)
    assert json.loads(json.dumps(guarded, allow_nan=False)) == guarded


def circular() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


def failing() -> Any:
    yield 1
    raise RuntimeError("secret text of the user's code")


@pytest.mark.parametrize("result", [object(), {"a": [object()]}, circular(), {1: "a", "1": "b"}, failing(), type])
def test_what_has_no_json_form_is_an_error_in_words(result: Any) -> None:
    guarded = guard_result(result, 60_000)
    assert guarded["error"]
    assert guarded["suggested_action"]
    assert " at 0x" not in json.dumps(guarded)
    assert "secret" not in json.dumps(guarded)


# Small things that the tests need


def escaped(text: str) -> int:
    """Characters that the text takes in JSON, quotes left out."""
    return len(json.dumps(text, ensure_ascii=False)) - 2


def halves(text: str, place: int) -> bool:
    """Whether `place` is inside a surrogate pair."""
    return 0 < place < len(text) and "\ud800" <= text[place - 1] <= "\udbff" and "\udc00" <= text[place] <= "\udfff"
