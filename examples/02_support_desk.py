"""A support desk: the model searches tickets by words, and reads only those that matter.

The tickets are in `data/tickets.jsonl`: people of seven languages whose sync, bills and logins do not work.
Run it with `python examples/02_support_desk.py`. It starts a server of its own, or uses the one in TOOLSTASH_URL.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from toolstash import Ctx
from toolstash.toolsets import filter_set, paginator, text_search

TICKETS = Path(__file__).parent / "data" / "tickets.jsonl"


def build() -> Ctx:
    """A Ctx with one producer and three tool sets that explore what it stores."""
    ctx = Ctx(default_ttl=600)

    @ctx.producer(workspace_type="tickets", toolsets=[text_search(ctx), filter_set(ctx), paginator(ctx)], key="tickets")
    def load_tickets() -> list[dict[str, Any]]:
        """Load all support tickets of March."""
        return [json.loads(line) for line in TICKETS.read_text(encoding="utf-8").splitlines()]

    return ctx


async def ask(ctx: Ctx, tool: str, **arguments: Any) -> Any:
    """One tool call of the model, shown as it makes it."""
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    print(f"\n{tool}({shown})")
    return await ctx.adispatch_tool_call(tool, {"workspace_id": "tickets"} | arguments)


async def search(ctx: Ctx, query: str, **more: Any) -> dict[str, Any]:
    """A search, and its hits in one line each."""
    answer = await ask(ctx, "tickets_search", query=query, max_results=3, **more)
    print(f"  total_matches: {answer['total_matches']}, matched_by: {answer['matched_by']}")
    for hit in answer["matches"]:
        print(f"  {hit['score']:5.2f}  #{hit['index']:<2}  {hit['snippet']:.85}")
    return answer


async def find_by_words(ctx: Ctx) -> dict[str, Any]:
    """Words, a phrase, the start of a word, a code, a mail address, a name without its accents."""
    await search(ctx, "shared links")
    await search(ctx, '"shared links"')
    await search(ctx, "sync*")
    await search(ctx, "katerina.novakova@tiskarna.example")
    await search(ctx, "請求書")
    await search(ctx, "kohler", fields=["customer.name"])
    return await search(ctx, "xv-77")


async def count_and_filter(ctx: Ctx) -> None:
    """Which values a field has, and the tickets of one of them."""
    plans = await ask(ctx, "tickets_field_values", field="customer.plan")
    print("  " + ", ".join(f"{entry['value']}: {entry['count']}" for entry in plans["distinct_values"]))
    tags = await ask(ctx, "tickets_field_values", field="tags", max_values=6)
    print("  " + ", ".join(f"{entry['value']}: {entry['count']}" for entry in tags["distinct_values"]))
    print(f"  {tags['suggested_action']}")
    urgent = await ask(ctx, "tickets_filter_by", field="tags", operator="contains", value="privacy")
    for row in urgent["results"]:
        item = row["item"]
        print(f"  #{row['index']:<2}  priority {item['priority']}  {item['subject']}")


async def main() -> None:
    """The desk's morning: load, look around, read one ticket whole."""
    async with build() as ctx:
        notice = await ctx.adispatch_tool_call("load_tickets")
        print(f"{notice['item_count']} tickets, {notice['chars']:,} characters, stored as '{notice['workspace_id']}'")
        found = await find_by_words(ctx)
        await count_and_filter(ctx)
        best = found["matches"][0]["index"]
        ticket = await ask(ctx, "tickets_get_item", index=best)
        print(f"  {ticket['id']} by {ticket['customer']['name']} ({ticket['customer']['plan']}), {ticket['status']}")
        print(f"  {ticket['body']}")


if __name__ == "__main__":
    asyncio.run(main())
