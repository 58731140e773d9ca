"""The example of the approvals tells its story, in as many processes as it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "14_approvals.py"
SLOW_STEP = re.compile(r"^Executing <.*> took \d\.\d+ seconds$")
"""What asyncio's debug mode says of imports on a busy machine."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no embedded server on Windows")


def run(*arguments: str) -> str:
    """Strict in every process, which inherit it from the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSTASH_")}
    strict = {"PYTHONUTF8": "1", "PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=kept | strict,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert [line for line in ran.stderr.splitlines() if not SLOW_STEP.match(line)] == []
    return ran.stdout


def chapters(shown: str) -> list[list[str]]:
    """The lines below each numbered one."""
    found = re.split(r"^\d\. .*\n", shown, flags=re.MULTILINE)
    assert found[0] == ""
    return [[line.strip() for line in chapter.splitlines()] for chapter in found[1:]]


def test_people_answer_what_an_agent_asks_while_nobody_holds_the_call() -> None:
    shown = run()
    asked, seen, answers, progress, results, said = chapters(shown)
    prompts = [f"Deploy {what}? Where to?" for what in ("shop 1.4", "billing 2.0", "search 0.9")]
    assert asked == [f"pending: {prompt}" for prompt in prompts]
    assert "2. what ann sees; eve sees 0 calls\n" in shown
    assert [line.partition(" {")[0] for line in seen] == [f"approval: {prompt}" for prompt in prompts]
    assert seen[0].endswith("{'service': 'shop', 'version': '1.4'}")

    wrong, foreign, approved, declined, *at_once = answers
    assert wrong.startswith("ann, on shop: 422, The answer's data does not fit: 'to' must be one of")
    assert re.fullmatch(r"eve, on shop: 404, Call 'call_\w{32}@\w{12}' not found\.", foreign)
    assert (approved, declined) == ("ann, on shop: 200, taken", "bob, on billing: 200, taken")
    taken = [line for line in at_once if line.endswith("on search: 200, taken")]
    (told,) = [line for line in at_once if line.partition(", ")[2].startswith("on search: 409, Somebody has answered")]
    assert len(taken) == 1
    assert {taken[0].partition(",")[0], told.partition(",")[0]} == {"ann", "bob"}

    steps = [f"{count} of 3: {what} on web-{count}" for what in ("shop 1.4", "search 0.9") for count in (1, 2, 3)]
    assert [step for step in steps if step in progress] == progress  # in order; of what comes fast, the newest is told
    assert {steps[0], steps[2], steps[3], steps[5]} <= set(progress)
    done = [
        "shop 1.4 is on 3 hosts of production, approved by ann",
        f"search 0.9 is on 3 hosts of staging, approved by {taken[0].partition(',')[0]}",
    ]
    no = "deploy was not allowed to go on: not before the audit. It had asked: Deploy billing 2.0? Where to?"
    assert results == [done[0], no, done[1]]
    assert said == [f"deploy in team-shop: {result}" for result in done]


def test_it_says_what_it_is_for_and_how_its_parts_are_run() -> None:
    shown = run("--help")
    for words in ("`python examples/14_approvals.py`", "Your own", "web", "worker", "agent"):
        assert words in shown
