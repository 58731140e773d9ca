"""Fixtures of the chaos room."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.chaos.office import Office
from tests.servers import shared_server


@pytest.fixture
def prefix() -> str:
    """A name space of the test's own."""
    return f"t{secrets.token_hex(5)}"


@pytest.fixture
async def office(prefix: str) -> AsyncIterator[Office]:
    """Processes on one Valkey whose tools ask."""
    url = shared_server("valkey").url
    async with redis.asyncio.Redis.from_url(url) as client:
        made = Office(url, prefix, client)
        yield made
        made.close()
