"""The main job, end to end: a large result goes into a store, a model reads it back piece by piece.

The data is real: every function of the standard library of this Python. Its source text is far more than a model's
context holds. Run it with `make demo`, or `python examples/01_quickstart.py --help`.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolstash import Ctx
from toolstash.toolsets import paginator, pipeline, text_search

WIDTH = 100
LEFT_OUT = frozenset({"antigravity", "idlelib", "lib2to3", "test", "tests", "this", "turtledemo"})


def standard_library_files() -> Iterator[tuple[str, Path]]:
    """Module names and source files of the standard library. Nothing is imported or run."""
    library = Path(sysconfig.get_path("stdlib"))
    for name in sorted(sys.stdlib_module_names - LEFT_OUT):
        if (library / f"{name}.py").is_file():
            yield name, library / f"{name}.py"
        for file in sorted((library / name).rglob("*.py")):
            parts = file.relative_to(library).with_suffix("").parts
            if LEFT_OUT.isdisjoint(parts):
                yield ".".join(part for part in parts if part != "__init__"), file


def functions_in(module: str, path: Path) -> Iterator[dict[str, Any]]:
    """One row for each function and method of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines(keepends=True)

    def walk(node: ast.AST, prefix: str) -> Iterator[dict[str, Any]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                end = child.end_lineno or child.lineno
                yield {
                    "module": module,
                    "name": prefix + child.name,
                    "signature": f"({ast.unparse(child.args)})",
                    "docstring": ast.get_docstring(child) or "",
                    "lines": end - child.lineno + 1,
                    "source": "".join(lines[child.lineno - 1 : end]),
                }

    try:
        yield from walk(ast.parse(text), "")
    except SyntaxError:
        return


def build(store: str) -> tuple[Ctx, Any]:
    """A Ctx on that store, with one producer and the tools to explore what it stored."""
    ctx = Ctx(store, default_ttl=3600)
    tools = [text_search(ctx), pipeline(ctx), paginator(ctx)]

    @ctx.producer(workspace_type="functions", toolsets=tools, meta={"source": "standard library"})
    def list_functions() -> list[dict[str, Any]]:
        """List every function of the standard library with its source."""
        return [row for module, path in standard_library_files() for row in functions_in(module, path)]

    return ctx, list_functions


def heading(text: str) -> None:
    """A line that says what comes next."""
    print(f"\n── {text} ".ljust(WIDTH, "─"))


def show(notice: dict[str, Any]) -> None:
    """A notice, one part a line, and one line for each entry of a list."""
    for key, value in notice.items():
        if isinstance(value, list):
            print(f"  {key}:")
            for entry in value:
                print_wrapped(f"    - {json.dumps(entry, ensure_ascii=False)}", "        ")
        else:
            print_wrapped(f"  {key}: {json.dumps(value, ensure_ascii=False)}", "      ")


def print_wrapped(text: str, indent: str) -> None:
    """Text at the width of a terminal; its further lines are indented."""
    print(textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False))


class Model:
    """Stands for the model: makes tool calls, and counts the characters that it had to read."""

    def __init__(self, ctx: Ctx) -> None:
        self.ctx = ctx
        self.chars_read = 0

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool as an agent loop would. Mistakes come back as values that say how to repair the call."""
        answer = await self.ctx.adispatch_tool_call(tool, arguments)
        self.chars_read += len(json.dumps(answer, ensure_ascii=False))
        return answer


async def store_everything(model: Model) -> dict[str, Any]:
    """The call whose result is too large: what comes back is a notice."""
    heading("1. A tool returns thousands of rows; the model gets this notice")
    print("reading the standard library …", file=sys.stderr)
    began = time.perf_counter()
    notice = await model.call("list_functions")
    print(f"read and stored in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    show(notice)
    return notice


async def read_a_page(model: Model, workspace: str, index: int) -> None:
    """The page with one row on it, small as always: long fields are cut, and `cut` says where to read on."""
    heading("2. functions_paginate: one page, its long fields cut")
    answer = await model.call("functions_paginate", workspace_id=workspace, page=index // 3, size=3)
    page = answer["result"]
    for item in page["items"]:
        print(f"  {item['module']}.{item['name']}{item['signature']}"[:WIDTH])
    print(f"  page {page['page']} of {page['total_pages']:,}, {page['total']:,} rows, has_next: {page['has_next']}")
    for cut in page.get("cut", []):
        print(f"  cut: {json.dumps(cut)}")
    print_wrapped(f"  _hint: {answer['_hint']}", "      ")


async def ask_questions(model: Model, workspace: str) -> None:
    """Two calls answer what would take thousands of pages."""
    heading("3. functions_search and functions_pipe: questions instead of pages")
    query = "parse mail address"
    found = await model.call("functions_search", workspace_id=workspace, query=query, fields=["name", "docstring"])
    print(f"  search {query!r}: {found['total_matches']:,} of the functions, the best first")
    for match in found["matches"][:3]:
        print(
            f"    {match['score']:6.2f}  {match['item']['module']}.{match['item']['name']}: {match['snippet']}"[:WIDTH]
        )
    steps = [
        {"filter": {"docstring": ""}},
        {"group_by": {"field": "module", "metrics": {"undocumented": "count", "longest": "max:lines"}}},
        {"sort": {"field": "undocumented", "order": "desc"}},
        {"limit": 3},
    ]
    answer = await model.call("functions_pipe", workspace_id=workspace, steps=steps)
    print("  pipe: which modules have the most functions without a docstring?")
    for item in answer["items"]:
        print(f"    {json.dumps(item)}")


async def longest_function(ctx: Ctx, workspace: str) -> int:
    """The index of the function with the most source. Your own code reads the rows straight from the store."""
    lengths = [len(row["source"]) async for row in ctx.store.iter_items(workspace)]
    return lengths.index(max(lengths))


async def read_one_whole(model: Model, workspace: str, index: int) -> None:
    """One huge field, read on until there is no more. The pieces together are the original."""
    heading("4. functions_get_item: the source of the longest function, read on in pieces")
    pieces: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = await model.call(
            "functions_get_item", workspace_id=workspace, index=index, field="source", offset=offset
        )
        pieces.append(answer["value"])
        more = f"more at {answer['next_offset']:,}" if answer["has_more"] else "the end"
        print(f"  piece {len(pieces)}: {len(answer['value']):,} of {answer['total_chars']:,} characters, {more}")
        offset = answer["next_offset"]
    rows = await model.ctx.store.get_page(workspace, index, 1)
    same = "".join(pieces) == rows[0]["source"]
    print(f"  {rows[0]['module']}.{rows[0]['name']}: the pieces are the original: {same}")


async def make_mistakes(model: Model, workspace: str) -> None:
    """Mistakes of a model come back as values that say how to repair the call."""
    heading("5. Mistakes that a model can repair")
    wrong = workspace[:-1] + ("0" if workspace[-1] != "0" else "1")
    mistakes: list[tuple[str, dict[str, Any]]] = [
        ("functions_paginate", {"workspace_id": wrong, "page": 0}),
        ("functions_paginate", {"workspace_id": workspace, "page": "12px"}),
        ("functions_pagniate", {"workspace_id": workspace}),
    ]
    for tool, arguments in mistakes:
        print(f"  {tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")
        answer = await model.call(tool, **arguments)
        for key in ("error", "suggested_action"):
            print_wrapped(f"    {key}: {answer[key]}", "      ")


def read_elsewhere(directory: str, workspace: str) -> None:
    """Starts this file a second time: another process, the same data."""
    heading("6. A second process reads the same workspace")
    command = [sys.executable, __file__, "--directory", directory, "--worker", workspace]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


async def work(directory: str, workspace: str) -> None:
    """What the second process does: it knows the directory and the id, nothing else."""
    ctx, _ = build(f"embedded:{directory}")
    async with ctx:
        count = await ctx.adispatch_tool_call("functions_count", {"workspace_id": workspace})
        last = await ctx.adispatch_tool_call(
            "functions_get_item", {"workspace_id": workspace, "index": count["count"] - 1, "field": "name"}
        )
        print(f"  another process sees {count['count']:,} rows; the last one is {last['value']!r}")


async def demonstrate(directory: str) -> None:
    """The whole story, on an embedded server that starts and stops by itself."""
    ctx, _ = build(f"embedded:{directory}")
    async with ctx:
        model = Model(ctx)
        notice = await store_everything(model)
        workspace = notice["workspace_id"]
        longest = await longest_function(ctx, workspace)
        await read_a_page(model, workspace, longest)
        await ask_questions(model, workspace)
        await read_one_whole(model, workspace, longest)
        await make_mistakes(model, workspace)
        read_elsewhere(directory, workspace)
        heading("7. What stayed out of the context")
        kept_out = notice["chars"] - model.chars_read
        print(f"  stored        {notice['chars']:>12,} characters in {notice['item_count']:,} rows")
        print(f"  read by model {model.chars_read:>12,} characters, {model.chars_read / notice['chars']:.2%} of it")
        print(f"  kept out      {kept_out:>12,} characters")


def main() -> None:
    """Runs the demonstration, or with --worker the part of the second process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", help="where the data stays (default: a temporary directory)")
    parser.add_argument("--worker", metavar="WORKSPACE_ID", help="only read that workspace, as a second process does")
    options = parser.parse_args()
    if options.worker:
        if not options.directory:
            parser.error("--worker needs --directory: the one that the first process stored in")
        asyncio.run(work(options.directory, options.worker))
    elif options.directory:
        asyncio.run(demonstrate(options.directory))
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            asyncio.run(demonstrate(directory))


if __name__ == "__main__":
    main()
