"""The schema of a row, inferred from rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolstash.schema.infer import item_schema_of


def test_rows_of_objects() -> None:
    rows = [
        {"id": 1, "name": "a", "tags": ["x"], "score": 1, "mixed": 1, "gone": None, "deep": {"a": 1}},
        {"id": 2, "name": None, "tags": ["y", "z"], "score": 2.5, "mixed": "a", "gone": None, "deep": {}},
        {"id": 3, "tags": [], "score": 3, "mixed": True, "gone": None, "deep": {}, "lists": [1, "a"]},
    ]
    assert item_schema_of(rows) == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "score": {"type": "number"},
            "mixed": {"type": ["boolean", "integer", "string"]},
            "gone": {"type": "null"},
            "deep": {"type": "object"},
            "lists": {"type": "array"},
        },
        "required": ["id", "tags", "score", "mixed", "gone", "deep"],
    }


@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        ([], None),
        (["a", "b"], {"type": "string"}),
        ([1, None], {"type": "integer"}),
        ([None], {"type": "null"}),
        ([1, "a"], {"type": ["integer", "string"]}),
        ([[1], [2]], {"type": "array", "items": {"type": "integer"}}),
        ([[]], {"type": "array"}),
        ([{}], {"type": "object", "properties": {}, "required": []}),
        (
            [{"a": 1}, "text"],
            {"type": ["object", "string"], "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ),
    ],
)
def test_other_rows(rows: list[Any], schema: dict[str, Any] | None) -> None:
    assert item_schema_of(rows) == schema


def test_wide_rows_are_cut() -> None:
    schema = item_schema_of([{f"column_{number}": number for number in range(3_000)}] * 100)
    assert schema is not None
    assert len(schema["properties"]) == 31
    assert schema["properties"]["…"] == {"description": "+2970 more fields"}
    assert schema["required"] == [f"column_{number}" for number in range(30)]


def test_long_names_are_cut() -> None:
    schema = item_schema_of([{"k" * 1_500: 1}])
    assert schema is not None
    assert list(schema["properties"]) == schema["required"] == ["k" * 79 + "…"]


def test_only_the_first_hundred_rows_count() -> None:
    assert item_schema_of([1] * 100 + ["a"]) == {"type": "integer"}


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
ROWS = st.lists(VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=3), VALUES | st.lists(VALUES)))


@given(ROWS)
def test_the_schema_is_valid_and_takes_its_own_rows(rows: list[Any]) -> None:
    schema = item_schema_of(rows)
    if schema is None:
        assert rows == []
        return
    Draft202012Validator.check_schema(schema)
    for row in rows:
        if isinstance(row, dict) and None not in row.values():
            assert set(schema["required"]) <= set(row)
            assert "…" in schema["properties"] or all(name in schema["properties"] for name in row)
