"""Keys and values of a dict; a large value is read in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolstash import Ctx
from toolstash.toolsets import kv_reader


async def stored(ctx: Ctx, payload: dict[str, Any]) -> str:
    if "config_get_keys" not in ctx.entries:
        kv_reader(ctx, "config")
    return (await ctx.store_workspace(payload, workspace_type="config")).workspace_id


async def call(ctx: Ctx, tool: str, workspace_id: str, **arguments: Any) -> Any:
    answer = await ctx.adispatch_tool_call(f"config_{tool}", {"workspace_id": workspace_id, **arguments})
    return answer["result"] if tool == "get_keys" and "result" in answer else answer


async def test_all_keys_can_be_listed(ctx: Ctx) -> None:
    payload = {f"key {number:04d}" + "k" * (number % 400): number for number in range(700)}
    workspace = await stored(ctx, payload)

    seen: list[str] = []
    more = True
    while more:
        answer = await call(ctx, "get_keys", workspace, offset=len(seen))
        assert 0 < len(answer["keys"]) <= 200
        assert len(json.dumps(answer["keys"])) <= 13_000
        assert answer["count"] == 700
        seen += answer["keys"]
        more = answer["has_more"]
    assert seen == list(payload)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plain", 1),
        ("server.hosts.1", "b"),
        ("dot.key", "literal"),
        ("dot\\.key", "literal"),
        ("a\\.b.c", None),
        ("3", "number key"),
        ("", "empty"),
        ("nested", {"dot.key": {"deep": [1]}}),
        ("nested.dot\\.key.deep.0", 1),
    ],
)
async def test_values_by_key_and_path(ctx: Ctx, key: str, value: Any) -> None:
    payload = {"plain": 1, "server": {"hosts": ["a", "b"]}, "dot.key": "literal", "a.b": {"c": None}, "": "empty"}
    workspace = await stored(ctx, payload | {3: "number key", "nested": {"dot.key": {"deep": [1]}}})

    assert await call(ctx, "get_value", workspace, key=key) == value


@pytest.mark.parametrize("key", ["Plain", "server.hosts.2", "server.hosts.x", "plain.x", "dot"])
async def test_a_missing_key_lists_what_is_there(ctx: Ctx, key: str) -> None:
    workspace = await stored(ctx, {"plain": 1, "server": {"hosts": ["a"]}, "dot.key": 2})

    refusal = await call(ctx, "get_value", workspace, key=key)
    assert refusal["available_keys"] == ["plain", "server", "dot.key"]
    assert "not found" in refusal["error"]


@pytest.mark.parametrize("value", ['é\n"' * 30_000, {"rows": [{"n": n} for n in range(9_000)]}, ["x" * 90_000]])
async def test_a_large_value_comes_in_pieces(ctx: Ctx, value: Any) -> None:
    workspace = await stored(ctx, {"big": value, "small": 1})

    text, offset = "", 0
    while offset is not None:
        answer = await call(ctx, "get_value", workspace, key="big", offset=offset)
        assert len(json.dumps(answer, ensure_ascii=False)) <= 20_500
        assert answer["type"] in ("string", "object", "array")
        text += answer["preview"]
        assert answer["next_offset"] is None or answer["next_offset"] > offset
        offset = answer["next_offset"]
    assert len(text) == answer["total_chars"]
    assert (text if isinstance(value, str) else json.loads(text)) == value
