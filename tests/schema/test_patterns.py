"""Patterns and lists in JSON Schemas are checked in bounded time, with google-re2 and without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from toolstash.schema import patterns
from toolstash.schema.json_schema import check_schema, validated

HARMLESS = ["^[a-z]+$", "(ab)*", r"^\d{4}-\d{2}-\d{2}$", "a?b?c", "^(yes|no)$", r"[^@]+@[^@]+\.[a-z]{2,}", "(?i)^x"]
RISKY = [
    "^(a+)+$",
    r"^(\w+\s?)*$",
    "(a{2,3})+",
    "((a|b)c*)*",
    "^" + "a?" * 28 + "a{28}$",
    "^(a|aa)" * 30,
    "^a*a*a*a*b$",
]


@pytest.fixture(params=["re2", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With google-re2, and as if it were not installed."""
    patterns.search_of.cache_clear()
    if request.param == "python":
        monkeypatch.setitem(__import__("sys").modules, "re2", None)
    yield request.param
    patterns.search_of.cache_clear()


@pytest.mark.parametrize("pattern", HARMLESS)
def test_a_harmless_pattern_is_taken_by_either_engine(engine: str, pattern: str) -> None:
    check_schema({"type": "string", "pattern": pattern})
    assert validated("yes", {"pattern": "^(yes|no)$"}) is None
    assert "match" in str(validated("maybe", {"pattern": "^(yes|no)$"}))


@pytest.mark.parametrize("pattern", RISKY)
def test_a_pattern_that_could_take_for_ever_does_not(engine: str, pattern: str) -> None:
    schema = {"properties": {"x": {"type": "string", "pattern": pattern}}}
    if engine == "python":
        with pytest.raises(ValueError, match="regex"):
            check_schema(schema)
        return
    check_schema(schema)
    started = time.monotonic()
    validated({"x": "a" * 5_000 + "!"}, schema)
    assert time.monotonic() - started < 5


def test_names_are_looked_for_like_texts(engine: str) -> None:
    risky = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    if engine == "python":
        with pytest.raises(ValueError, match="for ever"):
            check_schema(risky)
    else:
        check_schema(risky)
        started = time.monotonic()
        assert validated({"a" * 5_000 + "!": 1}, risky) is not None
        assert time.monotonic() - started < 5
    schema = {"patternProperties": {"^x-": {"type": "string"}}, "properties": {"n": {"type": "integer"}}}
    check_schema(schema)
    assert validated({"x-a": "b", "n": 1}, {**schema, "additionalProperties": False}) is None
    assert "x-a" in str(validated({"x-a": 1}, schema))
    assert "y" in str(validated({"y": 1}, {**schema, "additionalProperties": False}))
    assert "y" in str(validated({"y": 1}, {**schema, "additionalProperties": {"type": "string"}}))


def test_choices_inside_choices_are_given_up_in_time() -> None:
    leaf = {"type": "object", "properties": {"field": {"type": "string"}}, "required": ["field"]}
    children = {"type": "array", "items": {"$ref": "#/$defs/filter"}}
    branches = [{"properties": {"op": {"const": op}, "children": children}} for op in ("and", "or")]
    schema = {"$defs": {"filter": {"anyOf": [*branches, leaf]}}, "$ref": "#/$defs/filter"}
    nested: dict[str, Any] = {"field": "x"}
    for _ in range(4):
        nested = {"op": "or", "children": [nested]}
    assert validated(nested, schema) is None
    for _ in range(40):
        nested = {"op": "or", "children": [nested]}
    started = time.monotonic()
    assert "too long" in str(validated(nested, schema))
    assert time.monotonic() - started < 10


def test_a_look_around_works_as_far_as_it_is_harmless(engine: str) -> None:
    assert validated("ab", {"pattern": "^(?=a)ab$"}) is None
    assert validated("bb", {"pattern": "^(?=a)ab$"}) is not None


def test_a_text_too_long_for_pythons_engine_does_not_fit(engine: str) -> None:
    problem = validated("a" * 3_000, {"pattern": "^a+$"})
    assert (problem is None) == (engine == "re2")


@pytest.mark.parametrize(
    ("items", "are_unique"),
    [
        ([1, True], True),
        ([1, 1.0], False),
        ([[1], [1.0]], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        (["1", 1], True),
        ([None, None], False),
        ([], True),
    ],
)
def test_lists_of_different_items(items: list[Any], are_unique: bool) -> None:
    assert (validated(items, {"type": "array", "uniqueItems": True}) is None) == are_unique


def test_a_long_list_of_different_items_takes_no_time() -> None:
    started = time.monotonic()
    assert validated([{"a": number} for number in range(20_000)], {"uniqueItems": True}) is None
    assert time.monotonic() - started < 10
