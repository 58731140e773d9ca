"""The smallest bound of a result still lets everything be read; inlining measures what would be stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.toolsets import kv_reader, paginator, text_content

LEAST = 4_000


async def test_with_the_least_bound_everything_can_still_be_read() -> None:
    async with Ctx("memory:", max_result_chars=LEAST) as ctx:
        big = "é\n" * 20_000

        @ctx.producer(workspace_type="all", toolsets=[paginator(ctx), kv_reader(ctx), text_content(ctx)])
        def load(shape: str) -> Any:
            wide = {f"column {number}": number for number in range(3_000)}
            return {"list": [{"big": big}, wide], "dict": {"big": big, "k" * 9_000: 1}, "text": big}[shape]

        ids: dict[str, str] = {}
        for shape in ("list", "dict", "text"):
            notice = await ctx.adispatch_tool_call("load", {"shape": shape})
            assert notice["status"] == "workspace_ready"
            ids[shape] = notice["workspace_id"]

        async def call(tool: str, **arguments: Any) -> Any:
            answer = await ctx.adispatch_tool_call(f"all_{tool}", arguments)
            assert len(json.dumps(answer, ensure_ascii=False)) <= LEAST * 1.1
            assert "error" not in answer
            return answer

        await call("paginate", workspace_id=ids["list"], size=1, page=1)
        await call("paginate", workspace_id=ids["list"])
        await call("get_keys", workspace_id=ids["dict"])
        for tool, key, arguments in (
            ("get_item", "value", {"workspace_id": ids["list"], "index": 0, "field": "big"}),
            ("get_value", "preview", {"workspace_id": ids["dict"], "key": "big"}),
        ):
            text, offset = "", 0
            while offset is not None:
                answer = await call(tool, offset=offset, **arguments)
                text, offset = text + answer[key], answer["next_offset"]
            assert text == big
        page = await call("read_page", workspace_id=ids["text"], chars_per_page=20_000)
        assert page["result"]["limited_by"] == "size"


class Frame:
    """Looks like a data frame: its text is short and its rows are many."""

    columns = ("n",)

    def to_dict(self, kind: str) -> list[dict[str, int]]:
        assert kind == "records"
        return [{"n": number} for number in range(10_000)]


async def test_inlining_measures_the_stored_form() -> None:
    async with Ctx("memory:", inline_below_chars=2_000) as ctx:

        @ctx.producer(workspace_type="a")
        def load(what: str) -> Any:
            loop: list[Any] = []
            loop.append(loop)
            return {"frame": Frame(), "keys": {(1, 2): 3}, "loop": loop, "small": [1]}[what]

        assert (await load("frame"))["item_count"] == 10_000
        assert await ctx.adispatch_tool_call("load", {"what": "keys"}) == {"(1, 2)": 3}
        assert "nested deeper" in (await ctx.adispatch_tool_call("load", {"what": "loop"}))["error"]
        assert await load("small") == [1]


@pytest.mark.timeout(30)
async def test_a_search_with_millions_of_places_counts_them_without_a_list(ctx: Ctx) -> None:
    text_content(ctx, "page")
    ref = await ctx.store_workspace("a" * 3_000_000, workspace_type="page")
    answer = await ctx.adispatch_tool_call("page_search_in_text", {"workspace_id": ref.workspace_id, "query": "A"})
    assert (answer["total_matches"], answer["match_count"]) == (3_000_000, 10)
