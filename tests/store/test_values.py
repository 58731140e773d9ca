"""Python values and the JSON forms that the docs promise (F26-F29)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
from collections import OrderedDict, deque, namedtuple
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolstash.errors import UnstorableValueError
from toolstash.store.codec import Tally, decode, encode, pack, unpack

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Card:
    when: dt.date
    _hidden: int = 1


@attrs.define
class Made:
    a: int


class Model(pydantic.BaseModel):
    price: Decimal


def round_trip(value: Any) -> Any:
    tally = Tally()
    return decode(encode(value, tally), tally.codec)


UTC_PLUS_2 = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (Decimal("1234.10"), 1234.1),
        (Decimal("12"), 12),
        (Decimal("0.1234567890123456"), "0.1234567890123456"),
        (Decimal("1E+400"), "1E+400"),
        (dt.datetime(2024, 5, 1, 12, 0, tzinfo=UTC_PLUS_2), "2024-05-01T10:00:00.000000Z"),
        (dt.datetime(2024, 5, 1, 12, 0, 0, 5), "2024-05-01T12:00:00.000005"),
        (dt.date(2024, 5, 1), "2024-05-01"),
        (dt.time(9, 30), "09:30:00.000000"),
        (dt.timedelta(minutes=1, microseconds=5), 60.000005),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Path("a/b"), "a/b"),
        (b"\x00\xff", "AP8="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), {"x": 1, "y": 2}),
        (deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (Card(dt.date(2024, 5, 1)), {"when": "2024-05-01", "_hidden": 1}),
        (Made(5), {"a": 5}),
        (Model(price=Decimal("1.5")), {"price": 1.5}),
        (np.int64(7), 7),
        (np.float64(1.5), 1.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.bool_(True), True),
        ({1: "a", None: "b", 1.5: "d", Colour.RED: "e"}, {"1": "a", "null": "b", "1.5": "d", "red": "e"}),
        ({False: 0}, {"false": 0}),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"field": [value]}])
def test_documented_forms(value: Any, form: Any, wrap: Any) -> None:
    assert round_trip(wrap(value)) == wrap(form)


def test_an_iterator_inside_a_row_is_a_list() -> None:
    assert round_trip({"a": (number for number in (1, 2))}) == {"a": [1, 2]}


@pytest.mark.parametrize("number", [2**53 + 1, 7203115598421339137, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**300])
def test_integers_of_any_size_are_exact(number: int) -> None:
    assert round_trip([{"id": number}]) == [{"id": number}]


@pytest.mark.parametrize(
    ("text", "kept"),
    [("\ud834 offer", "\ud834 offer"), ("\ud83d\ude80", "🚀"), ("a\0b", "a\0b"), ("\udc00\ud800", "\udc00\ud800")],
)
def test_surrogates_and_nul_survive(text: str, kept: str) -> None:
    assert round_trip({text: [text]}) == {kept: [kept]}
    assert pack(text) == pack(kept)


def test_non_finite_numbers_become_null_and_are_counted() -> None:
    tally = Tally()
    row = {"a": math.nan, "b": [math.inf, None, 1.5, {"c": -math.inf}], "d": (Decimal("NaN"),), "e": np.float64("nan")}

    assert decode(encode(row, tally), tally.codec) == {
        "a": None,
        "b": [None, None, 1.5, {"c": None}],
        "d": [None],
        "e": None,
    }
    assert tally.non_finite == 5
    encode({"a": math.nan, "big": 2**70}, tally)
    assert tally.non_finite == 6


class SelfReturning:
    def tolist(self) -> SelfReturning:
        return self


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": {"b": object()}}, "field 'a.b'"),
        ([lambda: None], "field '0'"),
        (SelfReturning(), "no JSON form"),
        (circular(), "nested deeper than 250"),
        ({"n": 10**5_000}, "4,200 digits"),
        ({1: "a", "1": "b"}, "twice"),
        (Card, "no JSON form"),
    ],
)
def test_what_has_no_json_form_is_named(value: Any, words: str) -> None:
    with pytest.raises(UnstorableValueError, match=words) as refusal:
        encode(value, Tally(), row=3)
    assert refusal.value.details["row"] == 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
odd_text = st.text(st.characters(codec=None), max_size=8)


@given(json_values)
def test_any_json_value_comes_back_equal(value: Any) -> None:
    assert round_trip(value) == value
    assert unpack(pack(value)) == value


@given(st.dictionaries(odd_text, odd_text | st.integers(), max_size=4))
def test_any_text_comes_back_with_its_pairs_joined(value: dict[str, Any]) -> None:
    def joined(item: Any) -> Any:
        return (
            item.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            if isinstance(item, str)
            else item
        )

    expected = {joined(key): joined(item) for key, item in value.items()}
    if len(expected) == len(value):
        assert round_trip(value) == expected


@given(json_values)
def test_the_tally_weighs_in_bytes_and_code_points(value: Any) -> None:
    tally = Tally()
    document = encode(value, tally)

    assert tally.bytes == tally.largest == len(document)
    assert tally.chars == len(document.decode())
