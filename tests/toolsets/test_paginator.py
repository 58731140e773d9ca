"""Pages never drop a row, always make progress, and say how to go on (F35, F36, F37, F52)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolstash import Ctx
from toolstash.toolsets import paginator


async def stored(ctx: Ctx, rows: list[Any]) -> str:
    if "rows_paginate" not in ctx.entries:
        paginator(ctx, "rows")
    return (await ctx.store_workspace(rows, workspace_type="rows")).workspace_id


async def call(ctx: Ctx, tool: str, workspace_id: str, **arguments: Any) -> Any:
    answer = await ctx.adispatch_tool_call(f"rows_{tool}", {"workspace_id": workspace_id, **arguments})
    return answer["result"] if tool == "paginate" and "result" in answer else answer


@pytest.mark.parametrize(
    ("count", "page", "expected"),
    [
        (10, 0, {"total": 10, "total_pages": 1, "has_next": False, "has_prev": False}),
        (11, 0, {"total": 11, "total_pages": 2, "has_next": True, "has_prev": False}),
        (11, 1, {"total": 11, "total_pages": 2, "has_next": False, "has_prev": True}),
        (11, 7, {"total": 11, "total_pages": 2, "has_next": False, "has_prev": True}),
        (0, 0, {"total": 0, "total_pages": 1, "has_next": False, "has_prev": False}),
    ],
)
async def test_a_page_says_where_it_stands(ctx: Ctx, count: int, page: int, expected: dict[str, Any]) -> None:
    answer = await call(ctx, "paginate", await stored(ctx, list(range(count))), page=page)

    assert {key: answer[key] for key in expected} == expected
    assert answer["items"] == list(range(count))[page * 10 : page * 10 + 10]
    assert ("suggested_action" in answer) == (page == 7)


async def test_a_lowered_size_is_said(ctx: Ctx) -> None:
    workspace = await stored(ctx, list(range(250)))

    answer = await call(ctx, "paginate", workspace, size=10_000)
    assert (answer["size"], answer["limited_by"], len(answer["items"])) == (100, "size", 100)
    assert "100" in answer["suggested_action"]
    part = await call(ctx, "get_slice", workspace, start=200, end=1_000)
    assert (part["items"], part["end"], part["has_more"]) == (list(range(200, 250)), 250, False)
    assert "limited_by" not in part
    cut = await call(ctx, "get_slice", workspace, start=0, end=120)
    assert (cut["end"], cut["has_more"], cut["limited_by"]) == (100, True, "size")
    assert "start=100" in cut["suggested_action"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("paginate", {"page": -1}),
        ("paginate", {"size": 0}),
        ("get_slice", {"start": -1}),
        ("get_item", {"index": -1}),
        ("get_item", {"index": 5}),
        ("get_item", {"index": 0, "offset": -1}),
        ("get_item", {"index": 0, "field": "nope"}),
        ("get_item", {"index": 1, "field": "a"}),
        ("get_item", {}),
    ],
)
async def test_numbers_out_of_range_are_refused(ctx: Ctx, tool: str, arguments: dict[str, Any]) -> None:
    refusal = await call(ctx, tool, await stored(ctx, [{"a": 1}, 2]), **arguments)

    assert refusal["error"]
    assert refusal["suggested_action"]


async def test_an_item_and_its_fields(ctx: Ctx) -> None:
    workspace = await stored(ctx, [{"a": {"b": [1, {"c": None}]}, "d.e": "dotted", "f": "text"}])

    assert (await call(ctx, "get_item", workspace, index="0"))["f"] == "text"
    field = await call(ctx, "get_item", workspace, index=0, field="a.b.1")
    assert (field["value"], field["has_more"]) == ({"c": None}, False)
    assert (await call(ctx, "get_item", workspace, index=0, field="a.b.1.c"))["value"] is None
    for path in ("d.e", "d\\.e"):
        assert (await call(ctx, "get_item", workspace, index=0, field=path))["value"] == "dotted"


async def test_one_huge_field_is_cut_and_read_on(ctx: Ctx) -> None:
    html = "".join(f'<p>{number}é"\\\n</p>' for number in range(30_000))
    rows: list[Any] = [{"id": number} for number in range(9)]
    rows[4] = {"id": 4, "html": html, "nested": {"list": list(range(5_000))}}
    workspace = await stored(ctx, rows)

    answer = await call(ctx, "paginate", workspace)
    assert [row["id"] for row in answer["items"]] == list(range(9))
    assert len(json.dumps(answer, ensure_ascii=False)) < 13_000
    assert answer["limited_by"] == "chars"
    cuts = {cut["field"]: cut for cut in answer["cut"]}
    assert set(cuts) == {"html", "nested"}
    assert cuts["html"]["total_chars"] == len(html)
    shown = answer["items"][4]["html"].removesuffix("…")
    rest = await read_on(ctx, workspace, 4, "html", cuts["html"]["next_offset"])
    assert shown + rest == html
    nested = answer["items"][4]["nested"].removesuffix("…")
    rest = await read_on(ctx, workspace, 4, "nested", cuts["nested"]["next_offset"])
    assert json.loads(nested + rest) == rows[4]["nested"]


async def read_on(ctx: Ctx, workspace: str, index: int, field: str | None, offset: int | None) -> str:
    """Follows next_offset to the end; every answer is bounded and goes forward."""
    text = ""
    while offset is not None:
        answer = await call(ctx, "get_item", workspace, index=index, field=field, offset=offset)
        assert len(json.dumps(answer, ensure_ascii=False)) < 13_000
        assert answer["next_offset"] is None or answer["next_offset"] > offset
        text += answer["value"]
        offset = answer["next_offset"]
    return text


@pytest.mark.parametrize(
    "row", ["x" * 300_000, "\0" * 50_000, {f"column {n}": n for n in range(3_000)}, ["y"] * 50_000]
)
async def test_a_row_larger_than_a_page_is_read_in_pieces(ctx: Ctx, row: Any) -> None:
    workspace = await stored(ctx, [1, row, 3])

    page = await call(ctx, "paginate", workspace)
    assert len(page["items"]) == 3
    assert (page["cut"][0]["index"], page["cut"][0]["field"]) == (1, None)
    whole = await call(ctx, "get_item", workspace, index=1)
    assert (whole["field"], whole["has_more"]) == (None, True)
    text = whole["value"] + await read_on(ctx, workspace, 1, None, whole["next_offset"])
    assert (text if isinstance(row, str) else json.loads(text)) == row


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=30)
long_text = st.builds(lambda unit, times: unit * times, st.text(min_size=1, max_size=3), st.integers(1, 9_000))
fields = st.dictionaries(st.text(max_size=6), scalars | long_text | st.lists(long_text, max_size=3), max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(scalars | long_text | fields, max_size=30), st.integers(1, 12))
async def test_the_union_of_all_pages_is_the_original(rows: list[Any], size: int) -> None:
    async with Ctx("memory:") as ctx:
        workspace = await stored(ctx, rows)
        seen: list[Any] = []
        page, more = 0, True
        while more:
            answer = await call(ctx, "paginate", workspace, page=page, size=size)
            assert len(json.dumps(answer["items"], ensure_ascii=False, separators=(",", ":"))) <= 12_000 + 200
            for place, item in enumerate(answer["items"]):
                index = page * size + place
                cuts = [cut for cut in answer.get("cut", []) if cut["index"] == index]
                seen.append(await restored(ctx, workspace, index, item, cuts, rows[index]))
            page, more = page + 1, answer["has_next"]
        assert seen == rows
        slices = [
            (await call(ctx, "get_slice", workspace, start=start, end=start + size))
            for start in range(0, len(rows), size)
        ]
        assert sum(len(part["items"]) for part in slices) == len(rows)


async def restored(ctx: Ctx, workspace: str, index: int, item: Any, cuts: list[dict[str, Any]], row: Any) -> Any:
    """What a reader gets who follows every cut."""
    for cut in cuts:
        if cut["field"] is None:
            start = "" if cut["next_offset"] == 0 else item.removesuffix("…")
            text = start + await read_on(ctx, workspace, index, None, cut["next_offset"])
            return text if isinstance(row, str) else json.loads(text)
        key = next(key for key in row if key.replace("\\", "\\\\").replace(".", "\\.") == cut["field"])
        text = item[key][:-1] + await read_on(ctx, workspace, index, cut["field"], cut["next_offset"])
        item = item | {key: text if isinstance(row[key], str) else json.loads(text)}
    return item
