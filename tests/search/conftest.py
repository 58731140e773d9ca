"""Stores on servers that have the search module."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from tests.servers import shared_server
from toolstash import RedisStore

SEARCHING = ("redis-8.2",)


@pytest.fixture(params=SEARCHING)
async def search_store(request: pytest.FixtureRequest) -> AsyncIterator[RedisStore]:
    """An empty store on each server with the search module."""
    store = RedisStore(shared_server(request.param).url, prefix=f"s{secrets.token_hex(5)}")
    assert await store._indexes.ability() is not None
    yield store
    await store.clear()
    await store.aclose()
