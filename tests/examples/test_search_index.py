"""The example of search indexes: the same answers with the module and without."""

from __future__ import annotations

from tests.examples.test_programs import run
from tests.servers import shared_server

PROGRAM = "15_search_index.py"


def test_python_answers_where_there_is_no_module() -> None:
    shown = run(PROGRAM)
    assert "there is an index: False" in shown
    assert "by redisearch" not in shown
    assert "the answers are the same: True" in shown


def test_a_worker_that_has_not_read_a_row_is_answered_by_the_index() -> None:
    shown = run(PROGRAM, shared_server("redis-8.2").url)
    assert "there is an index: True" in shown
    before, after = shown.split("3. another worker")
    assert "by redisearch" not in before.split("2. ")[0].splitlines()[1]
    words = [line for line in after.splitlines() if "(word)" in line]
    assert len(words) == 2
    assert all("by redisearch" in line for line in words)
    assert "by python     (prefix)" in after
    assert "the answers are the same: True" in after
