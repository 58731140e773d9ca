"""Producers and tools of every kind of callable, and mistakes with them that are refused early."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from toolstash import Ctx


def rows(count: int, *, base: int = 0) -> list[int]:
    """Give rows."""
    return [base + number for number in range(count)]


async def later(count: int) -> list[int]:
    return rows(count)


def stream(count: int) -> Iterator[int]:
    yield from range(count)


class Source:
    def __call__(self, count: int) -> list[int]:
        return rows(count)

    async def load(self, count: int) -> list[int]:
        return rows(count)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (functools.partial(rows, base=5), "rows"),
        (functools.partial(later), "later"),
        (functools.partial(stream), "stream"),
        (Source(), "Source"),
        (Source().load, "load"),
        (plain(later), "later"),
        (plain(rows), "rows"),
    ],
)
async def test_any_callable_is_a_producer_and_a_tool(ctx: Ctx, function: Callable[..., Any], name: str) -> None:
    ctx.producer(workspace_type="a", key="a_{count}")(function)
    tools = ctx.toolset("more")
    tools.tool(function)

    notice = await ctx.adispatch_tool_call(name, {"count": 3})
    assert (notice["workspace_id"], notice["item_count"]) == ("a_3", 3)
    answer = await ctx.adispatch_tool_call(f"more_{name}", {"count": "2"})
    assert len(list(answer)) == 2


def test_a_parameter_by_position_only_is_refused(ctx: Ctx) -> None:
    def positional(a: int, /, b: int = 0) -> list[int]:
        return [a, b]

    with pytest.raises(TypeError, match="a by position only"):
        ctx.producer(workspace_type="a")(positional)
    with pytest.raises(TypeError, match="a by position only"):
        ctx.toolset("t").tool(positional)
    assert ctx.get_tools() == []


async def test_binding_fills_in_the_workspace_where_there_is_one(ctx: Ctx) -> None:
    tools = ctx.toolset("a")

    @tools.tool
    async def named(*, workspace_id: str, most: int = 1) -> list[Any]:
        return [workspace_id, most]

    @tools.tool
    async def first(workspace_id: str, most: int = 1) -> list[Any]:
        return [workspace_id, most]

    @tools.tool
    async def none(limit: int = 3) -> int:
        return limit

    ref = await ctx.store_workspace([1], workspace_type="a")
    bound = tools.bind(ref.workspace_id)
    assert await bound.a_named(most=2) == [ref.workspace_id, 2]
    assert await bound.a_first(2) == await bound.a_first(most=2) == [ref.workspace_id, 2]
    assert await bound.a_none() == 3
    assert copy.copy(bound).tool_names == bound.tool_names
    with pytest.raises(AttributeError, match="a_named"):
        bound.nothing  # noqa: B018
    assert inspect.isfunction(rows)
    assert copy.copy(ctx.store.blocking).visible_spaces() is None
