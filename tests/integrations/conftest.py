"""A Ctx with tools of every kind, in memory and on a real server, for async and for sync code."""

from __future__ import annotations

import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.servers import shared_server
from toolstash import Ctx, Tool, ToolContext, ToolResult, pending
from toolstash.toolsets import filter_set, paginator, pipeline

ANY_OBJECT = {"type": "object", "additionalProperties": True}
PARALLEL = 3


def with_tools(ctx: Ctx) -> Ctx:
    """Puts in a producer with its tool sets, and tools by hand that echo, ask, fail, and wait for each other."""
    toolsets = [paginator(ctx), filter_set(ctx), pipeline(ctx)]
    meeting = threading.Barrier(PARALLEL)

    @ctx.producer(workspace_type="papers", toolsets=toolsets, key="papers_{count}")
    def load_papers(count: int = 25, config: str = "") -> list[dict[str, Any]]:
        """Load papers."""
        return [{"id": number, "year": 2000 + number, "error": config or "a column"} for number in range(count)]

    async def ask(args: dict[str, Any], context: ToolContext) -> Any:
        if context.answer is None:
            return pending(kind="approval", prompt=args.get("prompt", "Now?"), data=args.get("data"))
        return {"answered": context.answer.data}

    def meet(args: dict[str, Any]) -> Any:
        meeting.wait(20)
        return {"met": args["n"]}

    async def fail(_: dict[str, Any]) -> Any:
        raise OSError("a secret")

    async def refuse(_: dict[str, Any]) -> Any:
        return ToolResult("not today", is_error=True)

    async def echo(args: dict[str, Any]) -> Any:
        return args["value"]

    for name, execute in {"ask": ask, "meet": meet, "fail": fail, "refuse": refuse, "echo": echo}.items():
        ctx.add_tool(Tool(name, f"{name}.", ANY_OBJECT, execute=execute))
    return ctx


def url_of(kind: str) -> str:
    return "memory:" if kind == "memory" else shared_server(kind).url


@pytest.fixture(params=["memory", "valkey"])
async def tools_ctx(request: pytest.FixtureRequest) -> AsyncIterator[Ctx]:
    """For async tests."""
    async with Ctx(url_of(request.param), prefix=f"i{secrets.token_hex(5)}") as ctx:
        yield with_tools(ctx)


@pytest.fixture(params=["memory", "valkey"])
def sync_ctx(request: pytest.FixtureRequest) -> Iterator[Ctx]:
    """For tests of the blocking doors."""
    ctx = with_tools(Ctx(url_of(request.param), prefix=f"i{secrets.token_hex(5)}"))
    yield ctx
    ctx.blocking.aclose()
