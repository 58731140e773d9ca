"""`Tool`: made by hand, registered on a Ctx, called by a model or directly."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from toolstash import Ctx, MemoryStore, Tool, ToolContext
from toolstash.blocking import Blocking

STEPS = {
    "type": "object",
    "properties": {"steps": {"type": "integer", "description": "How many."}, "name": {"type": "string"}},
    "required": ["steps"],
    "x-author": {"z": 1, "a": [True, None]},
}


async def crunch(args: dict[str, Any], ctx: ToolContext | None = None) -> dict[str, Any]:
    return {"args": args, "context": type(ctx).__name__}


def tool(execute: Any = crunch, **parts: Any) -> Tool:
    return Tool(**{"name": "crunch", "description": "Works.", "input_schema": STEPS, "execute": execute} | parts)


async def test_a_model_calls_it_like_any_other_tool(ctx: Ctx) -> None:
    made = tool()
    assert ctx.add_tool(made) is made
    expected = {"args": {"steps": 2}, "context": "ToolContext"}
    assert await ctx.adispatch_tool_call("crunch", {"steps": "2"}) == expected
    assert await ctx.adispatch_tool_call("crunch", '{"steps": 2.0, "name": null}') == expected
    refused = await ctx.adispatch_tool_call("crunch", {"steps": 2, "nam": "x"})
    assert "did you mean 'name'" in refused["error"]
    assert (await ctx.adispatch_tool_call("crunch"))["argument"] == "steps"


async def test_its_fields_are_those_of_the_seed() -> None:
    made = Tool("crunch", "Works.", STEPS, "mcp", crunch)
    assert (made.name, made.description, made.input_schema, made.source) == ("crunch", "Works.", STEPS, "mcp")
    assert (await made.execute({"steps": 1}))["context"] == "NoneType"
    assert tool().source == "custom"
    assert tool().idempotent is False


async def test_execute_may_be_of_any_kind(ctx: Ctx) -> None:
    threads: list[int] = []

    async def alone(args: dict[str, Any]) -> list[Any]:
        return [args]

    def in_a_thread(args: dict[str, Any], anything: Any) -> list[Any]:
        threads.append(threading.get_ident())
        return [args, isinstance(anything, Blocking)]

    async def open_ended(*args: Any) -> list[Any]:
        return [args[0], isinstance(args[1], ToolContext)]

    class Runner:
        async def __call__(self, args: dict[str, Any], ctx: Any) -> list[Any]:
            return [args, isinstance(ctx, ToolContext)]

        def run(self, args: dict[str, Any], ctx: Any = None) -> list[Any]:
            return [args, isinstance(ctx, Blocking)]

    async def configured(base: int, args: dict[str, Any], ctx: Any) -> list[Any]:
        return [args, isinstance(ctx, ToolContext)]

    kinds = {
        "alone": alone,
        "in_a_thread": in_a_thread,
        "open_ended": open_ended,
        "runner": Runner(),
        "run": Runner().run,
        "configured": functools.partial(configured, 5),
    }
    for name, execute in kinds.items():
        ctx.add_tool(tool(execute, name=name))
    results = {name: await ctx.adispatch_tool_call(name, {"steps": 1}) for name in kinds}
    assert results == {name: [{"steps": 1}, True][: 1 if name == "alone" else 2] for name in kinds}
    assert threads != [threading.get_ident()]


async def test_what_it_gets_is_its_own_to_change(ctx: Ctx) -> None:
    def spoil(args: dict[str, Any]) -> int:
        args.setdefault("list", []).append(1)
        return len(args["list"])

    schema = {"type": "object", "properties": {"list": {"type": "array", "default": []}}}
    ctx.add_tool(tool(spoil, input_schema=schema))
    assert [await ctx.adispatch_tool_call("crunch") for _ in range(3)] == [1, 1, 1]


async def test_it_can_be_called_from_python(ctx: Ctx) -> None:
    ctx.add_tool(tool())
    assert (await ctx.entries["crunch"].run({"steps": 1}))["context"] == "ToolContext"


async def test_schemas_list_it_after_the_tool_sets_as_the_author_wrote_it(ctx: Ctx) -> None:
    ctx.add_tool(tool(name="b"))
    ctx.add_tool(tool(name="a", idempotent=True))
    ctx.toolset("papers").tool(name="papers_read")(lambda workspace_id: 1)
    listed = ctx.get_all_tool_schemas()
    assert [schema["function"]["name"] for schema in listed] == ["papers_read", "b", "a"]
    assert listed[1] == {"type": "function", "function": {"name": "b", "description": "Works.", "parameters": STEPS}}
    assert list(listed[1]["function"]["parameters"]) == list(STEPS)
    assert ctx.get_tools()[-2:] == listed[1:]
    listed[1]["function"]["parameters"]["properties"].clear()
    assert ctx.get_all_tool_schemas("papers_1")[1]["function"]["parameters"] == STEPS
    assert (ctx.entries["a"].idempotent, ctx.entries["b"].idempotent) == (True, False)


async def test_its_errors_are_values_where_the_ctx_is_safe() -> None:
    def fail(args: dict[str, Any]) -> None:
        raise KeyError("secret")

    for safe in (True, False):
        async with Ctx(MemoryStore(), safe=safe) as ctx:
            ctx.add_tool(tool(fail))
            if safe:
                assert (await ctx.adispatch_tool_call("crunch", {"steps": 1}))["error"] == "crunch failed (KeyError)."
            else:
                with pytest.raises(KeyError):
                    await ctx.adispatch_tool_call("crunch", {"steps": 1})


def made_inside(number: int) -> Tool:
    async def execute(args: dict[str, Any]) -> int:
        return number

    return tool(execute)


async def test_a_name_is_taken_once(ctx: Ctx) -> None:
    first = ctx.add_tool(made_inside(1))
    ctx.add_tool(first)
    for other in (made_inside(2), tool()):
        with pytest.raises(ValueError, match="'crunch' is taken"):
            ctx.add_tool(other)
    assert await ctx.adispatch_tool_call("crunch", {"steps": 1}) == 1

    @ctx.producer(workspace_type="a")
    async def load() -> list[int]:
        return []

    with pytest.raises(ValueError, match="'load' is taken"):
        ctx.add_tool(tool(name="load"))


async def test_the_same_function_may_be_registered_again_as_in_a_notebook(ctx: Ctx) -> None:
    ctx.add_tool(tool())
    ctx.add_tool(tool(description="Works better."))
    (schema,) = ctx.get_all_tool_schemas()
    assert schema["function"]["description"] == "Works better."


@pytest.mark.parametrize("name", ["", "my.tool", "é", "x" * 41, "a b", None, 3])
def test_a_name_that_would_be_changed_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="1 to 40 characters"):
        tool(name=name)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {},
        {"type": "array"},
        {"type": "objekt"},
        {"type": "object", "properties": {"a": {"type": 5}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"a": {"enum": [float("nan")]}}},
        {"type": "object", "properties": {"a": {"enum": {1, 2}}}},
    ],
)
def test_a_schema_that_is_none_of_an_object_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="the input_schema of 'crunch'"):
        tool(input_schema=schema)


def takes_nothing() -> None: ...


def takes_three(a: Any, b: Any, c: Any) -> None: ...


def takes_named(args: Any, *, more: Any) -> None: ...


def yields(args: Any) -> Iterator[int]:
    yield 1


async def yields_later(args: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("execute", [None, "crunch", takes_nothing, takes_three, takes_named, yields, yields_later])
def test_a_function_that_could_not_be_called_is_refused(execute: Any) -> None:
    with pytest.raises(TypeError, match="'crunch'"):
        tool(execute)


def test_a_tool_without_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="needs execute"):
        Tool("crunch", "Works.", STEPS)
    with pytest.raises(TypeError, match="description"):
        tool(description=None)


def test_a_ctx_without_such_tools_never_loads_jsonschema() -> None:
    code = (
        "import sys, toolstash, toolstash.toolsets\n"
        "ctx = toolstash.Ctx('memory:')\n"
        "ctx.toolset('a').tool(name='a_b')(lambda x: x)\n"
        "assert ctx.dispatch_tool_call('a_b', {'x': 1}) == 1\n"
        "toolstash.Tool, toolstash.ToolContext, toolstash.pending(kind='input', prompt='Which?')\n"
        "assert not {'jsonschema', 'referencing'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], timeout=60).returncode == 0


async def test_many_arguments_are_checked_beside_the_event_loop_and_within_the_time_of_the_call() -> None:
    ctx = Ctx("memory:")
    items = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
    schema = {"type": "object", "properties": {"rows": items}}
    ctx.add_tool(Tool("count", "Counts.", schema, execute=lambda args: len(args["rows"])))
    threads: set[str] = set()
    entry = ctx.entries["count"]
    checked = type(entry.schema).checked

    def noted(self: Any, raw: Any) -> Any:
        threads.add(threading.current_thread().name)
        return checked(self, raw)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(entry.schema), "checked", noted)
        assert await ctx.adispatch_tool_call("count", {"rows": [{"n": "1"}]}) == 1
        assert threads == {threading.current_thread().name}
        rows = [{"n": n} for n in range(5_000)]
        assert await ctx.adispatch_tool_call("count", {"rows": rows}) == 5_000
        assert len(threads) == 2
        assert "rows" in (await ctx.adispatch_tool_call("count", {"rows": [*rows, {"n": "x"}]}))["error"]
        assert (await ctx.adispatch_tool_call("count", {"rows": rows * 20}, timeout=0.01))["status"] == "timeout"
