"""Users who may touch one prefix only, and servers whose admin commands are blocked."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import redis
import redis.asyncio

from tests.contract.conftest import RIGHTS, IndexedStore, drop_user, make_user
from tests.house.sources import ROOT
from tests.servers import NAMES, RealServer, shared_server, start_server
from toolstash import Ctx, RedisStore, StoreUnavailableError, toolsets

BLOCKED = ("CONFIG", "MODULE", "KEYS", "FLUSHDB", "FLUSHALL", "CLIENT", "INFO", "DEBUG", "MONITOR", "COMMAND", "SCRIPT")
ROWS = [{"n": number, "t": f"red fox {number}", "k": "ab"[number % 2]} for number in range(5_000)]


@pytest.fixture
def prefix() -> str:
    return f"r{secrets.token_hex(5)}"


@pytest.fixture(params=NAMES, scope="module")
def bare_server(request: pytest.FixtureRequest) -> Iterator[RealServer]:
    """A server of which the admin commands are gone, as some services run it."""
    renamed = [word for name in BLOCKED for word in ("--rename-command", name, secrets.token_hex(8))]
    made = start_server(request.param, *renamed)
    yield made
    made.stop()


@pytest.fixture(params=NAMES)
async def denied(request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[str]:
    """The URL of a user of one prefix to whom the same commands are denied."""
    server = shared_server(request.param)
    yield make_user(server, prefix, " ".join([RIGHTS, *(f"-{name.lower()}" for name in BLOCKED)]))
    drop_user(server, prefix)


async def tour(store: RedisStore) -> None:
    """Does some of everything that a store can do."""
    async with Ctx(store) as ctx:
        for factory in (toolsets.paginator, toolsets.text_search, toolsets.pipeline):
            factory(ctx, "rows")
        toolsets.text_content(ctx, "text")
        toolsets.kv_reader(ctx, "map")
        with ctx.session("ann"):
            rows = (await ctx.store_workspace(ROWS, workspace_type="rows", ttl=60)).workspace_id
            text = (await ctx.store_workspace("word " * 5_000, workspace_type="text")).workspace_id
            fields = (await ctx.store_workspace({"a": {"b": 1}}, workspace_type="map")).workspace_id

            async def ask(tool: str, workspace_id: str, **arguments: object) -> dict:
                answer = await ctx.adispatch_tool_call(tool, {"workspace_id": workspace_id, **arguments})
                assert "error" not in (answer if isinstance(answer, dict) else {})
                return answer

            for _ in range(2):
                assert (await ask("rows_search", rows, query='"fox 77"'))["total_matches"] == 1
                assert (await ask("rows_pipe", rows, steps=[{"filter": {"n": {"$gte": 4_000}}}]))["total"] == 1_000
                await store.build_index(rows)
            assert (await ask("text_get_length", text)) != {}
            assert await ask("map_get_value", fields, key="a.b") == 1
            await store.append_items(rows, [{"n": -1}])
            await store.delete_items(rows, [0, 1])
            meta = await store.get_meta(rows)
            assert meta is not None
            assert meta.item_count == 4_999
            assert await ctx.drop_workspace(text)
        assert await store.sweep_expired() == []
        assert await store.ping() > 0
        assert len(await ctx.list_workspaces()) == 2
        await ctx.clear()
        assert await ctx.list_workspaces() == []
    await store.aclose()


def keys_of(server: RealServer, prefix: str) -> list[bytes]:
    with redis.Redis(port=server.port) as client:
        return list(client.scan_iter(f"{prefix}:*"))


async def test_a_server_without_admin_commands(bare_server: RealServer, prefix: str) -> None:
    with redis.Redis(port=bare_server.port) as client, pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("CONFIG", "GET", "save")
    await tour(RedisStore(bare_server.url, prefix=prefix))
    client = redis.asyncio.Redis(port=bare_server.port, decode_responses=True)
    await tour(RedisStore(client, prefix=prefix))
    await tour(RedisStore(redis.Redis(port=bare_server.port, protocol=3), prefix=prefix))


async def test_a_user_without_admin_commands(denied: str, prefix: str) -> None:
    await tour(RedisStore(denied, prefix=prefix))


async def test_a_user_of_one_prefix_has_indexes(prefix: str) -> None:
    server = shared_server("redis-8.2")
    async with IndexedStore(make_user(server, prefix), prefix) as store:
        await Ctx(store).store_workspace(ROWS, workspace_type="rows", workspace_id="w")
        assert len(await store.search_items("w", '"fox 77"')) == 1
        assert store.answered["Search"] == 1
        await store.clear()
    drop_user(server, prefix)


async def test_another_prefix_is_refused_and_left_as_it_is(real_server: RealServer, prefix: str) -> None:
    url, other = make_user(real_server, prefix), f"{prefix}x"
    async with RedisStore(real_server.url, prefix=other) as owner:
        await Ctx(owner).store_workspace([1, 2], workspace_type="rows", workspace_id="theirs")
        before = sorted(keys_of(real_server, other))
        async with RedisStore(url, prefix=other) as store, Ctx(store) as ctx:
            toolsets.paginator(ctx, "rows")

            @ctx.producer(workspace_type="rows")
            def rows() -> list[dict]:
                return ROWS

            answer = await ctx.adispatch_tool_call("rows", {})
            assert answer["error"].startswith("The data store refused access (")
            assert "rights need attention" in answer["suggested_action"]
            page = await ctx.adispatch_tool_call("rows_paginate", {"workspace_id": "theirs"})
            assert page["error"].startswith("The data store refused access (")
            for attempt in (store.get_items, store.drop):
                with pytest.raises(StoreUnavailableError, match="refused access"):
                    await attempt("theirs" if attempt == store.get_items else await owner.locate("theirs"))  # type: ignore[arg-type]
            with pytest.raises(StoreUnavailableError, match="refused access"):
                await store.append_items("theirs", [3])
            with pytest.raises(StoreUnavailableError, match="refused access"):
                await store.list_workspaces()
        assert sorted(keys_of(real_server, other)) == before
        assert await owner.get_items("theirs") == [1, 2]
        await owner.clear()
    drop_user(real_server, prefix)


@pytest.mark.parametrize("lacking", ["-@scripting", "-@write", "-hset", "-unlink", "-@read"])
async def test_too_few_rights_are_told_and_leave_nothing(lacking: str, prefix: str) -> None:
    server = shared_server("valkey")
    async with RedisStore(make_user(server, prefix, f"{RIGHTS} {lacking}"), prefix=prefix) as store:
        with pytest.raises(StoreUnavailableError, match="refused access") as refusal:
            await Ctx(store).store_workspace(ROWS, workspace_type="rows", workspace_id="w")
            await store.drop(await store.locate("w"))
        assert "rights need attention" in refusal.value.suggested_action
    drop_user(server, prefix)
    async with RedisStore(server.url, prefix=prefix) as owner:
        assert lacking == "-unlink" or await owner.list_workspaces() == []
        await owner.clear()


@pytest.mark.parametrize("name", NAMES)
async def test_the_line_of_the_documents_is_enough(name: str, prefix: str) -> None:
    page = (ROOT / "docs/deployment.md").read_text()
    (line,) = re.findall(r"^ACL SETUSER .*$", page, re.MULTILINE)
    server = shared_server(name)
    with redis.Redis(port=server.port) as client:
        client.execute_command(*line.replace("toolstash", prefix).split())
    password = re.findall(r" >(\S+)", line)[0]
    await tour(RedisStore(f"redis://{prefix}:{password}@127.0.0.1:{server.port}", prefix=prefix))
    drop_user(server, prefix)
