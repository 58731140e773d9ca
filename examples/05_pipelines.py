"""Pipelines: the model joins several operations to one call, and reads only what comes out at the end.

The rows are the sections of this project's own documents, made by `split_markdown_sections`.
Run it with `python examples/05_pipelines.py`. It starts a server of its own, or uses the one in TOOLSTASH_URL.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from toolstash import Ctx, split_markdown_sections
from toolstash.toolsets import paginator, pipeline

PROJECT = Path(__file__).parents[1]
CODE_NAME = re.compile(r"`([a-z_]+)`")


def sections() -> list[dict[str, Any]]:
    """One row for each section: its page, heading, text, length, and the names that it sets in code type."""
    rows: list[dict[str, Any]] = []
    for path in [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]:
        for section in split_markdown_sections(path.read_text(encoding="utf-8")):
            text = section["text"]
            names = sorted(set(CODE_NAME.findall(text)))
            row = {"page": path.name, "heading": section["heading"], "chars": len(text), "names": names, "text": text}
            rows.append(row)
    return rows


def build() -> Ctx:
    """A Ctx with one producer, whose workspace the model pages through and asks."""
    ctx = Ctx(default_ttl=600)

    @ctx.producer(workspace_type="manual", toolsets=[pipeline(ctx, max_items=8), paginator(ctx)], key="manual")
    def load_manual() -> list[dict[str, Any]]:
        """Load the manual, section by section."""
        return sections()

    return ctx


def show(rows: list[dict[str, Any]]) -> None:
    """Rows, one a line."""
    for row in rows:
        print("  " + ", ".join(f"{name}: {value}" for name, value in row.items()))


async def pipe(ctx: Ctx, *steps: dict[str, Any], **more: Any) -> Any:
    """One call of `manual_pipe`, its steps shown one a line."""
    print("\nmanual_pipe")
    for step in steps:
        print(f"  {json.dumps(step)}")
    print("".join(f"  {name}={value!r}\n" for name, value in more.items()) + "→")
    return await ctx.adispatch_tool_call("manual_pipe", {"workspace_id": "manual", "steps": [*steps]} | more)


async def ask_for_rows(ctx: Ctx) -> None:
    """Which names the manual uses most, and which short sections are about a question."""
    most_used = await pipe(
        ctx,
        {"flatten": "names"},  # a row for each name of a section
        {"filter": {"names": {"$ne": None}}},  # a section without names stays, with null
        {"group_by": {"field": "names", "metrics": {"sections": "count", "pages": "count_distinct:page"}}},
        {"sort": [{"field": "sections", "order": "desc"}, "names"]},
        {"limit": 5},
    )
    show(most_used["items"])
    about_expiry = await pipe(
        ctx,
        {"search": "expiry expired"},
        {"filter": {"chars": {"$lte": 3000}, "page": {"$nin": ["README.md", "from-ctxtual.md"]}}},
        {"select": ["page", "heading", "chars"]},
    )
    show(about_expiry["items"])
    print(f"  ({about_expiry['count']} of {about_expiry['total']} rows)")


async def measure(ctx: Ctx) -> None:
    """`aggregate` is a shorter way to metrics: over all rows, or by group."""
    metrics = {"sections": "count", "median": "median:chars", "p90": "p90:chars", "longest": "max:chars"}
    print(f"\nmanual_aggregate metrics={json.dumps(metrics)}\n→")
    answer = await ctx.adispatch_tool_call("manual_aggregate", {"workspace_id": "manual", "metrics": metrics})
    show([answer["result"]])


async def save_and_page(ctx: Ctx) -> None:
    """What a pipeline gives may be stored: the model gets a notice of it, and the same tools read it."""
    sort = {"sort": {"field": "chars", "order": "desc"}}
    notice = await pipe(ctx, sort, {"exclude": ["text", "names"]}, save_as="by_length")
    print(f"  {notice['status']}: {notice['workspace_id']}, {notice['item_count']} rows")
    page = await ctx.adispatch_tool_call("manual_paginate", {"workspace_id": notice["workspace_id"], "size": 3})
    print(f"\nmanual_paginate size=3 of {notice['workspace_id']}\n→")
    show(page["result"]["items"])


async def make_a_mistake(ctx: Ctx) -> None:
    """A wrong step comes back with its place, the reason, and an example that is right."""
    answer = await pipe(ctx, {"filter": {"chars": {"$gt": 500}}}, {"group_by": {"field": "page", "metrics": "mean"}})
    for key, value in answer.items():
        print(f"  {key}: {json.dumps(value, ensure_ascii=False)}")


async def main() -> None:
    """Questions, metrics, a stored result, and a mistake."""
    async with build() as ctx:
        notice = await ctx.adispatch_tool_call("load_manual")
        print(f"{notice['item_count']} sections, {notice['chars']:,} characters of JSON stay in the store")
        await ask_for_rows(ctx)
        await measure(ctx)
        await save_and_page(ctx)
        await make_a_mistake(ctx)


if __name__ == "__main__":
    asyncio.run(main())
