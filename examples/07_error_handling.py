"""Every mistake that a model can make, what it reads then, and the call with which it repairs it.

No mistake raises: each comes back as a value that says what was wrong and what helps. The model is played by a script
which knows no more than what it reads. The rows are support tickets.
Run it with `python examples/07_error_handling.py`. It starts a server of its own, or uses the one in TOOLSTASH_URL.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstash import Ctx, InvalidArgumentError
from toolstash.toolsets import kv_reader, paginator, pipeline, text_search

TICKETS = Path(__file__).parent / "data" / "tickets.jsonl"
SHORT_LIFE = 0.2  # seconds
Call = tuple[str, Any]


@dataclass(frozen=True)
class Mistake:
    """A wrong call, and how a model makes the right one of what it reads."""

    title: str
    tool: str
    arguments: Any
    repair: Callable[[dict[str, Any]], Call]
    session_id: str | None = None


def tickets() -> list[dict[str, Any]]:
    """All tickets."""
    return [json.loads(line) for line in TICKETS.read_text(encoding="utf-8").splitlines()]


# The program whose tools are called


def build() -> Ctx:
    """Small bounds, so that it is easy to run into them."""
    ctx = Ctx(default_ttl=600, max_items=100, max_result_chars=4_000)
    explore = [paginator(ctx, mutations=True), text_search(ctx, fields=["subject", "body"]), pipeline(ctx)]
    add_producers(ctx, [*explore, kv_reader(ctx)])
    add_tools(ctx)
    return ctx


def add_producers(ctx: Ctx, explore: list[Any]) -> None:
    """Functions that fetch."""

    @ctx.producer(workspace_type="tickets", toolsets=explore, key="tickets_{name}")
    def load_tickets(name: str, copies: int = 1) -> list[dict[str, Any]]:
        """Load the tickets, as many times as asked for."""
        return tickets() * copies

    @ctx.producer(workspace_type="tickets", key="tickets_{name}")
    def summarize_tickets(name: str) -> dict[str, Any]:
        """Count the tickets by the customer's plan."""
        return dict(Counter(ticket["customer"]["plan"] for ticket in tickets()))

    @ctx.producer(workspace_type="customers", toolsets=[paginator(ctx)], key="customers")
    def load_customers() -> list[str]:
        """Load the names of all customers."""
        return sorted({ticket["customer"]["name"] for ticket in tickets()})

    @ctx.producer(workspace_type="tickets", key="urgent", ttl=SHORT_LIFE)
    def load_urgent() -> list[dict[str, Any]]:
        """Load the urgent tickets of this moment."""
        return [ticket for ticket in tickets() if ticket["priority"] == 1]

    @ctx.producer(workspace_type="tickets")
    def load_month(month: int) -> list[dict[str, Any]]:
        """Load the tickets of one month."""
        return {3: tickets()}[month]


def add_tools(ctx: Ctx) -> None:
    """Tools of the program itself, written without any care for mistakes, but for one."""
    desk = ctx.toolset("tickets")

    @desk.tool
    def first_by(workspace_id: str, field: str) -> dict[str, Any]:
        """The first ticket by a field."""
        return min(desk.store.get_items(workspace_id), key=lambda ticket: ticket[field])

    @desk.tool
    def export(workspace_id: str, limit: int = 60) -> list[dict[str, Any]]:
        """Tickets, whole."""
        return desk.store.get_page(workspace_id, 0, limit)

    @desk.tool
    def count_priority(workspace_id: str, priority: int) -> int:
        """How many tickets are of a priority from 1 to 4."""
        if not 1 <= priority <= 4:
            raise InvalidArgumentError(f"There is no priority {priority}.", suggested_action="Use 1, 2, 3 or 4.")
        return sum(ticket["priority"] == priority for ticket in desk.store.get_items(workspace_id))


# The mistakes. A repair may use the answer, and nothing else that the model has not seen


def again(tool: str, **arguments: Any) -> Callable[[dict[str, Any]], Call]:
    """A repair that needs no more than the words of the answer."""
    return lambda _: (tool, arguments)


MARCH = {"workspace_id": "tickets_march"}
FOREIGN = "tickets_of_bob@81b637d8fcd2"  # an id made in the session "bob"
OF_CALLS = [
    Mistake(
        "a tool that does not exist",
        "tickets_find",
        {**MARCH, "query": "invoice"},
        lambda answer: (
            next(name for name in answer["available_tools"] if name.endswith("_search")),
            {**MARCH, "query": "invoice"},
        ),
    ),
    Mistake("JSON that breaks off", "tickets_count", '{"workspace_id": "tick', again("tickets_count", **MARCH)),
    Mistake("a list in place of an object", "tickets_count", '["tickets_march"]', again("tickets_count", **MARCH)),
    Mistake(
        "an argument of another name",
        "tickets_search",
        {**MARCH, "querry": "invoice"},
        lambda answer: ("tickets_search", {**MARCH, answer["required"][1]: "invoice"}),
    ),
    Mistake("an argument that is missing", "tickets_get_item", MARCH, again("tickets_get_item", **MARCH, index=0)),
    Mistake(
        "a word for a number",
        "tickets_paginate",
        {**MARCH, "page": "two", "size": 3},
        again("tickets_paginate", **MARCH, page=2, size=3),
    ),
    Mistake("an empty id", "tickets_count", {"workspace_id": ""}, again("tickets_count", **MARCH)),
]
OF_WORKSPACES = [
    Mistake(
        "an id with a slip",
        "tickets_count",
        {"workspace_id": "tickets_mrach"},
        lambda answer: ("tickets_count", {"workspace_id": answer["suggested_action"].split("'")[1]}),
    ),
    Mistake(
        "somebody else's workspace, which is like one that is not there",
        "tickets_count",
        {"workspace_id": FOREIGN},
        lambda answer: ("tickets_count", {"workspace_id": answer["available_workspaces"][0]}),
        session_id="ann",
    ),
    Mistake(
        "a workspace whose time is over",
        "tickets_count",
        {"workspace_id": "urgent"},
        lambda answer: (answer["suggested_action"].split()[1].removesuffix("()"), {}),
    ),
    Mistake(
        "a workspace of another type",
        "customers_count",
        MARCH,
        lambda answer: ("customers_count", {"workspace_id": answer["workspaces_of_correct_type"][0]}),
    ),
    Mistake(
        "a tool for lists, and data that is none",
        "tickets_paginate",
        {"workspace_id": "tickets_plans"},
        lambda answer: ("tickets_get_keys", {"workspace_id": answer["workspace_id"]}),
    ),
    Mistake(
        "a name that another producer has taken",
        "summarize_tickets",
        {"name": "march"},
        again("summarize_tickets", name="march_by_plan"),
    ),
    Mistake(
        "rows that were changed meanwhile",
        "tickets_patch_item",
        {**MARCH, "index": 0, "fields": {"status": "closed"}, "expected_version": "of-yesterday"},
        lambda answer: (
            "tickets_patch_item",
            {**MARCH, "index": 0, "fields": {"status": "closed"}, "expected_version": answer["version"]},
        ),
    ),
]
OF_PLACES = [
    Mistake(
        "an index behind the last",
        "tickets_get_item",
        {**MARCH, "index": 99},
        lambda answer: ("tickets_get_item", {**MARCH, "index": answer["total_items"] - 1}),
    ),
    Mistake(
        "a key that is not there",
        "tickets_get_value",
        {"workspace_id": "tickets_plans", "key": "enterprise"},
        lambda answer: ("tickets_get_value", {"workspace_id": "tickets_plans", "key": answer["available_keys"][0]}),
    ),
    Mistake(
        "a field that is not searched",
        "tickets_search",
        {**MARCH, "query": "invoice", "fields": ["text"]},
        lambda answer: ("tickets_search", {**MARCH, "query": "invoice", "fields": answer["available_fields"]}),
    ),
    Mistake(
        "a step that there is not",
        "tickets_pipe",
        {**MARCH, "steps": [{"where": {"priority": 1}}, {"count": True}]},
        lambda answer: (
            "tickets_pipe",
            {**MARCH, "steps": [{answer["available_operations"][0]: {"priority": 1}}, {"count": True}]},
        ),
    ),
    Mistake(
        "an operator that there is not",
        "tickets_pipe",
        {**MARCH, "steps": [{"filter": {"priority": {"$below": 3}}}, {"count": True}]},
        again("tickets_pipe", **MARCH, steps=[{"filter": {"priority": {"$lt": 3}}}, {"count": True}]),
    ),
    Mistake(
        "a metric that there is not",
        "tickets_aggregate",
        {**MARCH, "metrics": {"average": "avg:priority"}},
        again("tickets_aggregate", **MARCH, metrics={"average": "mean:priority"}),
    ),
]
OF_SIZE_AND_FAILURE = [
    Mistake(
        "more rows than may be stored",
        "load_tickets",
        {"name": "many", "copies": 2},
        again("load_tickets", name="many", copies=1),
    ),
    Mistake(
        "a result that is too large to be read", "tickets_export", MARCH, again("tickets_export", **MARCH, limit=5)
    ),
    Mistake(
        "a tool that fails",
        "tickets_first_by",
        {**MARCH, "field": "date"},
        again("tickets_first_by", **MARCH, field="id"),
    ),
    Mistake("a producer that fails", "load_month", {"month": 13}, again("load_month", month=3)),
    Mistake(
        "a value that the tool itself refuses",
        "tickets_count_priority",
        {**MARCH, "priority": 0},
        again("tickets_count_priority", **MARCH, priority=1),
    ),
]
CHAPTERS = {
    "How a tool is called": OF_CALLS,
    "Which workspace": OF_WORKSPACES,
    "What is in it": OF_PLACES,
    "Size, and tools that fail": OF_SIZE_AND_FAILURE,
}


# The transcript


def shown(value: Any, most: int = 150) -> str:
    """JSON on one line, its end cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[: most - 1] + "…"


def is_mistake(answer: Any) -> bool:
    """Whether it is an error, which has a suggestion, and not a row with a field of that name."""
    return isinstance(answer, dict) and "error" in answer and "suggested_action" in answer


async def play(ctx: Ctx, number: int, mistake: Mistake) -> bool:
    """The wrong call, the answer, the repaired call; whether that went well."""
    print(f"\n{number}. {mistake.title}")
    print(f"   model    {mistake.tool} {shown(mistake.arguments)}")
    answer = await ctx.adispatch_tool_call(mistake.tool, mistake.arguments, session_id=mistake.session_id)
    assert is_mistake(answer), f"this should have been refused: {answer}"
    for key, value in answer.items():
        print(f"   {'reads' if key == 'error' else '':<8} {key}: {shown(value, 110)}")
    tool, arguments = mistake.repair(answer)
    print(f"   model    {tool} {shown(arguments)}")
    repaired = await ctx.adispatch_tool_call(tool, arguments, session_id=mistake.session_id)
    print(f"   reads    {shown(repaired, 110)}")
    return not is_mistake(repaired)


def collect_log() -> list[str]:
    """What goes to the log and not to the model: the exceptions of the program's own code."""
    records: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raised = record.exc_info[1] if record.exc_info else None
            records.append(f"{record.getMessage()}: {raised!r}")

    log = logging.getLogger("toolstash")
    log.addHandler(Collect())
    log.propagate = False
    return records


async def main() -> None:
    """Stores what the mistakes are about, and makes them one by one."""
    log = collect_log()
    async with build() as ctx:
        await ctx.adispatch_tool_call("load_tickets", {"name": "march"})
        await ctx.adispatch_tool_call("summarize_tickets", {"name": "plans"})
        theirs = await ctx.adispatch_tool_call("load_tickets", {"name": "of_bob"}, session_id="bob")
        assert theirs["workspace_id"] == FOREIGN
        await ctx.adispatch_tool_call("load_customers")
        await ctx.adispatch_tool_call("load_urgent")
        await asyncio.sleep(2 * SHORT_LIFE)
        went_well: list[bool] = []
        for title, mistakes in CHAPTERS.items():
            print(f"\n== {title} ==")
            for mistake in mistakes:
                went_well.append(await play(ctx, len(went_well) + 1, mistake))
        print(f"\n{len(went_well)} mistakes, {sum(went_well)} repaired, no exception")
        print("What the program's own log has, and no model has read:")
        for line in log:
            print(f"   {line}")


if __name__ == "__main__":
    asyncio.run(main())
