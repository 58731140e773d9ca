"""The back ends that every behaviour is tried on."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator

import pytest

from tests.servers import NAMES, shared_cluster, shared_server
from toolstash import BaseStore, MemoryStore, RedisStore

BACK_ENDS = ("memory", "embedded", "fakeredis", *NAMES, "cluster")


def make_store(name: str) -> BaseStore:
    """A store of its own name space on a back end."""
    if name == "memory":
        return MemoryStore()
    if name == "embedded":
        return RedisStore("embedded:")
    prefix = f"t{secrets.token_hex(5)}"
    if name == "fakeredis":
        import fakeredis

        return RedisStore(fakeredis.FakeAsyncRedis(), prefix=prefix)
    if name == "cluster":
        return RedisStore(shared_cluster().url, prefix=prefix)
    return RedisStore(shared_server(name).url, prefix=prefix)


@pytest.fixture(params=BACK_ENDS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[BaseStore]:
    """An empty store on each back end."""
    if request.param == "embedded" and sys.platform == "win32":
        pytest.skip("no embedded server on Windows")
    made = make_store(request.param)
    yield made
    await made.clear()
    await made.aclose()
