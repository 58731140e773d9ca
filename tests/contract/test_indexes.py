"""`build_index` on every store: it refuses what can have no index, and says whether there is one."""

from __future__ import annotations

import pytest

from toolstash import BaseStore, Ctx, RedisStore, WorkspaceNotFoundError
from toolstash.errors import WorkspaceShapeMismatchError


async def test_what_can_have_no_index_is_refused(store: BaseStore) -> None:
    ctx = Ctx(store)
    ref = await ctx.store_workspace({"a": 1}, workspace_type="t")
    with pytest.raises(WorkspaceShapeMismatchError):
        await store.build_index(ref.workspace_id)
    with pytest.raises(WorkspaceNotFoundError):
        await store.build_index("nothing")
    rows = await ctx.store_workspace([{"a": "x"}], workspace_type="t")
    for fields in ("title", []):
        with pytest.raises(ValueError, match="fields is a list of field names"):
            await store.build_index(rows.workspace_id, fields)


async def test_it_says_whether_there_is_one(store: BaseStore) -> None:
    ctx = Ctx(store)
    rows = await ctx.store_workspace([{"a": "x"}, {"a": "y"}], workspace_type="t")
    searches = isinstance(store, RedisStore) and await store._indexes.ability() is not None
    for fields in (None, ["a"], ["a"]):
        assert await store.build_index(rows.workspace_id, fields) is searches
    assert [hit.index for hit in await store.search_items(rows.workspace_id, "y")] == [1]
    empty = await ctx.store_workspace([], workspace_type="t")
    assert await store.build_index(empty.workspace_id) is False
