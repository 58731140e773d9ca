"""`index=` of a producer says when its rows get an index."""

from __future__ import annotations

from typing import Any

import pytest

from tests.search.place import place
from tests.wait import until
from toolstash import Ctx
from toolstash.store import index_life
from toolstash.toolsets import text_search


def producing(ctx: Ctx, mode: Any, fields: list[str] | None = None) -> None:
    @ctx.producer(workspace_type="t", toolsets=[text_search(ctx, "t", fields=fields)], index=mode)
    def load(rows: int) -> list[dict[str, Any]]:
        """Load rows."""
        return [{"n": number, "t": f"red fox {number}"} for number in range(rows)]


async def ask(ctx: Ctx, workspace_id: str) -> str:
    answer = await ctx.adispatch_tool_call("t_search", {"workspace_id": workspace_id, "query": "fox"})
    assert answer["total_matches"] > 0
    return answer["engine"]


@pytest.mark.parametrize("fields", [None, ["t"]])
async def test_eager_rows_have_their_index_soon_after_they_are_stored(fields: list[str] | None) -> None:
    async with place() as there:
        ctx = Ctx(there.store())
        producing(ctx, "eager", fields)
        notice = await ctx.adispatch_tool_call("load", {"rows": 30})
        await until(there.indexes, what="there is an index, and nobody has asked")

        async def is_by_index() -> bool:
            return await ask(ctx, notice["workspace_id"]) == "redisearch"

        await until(is_by_index, what="it answers searches of the tool set's fields")
        assert len(await there.indexes()) == 1
        empty = await ctx.adispatch_tool_call("load", {"rows": 0})
        assert empty["item_count"] == 0


async def test_lazy_rows_have_one_when_they_are_many_and_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 30)
    async with place() as there:
        ctx = Ctx(there.store())
        producing(ctx, "lazy")
        few, many = [(await ctx.adispatch_tool_call("load", {"rows": rows}))["workspace_id"] for rows in (29, 30)]
        assert await there.indexes() == []
        assert (await ask(ctx, few), await ask(ctx, many)) == ("python", "python")

        async def is_by_index() -> bool:
            return await ask(ctx, many) == "redisearch"

        await until(is_by_index, what="the first question brought about an index")
        assert await ask(ctx, few) == "python"
        assert all(many in name for name in await there.indexes())


async def test_rows_that_never_get_one_get_one_only_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_life, "SEARCHED_FROM_ROWS", 1)
    async with place() as there:
        store = there.store()
        ctx = Ctx(store)
        producing(ctx, "never")
        workspace_id = (await ctx.adispatch_tool_call("load", {"rows": 30}))["workspace_id"]
        for _ in range(3):
            assert await ask(ctx, workspace_id) == "python"
        await store._indexes.settle()
        assert await there.indexes() == []
        assert await store.build_index(workspace_id)
        assert await ask(ctx, workspace_id) == "redisearch"


def test_another_word_is_refused_at_decoration() -> None:
    with pytest.raises(ValueError, match="index is one of 'eager', 'lazy', 'never', not 'always'"):
        producing(Ctx("memory:"), "always")
