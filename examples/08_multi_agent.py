"""Four agents in four processes: a collector, two analysts and a writer hand each other data by workspace id.

Nobody sends a message. Each waits for what it needs (`wait_for_workspace`, `watch`); the analysts share out the plan by
changes that expect a version; both need the same costly step at the same moment, and it runs once. The data is the
tickets of a support desk. Run it with `python examples/08_multi_agent.py`.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from itertools import combinations
from pathlib import Path
from typing import Any

from toolstash import Ctx, VersionConflictError
from toolstash.toolsets import pipeline

TICKETS = Path(__file__).parent / "data" / "tickets.jsonl"
CASE = "case-7"  # one session for the four of them
PLAN: dict[str, list[dict[str, Any]]] = {
    "customers": [{"group_by": {"field": "customer.plan", "metrics": {"tickets": "count"}}}],
    "urgent": [{"filter": {"priority": {"$lte": 1}, "status": "open"}}, {"select": ["id", "subject"]}, {"limit": 3}],
    "payment": [{"search": {"query": "invoice refund payment"}}, {"select": ["id", "subject"]}, {"limit": 3}],
}
ROLES = ["writer", "analyst", "analyst", "collector"]


def build(store: str) -> Ctx:
    """What each process makes for itself: the same producers and tools on one store."""
    ctx = Ctx(store, default_ttl=3600, require_session=True)
    tools = [pipeline(ctx, "tickets")]

    @ctx.producer(workspace_type="tickets", toolsets=tools, key="tickets")
    def collect_tickets() -> Iterator[dict[str, Any]]:
        """Collect the tickets of the support desk."""
        with TICKETS.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    @ctx.producer(workspace_type="pairs", toolsets=[pipeline(ctx)], key="pairs")
    def find_pairs(tickets: str) -> list[dict[str, Any]]:
        """Find tickets that tell the same. Compares each with each, which takes a while."""
        say("compares all tickets with each other")
        rows = ctx.store.blocking.get_items(tickets)
        alike = [(a, b, difflib.SequenceMatcher(None, a["body"], b["body"]).ratio()) for a, b in combinations(rows, 2)]
        return [{"a": a["id"], "b": b["id"], "alike": round(ratio, 2)} for a, b, ratio in alike]

    return ctx


async def collector(ctx: Ctx) -> None:
    """Stores the tickets, then what is to be found out."""
    notice = await ctx.adispatch_tool_call("collect_tickets")
    say(f"stored {notice['item_count']} tickets")
    plan = [{"topic": topic, "tickets": notice["workspace_id"], "taken_by": None} for topic in PLAN]
    await ctx.store_workspace(plan, workspace_type="plan", workspace_id="plan")


async def analyst(ctx: Ctx) -> None:
    """Takes topics of the plan, one after another, until none is left."""
    plan = await ctx.wait_for_workspace(workspace_type="plan", timeout=60)
    first = (await ctx.store.get_items(plan.workspace_id))[0]
    pairs = await ctx.adispatch_tool_call("find_pairs", {"tickets": first["tickets"]})
    say(f"has {pairs['item_count']} pairs in {pairs['workspace_id'].partition('@')[0]}")
    while (topic := await take_topic(ctx, plan.workspace_id)) is not None:
        arguments = {"workspace_id": first["tickets"], "steps": PLAN[topic]}
        answer = await ctx.adispatch_tool_call("tickets_pipe", arguments)
        await ctx.store_workspace(answer["items"], workspace_type="finding", workspace_id=f"finding_{topic}")
        say(f"found out: {topic}")


async def take_topic(ctx: Ctx, plan: str) -> str | None:
    """Marks the first free topic as taken. Whoever is second is told, looks again and takes another one."""
    while True:
        meta = await ctx.workspace_meta(plan)
        rows = await ctx.store.get_items(plan)
        free = [place for place, row in enumerate(rows) if row["taken_by"] is None]
        if meta is None or not free:
            return None
        try:
            mark = {"taken_by": os.getpid()}
            await ctx.store.patch_item(plan, free[0], mark, expected_version=meta.version)
        except VersionConflictError:
            continue
        return rows[free[0]]["topic"]


async def writer(ctx: Ctx) -> None:
    """Writes each finding down as it comes."""
    report: dict[str, Any] = {}
    async with aclosing(ctx.watch(kinds=["created"], workspace_type="finding", after="0")) as events:
        async for event in events:
            topic = event.workspace_id.partition("@")[0].removeprefix("finding_")
            report[topic] = await ctx.store.get_items(event.workspace_id)
            if len(report) == len(PLAN):
                break
    for topic in PLAN:
        print(f"   {topic}: {json.dumps(report[topic], ensure_ascii=False)}")


async def play(role: str, store: str) -> None:
    """One of the four processes."""
    async with build(store) as ctx:
        await ctx.ping()
        print("ready", flush=True)
        with ctx.session(CASE):
            await {"collector": collector, "analyst": analyst, "writer": writer}[role](ctx)


def say(what: str) -> None:
    """Says which process did what."""
    print(f"[{os.getpid()}] {what}", flush=True)


async def start(role: str, store: str) -> asyncio.subprocess.Process:
    """Starts a process and waits until it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, role, store, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n", f"the {role} did not start"
    return process


async def main() -> None:
    """Starts the four, the collector last, and shows what each of them says."""
    with tempfile.TemporaryDirectory() as directory:
        store = f"embedded:{directory}"
        async with Ctx(store) as ctx:
            await ctx.ping()  # the server lives as long as somebody uses it
            processes = [await start(role, store) for role in ROLES]
            for role, process in reversed(list(zip(ROLES, processes, strict=True))):
                shown, _ = await process.communicate()
                print(f"{role} {process.pid}:\n{shown.decode().rstrip()}")
            with ctx.session(CASE):
                print(f"in the store: {', '.join(name.partition('@')[0] for name in await ctx.list_workspaces())}")


if __name__ == "__main__":
    asyncio.run(play(*sys.argv[1:]) if len(sys.argv) == 3 else main())
