"""What a model sends in strict mode is understood as what it means (F50)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.tools.everything import everything
from toolstash import Ctx
from toolstash.schema.strict import NoStrictFormError, strict_schema, strict_tool


@pytest.fixture
async def papers() -> Any:
    async with everything() as ctx:
        rows = [{"id": n, "year": 2020 + n % 5, "score": n, "author": {"name": f"A{n % 3}"}} for n in range(40)]
        await ctx.store_workspace(rows, workspace_type="papers", workspace_id="p")
        yield ctx


def strict_form(ctx: Ctx, name: str) -> dict[str, Any]:
    (tool,) = ctx.get_tools(names=[name], strict=True)
    assert tool["function"]["strict"] is True
    return tool["function"]["parameters"]


async def sent(ctx: Ctx, name: str, **arguments: Any) -> Any:
    """The answer to a call as strict mode makes a model write it: every property there, null where nothing is said."""
    schema = strict_form(ctx, name)
    whole = dict.fromkeys(schema["properties"]) | arguments
    Draft202012Validator(schema).validate(whole)
    return await ctx.adispatch_tool_call(name, json.dumps(whole))


FILTER = {"filter": {"year": {"$gte": 2023}}}


@pytest.mark.parametrize(
    ("name", "strict", "loose"),
    [
        ("papers_paginate", {}, {}),
        ("papers_paginate", {"page": 2, "size": 3}, {"page": 2, "size": 3}),
        ("papers_count", {}, {}),
        ("papers_get_item", {"index": 3}, {"index": 3}),
        ("papers_get_item", {"index": 3, "field": "author.name"}, {"index": 3, "field": "author.name"}),
        ("papers_get_slice", {"start": 5}, {"start": 5}),
        ("papers_search", {"query": "A1", "fields": ["author.name"]}, {"query": "A1", "fields": ["author.name"]}),
        ("papers_field_values", {"field": "year"}, {"field": "year"}),
        ("papers_filter_by", {"field": "year", "value": 2024}, {"field": "year", "value": 2024}),
        ("papers_filter_by", {"field": "none", "value": None}, {"field": "none", "value": None}),
        (
            "papers_filter_by",
            {"field": "year", "value": [2021, 2022], "operator": "in", "limit": 4},
            {"field": "year", "value": [2021, 2022], "operator": "in", "limit": 4},
        ),
        ("papers_sort_by", {"field": "score", "descending": True}, {"field": "score", "descending": True}),
        ("papers_pipe", {"steps": [json.dumps(FILTER), '{"limit": 2}']}, {"steps": [FILTER, {"limit": 2}]}),
        ("papers_aggregate", {}, {}),
        (
            "papers_aggregate",
            {"group_by": "year", "metrics": '{"n": "count", "best": "max:score"}'},
            {"group_by": "year", "metrics": {"n": "count", "best": "max:score"}},
        ),
        ("papers_aggregate", {"group_by": ["year", "author.name"]}, {"group_by": ["year", "author.name"]}),
    ],
)
async def test_a_built_in_tool_answers_the_same(papers: Ctx, name: str, strict: Any, loose: Any) -> None:
    expected = await papers.adispatch_tool_call(name, {"workspace_id": "p"} | loose)
    assert "error" not in expected
    assert await sent(papers, name, workspace_id="p", **strict) == expected


async def test_rows_are_changed_in_strict_mode(papers: Ctx) -> None:
    await sent(papers, "papers_append_items", workspace_id="p", items='[{"id": 40}, "text", 5]')
    await sent(papers, "papers_update_item", workspace_id="p", index=0, item='{"id": "new", "deep": {"a": [1]}}')
    await sent(papers, "papers_patch_item", workspace_id="p", index=1, fields='{"year": 1999, "gone": null}')
    await sent(papers, "papers_delete_items", workspace_id="p", indices=[2, 3])
    rows = await papers.store.get_items("p")
    assert rows[0] == {"id": "new", "deep": {"a": [1]}}
    assert (rows[1]["year"], rows[1]["gone"], rows[2]["id"]) == (1999, None, 4)
    assert rows[-3:] == [{"id": 40}, "text", 5]


async def test_rows_that_look_like_json_only_at_their_start_stay_texts(papers: Ctx) -> None:
    texts = ["{curly", "[not json]", '"5"', "5"]
    await papers.adispatch_tool_call("papers_append_items", {"workspace_id": "p", "items": texts})
    assert (await papers.store.get_items("p"))[-4:] == texts


@pytest.mark.parametrize(
    ("name", "strict", "loose"),
    [
        (
            "custom_plain",
            {"a": "x", "b": 1, "c": 0.5, "d": False, "e": ["y"], "f": '{"k": [1]}'},
            {"a": "x", "b": 1, "c": 0.5, "d": False, "e": ["y"], "f": {"k": [1]}},
        ),
        ("custom_optional", {}, {}),
        ("custom_optional", {"b": [1, "a"], "c": '[{"k": 1}]'}, {"b": [1, "a"], "c": [{"k": 1}]}),
        ("custom_choices", {"a": "x", "b": "1", "c": "2", "d": "3"}, {"a": "x", "b": 1, "c": 2, "d": 3}),
        ("custom_dates", {"a": "2024-05-31T12:00:00Z", "c": "12:30"}, {"a": "2024-05-31T12:00:00Z", "c": "12:30"}),
        (
            "custom_records",
            {
                "a": {"x": 1.5, "y": None, "tags": '{"t": 1}'},
                "b": [{"field": "f", "value": None}, {"field": "g", "value": 2}],
                "c": {
                    "inner": {"kind": None, "level": "2", "at": None},
                    "others": None,
                    "table": '{"t": 2}',
                    "size": 4,
                    "title": None,
                    "names": ["n"],
                },
                "d": {"name": "top", "children": ['{"name": "leaf"}']},
            },
            {
                "a": {"x": 1.5, "tags": {"t": 1}},
                "b": [{"field": "f"}, {"field": "g", "value": 2}],
                "c": {"inner": {"level": 2}, "table": {"t": 2}, "size": 4, "names": ["n"]},
                "d": {"name": "top", "children": [{"name": "leaf"}]},
            },
        ),
        (
            "custom_unions",
            {"a": "5", "b": 5, "c": {"x": 1, "y": 2, "tags": None}},
            {"a": "5", "b": 5, "c": {"x": 1, "y": 2}},
        ),
        ("custom_sets", {"a": [1, 1, 2], "c": [[1], [2]]}, {"a": [1, 2], "c": [[1], [2]]}),
        ("custom_bare", {"n": 3}, {"n": 3}),
        ("custom_nothing", {}, {}),
        (
            "by_hand",
            {"query": "q", "size": None, "kind": 1, "place": {"x": 1.5}, "options": '{"o": 2}'},
            {"query": "q", "since": None, "kind": 1, "place": {"x": 1.5}, "options": {"o": 2}},
        ),
    ],
)
async def test_a_tool_of_the_program_is_given_the_same(papers: Ctx, name: str, strict: Any, loose: Any) -> None:
    expected = await papers.adispatch_tool_call(name, loose)
    assert not isinstance(expected, dict) or "error" not in expected
    assert await sent(papers, name, **strict) == expected


async def test_null_means_the_default_of_a_producer(papers: Ctx) -> None:
    notice = await sent(papers, "load_papers", order="down")
    assert notice["item_count"] == 5


def test_strict_is_off_unless_asked_for() -> None:
    assert all("strict" not in tool["function"] for tool in everything().get_tools())


def test_a_tool_without_a_strict_form_says_so_and_keeps_its_own(caplog: pytest.LogCaptureFixture) -> None:
    ctx = everything()
    with caplog.at_level("INFO", "toolstash"):
        (strict,) = ctx.get_tools(names=["custom_either"], strict=True)
    (loose,) = ctx.get_tools(names=["custom_either"])
    assert strict["function"] == {**loose["function"], "strict": False}
    assert "custom_either has no strict form: a choice between a free object" in caplog.text


def schema(**parts: Any) -> dict[str, Any]:
    return {"type": "object", "properties": parts, "required": list(parts)}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"type": "object", "additionalProperties": {"type": "string"}}, "arguments of any name"),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, "anyOf at the root"),
        (schema(a={"anyOf": [{"type": "object"}, {"type": "string"}]}), "a choice between"),
        (schema(a={"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "string"}}]}), "a choice between"),
        (schema(a={"allOf": [{"type": "string"}]}), "allOf without a type"),
        (schema(a={"minimum": 3}), "a part without a type"),
        (schema(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": {"type": "object"}}}, "a definition of a free object"),
        (schema(a={"enum": [[1]]}), "no single values"),
        (schema(a={"$ref": "#/properties/b"}, b={"type": "string"}), "the reference"),
        (
            schema(**{f"p{n}": {"type": "string", "enum": [f"{n}{k}" for k in range(300)]} for n in range(4)}),
            "more prop",
        ),
    ],
)
def test_what_strict_mode_cannot_say_is_refused_with_the_reason(given: dict[str, Any], why: str) -> None:
    with pytest.raises(NoStrictFormError, match=why):
        strict_schema(given)


def test_objects_ten_deep_pass_and_eleven_do_not() -> None:
    def nested(depth: int) -> dict[str, Any]:
        return schema(a=nested(depth - 1) if depth > 1 else {"type": "string"})

    assert strict_schema(nested(10))["additionalProperties"] is False
    with pytest.raises(NoStrictFormError, match="more than 10 objects"):
        strict_schema(nested(11))


def test_parts_deeper_than_the_stack_have_no_strict_form() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(3_000):
        deep = {"type": "array", "items": deep}
    tool = {"type": "function", "function": {"name": "t", "description": "T.", "parameters": schema(a=deep)}}
    with pytest.raises(NoStrictFormError, match="too deep"):
        strict_tool(tool)


def test_a_reference_stays_and_a_definition_is_closed() -> None:
    definitions = {"node": schema(next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})}
    made = strict_schema(schema(a={"$ref": "#/$defs/node", "description": "A."}) | {"$defs": definitions})
    assert made["properties"]["a"] == {"$ref": "#/$defs/node"}
    assert made["$defs"]["node"]["additionalProperties"] is False
    optional = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}, "$defs": definitions}
    assert strict_schema(optional)["properties"]["a"] == {
        "anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}],
        "description": "Null leaves it out.",
    }


def test_keywords_that_strict_mode_refuses_are_said_in_words() -> None:
    made = strict_schema(
        schema(
            a={"type": "string", "minLength": 1, "format": "date", "pattern": "^2", "title": "A", "default": ""},
            b={"type": ["array", "null"], "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 3},
            c={"oneOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "How many."},
            d={"type": "array", "prefixItems": [{"type": "integer"}], "description": "A pair.", "minItems": 2},
        )
    )
    assert made["properties"] == {
        "a": {"type": "string", "description": "(format date, pattern ^2, minLength 1)"},
        "b": {
            "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}],
            "description": "(maxItems 3, uniqueItems True)",
        },
        "c": {
            "anyOf": [{"type": "integer", "description": "(minimum 1)"}, {"type": "null"}],
            "description": "How many.",
        },
        "d": {"type": "string", "description": "A pair. (minItems 2) JSON text of a list."},
    }
