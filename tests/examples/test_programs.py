"""Each further example runs on the embedded server and tells the story that its docstring promises."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import psutil
import pytest

from toolstash import Ctx

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = ["02_support_desk.py", "03_data_pipeline.py", "04_custom_tools.py", "05_pipelines.py", "06_persistence.py"]
WITH_WORKERS = ["11_concurrent_server.py", "12_celery_workers.py", "13_async_workers.py"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no embedded server on Windows")


def run(program: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSTASH_")}
    command = [sys.executable, "-W", "error", str(EXAMPLES / program), *arguments]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment | {"PYTHONUTF8": "1"},
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def part(shown: str, call: str) -> str:
    """What stands between the line that begins with a call and the next empty line."""
    found = re.search(rf"^{re.escape(call)}.*?(?=^$|\Z)", shown, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{call} is not in:\n{shown}"
    return found.group()


def test_the_support_desk_finds_what_it_looks_for() -> None:
    shown = run("02_support_desk.py")
    lines = (EXAMPLES / "data" / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    tickets = [json.loads(line) for line in lines]
    assert shown.startswith(f"{len(tickets)} tickets, ")

    of_code = sum("xv-77" in line.lower() for line in lines)
    assert f"total_matches: {of_code}, matched_by: word" in part(shown, "tickets_search(query='xv-77'")
    assert "total_matches: 1, matched_by: word" in part(shown, "tickets_search(query='\"shared links\"'")
    assert "matched_by: prefix" in part(shown, "tickets_search(query='sync*'")
    assert "請求書の宛名" in part(shown, "tickets_search(query='請求書'")
    assert "Köhler" in part(shown, "tickets_search(query='kohler'")

    plans = {plan: sum(ticket["customer"]["plan"] == plan for ticket in tickets) for plan in ("team", "free")}
    counted = part(shown, "tickets_field_values(field='customer.plan'")
    assert all(f"{plan}: {count}" in counted for plan, count in plans.items())
    private = [ticket["subject"] for ticket in tickets if "privacy" in ticket["tags"]]
    filtered = part(shown, "tickets_filter_by(")
    assert [line.partition("priority ")[2][3:] for line in filtered.splitlines()[1:]] == private
    index = re.search(r"tickets_get_item\(index=(\d+)\)", shown)
    assert index is not None
    assert tickets[int(index.group(1))]["body"] in shown


def test_the_report_names_all_that_it_came_from() -> None:
    shown = run("03_data_pipeline.py")
    assert re.search(r"functions_email: \d{3,} of type 'functions'", shown)
    assert re.search(r"http.cookiejar: [1-9]\d* long functions without a docstring", shown)
    derived = re.findall(r"^  (undocumented_\w{12}): [1-9]\d* of type 'undocumented'$", shown, re.MULTILINE)
    assert len(derived) == 3
    lineage = shown.partition("(meta.lineage):\n")[2].split()
    stored = ["functions_email", "functions_http", "functions_json"]
    assert lineage == [name for pair in zip(stored, derived, strict=True) for name in pair]


def test_own_tools_are_offered_checked_and_bound() -> None:
    shown = run("04_custom_tools.py")
    assert "counts: a dict of 5. Its tools:\n  characters_largest_category(workspace_id='counts')\n\n" in shown
    found = part(shown, "characters_find(workspace_id='all_characters'")
    assert "DOUBLE ARROW" in found
    assert "characters_in_category('all_characters', …)" in found
    assert "$¢£¤¥" in part(shown, "characters_in_category(workspace_id='all_characters', category='Sc')")
    assert 'actual_shape: "dict"' in part(shown, "characters_find(workspace_id='counts'")
    assert "Use one of Lu, Ll, Nd, Sc, Sm." in part(
        shown, "characters_in_category(workspace_id='all_characters', category='Xx')"
    )
    assert "'name': 'EURO SIGN'" in shown
    assert shown.endswith(
        "  characters_find(words, limit)\n  characters_in_category(category)\n  characters_largest_category()\n"
    )


def test_pipelines_answer_save_and_explain() -> None:
    shown = run("05_pipelines.py")
    most_used = re.findall(r"^  names: (\w+), sections: (\d+), pages: (\d+)$", shown, re.MULTILINE)
    assert len(most_used) == 5
    assert [int(sections) for _, sections, _ in most_used] == sorted((int(row[1]) for row in most_used), reverse=True)
    assert "page: stores.md, heading: Keys and expiry" in shown

    stored = re.search(r"^(\d+) sections, ", shown)
    metrics = re.search(r"^  sections: (\d+), median: ([\d.]+), p90: ([\d.]+), longest: (\d+)$", shown, re.MULTILINE)
    assert stored is not None
    assert metrics is not None
    assert metrics.group(1) == stored.group(1)
    assert float(metrics.group(2)) < float(metrics.group(3)) < int(metrics.group(4))

    assert f"pipeline_result_saved: saved_by_length, {stored.group(1)} rows" in shown
    page = part(shown, "manual_paginate size=3 of saved_by_length")
    chars = [int(number) for number in re.findall(r"chars: (\d+)$", page, re.MULTILINE)]
    assert len(chars) == 3
    assert chars == sorted(chars, reverse=True)
    assert chars[0] == int(metrics.group(4))
    assert "group_by" in part(shown, "  error: ")
    assert '"mean:score"' in part(shown, "  example: ")


def test_the_data_outlives_the_program(tmp_path: Path) -> None:
    shown = run("06_persistence.py", str(tmp_path))
    assert "the pieces together are the chapter: True" in shown
    stored = re.search(r"1. stored chapter_execmodel: [\d,]+ characters in (\d+) pieces", shown)
    assert stored is not None
    count = int(stored.group(1))
    assert f"2. opened again: ['chapter_execmodel'], {count} pieces" in shown
    assert "chapter_delete_items(indices, expected_version): Workspace 'chapter_execmodel' is at another vers" in shown
    assert "bob, again: seen by ['ann', 'bob']" in shown
    assert f"the work failed half way: {count} rows" in shown
    assert f"two deleted, one added: {count - 1} rows" in shown

    async def rows() -> list[dict[str, object]]:
        async with Ctx(f"embedded:{tmp_path}") as ctx:
            return await ctx.store.get_items("chapter_execmodel")

    left = asyncio.run(rows())
    assert len(left) == count - 1
    assert left[0]["seen_by"] == ["ann", "bob"]
    assert left[0]["reviewed"] is True
    assert left[-1] == {"text": "(reviewed)"}


def test_a_temporary_directory_will_do() -> None:
    assert "the last row:  {'text': '(reviewed)'}" in run("06_persistence.py")


def test_server_processes_share_what_each_of_them_stored() -> None:
    shown = run("11_concurrent_server.py")
    for name, word in (("ann", "exception"), ("bob", "class"), ("eve", "import")):
        lines = sum(word in line for text in topics.values() for line in text.splitlines())
        told = part(shown, f"   {name}: {lines} lines with '{word}', stored by worker ")
        assert f"({lines} rows), searched by " in told
        assert re.search(r"\([1-9]\d* hits\), aggregated by \d+ \([1-9]\d* groups\)", told)
    answered = re.search(r"^   (\d) workers answered; the pages are of [1-9]\d* topics$", shown, re.MULTILINE)
    assert answered is not None
    assert int(answered.group(1)) == 4
    assert re.search(r"^   Workspace 'lines_\w{12}@\w{12}' not found.$", shown, re.MULTILINE)
    assert shown.endswith("4. all workers have stopped\n")


def test_ctrl_c_stops_the_workers_too() -> None:
    command = [sys.executable, str(EXAMPLES / "11_concurrent_server.py")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLSTASH_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment | {"PYTHONUNBUFFERED": "1"}
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline().startswith(b"1. ")
        assert b" stored " in started.stdout.readline()  # work is under way
        workers = psutil.Process(started.pid).children(recursive=True)
        assert len(workers) >= 2
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == -signal.SIGINT
        assert psutil.wait_procs(workers, timeout=30)[1] == []
        assert started.stderr is not None
        assert started.stderr.read().rstrip().endswith(b"KeyboardInterrupt")


def test_pools_of_celery_read_what_the_other_pool_stored() -> None:
    shown = run("12_celery_workers.py")
    lines = topics["execmodel"].splitlines()
    for stored_by, read_by in (("prefork", "threads"), ("threads", "prefork")):
        told = part(shown, f"   {stored_by} stored {len(lines)} lines; {read_by} reads them")
        assert re.search(r"lines_search, in process \d+: [1-9]\d* hits", told)
        assert f"{{'lines': {len(lines)}, 'longest': {max(map(len, lines))}}}" in told
        assert re.search(r"another session: Workspace 'lines_\w{12}@\w{12}' not found.", told)
    assert shown.endswith("3. both workers have stopped\n")


def test_workers_of_docket_share_the_conversations() -> None:
    shown = run("13_async_workers.py")
    for name, topic in (("ann", "execmodel"), ("bob", "formatstrings"), ("eve", "debugger")):
        assert f"   {name}: {len(topics[topic].splitlines())} lines of '{topic}', stored by " in shown
    assert len(re.findall(r"^        somebody else: Workspace '\S+' not found.$", shown, re.MULTILINE)) == 3
    counted = re.search(r"^2. searches answered by each process: \{\d+: (\d+)(?:, \d+: (\d+))?\}$", shown, re.MULTILINE)
    assert counted is not None
    assert sum(int(count or 0) for count in counted.groups()) == 18


@pytest.mark.parametrize("program", WITH_WORKERS)
def test_a_program_with_workers_says_how_to_run_it_and_your_own(program: str) -> None:
    text = (EXAMPLES / program).read_text(encoding="utf-8")
    assert f"`python examples/{program}`" in text
    assert "Your own" in text


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_says_what_it_is_for_and_how_to_run_it(program: str) -> None:
    text = (EXAMPLES / program).read_text(encoding="utf-8")
    assert f"`python examples/{program}" in text
    assert "async def main(" in text
