"""A shrunk value is of the same kind, within its budget, honest about what it leaves out, and cheap to make."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tools.json_values import ROWS, VALUES
from toolstash.tools.bound import json_chars
from toolstash.tools.preview import shrink, shrink_fields, size_within


@given(ROWS, st.integers(3, 2_000))
@example({"": 1}, 9)
@example([[]], 3)
def test_a_shrunk_value_is_within_its_budget_and_of_its_kind(value: Any, budget: int) -> None:
    shown = shrink(value, budget)
    assert json_chars(shown) <= budget
    assert shown == "…" or type(shown) is type(value)
    if json_chars(value) <= budget:
        assert shown is value


@given(VALUES, st.integers(0, 3_000))
def test_size_within_is_exact_up_to_its_bound(value: Any, most: int) -> None:
    size = json_chars(value)
    assert size_within(value, most) == size if size <= most else size_within(value, most) > most


@given(st.dictionaries(st.text(max_size=80), VALUES, max_size=12), st.integers(3, 1_000), st.integers(0, 5_000))
def test_fields_left_out_are_counted(fields: dict[str, Any], budget: int, more: int) -> None:
    shown = shrink_fields(fields, budget, len(fields) + more)
    assert json_chars(shown) <= budget
    if shown == "…" or "…" in fields:
        return
    left_out = int(shown.get("…", "+0 more")[1:-5].replace(",", ""))
    assert len(shown) - ("…" in shown) + left_out == len(fields) + more


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.just("\ud800")), st.integers(3, 300))
def test_floats_fit_however_they_are_spelt(value: list[Any], budget: int) -> None:
    shown = shrink(value, budget)
    assert json_chars(shown) <= budget
    assert len(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))) <= budget


def test_long_texts_are_cut_and_short_ones_stay() -> None:
    issue = {"number": 12, "title": "Crash on start", "state": "open", "body": "Steps. " * 5_000}
    shown = shrink(issue, 200)
    assert shown == issue | {"body": shown["body"]}
    assert json_chars(shown) == 200
    assert issue["body"].startswith(shown["body"].removesuffix("…"))


def test_lists_say_how_many_items_are_left_out() -> None:
    shown = shrink(list(range(1_000_000)), 60)
    assert shown == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, "… +999,987 more"]


def test_wide_rows_show_their_first_fields() -> None:
    shown = shrink({f"column_{number}": number for number in range(3_000)}, 120)
    assert list(shown) == ["column_0", "column_1", "column_2", "column_3", "column_4", "column_5", "column_6", "…"]
    assert shown["…"] == "+2,993 more"


def test_long_names_are_cut_and_never_hide_one_another() -> None:
    shown = shrink({"k" * 1_500: 1, "k" * 1_499 + "m": 2}, 200)
    assert shown == {"k" * 57 + "…": 1, "…": "+1 more"}


def test_deep_levels_become_an_ellipsis() -> None:
    deep: Any = "bottom"
    for _ in range(240):
        deep = {"deeper": [deep]}
    assert str(shrink(deep, 120)).count("deeper") < 10
    assert json_chars(shrink(deep, 120)) <= 120


class Counted(dict[str, Any]):
    """A dict that counts how often its fields are read."""

    reads = 0

    def items(self) -> Any:
        for pair in super().items():
            type(self).reads += 1
            yield pair


@pytest.mark.parametrize("width", [60, 3_000])
def test_the_work_does_not_grow_with_the_value(width: int) -> None:
    Counted.reads = 0
    leaf = Counted({f"k{number}": "v" * 50 for number in range(width)})
    value = Counted({f"k{number}": Counted({f"k{inner}": leaf for inner in range(width)}) for number in range(width)})
    assert json_chars(shrink(value, 450)) <= 450
    assert Counted.reads < 3_000
