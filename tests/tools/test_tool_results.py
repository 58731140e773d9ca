"""A `ToolResult` comes back as it is: never stored, never shared, never wrapped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.wait import until
from toolstash import Answer, Ctx, ToolContext, ToolResult, pending
from toolstash.contracts import Address
from toolstash.store.flights import Standing

ASKED = pending(kind="input", prompt="Which one?")
PLAIN = ToolResult("nothing to do")


@pytest.mark.parametrize("result", [ASKED, PLAIN])
@pytest.mark.parametrize("key", [None, "papers_{query}"])
async def test_a_producer_gives_it_back_unstored(ctx: Ctx, result: ToolResult, key: str | None) -> None:
    def never(rows: Any) -> Any:
        pytest.fail("was transformed")

    @ctx.producer(workspace_type="papers", key=key, transform=never)
    async def search(query: str) -> Any:
        return result

    assert await search("ml") is result
    assert await ctx.list_workspaces() == []


async def test_what_a_transform_makes_may_be_one(ctx: Ctx) -> None:
    @ctx.producer(workspace_type="papers", transform=lambda rows: rows or PLAIN)
    def search(query: str) -> list[int]:
        return []

    assert await search("ml") is PLAIN
    assert await ctx.list_workspaces() == []


async def test_a_hint_does_not_wrap_it(ctx: Ctx) -> None:
    tools = ctx.toolset("t")

    @tools.tool(output_hint="Read on in {workspace_id}.")
    async def ask(text: str) -> Any:
        return PLAIN if text == "plain" else text

    assert await ask("plain") is PLAIN
    assert await ask("x") == {"result": "x", "_hint": "Read on in x."}


@pytest.fixture
def joined(ctx: Ctx, monkeypatch: pytest.MonkeyPatch) -> list[Standing]:
    """What each caller was told that asked who leads."""
    told: list[Standing] = []
    join = ctx.store.flights.join

    async def listened(at: Address, token: str, digest: str, followed: str = "") -> Standing:
        told.append(await join(at, token, digest, followed))
        return told[-1]

    monkeypatch.setattr(ctx.store.flights, "join", listened)
    return told


Made = Callable[[ToolContext], Any]


async def results_of_two(ctx: Ctx, joined: list[Standing], make: Made, contexts: list[ToolContext]) -> tuple[Any, int]:
    """Two calls of one workspace, the second come while the first runs; and how often the function ran."""
    runs: list[int] = []
    may_end = asyncio.Event()

    @ctx.producer(workspace_type="papers", key="papers")
    async def search(context: ToolContext) -> Any:
        runs.append(1)
        await asyncio.wait_for(may_end.wait(), 10)
        return make(context)

    first = asyncio.ensure_future(search(context=contexts[0]))
    await until(lambda: runs, within=5, what="the first call to run")
    second = asyncio.ensure_future(search(context=contexts[1]))
    await until(lambda: any(told.role == "busy" for told in joined), within=5, what="the second call to wait")
    may_end.set()
    return await asyncio.wait_for(asyncio.gather(first, second), 20), len(runs)


async def test_those_who_follow_run_themselves_and_ask_themselves(ctx: Ctx, joined: list[Standing]) -> None:
    contexts = [ToolContext(), ToolContext()]
    results, runs = await results_of_two(ctx, joined, lambda _: pending(kind="input", prompt="Which?"), contexts)
    assert any(told.is_same for told in joined)
    assert len({result.metadata["pending"].id for result in results}) == 2
    assert runs == 2


@pytest.mark.parametrize("call_id", ["c1", ""])
@pytest.mark.parametrize("answered", [0, 1])
async def test_a_call_with_answers_shares_its_run_with_no_other(
    ctx: Ctx, joined: list[Standing], call_id: str, answered: int
) -> None:
    contexts = [ToolContext(call_id=call_id), ToolContext(call_id=call_id)]
    contexts[answered] = ToolContext(answer=Answer("pnd_1", ok=True), call_id=call_id)
    _, runs = await results_of_two(ctx, joined, lambda context: [len(context.answers)], contexts)
    assert not any(told.is_same for told in joined)
    assert runs == 2
    assert await ctx.store.get_items("papers") == [int(answered == 1)]


async def test_equal_calls_share_a_run_whatever_their_contexts(ctx: Ctx, joined: list[Standing]) -> None:
    contexts = [ToolContext(timeout=10, call_id="c1"), ToolContext(timeout=20, call_id="c2")]
    (first, second), runs = await results_of_two(ctx, joined, lambda _: ["row"], contexts)
    assert first == second
    assert runs == 1
