"""A parameter annotated `ToolContext` is supplied in every kind of tool, and nobody else sees it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from toolstash import Answer, ConsumerContext, Ctx, ToolContext, session_scope
from toolstash.blocking import Blocking
from toolstash.tools.tool_context import context_parameter, context_scope, current_context

if TYPE_CHECKING:
    import toolstash as stash

YES = Answer("pnd_1", ok=True)


def facts(context: Any) -> dict[str, Any]:
    """What a function saw of its context."""
    return {
        "session": context.session_id,
        "stopped": context.signal.is_set(),
        "answers": len(context.answers),
        "blocks": isinstance(context, Blocking),
    }


async def async_tool(query: str, context: ToolContext) -> dict[str, Any]:
    return facts(context) | {"query": query}


def def_tool(query: str, context: ToolContext) -> dict[str, Any]:
    return facts(context) | {"query": query}


async def first_tool(context: ToolContext, query: str) -> dict[str, Any]:
    return facts(context) | {"query": query}


async def named_tool(query: str, *, context: ToolContext | None = None) -> dict[str, Any]:
    assert context is not None
    return facts(context) | {"query": query}


KINDS = [async_tool, def_tool, first_tool, named_tool]


def names_of(schema: dict[str, Any]) -> list[str]:
    return list(schema["function"]["parameters"]["properties"])


@pytest.mark.parametrize("function", KINDS)
async def test_a_tool_of_a_set_gets_it_however_it_is_called(ctx: Ctx, function: Callable[..., Any]) -> None:
    tool = ctx.toolset("any", enforce_type=False).tool(function)
    seen = {"stopped": False, "answers": 0, "blocks": function is def_tool, "query": "ml"}
    assert await ctx.adispatch_tool_call(f"any_{function.__name__}", {"query": "ml"}, session_id="s") == {
        "session": "s",
        **seen,
    }
    with session_scope("t"):
        assert await tool("ml") == {"session": "t", **seen}
        assert await tool(query="ml") == {"session": "t", **seen}
        assert await asyncio.to_thread(tool.blocking, "ml") == {"session": "t", **seen}
    (schema,) = ctx.get_all_tool_schemas()
    assert names_of(schema) == ["query"]


@pytest.mark.parametrize("function", KINDS)
async def test_a_producer_gets_it_and_keeps_nothing_of_it(ctx: Ctx, function: Callable[..., Any]) -> None:
    producer = ctx.producer(workspace_type="seen", key=lambda named: f"seen_{sorted(named)}")(function)
    notice = await ctx.adispatch_tool_call(function.__name__, {"query": "ml"})
    assert notice["workspace_id"] == "seen_['query']"
    meta = await ctx.workspace_meta(notice["workspace_id"])
    assert meta is not None
    assert meta.producer_kwargs == {"query": "ml"}
    assert (await ctx.store.get_items(notice["workspace_id"]))["blocks"] is (function is def_tool)
    assert (await producer("ml"))["workspace_id"] == notice["workspace_id"]
    (schema,) = ctx.get_producer_schemas()
    assert names_of(schema) == ["query"]


async def test_generators_get_it(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="a")
    async def stream(count: int, context: ToolContext) -> AsyncIterator[bool]:
        for _ in range(count):
            yield isinstance(context, ToolContext) and current_context() is context

    @ctx.producer(workspace_type="b")
    def pull(count: int, context: ToolContext) -> Iterator[bool]:
        for _ in range(count):
            yield isinstance(context, Blocking)

    for tool in (stream, pull):
        notice = await tool(3)
        assert await ctx.store.get_items(notice["workspace_id"]) == [True, True, True]


async def test_a_consumer_gets_it_beside_its_own_context(ctx: Ctx) -> None:
    @ctx.consumer()
    async def both(workspace_id: str, cc: ConsumerContext, context: ToolContext) -> list[Any]:
        return [await cc.get_items(), type(context).__name__]

    @ctx.consumer()
    def named(workspace_id: str, ctx: ToolContext, forge_ctx: Any) -> list[Any]:
        return [forge_ctx.get_items(), ctx.signal.is_set()]

    @ctx.consumer()
    async def alone(ctx: ToolContext) -> str:
        return type(ctx).__name__

    ref = await ctx.store_workspace([1, 2], workspace_type="n")
    at = {"workspace_id": ref.workspace_id}
    assert await ctx.adispatch_tool_call("both", at) == [[1, 2], "ToolContext"]
    assert await ctx.adispatch_tool_call("named", at) == [[1, 2], False]
    assert await ctx.adispatch_tool_call("alone") == "ToolContext"
    assert (await both(ref.workspace_id), await alone()) == ([[1, 2], "ToolContext"], "ToolContext")
    assert [names_of(schema) for schema in ctx.get_consumer_schemas()] == [["workspace_id"], ["workspace_id"], []]


@pytest.mark.parametrize("context_first", [True, False])
async def test_bound_tools_get_it(ctx: Ctx, context_first: bool) -> None:
    tools = ctx.toolset("n")

    async def first(context: ToolContext, workspace_id: str, page: int = 0) -> list[Any]:
        return [workspace_id, page, context.signal.is_set()]

    async def last(workspace_id: str, page: int = 0, *, context: ToolContext) -> list[Any]:
        return [workspace_id, page, context.signal.is_set()]

    tools.tool(name="n_read")(first if context_first else last)
    ref = await ctx.store_workspace([1], workspace_type="n")
    bound = tools.bind(ref.workspace_id)
    assert await bound.n_read(page=2) == [ref.workspace_id, 2, False]
    assert await bound.n_read(3) == [ref.workspace_id, 3, False]
    (schema,) = bound.to_tool_schemas()
    assert names_of(schema) == ["page"]


@pytest.mark.parametrize("function", KINDS)
async def test_a_caller_may_pass_one(ctx: Ctx, function: Callable[..., Any]) -> None:
    tool = ctx.toolset("any", enforce_type=False).tool(function)
    given = ToolContext(asyncio.Event(), session_id="given", answer=YES)
    seen = {"session": "given", "stopped": False, "answers": 1, "blocks": function is def_tool, "query": "ml"}
    assert await tool(query="ml", context=given) == seen
    if function is first_tool:
        assert await tool(given, "ml") == seen
    elif function is not named_tool:
        assert await tool("ml", given) == seen


async def test_a_tool_that_a_tool_calls_shares_all_but_the_answers(ctx: Ctx) -> None:
    tools = ctx.toolset("any", enforce_type=False)
    inner = tools.tool(async_tool)

    @tools.tool
    async def outer(context: ToolContext) -> list[Any]:
        return [len(context.answers), await inner("ml")]

    @tools.tool
    def outer_def(context: ToolContext) -> list[Any]:
        return [len(context.answers), inner.blocking("ml")]

    context = ToolContext(asyncio.Event(), session_id="s", call_id="c", answer=YES)
    context.signal.set()
    for tool in ("any_outer", "any_outer_def"):
        with context_scope(context):
            own, nested = await ctx.entries[tool].invoke({}, context)
        assert own == 1
        assert nested == {"session": "s", "stopped": True, "answers": 0, "blocks": False, "query": "ml"}


async def test_a_producer_that_a_tool_calls_gets_no_answers(ctx: Ctx) -> None:
    inner = ctx.producer(workspace_type="seen")(async_tool)
    context = ToolContext(asyncio.Event(), answer=YES)
    with context_scope(context):
        notice = await inner("ml")
        assert current_context() is context
    assert (await ctx.store.get_items(notice["workspace_id"]))["answers"] == 0


class Loader:
    async def __call__(self, query: str, context: ToolContext) -> bool:
        return isinstance(context, ToolContext)

    def load(self, query: str, context: ToolContext) -> bool:
        return isinstance(context, Blocking)


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def fixed(base: int, query: str, context: ToolContext) -> bool:
    return isinstance(context, ToolContext)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Loader(), "object"),
        (Loader().load, "method"),
        (functools.partial(fixed, 5), "partial"),
        (decorated(fixed), "decorated"),
    ],
)
async def test_any_callable_gets_it(ctx: Ctx, function: Callable[..., Any], name: str) -> None:
    ctx.toolset("any", enforce_type=False).tool(name="it")(function)
    base = {"base": 1} if name == "decorated" else {}
    assert await ctx.adispatch_tool_call("it", base | {"query": "ml"}) is True
    assert [parameter.name for parameter in ctx.entries["it"].schema.parameters][-1] == "query"


def optional(context: Optional[ToolContext] = None) -> None: ...  # noqa: UP045


def either(context: ToolContext | None = None) -> None: ...


def described(context: Annotated[ToolContext, "of the call"]) -> None: ...


def described_or_none(context: Annotated[ToolContext | None, "of the call"] = None) -> None: ...


def as_text(context: "ToolContext") -> None: ...  # noqa: UP037


def for_checkers_only(context: stash.ToolContext) -> None: ...


def none_of_them(context: Any, other: ConsumerContext, *args: ToolContext, **kwargs: ToolContext) -> None: ...


@pytest.mark.parametrize("function", [optional, either, described, described_or_none, as_text, for_checkers_only])
def test_every_way_to_write_the_annotation_is_found(function: Callable[..., Any]) -> None:
    found = context_parameter(function)
    assert found is not None
    assert (found.name, found.is_async, found.position) == ("context", False, 0)


def test_nothing_else_is_taken_for_it() -> None:
    assert context_parameter(none_of_them) is None


def test_two_of_them_are_refused_at_once(ctx: Ctx) -> None:
    async def two(a: ToolContext, b: ToolContext | None = None) -> None: ...

    for decorate in (ctx.producer(workspace_type="a"), ctx.consumer(), ctx.toolset("t").tool):
        with pytest.raises(ValueError, match=r"two\(\) has more than one ToolContext: a, b"):
            decorate(two)


def test_a_key_may_not_name_it(ctx: Ctx) -> None:
    with pytest.raises(ValueError, match="'{context}' is not a parameter"):
        ctx.producer(workspace_type="a", key="a_{context}")(async_tool)


def test_a_tool_says_whether_it_may_run_again(ctx: Ctx) -> None:
    ctx.producer(workspace_type="a", idempotent=True)(async_tool)
    ctx.consumer(idempotent=True)(def_tool)
    tools = ctx.toolset("t")
    tools.tool(first_tool, idempotent=True)
    tools.tool(named_tool)
    said = {name: entry.idempotent for name, entry in ctx.entries.items()}
    assert said == {"async_tool": True, "def_tool": True, "t_first_tool": True, "t_named_tool": False}
