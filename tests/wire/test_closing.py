"""Closing a store ends in time and leaves no socket, whatever the server does."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.proxy import Proxy, proxied
from tests.servers import shared_cluster, shared_server
from tests.wait import until
from toolstash import RedisStore, StoreUnavailableError, WorkspaceMeta
from toolstash.store.payload import Payload
from toolstash.wire import server as wire_server
from toolstash.wire.source import source_of_url

LIMIT = 0.3


@dataclass
class Freezing:
    """A server over TLS behind a wire that stops to bring replies, so that nobody answers the end of TLS either."""

    wire: Proxy
    url: str

    def freeze(self) -> None:
        self.wire.delay = 60.0

    async def until_no_socket_is_left(self) -> None:
        await until(lambda: not self.wire._tasks, within=10, what="the store closed its sockets")


@pytest.fixture
async def freezing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Freezing]:
    monkeypatch.setattr(wire_server, "CLOSE_SECONDS", LIMIT)
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with proxied(shared_server("valkey").url, tls=context) as behind, proxied(behind.url) as wire:
        yield Freezing(wire, f"{wire.url.replace('redis:', 'rediss:')}?ssl_ca_certs={tmp_path / 'ca.pem'}")


def store_at(freezing: Freezing) -> RedisStore:
    return RedisStore(freezing.url, prefix=f"t{secrets.token_hex(5)}", command_timeout_seconds=0.5)


async def fill(store: RedisStore) -> None:
    """Opens several connections."""
    metas = [WorkspaceMeta(f"w{number}", "papers", ttl=60.0) for number in range(8)]
    await asyncio.gather(*(store.replace(meta, Payload([1] * 100)) for meta in metas))


async def test_a_frozen_server_does_not_hold_who_closes(freezing: Freezing) -> None:
    store = store_at(freezing)
    await fill(store)
    freezing.freeze()
    started = time.monotonic()
    await store.aclose()
    assert time.monotonic() - started < LIMIT + 2
    await freezing.until_no_socket_is_left()


async def test_calls_that_ran_out_of_time_leave_no_socket(freezing: Freezing) -> None:
    store = store_at(freezing)
    await fill(store)
    freezing.freeze()
    with pytest.raises(StoreUnavailableError, match="did not answer"):
        await store.get_items("w1")
    await store.aclose()
    await freezing.until_no_socket_is_left()


async def test_connections_on_which_commands_wait_are_closed_too(freezing: Freezing) -> None:
    store = store_at(freezing)
    await fill(store)
    assert await store._connections.wait(f"{store.prefix}:x", ("EXISTS", f"{store.prefix}:x")) == 0
    freezing.freeze()
    started = time.monotonic()
    await store.aclose()
    assert time.monotonic() - started < LIMIT + 2
    await freezing.until_no_socket_is_left()


async def test_a_loop_that_ends_without_closing_is_held_no_longer(freezing: Freezing) -> None:
    store = store_at(freezing)

    async def work() -> float:
        await fill(store)
        freezing.freeze()
        return time.monotonic()

    stopped = await asyncio.to_thread(asyncio.run, work())
    assert time.monotonic() - stopped < LIMIT + 2
    await freezing.until_no_socket_is_left()


async def test_who_is_cancelled_while_closing_cuts_all_off(freezing: Freezing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_server, "CLOSE_SECONDS", 30.0)
    store = store_at(freezing)
    await fill(store)
    pool = store._connections._pools[asyncio.get_running_loop()]
    freezing.freeze()
    closing = asyncio.ensure_future(pool.client.close())
    await until(lambda: pool.client._is_closed, what="it began to close")  # type: ignore[union-attr]
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await freezing.until_no_socket_is_left()
    await store.aclose()


@pytest.mark.parametrize("kind", ["redis+cluster", "redis+sentinel"])
async def test_nothing_that_was_never_reached_hinders_closing(kind: str) -> None:
    store = RedisStore(f"{kind}://127.0.0.1:1{'/papers' if kind.endswith('sentinel') else ''}")
    store._connections._settings = type(store._connections._settings)(command_timeout_seconds=0.2)
    with pytest.raises(StoreUnavailableError):
        await store.ping()
    await store.aclose()
    assert store._connections._pools == {}


async def test_a_cluster_is_closed_at_once() -> None:
    store = RedisStore(shared_cluster().url, prefix=f"t{secrets.token_hex(5)}")
    assert source_of_url(shared_cluster().url).nodes != ()
    await fill(store)
    servers = list(store._connections._pools[asyncio.get_running_loop()].client._servers.values())  # type: ignore[union-attr]
    await store.clear()
    await store.aclose()
    assert servers != []
    assert all(not one.is_connected for each in servers for one in each.connection_pool._available_connections)
