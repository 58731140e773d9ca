"""Tools of your own for a workspace: checked ids, shapes, hints, schemas, and tools bound to one workspace.

The rows are characters of the Unicode database that comes with Python.
Run it with `python examples/04_custom_tools.py`. It starts a server of its own, or uses the one in TOOLSTASH_URL.
"""

from __future__ import annotations

import asyncio
import json
import sys
import unicodedata
from collections import Counter
from typing import Any

from toolstash import Ctx, InvalidArgumentError, ToolSet

CATEGORIES = {"Lu": "capital letters", "Ll": "small letters", "Nd": "digits", "Sc": "currency", "Sm": "mathematics"}


def named_characters() -> list[dict[str, Any]]:
    """One row for each character of those categories."""
    rows: list[dict[str, Any]] = []
    for character in map(chr, range(sys.maxunicode + 1)):
        category = unicodedata.category(character)
        if category in CATEGORIES and (name := unicodedata.name(character, "")):
            rows.append({"character": character, "code": ord(character), "name": name, "category": category})
    return rows


def add_tools(characters: ToolSet) -> None:
    """Two tools for lists and one for dicts. Their first argument is checked before they run."""

    @characters.tool(data_shape="list", output_hint="All of a kind: characters_in_category('{workspace_id}', …)")
    async def find(workspace_id: str, words: str, limit: int = 3) -> list[dict[str, Any]]:
        """Find characters whose name has all of these words.

        Args:
            words: Such as "double arrow".
            limit: Characters to return.
        """
        wanted = set(words.upper().split())
        rows = characters.store.iter_items(workspace_id)
        found = [row async for row in rows if wanted <= set(row["name"].split())]
        return found[:limit]

    @characters.tool(data_shape="list", schema_extra={"category": {"enum": sorted(CATEGORIES)}})
    def in_category(workspace_id: str, category: str) -> dict[str, Any]:
        """Count the characters of a category and show the first of them."""
        if category not in CATEGORIES:  # the enum tells the model; the error tells a model that did not listen
            raise InvalidArgumentError(
                f"There is no category '{category:.20}'.",
                argument="category",
                suggested_action=f"Use one of {', '.join(CATEGORIES)}.",
            )
        hits = characters.store.filter_items(workspace_id, "category", category)  # blocks: a `def` runs in a thread
        sample = "".join(hit.item["character"] for hit in hits[:20])
        return {"category": CATEGORIES[category], "count": len(hits), "sample": sample}

    @characters.tool(data_shape="dict")
    async def largest_category(workspace_id: str) -> str:
        """Name the category with the most characters."""
        counts = await characters.store.get_items(workspace_id)
        return CATEGORIES[max(counts, key=counts.get)]


def build() -> tuple[Ctx, ToolSet]:
    """A Ctx with two producers of one type: one stores a list, the other a dict."""
    ctx = Ctx(default_ttl=600)
    characters = ctx.toolset("characters")
    add_tools(characters)

    @ctx.producer(workspace_type="characters", toolsets=[characters], key="all_characters")
    def list_characters() -> list[dict[str, Any]]:
        """List characters of the Unicode database."""
        return named_characters()

    @ctx.producer(workspace_type="characters", toolsets=[characters], key="counts")
    def count_characters() -> dict[str, int]:
        """Count characters by category."""
        return dict(Counter(row["category"] for row in named_characters()))

    return ctx, characters


async def ask(ctx: Ctx, tool: str, **arguments: Any) -> None:
    """One tool call of the model and its answer, one line a key."""
    print(f"\n{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")
    answer = await ctx.adispatch_tool_call(tool, arguments)
    for key, value in (answer if isinstance(answer, dict) else {"answer": answer}).items():
        text = json.dumps(value, ensure_ascii=False)
        print(f"  {key}: {text if len(text) < 110 else text[:110] + '…'}")


async def main() -> None:
    """What each notice offers, what the tools answer, and what a wrong shape or a wrong value comes to."""
    ctx, characters = build()
    async with ctx:
        for producer in ("list_characters", "count_characters"):
            notice = await ctx.adispatch_tool_call(producer)
            print(f"{notice['workspace_id']}: a {notice['data_shape']} of {notice['item_count']:,}. Its tools:")
            print("\n".join(f"  {tool}" for tool in notice["available_tools"]))

        await ask(ctx, "characters_find", workspace_id="all_characters", words="double arrow")
        await ask(ctx, "characters_in_category", workspace_id="all_characters", category="Sc")
        await ask(ctx, "characters_largest_category", workspace_id="counts")
        await ask(ctx, "characters_find", workspace_id="counts", words="double arrow")
        await ask(ctx, "characters_in_category", workspace_id="all_characters", category="Xx")

        print("\nBound to one workspace, the tools need no id, in your code as for the model:")
        bound = characters.bind("all_characters")
        euro = await bound.characters_find("euro sign")
        print(f"  {euro['result'][0]}")
        for schema in bound.to_tool_schemas():
            function = schema["function"]
            print(f"  {function['name']}({', '.join(function['parameters']['properties'])})")


if __name__ == "__main__":
    asyncio.run(main())
