"""Four processes work together as the example's docstring says."""

from __future__ import annotations

import json
from collections import Counter

from tests.examples.test_programs import EXAMPLES, run


def test_four_agents_share_what_they_find() -> None:
    shown = run("08_multi_agent.py")
    lines = (EXAMPLES / "data" / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    tickets = [json.loads(line) for line in lines]

    assert f"stored {len(tickets)} tickets" in shown
    assert shown.count("compares all tickets with each other") == 1
    assert shown.count(f"has {len(tickets) * (len(tickets) - 1) // 2} pairs in pairs") == 2
    for topic in ("customers", "urgent", "payment"):
        assert shown.count(f"found out: {topic}") == 1
    findings = {
        name: json.loads(text)
        for name, _, text in (line.strip().partition(": ") for line in shown.splitlines() if line.startswith("   "))
    }
    plans = Counter(ticket["customer"]["plan"] for ticket in tickets)
    assert {row["customer.plan"]: row["tickets"] for row in findings["customers"]} == plans
    urgent = [ticket["id"] for ticket in tickets if ticket["priority"] <= 1 and ticket["status"] == "open"]
    assert [row["id"] for row in findings["urgent"]] == urgent[:3]
    assert len(findings["payment"]) == 3
    assert "in the store: tickets, plan, pairs, finding_" in shown
