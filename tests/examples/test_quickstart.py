"""The quickstart does the main job: thousands of rows, a small notice, two processes, nothing left behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.wait import until_sync

PROGRAM = Path(__file__).parents[2] / "examples" / "01_quickstart.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no embedded server on Windows")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, f"{pattern} is not in:\n{text}"
    return int(found.group(1).replace(",", ""))


def servers_in(directory: Path) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if process.info["cwd"] == str(directory) or str(directory) in words:
            found.append(process.pid)
    return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstart").resolve()


@pytest.fixture(scope="module")
def shown(directory: Path) -> str:
    ran = run("--directory", str(directory))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_thousands_of_rows_become_a_short_notice(shown: str) -> None:
    assert number(r"item_count: (\d+)", shown) > 5_000
    assert number(r"chars: (\d+)", shown) > 3_000_000
    assert "functions_paginate(workspace_id='functions_" in shown


def test_the_model_reads_a_fraction_and_one_item_whole(shown: str) -> None:
    stored = number(r"stored +([\d,]+) characters", shown)
    read = number(r"read by model +([\d,]+) characters", shown)
    assert read * 50 < stored
    assert number(r"kept out +([\d,]+) characters", shown) == stored - read
    assert "the pieces are the original: True" in shown
    assert number(r"piece (\d+): .* the end", shown) >= 2
    assert 'cut: {"index": ' in shown


def test_two_calls_answer_questions(shown: str) -> None:
    assert number(r"search 'parse mail address': ([\d,]+) of the functions", shown) > 100
    assert "email." in shown.split("the best first")[1].split("pipe:")[0]
    counts = [int(count) for count in re.findall(r'"undocumented": (\d+)', shown)]
    assert len(counts) == 3
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 50


def test_the_mistakes_say_how_to_repair_them(shown: str) -> None:
    workspace = re.search(r'workspace_id: "(functions_\w+)"', shown)
    assert workspace is not None
    assert f"Did you mean '{workspace.group(1)}'?" in shown
    assert "whole number" in shown
    assert "Did you mean functions_paginate" in shown


def test_the_second_process_sees_the_same_rows(shown: str, directory: Path) -> None:
    rows = number(r"item_count: (\d+)", shown)
    assert f"another process sees {rows:,} rows" in shown
    workspace = re.search(r'workspace_id: "(functions_\w+)"', shown)
    assert workspace is not None
    later = run("--directory", str(directory), "--worker", workspace.group(1))
    assert f"another process sees {rows:,} rows" in later.stdout
    until_sync(lambda: not servers_in(directory), what="the server ends with its last process")


def test_nothing_is_wider_than_a_terminal(shown: str) -> None:
    assert [line for line in shown.splitlines() if len(line) > 100] == []


def test_help_and_a_wrong_call() -> None:
    assert "--directory" in run("--help").stdout
    wrong = run("--worker", "functions_1")
    assert wrong.returncode == 2
    assert "--worker needs --directory" in wrong.stderr
