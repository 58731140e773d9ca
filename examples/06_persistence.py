"""Data that outlives a restart, and changes of it that nobody else's change can spoil.

A chapter of the Python manual (it comes with Python) is split by `chunk_text`, read in pieces, and worked on.
Run it with `python examples/06_persistence.py [DIRECTORY]`; without one, a temporary directory is used.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pydoc_data.topics import topics
from typing import Any

from toolstash import Ctx, VersionConflictError, chunk_text
from toolstash.toolsets import paginator

CHAPTER = "chapter_execmodel"


def build(directory: str) -> Ctx:
    """A Ctx whose data lies in that directory. Models may change rows, because `mutations` is set."""
    ctx = Ctx(f"embedded:{directory}")

    @ctx.producer(
        workspace_type="chapter",
        toolsets=[paginator(ctx, mutations=True)],
        transform=chunk_text(chunk_size=1_500, overlap=0),  # one long text becomes rows
        key="chapter_{topic}",
    )
    def read_chapter(topic: str) -> str:
        """Read a chapter of the Python manual."""
        return topics[topic]

    return ctx


async def store_and_leave(directory: str) -> None:
    """The first program: it stores and ends."""
    async with build(directory) as ctx:
        notice = await ctx.adispatch_tool_call("read_chapter", {"topic": "execmodel"})
        print(f"1. stored {notice['workspace_id']}: {notice['chars']:,} characters in {notice['item_count']} pieces")
        rows = await ctx.store.get_items(CHAPTER)
        whole = "".join(row["text"] for row in rows)
        print(f"   the pieces together are the chapter: {whole == topics['execmodel']}; closing")


async def model_changes_rows(ctx: Ctx) -> None:
    """The optional tools: each answers with the new version, which the next call may expect."""

    async def call(tool: str, **arguments: Any) -> Any:
        answer = await ctx.adispatch_tool_call(f"chapter_{tool}", {"workspace_id": CHAPTER} | arguments)
        text = answer.get("error") or f"{answer['count']} rows now"
        print(f"   chapter_{tool}({', '.join(arguments)}): {text}")
        return answer

    print("3. the model marks what it read")
    first = await call("patch_item", index=0, fields={"note": "what a block is"})
    await call("append_items", items=[{"text": "(end)"}], expected_version=first["version"])
    refused = await call("delete_items", indices=[1], expected_version=first["version"])  # no longer that version
    print(f"   suggested_action: {refused['suggested_action']}")
    await call("delete_items", indices=[1], expected_version=refused["version"])


async def two_workers_at_once(ctx: Ctx) -> None:
    """Your own code: both read, one writes first, the other notices and begins again."""
    store = ctx.store
    meta = await store.get_meta(CHAPTER)
    assert meta is not None
    print("4. two workers change the same row")
    await store.patch_item(CHAPTER, 0, {"seen_by": ["ann"]}, expected_version=meta.version)
    try:
        await store.patch_item(CHAPTER, 0, {"seen_by": ["bob"]}, expected_version=meta.version)
    except VersionConflictError as error:
        print(f"   bob: {error.message}")
        row = (await store.get_page(CHAPTER, 0, 1))[0]
        seen_by = [*row["seen_by"], "bob"]
        await store.patch_item(CHAPTER, 0, {"seen_by": seen_by}, expected_version=error.details["version"])
        print(f"   bob, again: seen by {seen_by}")


async def several_changes_in_one_step(ctx: Ctx) -> None:
    """A transaction: all of it or none of it."""
    store = ctx.store
    before = await store.count_items(CHAPTER)
    print(f"5. a transaction on {before} rows")
    try:
        async with store.transaction(CHAPTER) as change:
            change.delete_items([0, 1, 2])
            raise RuntimeError("the work failed half way")
    except RuntimeError as error:
        print(f"   {error}: {await store.count_items(CHAPTER)} rows")
    async with store.transaction(CHAPTER) as change:
        change.delete_items([1, 2])
        change.append_items([{"text": "(reviewed)"}])
        change.patch_item(0, {"reviewed": True})
    print(f"   two deleted, one added: {await store.count_items(CHAPTER)} rows")


async def come_back(directory: str) -> None:
    """The second program: it finds what the first one left."""
    async with build(directory) as ctx:
        print(f"2. opened again: {await ctx.list_workspaces()}, {await ctx.store.count_items(CHAPTER)} pieces")
        await model_changes_rows(ctx)
        await two_workers_at_once(ctx)
        await several_changes_in_one_step(ctx)
        rows = await ctx.store.get_items(CHAPTER)
        first = {name: value for name, value in rows[0].items() if name != "text"}
        print(f"6. the first row: {first}\n   the last row:  {rows[-1]}")


async def main(directory: str) -> None:
    """Both programs, one after the other."""
    await store_and_leave(directory)
    await come_back(directory)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            asyncio.run(main(temporary))
