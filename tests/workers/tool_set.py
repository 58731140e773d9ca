"""The tools that every kind of worker in these tests runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

from toolstash import Ctx, RedisStore
from toolstash.toolsets import paginator, pipeline, text_search

ROWS = 300


def make_ctx(*, max_connections: int = 16) -> Ctx:
    """A Ctx on the server and under the prefix that the test names in the environment."""
    store = RedisStore(os.environ["TOOLSTASH_URL"], max_connections=max_connections)
    ctx = Ctx(store, require_session=True, default_ttl=300)

    @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx), text_search(ctx), pipeline(ctx)])
    def load_papers(owner: str, rows: int = ROWS) -> list[dict[str, Any]]:
        """Load papers."""
        return [{"n": n, "owner": owner, "title": f"paper {n} of {owner}", "even": n % 2 == 0} for n in range(rows)]

    @ctx.producer(workspace_type="papers", key="endless")
    def load_endless() -> Iterator[dict[str, Any]]:
        """Load papers for ever; a file says that some are on their way."""
        number = 0
        while True:
            if number == 5_000:
                with open(os.environ["STORING_MARK"], "w") as mark:
                    mark.write(str(os.getpid()))
            yield {"n": number, "title": "x" * 50}
            number += 1

    @ctx.producer(workspace_type="papers", key="stuck")
    def load_stuck() -> list[int]:
        """Load papers from a source that never answers."""
        with open(os.environ["STORING_MARK"], "w") as mark:
            mark.write(str(os.getpid()))
        threading.Event().wait()
        return [1]

    return ctx


def expect_right(tool: str, answer: Any, owner: str) -> None:
    """The answer of a reading tool is that of this owner's papers."""
    assert "error" not in answer, answer
    if tool == "papers_paginate":
        rows = answer["result"]["items"]
        assert answer["result"]["total"] == ROWS
        assert [row["title"] for row in rows] == [f"paper {row['n']} of {owner}" for row in rows] != []
    elif tool == "papers_search":
        assert answer["total_matches"] == 1
        assert answer["matches"][0]["item"]["title"] == f"paper 77 of {owner}"
    else:
        assert tool == "papers_aggregate"
        assert sorted(group["papers"] for group in answer["groups"]) == [ROWS // 2, ROWS // 2]


def question(number: int, workspace_id: str) -> tuple[str, dict[str, Any]]:
    """One of the reading calls, in turn."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("papers_paginate", {"page": number % 30}),
        ("papers_search", {"query": '"paper 77"'}),
        ("papers_aggregate", {"group_by": "even", "metrics": {"papers": "count"}}),
    ]
    tool, arguments = calls[number % 3]
    return tool, {"workspace_id": workspace_id, **arguments}
