"""A schema that an author wrote: shown unchanged, and what models send is brought near it and checked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstash import InvalidArgumentError
from toolstash.schema.json_schema import JsonFunctionSchema, check_schema, validated


def schema_of(properties: Mapping[str, Any] | None = None, *, required: Any = (), **more: Any) -> JsonFunctionSchema:
    whole = {"type": "object", "properties": dict(properties or {}), "required": list(required), **more}
    return JsonFunctionSchema.of_json("tool", "Does it.", whole)


def refusal(schema: JsonFunctionSchema, raw: Any) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as caught:
        schema.checked(raw)
    return caught.value


ROW = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "note": {"type": "string"}, "end": {"type": ["string", "null"]}},
    "required": ["count"],
}


@pytest.mark.parametrize(
    ("part", "sent", "received"),
    [
        ({"type": "integer"}, "2", 2),
        ({"type": "integer"}, " 2 ", 2),
        ({"type": "integer"}, 2.0, 2),
        ({"type": "number"}, 2, 2),
        ({"type": "number"}, "2", 2),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, 2.0, 2.0),
        ({"type": "boolean"}, "True", True),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, "5", "5"),
        ({"type": ["string", "integer"]}, 5, 5),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "null"]}, None, None),
        ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
        ({"type": "array", "items": {"type": "string"}}, "a, b", ["a", "b"]),
        ({"type": "array", "items": ROW}, {"count": "1"}, [{"count": 1}]),
        ({"type": "array"}, [1, "a"], [1, "a"]),
        (ROW, '{"count": "7", "note": null, "end": null}', {"count": 7, "end": None}),
        (ROW, {"count": 7, "other": "8"}, {"count": 7, "other": "8"}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "1"}, {"a": 1}),
        ({"enum": ["low", "high"]}, "LOW", "low"),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": [{"a": 1}]}, {"a": 1}, {"a": 1}),
        ({"const": "fixed"}, "Fixed", "fixed"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
        ({"oneOf": [ROW, {"type": "boolean"}]}, "true", True),
        ({"type": "string", "anyOf": [{"minLength": 2}, {"const": "a"}]}, "ab", "ab"),
        ({"allOf": [{"type": "integer"}]}, 5, 5),
        ({"properties": {"n": {"type": "integer"}}}, {"n": "1"}, {"n": 1}),
        ({"$ref": "#/$defs/Row"}, {"count": "1"}, {"count": 1}),
        ({"type": "array", "items": {"$ref": "#/$defs/Row"}}, [{"count": "1"}], [{"count": 1}]),
        ({"$ref": "#/$defs/Tree"}, {"inside": {"n": 1}, "n": "2"}, {"inside": {"n": 1}, "n": 2}),
        ({}, {"a": [None]}, {"a": [None]}),
        (True, "anything", "anything"),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, [1], [1]),
    ],
)
def test_what_is_unambiguous_is_brought_near(part: Any, sent: Any, received: Any) -> None:
    tree = {"type": "object", "properties": {"n": {"type": "integer"}, "inside": {"$ref": "#/$defs/Tree"}}}
    found = schema_of({"it": part}, **{"$defs": {"Row": ROW, "Tree": tree}}).checked({"it": sent})
    assert json.dumps(found) == json.dumps({"it": received})


@pytest.mark.parametrize(
    ("part", "sent", "said"),
    [
        ({"type": "integer"}, "12px", "'it' must be a whole number, such as 2, not \"12px\""),
        ({"type": "integer"}, "", "'it' must be a whole number"),
        ({"type": "integer"}, True, "'it' must be a whole number, such as 2, not true"),
        ({"type": "integer", "minimum": 1}, 0, "'it' must be at least 1, not 0"),
        ({"type": "integer", "exclusiveMaximum": 9}, "9", "'it' must be below 9, not 9"),
        ({"type": "number", "multipleOf": 5}, 3, "'it' must be a multiple of 5, not 3"),
        ({"type": "string", "pattern": "^a"}, "b", "'it' must be text that matches ^a, not \"b\""),
        ({"type": "string", "maxLength": 2}, "abc", "'it' must be text of 2 characters or fewer"),
        ({"type": "array", "minItems": 1}, [], "'it' must be a list of 1 entries or more, not a list"),
        ({"type": "array", "uniqueItems": True}, [1, 1], "'it' must be a list of different entries"),
        ({"type": "array", "items": ROW}, [{"count": 1}, {}], "'it.1' lacks 'count'"),
        ({**ROW, "additionalProperties": False}, {"count": 1, "cuont": 1}, "unknown field 'cuont' (did you mean"),
        ({"enum": ["low", "high"]}, "mid", '\'it\' must be one of "low", "high", not "mid"'),
        ({"enum": [[1]]}, [2], "'it' must be one of [1], not a list"),
        ({"const": 3}, 4, "'it' must be"),
        ({"allOf": [{"type": "integer"}]}, "x", "'it' must be a whole number, not \"x\""),
        ({"not": {"type": "integer"}}, 5, "'it' does not fit the schema (not)"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(part: Any, sent: Any, said: str) -> None:
    error = refusal(schema_of({"it": part}), {"it": sent})
    told = error.to_llm_dict()
    assert said in told["error"]
    assert (told["argument"], list(told["expected_parameters"])) == ("it", ["it"])
    assert told["suggested_action"].endswith("call the tool again.")


def test_what_is_missing_or_unknown_is_refused_with_the_nearest_name() -> None:
    schema = schema_of({"query": {"type": "string"}, "limit": {"type": "integer"}}, required=["query"])
    assert refusal(schema, {}).message == "Missing argument: 'query' (string)."
    assert refusal(schema, {"query": None}).message == "'query' must be text, not null."
    assert "did you mean 'limit'" in refusal(schema, {"query": "a", "limt": 1}).message
    assert refusal(schema, {"query": "a", "limt": 1}).details["expected_parameters"]["limit"] == "integer"
    for raw in ("null", "[]", "{", '{"query": ', "5"):
        assert "JSON object" in refusal(schema, raw).message


def test_null_for_an_optional_one_is_as_if_it_were_left_out() -> None:
    schema = schema_of({"a": {"type": "integer"}, "b": {"type": "integer", "default": 7}})
    assert schema.checked({"a": None, "b": None}) == {"b": 7}


def test_null_that_the_schema_names_is_a_value() -> None:
    schema = schema_of({"a": {"type": ["integer", "null"], "default": 7}, "b": {"enum": ["x", None]}, "c": {}})
    assert schema.checked({"a": None, "b": None, "c": None}) == {"a": None, "b": None, "c": None}


def test_defaults_are_filled_in_where_they_fit() -> None:
    parts = {
        "good": {"type": "integer", "default": 1},
        "wrong": {"type": "string", "default": None},
        "far": {"$ref": "#/$defs/Row", "default": {"count": 1}},
        "needed": {"type": "integer", "default": 5},
    }
    schema = schema_of(parts, required=["needed"], **{"$defs": {"Row": ROW}})
    assert schema.checked({"needed": 0}) == {"needed": 0, "good": 1, "far": {"count": 1}}
    assert "needed" in refusal(schema, {}).message
    schema.checked({"needed": 0})["far"].clear()
    assert schema.checked({"needed": 0})["far"] == {"count": 1}


def test_defaults_do_not_break_what_the_schema_says_of_the_whole() -> None:
    either = [{"required": ["a"]}, {"required": ["b"]}]
    schema = schema_of({"a": {"type": "integer", "default": 1}, "b": {"type": "integer", "default": 2}}, oneOf=either)
    assert schema.checked({"a": 5}) == {"a": 5, "b": 2}
    assert refusal(schema, {"a": 1, "b": 2}).message.startswith("The call does not fit the schema")


def test_further_names_pass_where_the_schema_says_so() -> None:
    free = schema_of({"a": {"type": "integer"}}, additionalProperties=True)
    assert free.checked({"b": None, "a": "1", "c": [2]}) == {"b": None, "a": 1, "c": [2]}
    numbers = schema_of({}, additionalProperties={"type": "integer"})
    assert numbers.checked({"x": "1"}) == {"x": 1}
    assert "'x' must be a whole number" in refusal(numbers, {"x": "a"}).message
    patterned = schema_of({}, patternProperties={"^x-": {"type": "integer"}})
    assert patterned.checked({"x-1": "1"}) == {"x-1": 1}
    assert "Unknown argument: 'y-1'" in refusal(patterned, {"y-1": 1}).message
    assert "Unknown argument: 'z'" in refusal(schema_of({}, additionalProperties=False), {"z": 1}).message
    assert "Unknown argument: 'z'" in refusal(schema_of({"z": False}, additionalProperties=True), {"z": 1}).message


def test_a_name_that_a_model_made_up_is_not_repeated_at_length() -> None:
    numbers = schema_of({"a": {"type": "integer"}}, additionalProperties={"type": "integer", "minimum": 5})
    for sent in ({"x" * 10_000: "a"}, {"x" * 10_000: 1}, {f"n{count}": "a" for count in range(5_000)}, {"\ud800": "a"}):
        told = refusal(numbers, sent).to_llm_dict()
        assert told["expected_parameters"] == {"a": "integer"}
        assert len(json.dumps(told)) < 1_000
        assert json.dumps(told, ensure_ascii=False).encode()


def test_names_in_combined_parts_are_known() -> None:
    by_id = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
    by_name = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    schema = schema_of({}, oneOf=[by_id, {"$ref": "#/$defs/ByName"}], **{"$defs": {"ByName": by_name}})
    assert schema.checked({"id": "5"}) == {"id": 5}
    assert schema.checked({"name": "x"}) == {"name": "x"}
    assert "Unknown argument: 'nme'" in refusal(schema, {"nme": "x"}).message
    assert schema.checked({"name": None, "id": 1}) == {"id": 1}


def test_the_author_s_schema_is_shown_unchanged() -> None:
    written = {"type": "object", "$comment": "x", "properties": {"b": {"type": "integer", "x": 1}, "a": {}}}
    schema = JsonFunctionSchema.of_json("tool", "Does it.\nAll of it.\n\nMore.", MappingProxyType(written))
    shown = schema.to_openai(enums={"a": [1]}, leave_out={"b"})
    assert json.dumps(shown["function"]["parameters"]) == json.dumps(written)
    assert shown["function"]["description"] == "Does it.\nAll of it.\n\nMore."
    assert schema.summary == "Does it. All of it."
    written["properties"].clear()  # type: ignore[attr-defined]
    shown["function"]["parameters"].clear()
    assert list(schema.to_openai()["function"]["parameters"]["properties"]) == ["b", "a"]


def test_what_is_nested_deeply_is_read_and_a_circle_ends() -> None:
    tree = schema_of({"inside": {"$ref": "#"}, "n": {"type": "integer"}})
    sent: dict[str, Any] = {"n": 1}
    for _ in range(40):
        sent = {"inside": sent}
    assert tree.checked(sent) == sent
    circle = schema_of({"it": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}})
    assert "nested" in refusal(circle, {"it": 1}).message


def test_nothing_of_a_long_value_is_repeated() -> None:
    error = refusal(schema_of({"it": {"type": "string", "pattern": "^a"}}), {"it": "secret" * 10_000})
    assert len(json.dumps(error.to_llm_dict())) < 600
    many = refusal(schema_of({"it": {"items": {"type": "integer", "minimum": 5}}}), {"it": [1] * 100_000})
    assert many.message.startswith("'it.0' must be at least 5")


@pytest.mark.parametrize(
    ("data", "schema", "why"),
    [
        ({"env": "staging"}, {"type": "object", "required": ["env"]}, None),
        ({}, {"type": "object", "required": ["env"]}, "the value lacks 'env'"),
        ({"a": [1, "x"]}, {"properties": {"a": {"items": {"type": "integer"}}}}, "'a.1' must be a whole number"),
        (None, {"type": "object"}, "the value must be an object, not null"),
        (3, True, None),
        (3, False, "the value is not allowed"),
        ("2", {"type": "integer"}, 'the value must be a whole number, not "2"'),
        ({"a": 1}, MappingProxyType({"type": "object"}), None),
        ({"a": 1, "b": 2}, {"additionalProperties": False, "properties": {"a": {}}}, "unknown field 'b'"),
    ],
)
def test_any_value_can_be_held_against_a_schema(data: Any, schema: Any, why: str | None) -> None:
    found = validated(data, schema)
    assert found == why if why is None else found is not None and why in found


@pytest.mark.parametrize("dialect", ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12", "unknown"])
def test_every_dialect_is_read_without_a_warning(dialect: str) -> None:
    host = "https" if dialect.startswith("20") else "http"
    uri = f"{host}://json-schema.org/{'draft/' if host == 'https' else ''}{dialect}/schema#"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = {"$schema": uri.rstrip("#") if host == "https" else uri, "type": "object", "properties": {"a": {}}}
        assert JsonFunctionSchema.of_json("tool", "", whole).checked({"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "a mapping, not NoneType"),
        ({"type": "objekt"}, "at 'type'"),
        ({"properties": {"a": {"minimum": "1"}}}, "at 'properties.a.minimum'"),
        ({"$ref": "https://example.com/a.json"}, "nothing is fetched"),
        ({"$ref": "other.json#/a"}, "nothing is fetched"),
        ({"items": {"$ref": "#/$defs/None"}}, "'#/$defs/None', which is not in it"),
        ({"enum": {1}}, "plain JSON"),
    ],
)
def test_what_is_no_schema_is_refused_early(schema: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_schema(schema)


def test_data_that_looks_like_a_reference_is_none() -> None:
    check_schema({"enum": [{"$ref": "https://example.com/a.json"}], "properties": {"$ref": {"type": "string"}}})
    check_schema({"$id": "https://example.com/a.json", "$ref": "#/$defs/A", "$defs": {"A": {}}})
    assert validated(1, {"$id": "https://example.com/a.json", "$ref": "#/$defs/A", "$defs": {"A": {}}}) is None


def test_a_reference_outside_is_never_fetched() -> None:
    with pytest.raises(ValueError, match="nothing is fetched"):
        validated(1, {"$ref": "http://127.0.0.1:9/schema.json"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["count", "note", "end"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PARTS = [
    {"type": "integer"},
    {"type": ["number", "null"]},
    {"type": "array", "items": ROW},
    ROW,
    {"enum": [1, "a", None]},
]


@settings(max_examples=150)
@given(part=st.sampled_from(PARTS), sent=JSON)
def test_what_passes_fits_and_what_fits_passes(part: dict[str, Any], sent: Any) -> None:
    schema = schema_of({"it": part}, required=["it"])
    try:
        received = schema.checked({"it": sent})["it"]
    except InvalidArgumentError:
        assert validated(sent, part) is not None
    else:
        assert validated(received, part) is None
        assert validated(sent, part) is not None or received == sent


def test_the_bytes_are_the_same_in_every_process() -> None:
    code = (
        "import json\nfrom toolstash.schema.json_schema import JsonFunctionSchema\n"
        "whole = {'type': 'object', 'properties': {n: {'type': 'integer'} for n in 'zyxabc'}, 'required': ['z']}\n"
        "print(json.dumps(JsonFunctionSchema.of_json('tool', 'Does it.', whole).to_openai()))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env={"PYTHONHASHSEED": seed}, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert b'"zyx' not in runs[0]
