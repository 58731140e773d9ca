"""The programs in the documents do what the text around them says."""

from __future__ import annotations

import ast
import asyncio
import inspect
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from tests.house.repository import python_blocks
from tests.house.sources import Source, repository_texts
from toolstash import BaseStore, Ctx, VersionConflictError, WorkspaceConflictError, WorkspaceNotFoundError, toolsets

RUNNABLE = [
    "README.md",
    "docs/agents.md",
    "docs/changing-rows.md",
    "docs/consumers.md",
    "docs/deadlines.md",
    "docs/errors.md",
    "docs/frameworks.md",
    "docs/from-ctxtual.md",
    "docs/pipelines.md",
    "docs/producers.md",
    "docs/reading-back.md",
    "docs/schemas.md",
    "docs/search.md",
    "docs/search-index.md",
    "docs/stores.md",
    "docs/suspended-calls.md",
    "docs/tools.md",
]
NEEDS_A_SERVER = ("redis://", "Ctx()", "asyncio.run(")


def blocks(path: str) -> list[str]:
    page = next(text for text in repository_texts() if text.path == path)
    return [code for _, code in python_blocks(page)]


async def run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "document"}
    compiled = compile(code, "document", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if inspect.CO_COROUTINE & compiled.co_flags:
        await eval(compiled, names)
    else:
        await asyncio.to_thread(exec, compiled, names)
    return names


@pytest.mark.parametrize("path", RUNNABLE)
async def test_blocks_that_need_no_server_run(path: str) -> None:
    runnable = [code for code in blocks(path) if not any(word in code for word in NEEDS_A_SERVER)]
    assert runnable != []
    for code in runnable:
        assert {"Ctx", "Forge", "DictStore"} & set(await run(code))


async def test_the_quick_start_of_the_readme(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLSTASH_URL", "memory:")
    code = next(code for code in blocks("README.md") if "asyncio.run(" in code)
    await run(code)
    shown = capsys.readouterr().out
    assert "['search_papers', 'papers_paginate', 'papers_count', 'papers_get_item', 'papers_get_slice']" in shown
    assert "'transformers, part 10'" in shown
    assert shown.rstrip().endswith("10000")


async def test_the_handlers_of_the_older_seed_serve_requests() -> None:
    code = next(code for code in blocks("docs/from-ctxtual.md") if "FastAPI" in code)
    made = await run(code)
    async with made["forge"], AsyncClient(transport=ASGITransport(made["app"]), base_url="http://x") as client:
        notice = (await client.post("/search", params={"query": "ml"})).json()
        assert (notice["status"], notice["item_count"]) == ("workspace_ready", 1_000)
        page = (await client.get(f"/explore/{notice['workspace_id']}", params={"page": 99})).json()
        assert page["result"]["items"][-1] == {"title": "ml, part 999"}


async def own_store() -> BaseStore:
    code = next(code for code in blocks("docs/stores.md") if "class DictStore" in code)
    return (await run(code))["DictStore"]()


async def test_the_store_in_the_documents_serves_a_ctx() -> None:
    async with Ctx(await own_store()) as ctx:

        @ctx.producer(workspace_type="rows", toolsets=[toolsets.paginator(ctx)], key="rows")
        def rows() -> list[int]:
            return list(range(25))

        @ctx.producer(workspace_type="page", toolsets=[toolsets.text_content(ctx)])
        def page() -> str:
            return "word " * 2_000

        @ctx.producer(workspace_type="map", toolsets=[toolsets.kv_reader(ctx)])
        def mapping() -> dict[str, Any]:
            return {"a": {"b": 1}, "c": 2}

        await rows()
        last = await ctx.adispatch_tool_call("rows_paginate", {"workspace_id": "rows", "page": 2})
        assert last["result"]["items"] == [20, 21, 22, 23, 24]
        ids = [(await made())["workspace_id"] for made in (page, mapping)]
        text = await ctx.adispatch_tool_call("page_read_page", {"workspace_id": ids[0], "page": 3})
        assert text["result"]["chars_in_page"] == 1_000
        assert await ctx.adispatch_tool_call("map_get_value", {"workspace_id": ids[1], "key": "a.b"}) == 1
        assert await ctx.list_workspaces() == ["rows", *ids]


async def test_the_store_in_the_documents_keeps_the_contract() -> None:
    async with Ctx(await own_store()) as ctx:
        with ctx.session("ann"):
            ref = await ctx.store_workspace([{"n": 1}, {"n": 2}], workspace_type="rows", workspace_id="mine")
            version = (await ctx.store.get_meta(ref.workspace_id)).version
            assert await ctx.store.append_items(ref.workspace_id, [{"n": 3}], expected_version=version) == 3
            with pytest.raises(VersionConflictError):
                await ctx.store.delete_items(ref.workspace_id, [0], expected_version=version)
            await ctx.store.patch_item(ref.workspace_id, 0, {"m": 0})
            await ctx.store.update_item(ref.workspace_id, 1, {"n": 5})
            await ctx.store.delete_items(ref.workspace_id, [2])
            assert await ctx.store.get_items(ref.workspace_id) == [{"n": 1, "m": 0}, {"n": 5}]
        with ctx.session("bob"), pytest.raises(WorkspaceNotFoundError):
            await ctx.store.get_items(ref.workspace_id)

        @ctx.producer(workspace_type="rows", key="taken")
        def rows() -> list[int]:
            return []

        await ctx.store_workspace([1], workspace_type="rows", workspace_id="taken", producer_fn="another")
        with pytest.raises(WorkspaceConflictError):
            await rows()
        assert await ctx.drop_workspace("taken")
        assert not await ctx.drop_workspace("taken")


async def test_a_block_that_fails_is_found() -> None:
    page = Source("docs/a.md", "```python\nassert await nothing()\n```\n")
    with pytest.raises(NameError):
        await run(next(code for _, code in python_blocks(page)))


async def test_the_store_in_the_documents_answers_questions() -> None:
    store = await own_store()
    async with Ctx(store) as ctx:
        toolsets.text_search(ctx, "rows")
        toolsets.pipeline(ctx, "rows")
        rows = [{"n": 1, "t": "red fox"}, {"n": 2, "t": "hens"}]
        await ctx.store_workspace(rows, workspace_type="rows", workspace_id="w")
        async with store.transaction("w") as transaction:
            transaction.delete_items([0])
            transaction.append_items([{"n": 3, "t": "a hen"}])
        found = await ctx.adispatch_tool_call("rows_search", {"workspace_id": "w", "query": "hen"})
        assert found["total_matches"] == 2
        steps = [{"filter": {"n": {"$gt": 2}}}, {"select": ["t"]}]
        piped = await ctx.adispatch_tool_call("rows_pipe", {"workspace_id": "w", "steps": steps})
        assert piped["items"] == [{"t": "a hen"}]
        assert await store.distinct_field_values("w", "n") == [(2, 1), (3, 1)]
