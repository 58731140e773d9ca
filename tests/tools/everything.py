"""A Ctx that has everything that a model can be told of."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pydantic

from toolstash import ConsumerContext, Ctx, Tool, ToolContext
from toolstash.toolsets import filter_set, kv_reader, paginator, pipeline, text_content, text_search


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Order(enum.Enum):
    UP = "up"
    DOWN = "down"


@dataclasses.dataclass
class Point:
    x: float
    y: Annotated[float, "How high."] = 0.0
    tags: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Node:
    name: str
    children: list[Node] = dataclasses.field(default_factory=list)


class Condition(TypedDict):
    field: str
    value: NotRequired[str | int]


class Inner(pydantic.BaseModel):
    kind: Literal["a", "b"] = "a"
    level: Literal[1, 2] = 1
    at: datetime | None = None


class Model(pydantic.BaseModel):
    """A model."""

    model_config = pydantic.ConfigDict(extra="forbid")
    inner: Inner
    others: list[Inner] = []
    table: dict[str, int] = {}
    size: Annotated[int, pydantic.Field(gt=0, multiple_of=2)] = 2
    title: int | str = 1
    names: set[str] = set()


SCHEMAS: dict[str, dict[str, Any]] = {
    "by_hand": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "Words."},
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "since": {"type": ["string", "null"], "format": "date"},
            "kind": {"enum": ["a", 1]},
            "place": {"$ref": "#/$defs/Place"},
            "options": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["query"],
        "$defs": {
            "Place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        },
    },
    "of_any_name": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
    "of_two_kinds": {
        "type": "object",
        "oneOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
        ],
    },
}
"""Schemas of tools made by hand: one that has a strict form, two that have none."""


def record(**arguments: Any) -> dict[str, Any]:
    """What a function was given, as text."""
    return {name: repr(value) for name, value in arguments.items()}


def everything(store: Any = "memory:", **options: Any) -> Ctx:
    """Every built-in tool, functions with all kinds of hints, consumers, and tools made by hand."""
    ctx = Ctx(store, **options)
    _producers(ctx)
    _consumers(ctx)
    _custom_tools(ctx)
    for name, schema in SCHEMAS.items():
        ctx.add_tool(Tool(name, f"The tool {name}.", schema, execute=lambda args: args))
    return ctx


def _producers(ctx: Ctx) -> None:
    lists = [paginator(ctx, mutations=True), text_search(ctx), filter_set(ctx), pipeline(ctx, allow_regex=True)]

    @ctx.producer(workspace_type="papers", toolsets=lists)
    def load_papers(query: str = "x", count: int = 5, order: Order = Order.UP) -> list[dict[str, Any]]:
        """Load papers.

        Args:
            query: Words to look for.
            count: How many.
        """
        return [{"id": n, "title": f"{query} {n}"} for n in range(min(count, 500))]

    @ctx.producer(workspace_type="2024 settings", toolsets=kv_reader(ctx))
    def load_settings() -> dict[str, int]:
        return {"a": 1}

    @ctx.producer(workspace_type="page", toolsets=text_content(ctx))
    async def load_page(url: str, context: ToolContext, wait: float | None = None) -> str:
        """Load a page."""
        return url * 10


def _consumers(ctx: Ctx) -> None:
    @ctx.consumer("papers", produces="points")
    async def convert(workspace_id: str, ctx: ConsumerContext, scale: Decimal = Decimal(1)) -> Any:
        """Make points of papers."""
        return await ctx.emit([{"x": 1}])

    @ctx.consumer(expose=False)
    def hidden(workspace_id: str) -> None:
        """Never seen."""


def _custom_tools(ctx: Ctx) -> None:
    tools = ctx.toolset("custom", enforce_type=False)

    @tools.tool
    def plain(a: str, b: int, c: float, d: bool, e: list[str], f: dict[str, Any]) -> Any:
        """Take plain values."""
        return record(a=a, b=b, c=c, d=d, e=e, f=f)

    @tools.tool
    def optional(a: str | None = None, b: Any = None, c: list[Any] | None = None, d: Path = Path("x")) -> Any:
        return record(a=a, b=b, c=c, d=d)

    @tools.tool
    def choices(a: Literal["x", "y"], b: Literal[1, 2] = 2, c: Level = Level.LOW, d: Literal["z", 3] | None = None):
        return record(a=a, b=b, c=c, d=d)

    @tools.tool
    def dates(a: datetime, b: date | None = None, c: time | None = None, d: UUID | None = None) -> Any:
        return record(a=a, b=b, c=c, d=d)

    @tools.tool
    def records(a: Point, b: list[Condition], c: Model | None = None, d: Node | None = None) -> Any:
        return record(a=a, b=b, c=c, d=d)

    @tools.tool
    def unions(a: int | str, b: list[int] | int | None = None, c: Point | int = 1, d: tuple[int, str] = (1, "")) -> Any:
        return record(a=a, b=b, c=c, d=d)

    @tools.tool
    def sets(a: set[int], b: frozenset[str] = frozenset(), c: Sequence[list[int]] = (), d: tuple[int, ...] = ()) -> Any:
        return record(a=a, b=b, c=c, d=d)

    @tools.tool
    def either(a: dict[str, Any] | str) -> Any:
        """Take text or an object, which has no strict form."""
        return record(a=a)

    @tools.tool(schema_extra={"n": {"minimum": 1, "description": "How many."}}, validate_workspace=False)
    def bare(n, anything=None):
        return record(n=n, anything=anything)

    @tools.tool
    def nothing() -> str:
        return "nothing"


def main() -> None:
    """Prints everything that a model is told."""
    ctx = everything()
    told = [ctx.get_tools(), ctx.get_tools("w_1"), ctx.get_tools(strict=True), ctx.system_prompt("Hello.")]
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
