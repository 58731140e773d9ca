"""Whatever is sent to whatever tool: a dispatch never raises, stays within its bound, and an error says what to do."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers import shared_server
from tests.tools.everything import everything
from toolstash import Ctx, MemoryStore, RedisStore

MOST_CHARS = 4_000
PARAMETERS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in everything().get_tools()}
NAMES = list(PARAMETERS)
WORKSPACES = ("rows", "fields", "text", "number", "nothing", "gone")
READ_BY = {"papers_": "rows", "t_2024": "fields", "page_": "text", "convert": "rows"}
TELLING = (
    *("eq", "in", "year", "author.name", "tags.0", "a", "$gte", "1e3", " 2 ", "12px", "true", "null", "", "[]", "{}"),
    *("[[", '{"a": 1}', '[{"limit": 2}]', '{"n": "count"}', "a,b", "\ud800", "\x00", "é" * 300, "9" * 400, *WORKSPACES),
)
STEPS = (
    *({"filter": {"year": {"$gte": 2023}}}, {"filter": {"$or": [{"year": 1}, {"a": None}]}}, {"search": "words"}),
    *({"sort": {"field": "year", "order": "desc"}}, {"select": ["year"]}, {"limit": 3}, {"group_by": {"field": "a"}}),
    *({"count": True}, {"flatten": "tags"}, {"sample": {"n": 2, "seed": 1}}, {"nonsense": 1}, {"limit": -1}),
)

words = st.sampled_from(TELLING) | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.sampled_from([0, 1, 10**400, -(10**18)])
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
values = json_values | st.lists(st.sampled_from(STEPS), max_size=4) | st.sampled_from(STEPS) | json_values.map(str)


def fitting(name: str, schema: Any) -> st.SearchStrategy[Any]:
    """Values that a schema describes, near the edges of what is there."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.sampled_from(("year", "author.name", "tags.0", "words", "A1", *TELLING)),
        "integer": st.integers(-1, 60) | st.just(10**12),
        "number": st.integers(-1, 9) | st.floats(allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
        "object": st.dictionaries(words, scalars | st.just("mean:year"), max_size=3),
    }
    if name == "workspace_id":
        return st.sampled_from(WORKSPACES)
    if name == "steps":
        return st.lists(st.sampled_from(STEPS), max_size=4)
    if "anyOf" in schema:
        return st.one_of([fitting("", member) for member in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "array":
        return st.lists(fitting("", schema["items"]), max_size=3)
    if schema.get("properties"):
        return st.fixed_dictionaries({key: fitting("", part) for key, part in schema["properties"].items()})
    return kinds.get(str(schema.get("type")), values)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Any, Any]:
    """A tool's name, mostly a real one, and arguments: fitting ones, some of them spoilt, or nonsense."""
    name = draw(st.sampled_from(NAMES))
    parts, required = PARAMETERS[name]["properties"], PARAMETERS[name].get("required", ())
    given = [key for key in parts if key in required or draw(st.booleans())]
    arguments: Any = {key: draw(fitting(key, parts[key])) for key in given}
    right = next((workspace for start, workspace in READ_BY.items() if name.startswith(start)), None)
    if right is not None and "workspace_id" in arguments and draw(st.sampled_from([True, True, False])):
        arguments["workspace_id"] = right
    form = draw(st.integers(0, 11))
    if form < 4:
        spoilt = draw(st.sampled_from([*parts, "workspace_id"]) | words)
        arguments[spoilt] = draw(values)
    elif form == 4:
        arguments = draw(values)
    if form in (3, 5):
        arguments = json.dumps(arguments)[: draw(st.sampled_from([None, None, 5, 30]))]
    wanted = draw(st.sampled_from([name] * 9 + [name.upper(), f"mcp__x__{name}"]) if form < 11 else words | scalars)
    return wanted, arguments


async def filled(store: Any) -> Ctx:
    ctx = everything(store, max_result_chars=MOST_CHARS)
    rows: list[Any] = [
        {"year": 2020 + n, "a": "x" * 3_000, "tags": [n, "t"], "author": {"name": f"A{n}"}} for n in range(30)
    ]
    for name, kind, data in (
        ("rows", "papers", [*rows, "text", 5, None, [1], "y" * 9_000]),
        ("fields", "2024 settings", {"a": {"b": "z" * 9_000}, "c": [1], "": 0, **{f"k{n}": n for n in range(500)}}),
        ("text", "page", "words and é\n" * 2_000),
        ("number", "page", 5),
        ("nothing", "papers", []),
    ):
        await ctx.store_workspace(data, workspace_type=kind, workspace_id=name)
    return ctx


def check(answer: Any) -> None:
    """A result within its bound; an error (told as the only one that has both keys) says what to do."""
    text = (
        answer
        if isinstance(answer, str)
        else json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    )
    assert len(text) <= MOST_CHARS
    if isinstance(answer, dict) and "error" in answer:
        assert isinstance(answer["error"], str)
        assert answer["error"].strip()
        assert isinstance(answer["suggested_action"], str)
        assert answer["suggested_action"].strip()


@pytest.fixture
async def here() -> AsyncIterator[Ctx]:
    async with await filled(MemoryStore()) as ctx:
        yield ctx


@pytest.fixture
async def there() -> AsyncIterator[Ctx]:
    url, prefix = shared_server("valkey").unix_url, f"z{secrets.token_hex(5)}"
    async with RedisStore(url, prefix=prefix) as store, await filled(store) as ctx:
        yield ctx


@settings(max_examples=1_200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls())
async def test_nothing_that_is_sent_raises(here: Ctx, call: tuple[Any, Any]) -> None:
    check(await here.adispatch_tool_call(*call))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls())
async def test_nothing_that_is_sent_to_a_server_raises(there: Ctx, call: tuple[Any, Any]) -> None:
    check(await there.adispatch_tool_call(*call))


NONE = ("", "null", "{", "[]", "5", '"{}"', b"{}", 5, float("nan"), [1], {1: 2}, "[" * 100_000)


async def test_each_tool_survives_arguments_that_are_none(here: Ctx) -> None:
    for name in NAMES:
        for raw in NONE:
            check(await here.adispatch_tool_call(name, raw))
