"""The example of the mistakes: each is refused in words that lead to the right call."""

from __future__ import annotations

import re

import pytest

from tests.examples.test_programs import run

READ_AND_REPAIRED = [
    ("a tool that does not exist", "available_tools: ", '"total_matches": 2'),
    ("JSON that breaks off", "error: The arguments are not a JSON object", '"count": 60'),
    ("a list in place of an object", "error: The arguments must be a JSON object, not a list.", '"count": 60'),
    ("an argument of another name", "error: Unknown argument: 'querry' (did you mean 'query'?)", '"total_matches": 2'),
    ("an argument that is missing", "error: Missing argument: 'index'", '"id": "T-1001"'),
    ("a word for a number", "error: 'page' must be a whole number", '"id": "T-1007"'),
    ("an empty id", "argument: workspace_id", '"count": 60'),
    ("an id with a slip", "suggested_action: Did you mean 'tickets_march'?", '"count": 60'),
    ("somebody else's workspace", 'available_workspaces: ["tickets_march"', '"workspace_id": "tickets_march"'),
    ("a workspace whose time is over", "suggested_action: Call load_urgent()", '"status": "workspace_ready"'),
    ("a workspace of another type", 'workspaces_of_correct_type: ["customers"]', '"workspace_id": "customers"'),
    ("a tool for lists", "actual_shape: dict", '"keys": ["team", "free", "business"]'),
    ("a name that another producer has taken", "error: The id 'tickets_march' is held", '"tickets_march_by_plan"'),
    ("rows that were changed meanwhile", "version: ", '"version": '),
    ("an index behind the last", "valid_range: 0–59", '"id": "T-1060"'),
    ("a key that is not there", 'available_keys: ["team", "free", "business"]', "23"),
    ("a field that is not searched", 'available_fields: ["subject", "body"]', '"total_matches": 2'),
    ("a step that there is not", 'available_operations: ["filter"', '{"count": 16}'),
    ("an operator that there is not", 'available_operators: ["$eq"', '{"count": 37}'),
    ("a metric that there is not", "suggested_action: Did you mean 'mean:priority'?", '{"result": {"average": 2.4}}'),
    ("more rows than may be stored", "max_items: 100", '"item_count": 60'),
    ("a result that is too large to be read", "result_chars: ", '[{"id": "T-1001"'),
    ("a tool that fails", "error: tickets_first_by failed (KeyError).", '{"id": "T-1001"'),
    ("a producer that fails", "error: load_month failed (KeyError).", '"status": "workspace_ready"'),
    ("a value that the tool itself refuses", "suggested_action: Use 1, 2, 3 or 4.", "16"),
]


@pytest.fixture(scope="module")
def transcript() -> list[str]:
    """The mistakes one by one, and what stands below the last one."""
    shown = run("07_error_handling.py")
    return re.split(r"\n\d+\. ", shown)


@pytest.mark.parametrize(("title", "read", "repaired"), READ_AND_REPAIRED)
def test_what_the_model_reads_leads_to_the_right_call(
    transcript: list[str], title: str, read: str, repaired: str
) -> None:
    (told,) = [part for part in transcript if part.startswith(title)]
    wrong, _, right = told.partition("\n   model    ")[2].partition("\n   model    ")
    assert read in wrong
    assert "suggested_action: " in wrong
    answer = right.partition("\n   reads    ")[2].splitlines()[0]
    assert repaired in answer
    assert '"error"' not in answer


def test_all_were_repaired_and_only_the_log_has_exceptions(transcript: list[str]) -> None:
    *mistakes, last = transcript
    assert len(mistakes) == len(READ_AND_REPAIRED)  # what stands before the first one counts for the last
    end = last.partition("\n\n")[2]
    count = len(READ_AND_REPAIRED)
    assert end.startswith(f"{count} mistakes, {count} repaired, no exception\n")
    assert "tool load_month failed: KeyError(13)" in end
    assert "KeyError(13)" not in "".join(mistakes)
