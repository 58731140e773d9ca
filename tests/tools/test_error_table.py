"""Every row of the seeds' error tables: which mistake a model reads of in which keys, and how it goes on.

The older seed's table and the peer's rows; its "ambiguous tool" cannot happen: a second tool of a name is refused when
it is registered.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.servers import shared_server
from tests.wait import until
from toolstash import BaseStore, ConsumerContext, Ctx, MemoryStore, RedisStore, StoreUnavailableError
from toolstash.toolsets import kv_reader, paginator, pipeline, text_content

ALWAYS = {"error", "suggested_action"}


def make(store: BaseStore) -> Ctx:
    ctx = Ctx(store, max_items=1_000, max_result_chars=5_000)
    lists = [paginator(ctx, "papers"), pipeline(ctx, "papers")]

    @ctx.producer(workspace_type="papers", toolsets=lists, key="papers_{name}")
    def load_papers(name: str, count: int = 43) -> list[dict[str, int]]:
        """Load papers."""
        if name == "broken":
            raise OSError("the path of something secret")
        return [{"id": n} for n in range(count)]

    @ctx.producer(workspace_type="settings", toolsets=[kv_reader(ctx, "settings")], key="papers_{name}")
    def load_settings(name: str) -> dict[str, Any]:
        """Load settings."""
        return {"host": "h", "port": 1}

    @ctx.consumer("papers")
    def tidy(workspace_id: str, ctx: ConsumerContext) -> int:
        """Tidy up."""
        raise KeyError("no such thing")

    @ctx.toolset("papers").tool
    def explode(workspace_id: str) -> int:
        """Fail."""
        raise ZeroDivisionError

    @ctx.toolset("papers").tool
    def flood(workspace_id: str) -> str:
        """Return too much."""
        return "x" * 9_000

    text_content(ctx, "page")
    return ctx


@pytest.fixture(params=["memory", "valkey"])
async def ctx(request: pytest.FixtureRequest) -> AsyncIterator[Ctx]:
    is_here = request.param == "memory"
    url = None if is_here else shared_server(request.param).unix_url
    store = MemoryStore() if url is None else RedisStore(url, prefix=f"e{secrets.token_hex(5)}")
    async with store, make(store) as made:
        await made.adispatch_tool_call("load_papers", {"name": "real"})
        await made.adispatch_tool_call("load_settings", {"name": "config"})
        yield made


ROWS: dict[str, tuple[str, Any, set[str]]] = {
    "unknown tool": ("bad_name", {}, {"available_tools", "available_producers", "available_consumers"}),
    "bad JSON": ("papers_count", '{"workspace_id": ', set()),
    "not an object": ("papers_count", "[1]", set()),
    "wrong arguments": ("papers_count", {"workspace": "x"}, {"expected_parameters", "required", "argument"}),
    "missing arguments": ("papers_get_item", {"workspace_id": "x"}, {"expected_parameters", "required", "argument"}),
    "workspace id no text": ("papers_count", {"workspace_id": [1]}, {"argument", "expected_parameters", "required"}),
    "workspace id empty": ("papers_count", {"workspace_id": ""}, {"argument"}),
    "not found": ("papers_count", {"workspace_id": "ws_bad"}, {"workspace_id", "available_workspaces"}),
    "wrong type": (
        "papers_count",
        {"workspace_id": "papers_config"},
        {"workspace_id", "expected_type", "actual_type", "workspaces_of_correct_type"},
    ),
    "wrong type for a consumer": (
        "tidy",
        {"workspace_id": "papers_config"},
        {"workspace_id", "expected_type", "actual_type", "workspaces_of_correct_type"},
    ),
    "wrong shape": (
        "page_read_page",
        {"workspace_id": "a_list"},
        {"workspace_id", "expected_shape", "actual_shape"},
    ),
    "a tool raised": ("papers_explode", {"workspace_id": "papers_real"}, {"tool", "workspace_id"}),
    "a producer raised": ("load_papers", {"name": "broken"}, {"tool"}),
    "a consumer raised": ("tidy", {"workspace_id": "papers_real"}, {"tool"}),
    "more than max_items": ("load_papers", {"name": "huge", "count": 1_001}, {"item_count", "max_items"}),
    "id conflict": ("load_settings", {"name": "real"}, {"workspace_id"}),
    "result too large": ("papers_flood", {"workspace_id": "papers_real"}, {"truncated", "result_chars", "preview"}),
    "index out of range": (
        "papers_get_item",
        {"workspace_id": "papers_real", "index": 999},
        {"valid_range", "total_items", "argument"},
    ),
    "missing key": ("settings_get_value", {"workspace_id": "papers_config", "key": "bad"}, {"available_keys"}),
}


@pytest.mark.parametrize("row", ROWS)
async def test_a_mistake_is_told_with_its_keys(ctx: Ctx, row: str) -> None:
    name, arguments, keys = ROWS[row]
    await ctx.store_workspace([1, 2], workspace_type="page", workspace_id="a_list")
    told = await ctx.adispatch_tool_call(name, arguments)
    missing = (ALWAYS | keys) - told.keys()
    assert missing == set(), told
    assert all(told[key] for key in ALWAYS)
    assert len(json.dumps(told)) < 5_000
    assert "secret" not in str(told)


class NobodyThere(MemoryStore):
    """A store that cannot be asked."""

    async def locate(self, *_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("The store is away.")

    read = ask = replace = locate  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *(
            ROWS[row][:2]
            for row in ("unknown tool", "bad JSON", "not an object", "wrong arguments", "missing arguments")
        ),
        ROWS["workspace id no text"][:2],
        ("papers_paginate", {"workspace_id": "papers_real", "page": "12px"}),
        ("papers_paginate", {"workspace_id": "papers_real", "page": -1}),
        ("papers_pipe", {"workspace_id": "papers_real", "steps": [{"nonsense": 1}]}),
        ("papers_aggregate", {"workspace_id": "papers_real", "metrics": {"n": "nonsense"}}),
        ("load_papers", {"count": 1}),
    ],
)
async def test_what_the_arguments_show_is_told_without_asking_the_store(name: str, arguments: Any) -> None:
    async with make(NobodyThere()) as ctx:
        told = await ctx.adispatch_tool_call(name, arguments)
        away = await ctx.adispatch_tool_call("papers_count", {"workspace_id": "papers_real"})
    assert told["error"]
    assert "store" not in told["error"]
    assert "store" in away["error"]


async def test_what_the_rows_say(ctx: Ctx) -> None:
    async def told(row: str) -> Any:
        name, arguments, _ = ROWS[row]
        return await ctx.adispatch_tool_call(name, arguments)

    unknown = await told("unknown tool")
    assert unknown["error"] == "Tool 'bad_name' not found."
    assert unknown["available_producers"] == ["load_papers", "load_settings"]
    assert unknown["available_consumers"] == ["tidy"]
    wrong = await told("wrong arguments")
    assert (wrong["expected_parameters"], wrong["required"]) == ({"workspace_id": "str"}, ["workspace_id"])
    assert (await told("not found"))["available_workspaces"] == ["papers_real"]
    kind = await told("wrong type")
    assert (kind["expected_type"], kind["actual_type"]) == ("papers", "settings")
    assert kind["workspaces_of_correct_type"] == ["papers_real"]
    index = await told("index out of range")
    assert (index["valid_range"], index["total_items"]) == ("0–42", 43)
    assert (await told("missing key"))["available_keys"] == ["host", "port"]
    large = await told("result too large")
    assert (large["truncated"], large["result_chars"], large["preview"]) == (True, 9_000, "x" * 2_000)
    assert (await told("a tool raised"))["workspace_id"] == "papers_real"
    most = await told("more than max_items")
    assert most["max_items"] == 1_000


@pytest.mark.parametrize("empty", ["", None, 5, ["w"], True, {}])
async def test_an_invalid_workspace_id_is_named(ctx: Ctx, empty: Any) -> None:
    told = await ctx.adispatch_tool_call("papers_count", {"workspace_id": empty})
    assert told["error"]
    assert "workspace_id" in told["error"] or "not found" in told["error"]
    assert told["suggested_action"]


async def test_a_foreign_session_s_workspace_is_as_if_missing(ctx: Ctx) -> None:
    theirs = await ctx.adispatch_tool_call("load_papers", {"name": "theirs"}, session_id="them")
    told = await ctx.adispatch_tool_call("papers_count", {"workspace_id": theirs["workspace_id"]}, session_id="me")
    assert (told["workspace_id"], told["available_workspaces"]) == (theirs["workspace_id"], ["papers_real"])
    assert "not found" in told["error"]


async def test_an_expired_workspace_names_its_producer() -> None:
    async with Ctx("memory:", default_ttl=0.05) as ctx:

        @ctx.producer(workspace_type="papers", toolsets=[paginator(ctx)], key="p")
        def load_papers() -> list[int]:
            return [1]

        await load_papers()
        told: dict[str, Any] = {}

        async def is_gone() -> bool:
            told.update(await ctx.adispatch_tool_call("papers_count", {"workspace_id": "p"}))
            return "error" in told

        await until(is_gone, within=5, what="the workspace has expired")
    assert told.keys() >= {"error", "workspace_id", "suggested_action"}
    assert told["error"] == "Workspace 'p' has expired."
    assert "load_papers()" in told["suggested_action"]


def test_a_second_tool_of_a_name_is_refused_so_none_is_ambiguous() -> None:
    ctx = make(MemoryStore())
    with pytest.raises(ValueError, match="the tool name 'tidy' is taken"):

        @ctx.producer(workspace_type="x")
        def tidy() -> list[int]:
            return []
