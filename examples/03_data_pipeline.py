"""A pipeline of consumers: each reads a workspace, derives another one, and the model sees only notices.

The rows are the functions of Python's own `email`, `json` and `http` packages, read from their source files.
Run it with `python examples/03_data_pipeline.py`. It starts a server of its own, or uses the one in TOOLSTASH_URL.
"""

from __future__ import annotations

import ast
import asyncio
import sysconfig
from collections import defaultdict
from pathlib import Path
from typing import Any

from toolstash import ConsumerContext, Ctx
from toolstash.toolsets import kv_reader, paginator

PACKAGES = ("email", "http", "json")


def functions_of(package: str) -> list[dict[str, Any]]:
    """One row for each function of a package. Nothing is imported or run."""
    rows: list[dict[str, Any]] = []
    for path in sorted((Path(sysconfig.get_path("stdlib")) / package).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                documented = ast.get_docstring(node) is not None
                module = f"{package}.{path.stem}"
                rows.append({"module": module, "name": node.name, "lines": lines, "documented": documented})
    return rows


def build() -> Ctx:
    """A Ctx with one producer and two consumers: functions → undocumented → report."""
    ctx = Ctx(default_ttl=600)

    @ctx.producer(workspace_type="functions", toolsets=[paginator(ctx)], key="functions_{package}")
    def list_functions(package: str) -> list[dict[str, Any]]:
        """List the functions of a standard package."""
        return functions_of(package)

    @ctx.consumer("functions", produces="undocumented", produces_toolsets=[paginator(ctx)])
    async def keep_undocumented(workspace_id: str, ctx: ConsumerContext, least_lines: int = 10) -> dict[str, Any]:
        """Keep the public functions that have no docstring, longest first.

        Args:
            least_lines: Shorter functions are left out.
        """
        kept = [
            row
            async for row in ctx.iter_items()  # in chunks: a workspace may be larger than memory should hold
            if not row["documented"] and not row["name"].startswith("_") and row["lines"] >= least_lines
        ]
        return await ctx.emit(sorted(kept, key=lambda row: -row["lines"]), meta={"least_lines": least_lines})

    @ctx.consumer(produces="report", produces_toolsets=[kv_reader(ctx)])
    def count_by_module(workspace_ids: list[str], ctx: Any) -> dict[str, Any]:
        """Count functions and lines by module, over several workspaces."""
        report: dict[str, dict[str, int]] = defaultdict(lambda: {"functions": 0, "lines": 0})
        for workspace_id in workspace_ids:
            for row in ctx.get_items(workspace_id):  # in a `def` the methods of the same context block
                report[row["module"]]["functions"] += 1
                report[row["module"]]["lines"] += row["lines"]
        return ctx.emit(dict(report), workspace_id="report")

    return ctx


async def call(ctx: Ctx, tool: str, **arguments: Any) -> Any:
    """One tool call of the model, and the line of its notice that counts."""
    notice = await ctx.adispatch_tool_call(tool, arguments)
    print(f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")
    print(f"  {notice['workspace_id']}: {notice['item_count']} of type {notice['workspace_type']!r}")
    return notice


async def main() -> None:
    """Two packages through the first consumer, both results into the second, then where the report came from."""
    async with build() as ctx:
        derived: list[str] = []
        for package in PACKAGES:
            stored = await call(ctx, "list_functions", package=package)
            kept = await call(ctx, "keep_undocumented", workspace_id=stored["workspace_id"])
            derived.append(kept["workspace_id"])
        report = await call(ctx, "count_by_module", workspace_ids=derived)

        print("\nThe model reads one value of the report:")
        value = await ctx.adispatch_tool_call("report_get_value", {"workspace_id": "report", "key": "http\\.cookiejar"})
        print(f"  http.cookiejar: {value['functions']} long functions without a docstring, {value['lines']} lines")

        meta = await ctx.workspace_meta(report["workspace_id"])
        assert meta is not None
        print("\nWhere the report came from, oldest first (meta.lineage):")
        for workspace_id in meta.lineage:
            print(f"  {workspace_id}")


if __name__ == "__main__":
    asyncio.run(main())
