"""Stores on servers that have the search module."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping

import pytest

from tests.servers import shared_cluster, shared_server
from toolstash import RedisStore

SEARCHING = ("redis-8.2", "valkey-search", "cluster")


def url_of(name: str) -> str:
    """Where a server with the search module is; "cluster" has three of them."""
    return shared_cluster().url if name == "cluster" else shared_server(name).url


async def make_store(name: str) -> RedisStore:
    """An empty store that can search."""
    store = RedisStore(url_of(name), prefix=f"s{secrets.token_hex(5)}")
    assert await store._indexes.ability() is not None
    return store


@pytest.fixture(params=SEARCHING)
async def search_store(request: pytest.FixtureRequest) -> AsyncIterator[RedisStore]:
    """An empty store on each server with the search module."""
    store = await make_store(request.param)
    yield store
    await store.clear()
    await store.aclose()


@pytest.fixture
async def search_stores() -> AsyncIterator[Mapping[str, RedisStore]]:
    """All of them at once, for tests that pick one for each example."""
    stores = {name: await make_store(name) for name in SEARCHING}
    yield stores
    for store in stores.values():
        await store.clear()
        await store.aclose()
