"""What one caller does: tool calls of a session taken by chance, each of whose answers is checked."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.soak.marks import (
    NEEDLE,
    foreign_marks,
    needles,
    new_row,
    new_rows,
    session_name,
    stored_rows,
    torn,
    workspace_id,
)
from benchmarks.soak.plan import Plan
from benchmarks.soak.tally import EXPECTED, Tally
from toolstash import Ctx
from toolstash.store.base import BaseStore
from toolstash.toolsets import paginator, pipeline, text_search

TYPE = "papers"
LASTING = "lasting"
PASSING = ("passing1", "passing2")
MOST_ROWS = 120
SURE_SECONDS = 1.5
"""How long before its end a workspace may be missed: clocks and the way of an answer."""

SAVED_ROWS = 10


def make_ctx(store: BaseStore, plan: Plan) -> Ctx:
    """The program under test: two producers that differ in their time to live, and three sets of tools."""
    ctx = Ctx(store, default_ttl=plan.passing_ttl, require_session=True)
    tools: list[Any] = [paginator(ctx, TYPE, mutations=True), text_search(ctx, TYPE), pipeline(ctx, TYPE)]
    pick = random.Random()

    @ctx.producer(workspace_type=TYPE, toolsets=tools, key="{name}", ttl=plan.lasting_ttl)
    async def load_lasting(session: str, name: str) -> list[dict[str, Any]]:
        """Rows that stay a while."""
        return new_rows(session, name, pick)

    @ctx.producer(workspace_type=TYPE, toolsets=tools, key="{name}")
    def load_passing(session: str, name: str) -> list[dict[str, Any]]:
        """Rows that go soon."""
        return new_rows(session, name, pick)

    return ctx


class Caller:
    """Calls tools, one after another. `stored` says when this process last stored each session's lasting workspace."""

    def __init__(self, ctx: Ctx, plan: Plan, tally: Tally, stored: dict[str, float]) -> None:
        self._ctx = ctx
        self._plan = plan
        self._tally = tally
        self._stored = stored
        self._pick = random.Random()
        self.session = self.name = ""
        self._jobs: dict[Callable[[], Awaitable[None]], int] = {
            self._produce: 10,
            self._page: 30,
            self._search: 12,
            self._group: 6,
            self._top: 6,
            self._save: 2,
            self._patch: 9,
            self._append: 9,
            self._drop: 3,
            self._list: 4,
            self._peep: 4,
            self._sweep: 1,
        }

    async def turn(self) -> None:
        """One job on one workspace."""
        self.session = session_name(self._pick.randrange(self._plan.sessions))
        self.name = self._pick.choice((LASTING, LASTING, *PASSING))
        (job,) = self._pick.choices([*self._jobs], [*self._jobs.values()])
        await job()

    @property
    def _at(self) -> str:
        return workspace_id(self.session, self.name)

    async def _call(self, job: str, tool: str, **arguments: Any) -> Any:
        """The tool's answer; None for one that the workspace was too old or too new for."""
        called = self._ctx.adispatch_tool_call(tool, arguments, session_id=self.session)
        return await self._timed(job, called)

    async def _ask(self, job: str, tool: str, **arguments: Any) -> Any:
        answer = await self._call(job, f"{TYPE}_{tool}", workspace_id=self._at, **arguments)
        return answer["result"] if answer is not None and tool == "paginate" else answer

    async def _timed(self, job: str, work: Awaitable[Any], *, foreign_id: str = "") -> Any:
        """The answer, checked for marks of others; of those, `foreign_id` alone may be named: as what is not there."""
        started, sure = time.perf_counter(), not foreign_id and self._is_surely_there()
        try:
            answer = await work
        except Exception as error:
            self._tally.count(job, f"raised {type(error).__name__}", time.perf_counter() - started)
            self._tally.complain("unexpected", f"{job}: {error!r}")
            return None
        outcome = _outcome(answer)
        self._tally.count(job, outcome, time.perf_counter() - started)
        foreign = foreign_marks(answer, self.session, but=foreign_id)
        self._expect(not foreign, "foreign", lambda: f"{job} showed {foreign[:3]} to {self.session}: {answer}")
        missed = outcome == "gone" and sure and self._is_surely_there()
        self._expect(not missed, "lost", lambda: f"{job}: is stored and not found: {answer}")
        self._expect(outcome in EXPECTED, "unexpected", lambda: f"{job}: {answer}")
        return answer if outcome == "ok" else None

    def _is_surely_there(self) -> bool:
        """Whether nobody but the clock takes the workspace away, and that not yet."""
        stored = self._stored.get(self.session) if self.name == LASTING else None
        return stored is not None and time.monotonic() < stored + self._plan.lasting_ttl - SURE_SECONDS

    def _expect(self, right: bool, kind: str, what: Callable[[], str]) -> None:
        if not right:
            self._tally.complain(kind, f"{self._at}: {what()}")

    def _expect_whole(self, rows: list[Any], first: int) -> None:
        fault = torn(rows, first, self.name)
        self._expect(not fault, "torn", lambda: fault)

    # Jobs

    async def _produce(self) -> None:
        started = time.monotonic()
        tool = "load_lasting" if self.name == LASTING else "load_passing"
        notice = await self._call("store", tool, session=self.session, name=self.name)
        if notice is None:
            return
        if self.name == LASTING:
            self._stored[self.session] = max(started, self._stored.get(self.session, started))
        batch = notice["preview"][0]["batch"]
        right = notice["workspace_id"] == self._at and notice["item_count"] == stored_rows(batch)
        self._expect(right, "count", lambda: f"stored {batch}, but the notice says {notice}")

    async def _page(self) -> None:
        page, size = self._pick.randrange(4), self._pick.choice((5, 10, 20))
        answer = await self._ask("page", "paginate", page=page, size=size)
        if answer is None:
            await self._produce()
            return
        total, rows = answer["total"], answer["items"]
        self._expect_whole(rows, page * size)
        right = len(rows) == max(0, min(size, total - page * size))
        right &= not rows or total >= stored_rows(rows[0]["batch"])
        self._expect(right, "count", lambda: f"page {page} of {size}: {len(rows)} rows of {total}")

    async def _search(self) -> None:
        answer = await self._ask("search", "search", query=NEEDLE)
        if answer is None:
            return
        rows = [match["item"] for match in answer["matches"]]
        fault = {row["batch"] for row in rows} if len({row["batch"] for row in rows}) != 1 else None
        self._expect(not fault, "torn", lambda: f"hits of batches {fault}")
        if rows:
            right = answer["total_matches"] == needles(rows[0]["batch"])
            right &= all(match["index"] == match["item"]["n"] for match in answer["matches"])
            self._expect(right, "count", lambda: f"{answer['total_matches']} hits in {rows[0]['batch']}")

    async def _group(self) -> None:
        metrics = {"rows": "count", "first": "min:n", "last": "max:n"}
        answer = await self._ask("group", "pipe", steps=[{"group_by": {"field": "batch", "metrics": metrics}}])
        if answer is None:
            return
        groups = answer["items"]
        self._expect(len(groups) == 1, "torn", lambda: f"{len(groups)} batches: {groups}")
        group = groups[0]
        right = group["first"] == 0 and group["rows"] == group["last"] + 1 >= stored_rows(group["batch"])
        self._expect(right, "count", lambda: f"a group of {group}")

    async def _top(self) -> None:
        steps = [{"filter": {"n": {"$gte": 5}}}, {"sort": {"field": "n", "order": "desc"}}, {"limit": 5}]
        answer = await self._ask("filter and sort", "pipe", steps=steps)
        if answer is None:
            return
        rows = answer["items"][::-1]
        self._expect(len(rows) == 5, "count", lambda: f"the last five rows are {len(rows)}")
        self._expect_whole(rows, rows[0]["n"] if rows else 0)

    async def _save(self) -> None:
        steps = [{"filter": {"n": {"$lt": SAVED_ROWS}}}]
        notice = await self._ask("save", "pipe", steps=steps, save_as="part")
        if notice is None:
            return
        right = notice["item_count"] == SAVED_ROWS
        self._expect(right, "count", lambda: f"saved {notice['item_count']} rows, not {SAVED_ROWS}")

    async def _patch(self) -> None:
        seen = await self._seen()
        if seen is None:
            return
        version, count, row = seen
        fields = {"counter": row["counter"] + 1}
        after = await self._ask("patch", "patch_item", index=0, fields=fields, expected_version=version)
        if after is not None:
            self._check_change(version, count, row, after, added=0)

    async def _append(self) -> None:
        seen = await self._seen()
        if seen is None:
            return
        version, count, row = seen
        items = [new_row(self.session, self.name, row["batch"], count, self._pick)]
        after = await self._ask("append", "append_items", items=items, expected_version=version)
        if after is not None:
            self._check_change(version, count, row, after, added=1)

    async def _seen(self) -> tuple[str, int, dict[str, Any]] | None:
        """A version, its count, and the first row, which is of that version if a change that expects it succeeds."""
        counted = await self._ask("count", "count")
        if counted is None or counted["count"] > MOST_ROWS:
            await self._produce()
            return None
        row = await self._ask("item", "get_item", index=0)
        return None if row is None else (counted["version"], counted["count"], row)

    def _check_change(self, version: str, count: int, row: Any, after: Any, *, added: int) -> None:
        generation, _, edits = version.partition(".")
        known = row["counter"] + count - stored_rows(row["batch"])
        self._expect(known == int(edits), "lost", lambda: f"{edits} changes, of which {known} are there ({version})")
        right = after["count"] == count + added and after["version"] == f"{generation}.{int(edits) + 1}"
        self._expect(right, "count", lambda: f"{count} rows at {version}, then {after}")

    async def _drop(self) -> None:
        self.name = self._pick.choice(PASSING)
        with self._ctx.session(self.session):
            await self._timed("drop", self._ctx.drop_workspace(self._at))

    async def _list(self) -> None:
        self.name = LASTING
        must_be_there = self._is_surely_there()
        with self._ctx.session(self.session):
            ids = await self._timed("list", self._ctx.list_workspaces())
        if ids is not None and must_be_there and self._is_surely_there():
            self._expect(self._at in ids, "lost", lambda: f"is stored and not listed in {ids}")

    async def _peep(self) -> None:
        """Asks for another session's workspace, which must be like one that is not there."""
        own, self.name = self.session, LASTING
        other = session_name(self._pick.randrange(self._plan.sessions))
        if other == own:
            return
        foreign_id = workspace_id(other, LASTING)
        asked = self._ctx.adispatch_tool_call(f"{TYPE}_paginate", {"workspace_id": foreign_id}, session_id=own)
        answer = await self._timed("look at another session", asked, foreign_id=foreign_id)
        self._expect(answer is None, "foreign", lambda: f"session {own} was shown {foreign_id}: {answer}")

    async def _sweep(self) -> None:
        with self._ctx.session(self.session):
            await self._timed("sweep", self._ctx.sweep_expired())


def _outcome(answer: Any) -> str:
    if not isinstance(answer, dict) or not {"error", "suggested_action"} <= answer.keys():
        return "ok"
    error: str = answer["error"]
    if error.endswith(("not found.", "has expired.")):
        return "gone"
    if "is at another version now" in error or "is being changed by others" in error:
        return "conflict"
    return error[:80]
