"""A search index on the server: the same answers as Python gives, for every worker, at the server's own speed.

The rows are the lines of the Python manual (it comes with Python). Run it with `python examples/15_search_index.py URL`
on a Redis 8 or Redis Stack; without a URL, or on a server without the search module, Python answers everything.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pydoc_data.topics import topics
from typing import Any

from toolstash import Ctx
from toolstash.toolsets import pipeline, text_search

QUERIES = ["closure variables", '"garbage collection"', "__init__", "corout*"]
STEPS: list[Any] = [
    {"filter": {"chars": {"$gte": 60}, "topic": {"$ne": "debugger"}}},
    {"group_by": {"field": "topic", "metrics": {"lines": "count", "longest": "max:chars"}}},
    {"sort": {"field": "lines", "order": "desc"}},
    {"limit": 3},
]


def manual() -> list[dict[str, Any]]:
    """Every line of the manual that has text."""
    return [
        {"topic": topic, "line": number, "chars": len(line), "text": line.strip()}
        for topic, text in sorted(topics.items())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]


async def ask(ctx: Ctx, workspace_id: str) -> list[Any]:
    """A worker's questions: it prints what answered, and gives the answers without that."""
    answers: list[Any] = []
    for query in QUERIES:
        started = time.perf_counter()
        answer = await ctx.adispatch_tool_call("manual_search", {"workspace_id": workspace_id, "query": query})
        milliseconds = 1000 * (time.perf_counter() - started)
        print(
            f"   {query:<22} {answer['total_matches']:>5} lines, by {answer.pop('engine'):<10} "
            f"({answer['matched_by']}) in {milliseconds:.1f} ms"
        )
        answers.append([(match["index"], match["item"]["text"]) for match in answer["matches"]])
    answers.append(await ctx.adispatch_tool_call("manual_pipe", {"workspace_id": workspace_id, "steps": STEPS}))
    print(f"   the topics with the most long lines: {[row['topic'] for row in answers[-1]['items']]}")
    return answers


async def main(url: str) -> None:
    """One worker stores and asks; the index is built; another worker asks the same."""
    async with Ctx(url, default_ttl=600) as ctx:
        text_search(ctx, "manual")
        tools = pipeline(ctx, "manual")

        @ctx.producer(workspace_type="manual", toolsets=[tools], index="lazy")  # "eager" builds as soon as it is stored
        def read_manual() -> list[dict[str, Any]]:
            """Read the Python manual, line by line."""
            return manual()

        notice = await ctx.adispatch_tool_call("read_manual")
        workspace_id = notice["workspace_id"]
        print(f"1. {notice['item_count']:,} lines are stored; the first questions go to Python")
        before = await ask(ctx, workspace_id)

        built = await ctx.store.build_index(workspace_id)  # what happens by itself, too, in the background
        print(f"2. there is an index: {built}")

        async with Ctx(url) as worker:
            text_search(worker, "manual")
            pipeline(worker, "manual")
            print("3. another worker, which has not read a single line, asks the same")
            after = await ask(worker, workspace_id)
        print(f"4. the answers are the same: {before == after}")
        await ctx.drop_workspace(workspace_id)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            asyncio.run(main(f"embedded:{temporary}"))
