"""A server that is loading, frozen or busy: every wait ends in time, the error says why, and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.chaos.ledger import Ledger, put
from tests.proxy import proxied
from tests.servers import NAMES, RealServer, shared_server, start_server
from tests.wait import until
from toolstash import Ctx, RedisStore, StoreUnavailableError
from toolstash.toolsets import paginator
from toolstash.wire import faults

LIMIT = 1.5
SLACK = 1.4  # of a machine with other work
ENDLESS = "while true do end"


@pytest.fixture
def frozen() -> Iterator[RealServer]:
    """A server that is stopped by a signal, which every server is in the same way."""
    made = start_server("valkey")
    yield made
    os.kill(made.pid, signal.SIGCONT)
    made.stop()


@pytest.fixture(params=NAMES)
def server(request: pytest.FixtureRequest) -> Iterator[RealServer]:
    made = start_server(request.param, "--lua-time-limit", "20")
    yield made
    made.stop()


def limited(server: RealServer, prefix: str, max_connections: int) -> RedisStore:
    return RedisStore(
        server.url,
        prefix=prefix,
        max_connections=max_connections,
        wait_seconds=LIMIT,
        command_timeout_seconds=LIMIT,
    )


async def refused(call: Callable[[], Awaitable[Any]]) -> tuple[str, float]:
    """What a call that must fail was told, and after how many seconds."""
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError) as refusal:
        await call()
    return str(refusal.value), time.monotonic() - started


def _told(error: str) -> str:
    """Why the data store did not answer; how many seconds it took is for the clock to say."""
    words = re.fullmatch(r"The data store did not answer within \d+\.\d s \((.*)\)\.", error)
    assert words is not None, error
    return words.group(1)


async def assert_all_are_told(store: RedisStore, why: str) -> None:
    """Every kind of call fails within its limits: a search asks an index and then the rows, the others once."""
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "page": lambda: store.get_page("w", 0, 1),
        "whole": lambda: store.get_items("w"),
        "search": lambda: store.search_items("w", "1"),
        "append": lambda: store.append_items("none", ["mine"]),
        "store": lambda: put(store, list(range(9_000)), "other"),
        "list": store.list_workspaces,
        "drop": lambda: store.drop_workspace("none"),
        "sweep": store.sweep_expired,
        "ping": store.ping,
    }
    outcomes = await asyncio.gather(*(refused(call) for call in calls.values()))
    for name, (told, seconds) in zip(calls, outcomes, strict=True):
        assert _told(told) == why, name
        assert seconds < LIMIT * (2 if name == "search" else 1) + SLACK, name


async def test_a_stopped_server_holds_no_caller_longer_than_the_limits(frozen: RealServer, prefix: str) -> None:
    async with limited(frozen, prefix, 16) as store, limited(frozen, prefix, 4) as few:
        await put(store, list(range(3_000)))
        await few.ping()
        ledger = Ledger()
        os.kill(frozen.pid, signal.SIGSTOP)
        await assert_all_are_told(store, "TimeoutError")
        started = time.monotonic()
        await asyncio.gather(*(ledger.append(few, "w", f"row {number}") for number in range(30)))
        assert time.monotonic() - started < 2 * LIMIT + SLACK
        assert len(ledger.unsure) == 30
        assert any("max_connections=4" in told for told in ledger.errors)
        os.kill(frozen.pid, signal.SIGCONT)
        assert await store.get_page("w", 0, 3) == [0, 1, 2]
        for number in range(20):
            await ledger.append(store, "w", f"later {number}")
        assert len(ledger.acknowledged) == 20
        ledger.check((await store.get_items("w"))[3_000:])


async def test_a_server_that_only_pauses_is_waited_for(frozen: RealServer, prefix: str) -> None:
    async with RedisStore(frozen.url, prefix=prefix, command_timeout_seconds=5) as store:
        await put(store, [1, 2])
        os.kill(frozen.pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(0.4, os.kill, frozen.pid, signal.SIGCONT)
        pages = await asyncio.gather(*(store.get_page("w", 0, 2) for _ in range(20)), store.append_items("w", [3]))
        assert pages == [[1, 2]] * 20 + [3]
        assert await store.get_items("w") == [1, 2, 3]


async def test_an_endless_script_of_somebody_else(server: RealServer, prefix: str) -> None:
    ledger = Ledger()
    async with (
        limited(server, prefix, 16) as store,
        redis.asyncio.Redis.from_url(server.url) as other,
        redis.asyncio.Redis.from_url(server.url) as killer,
    ):
        await put(store, [1, 2])
        endless = asyncio.ensure_future(other.eval(ENDLESS, 0))
        await until(lambda: _is_busy(killer), what="the server is busy")
        never = asyncio.ensure_future(ledger.append(store, "w", "never"))
        await assert_all_are_told(store, "it is busy with a long script")
        await never
        writing = asyncio.ensure_future(ledger.append(store, "w", "once"))
        await killer.execute_command("SCRIPT", "KILL")
        await writing
        await asyncio.gather(endless, return_exceptions=True)
        assert (ledger.unsure, ledger.acknowledged) == (["never"], ["once"])
        assert await store.get_items("w") == [1, 2, "once"]


async def _is_busy(client: redis.asyncio.Redis) -> bool:
    try:
        await client.ping()
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False


@pytest.mark.parametrize("name", ["valkey", "redis-8.2"])  # Redis 6.2 cannot be told to load slowly
async def test_a_server_that_loads_a_big_dump(name: str, prefix: str) -> None:
    """It takes connections meanwhile and answers all with LOADING."""
    slowly = ("--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")
    server = start_server(name, "--appendonly", "yes", "--appendfsync", "always", *slowly)
    async with (
        RedisStore(server.url, prefix=prefix, command_timeout_seconds=15) as patient,
        RedisStore(server.url, prefix=prefix, command_timeout_seconds=0.3) as hasty,
        redis.asyncio.Redis.from_url(server.url) as client,
    ):
        await put(patient, list(range(5_000)))
        await client.mset({f"{prefix}x:{number}": number for number in range(4_000)})
        await client.bgrewriteaof()
        await until(lambda: _is_rewritten(client), what="the file is written")
        restarting = asyncio.ensure_future(asyncio.to_thread(server.restart))
        told: set[str] = set()
        ledger = Ledger()
        waiting = asyncio.ensure_future(ledger.append(patient, "w", "once"))
        while not any("still starting" in words for words in told):
            try:
                await hasty.get_page("w", 0, 1)
            except StoreUnavailableError as refusal:
                told.add(str(refusal))
            assert not restarting.done()
        await restarting
        await waiting
        assert ledger.acknowledged == ["once"]
        assert await patient.get_items("w") == [*range(5_000), "once"]
        assert "it is still starting" in {_told(words) for words in told}
    server.stop()


async def _is_rewritten(client: redis.asyncio.Redis) -> bool:
    info = await client.info("persistence")
    return not info["aof_rewrite_in_progress"] and not info["aof_rewrite_scheduled"]


REFUSALS = {
    b"LOADING the server loads its data": "it is still starting",
    b"MASTERDOWN Link with MASTER is down": "it is still starting",
    b"BUSY a script is running": "it is busy with a long script",
    b"UNKILLABLE the script wrote": "it is busy with a long script",
    b"READONLY a replica": "it takes no writes at the moment",
    b"NOREPLICAS Not enough good replicas to write.": "it takes no writes at the moment",
    b"TRYAGAIN Multiple keys request during rehashing": "its data is moving to another node",
    b"CLUSTERDOWN Hash slot not served": "a part of it is down",
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_what_a_model_reads_of_a_refusal(refusal: bytes, prefix: str) -> None:
    """The server answers every look with one refusal, then stops doing so."""
    server = shared_server("valkey")
    async with (
        proxied(server.url) as proxy,
        Ctx(RedisStore(proxy.url, prefix=prefix, command_timeout_seconds=0.5)) as ctx,
    ):
        paginator(ctx, "a")
        ref = await ctx.store_workspace([1], workspace_type="a", ttl=60.0)
        count = {"workspace_id": ref.workspace_id}
        assert (await ctx.adispatch_tool_call("a_count", count))["count"] == 1
        proxy.replies = {b"*4\r\n": b"-" + refusal + b"\r\n"}  # what the script begins its answer with
        answer = await ctx.adispatch_tool_call("a_count", count)
        assert _told(answer["error"]) == REFUSALS[refusal]
        assert "Try again" in answer["suggested_action"]
        proxy.replies = {}
        assert (await ctx.adispatch_tool_call("a_count", count))["count"] == 1
        await ctx.store.aclose()


@pytest.mark.parametrize("name", NAMES)
async def test_a_primary_that_lost_its_replicas_is_waited_for(name: str, prefix: str) -> None:
    server = start_server(name, "--min-replicas-to-write", "1")
    async with (
        RedisStore(server.url, prefix=prefix, command_timeout_seconds=5) as store,
        redis.asyncio.Redis.from_url(server.url) as client,
    ):
        with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
            await client.set("x", 1)
        storing = asyncio.ensure_future(put(store, [1]))
        await until(lambda: _evaluations(client), what="the store was refused")
        assert not storing.done()
        await client.config_set("min-replicas-to-write", 0)
        await storing
        assert await store.get_items("w") == [1]
    server.stop()


async def _evaluations(client: redis.asyncio.Redis) -> bool:
    return "cmdstat_eval" in await client.info("commandstats")


def test_words_of_redis_6_are_found_in_the_middle() -> None:
    words = "Error running script (call to f_4cb8be): @user_script:160: @user_script: 160: -READONLY You can't write"
    assert faults.is_passing(redis.ResponseError(words))
    assert not faults.is_passing(redis.ResponseError(words.replace("READONLY", "WRONGTYPE")))
    told = faults.translate(redis.ResponseError(words.replace("READONLY", "WRONGTYPE")), tried_seconds=0)
    assert str(told) == "The data store could not run the command (WRONGTYPE You can't write)."
