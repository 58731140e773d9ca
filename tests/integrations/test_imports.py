"""The adapters load no SDK: only the two that are for a framework do, and only when they are called."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from toolstash.integrations import anthropic, langchain, openai, pydantic_ai
assert not {"openai", "anthropic", "langchain_core", "pydantic_ai", "pydantic"} & set(sys.modules)
from toolstash import Ctx
ctx = Ctx("memory:")
turn = {"choices": [{"message": {"tool_calls": [{"id": "1", "function": {"name": "papers", "arguments": "{}"}}]}}]}

@ctx.producer(workspace_type="papers")
def papers() -> list:
    return [1, 2]

print(openai.handle_tool_calls(ctx, turn)[0]["content"])
assert not {"openai", "anthropic", "langchain_core", "pydantic_ai", "pydantic"} & set(sys.modules)
"""


def test_no_sdk_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert '"item_count":2' in done.stdout
