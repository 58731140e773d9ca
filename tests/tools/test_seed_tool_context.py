"""The three worked examples of toolnexus' ToolContext page run with nothing but their import line changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = Path(__file__).parent / "seeds"
SAID = {
    "cancellation": "ok: completed 3 step(s) | cancelled after 0 step(s)",
    "timeout": "ok: fetched /a within 5.0s | budget 0.01s is too small to try",
    "answer": "ok: deployed to staging | declined: declined",
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in SEEDS.glob("*.txt")} == {*SAID}


@pytest.mark.parametrize("name", SAID)
def test_the_example_says_that_all_is_well(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(SEEDS / f"{name}.txt")], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, SAID[name], "")
