"""Tasks of docket that run tools. The connections of the module's Ctx close with the worker's event loop."""

from __future__ import annotations

import os
from typing import Any

from tests.workers.tool_set import make_ctx

ctx = make_ctx()


async def run_tool(name: str, arguments: dict[str, Any], session_id: str) -> tuple[Any, int]:
    """The answer of a tool, and the process that it ran in."""
    return await ctx.adispatch_tool_call(name, arguments, session_id=session_id), os.getpid()


tasks = [run_tool]
